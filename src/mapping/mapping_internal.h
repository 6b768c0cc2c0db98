/* mapping_internal.h - what a mapping is compiled to; for mapping.c and evaluate.c */
#ifndef QP_MAPPING_MAPPING_INTERNAL_H
#define QP_MAPPING_MAPPING_INTERNAL_H

#include "mapping/functions.h"

enum mapping_kind {
    MAPPING_LITERAL,
    MAPPING_REFERENCE,
    MAPPING_CALL, /* a function without operands */
    MAPPING_PIPE,
    MAPPING_MAP,
    MAPPING_LIST
};

enum row_kind { ROW_CELLS, ROW_PIPE, ROW_REDUCE };

struct row {
    enum row_kind kind;
    const struct function
        *function;                /* ROW_CELLS: fed with the row before; NULL: cell 0 is a cell */
    const struct mapping **cells; /* without the function; of the other kinds NULL */
    size_t cell_count;
    size_t steps;               /* as in a mapping */
    const struct mapping *pipe; /* ROW_PIPE: the sub-pipe; ROW_REDUCE: the body */
};

struct entry {
    qp_str key; /* of a map */
    const struct mapping *mapping;
};

struct mapping {
    enum mapping_kind kind;
    bool constant; /* `literal` is its value: also of maps and lists in which nothing is computed */
    struct value literal;
    struct reference *reference; /* of a reference: itself */
    struct reference *all;       /* of what mapping_compile gave: the first of all inside */
    const struct function *function;
    const struct row *rows;
    const struct entry *entries;
    size_t count; /* of rows or entries */
    size_t steps; /* that evaluating it takes at least: bodies of @reduce may run for no item */
};

#endif
