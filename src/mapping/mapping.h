/* mapping.h - what graphs and formats compute: references, @pipe, @reduce and the functions
 *
 * A mapping is compiled once, from the node of a graph's text, and evaluated often. It is a literal, a reference
 * ("{a.output.data.x}", the whole string), a pipe ({'@pipe': [...]}), or a map or list of mappings. Compiled
 * mappings are immutable and live in the graph's arena, so several threads may evaluate one.
 *
 * Evaluation is pure: all it knows of the world comes through struct scope, clock and random from qp_env. It is bounded in
 * steps, bytes and depth (limits.h: LIMIT_MAPPING_*), and never crashes on odd operands: a function that
 * ECMAScript would have throw gives undefined, or the error of the limit.
 */
#ifndef QP_MAPPING_MAPPING_H
#define QP_MAPPING_MAPPING_H

#include "mapping/tree.h"
#include "mapping/value.h"

/* What a reference begins with. */
enum reference_root {
    ROOT_ACTIVITY, /* `name` is its id */
    ROOT_SELF,     /* $self */
    ROOT_JOB,      /* $job */
    ROOT_ITEM,     /* $item, $key, $index, $input, $output: in reducers only */
    ROOT_KEY,
    ROOT_INDEX,
    ROOT_INPUT,
    ROOT_OUTPUT
};

/* Which part of it. Of $job: DATA, METADATA. */
enum reference_part {
    PART_INPUT_DATA,
    PART_OUTPUT_DATA,
    PART_OUTPUT_METADATA,
    PART_HOOK_DATA,
    PART_JOB_DATA,
    PART_JOB_METADATA,
    PART_NONE /* of the roots of reducers: the path follows at once */
};

struct reference {
    struct reference *next; /* all references of one mapping */
    enum reference_root root;
    enum reference_part part;
    qp_str name; /* ROOT_ACTIVITY */
    const void
        *target; /* ROOT_ACTIVITY: its struct activity, which the graph's compiler fills in */
    qp_str *path;
    size_t path_count;
    int line;
    int column;
};

struct mapping;

/* Compiles a node. What is wrong goes to the report; NULL then, or when memory is short (report->no_memory). The roots of
 * reducers are refused outside of @reduce. */
struct mapping *mapping_compile(struct arena *a, const struct node *node, struct report *report);

/* One that is evaluated for an item, as the body of a @reduce is: {$item...} and {$index} may stand anywhere, and there is
 * nothing else to refer to. */
struct mapping *mapping_compile_item(struct arena *a, const struct node *node,
                                     struct report *report);

/* All references of a mapping, for whoever resolves names. */
struct reference *mapping_references(const struct mapping *m);
/* What it is, without evaluating: a literal's value, or NULL. */
const struct value *mapping_literal(const struct mapping *m);
/* Of a map: its entries; count 0 for all else. */
size_t mapping_count(const struct mapping *m);
qp_str mapping_key(const struct mapping *m, size_t index);
const struct mapping *mapping_entry(const struct mapping *m, size_t index);
/* How many steps evaluating it takes at least, whatever it finds. */
size_t mapping_steps(const struct mapping *m);
/* A map whose entries are computed one by one, as opposed to one value. */
bool mapping_is_map(const struct mapping *m);
/* One reference, and nothing else. */
bool mapping_is_reference(const struct mapping *m);

/* Where references are looked up, and what limits there are. */
struct scope {
    void *context;
    /* The value at a reference, ROOT_ACTIVITY to ROOT_JOB; undefined when there is none. Its texts live at least as
     * long as the arena. Another code than QP_OK ends the evaluation with it. */
    int (*find)(void *context, const struct reference *r, struct value *out_value);
    struct arena *arena;
    const struct qp_env *env;
    qp_ms now; /* what date.now says */
    /* set by evaluation */
    int64_t steps;
    size_t made;       /* bytes */
    size_t looked;     /* bytes of operands */
    int rc;            /* why memory was refused: QP_E_LIMIT or QP_E_NOMEM */
    const char *limit; /* after QP_E_LIMIT: which limit */
    const char *error; /* likewise: the sentence, with the limit and its value */
    char why[96];
};

/* A `find` for where there is no job to look at, and all that can be referred to is one text, its context: what a trigger puts
 * out, or, for a hook's own references to what it is given, a signal's payload. All else is undefined. */
struct lone_text {
    qp_str json;
    bool is_payload;
};
int find_in_text(void *context, const struct reference *r, struct value *out_value);

/* QP_OK; QP_E_LIMIT; QP_E_NOMEM; what find returned. */
int mapping_evaluate(const struct mapping *m, struct scope *scope,
                     struct value *out_value) QP_MUST_USE;

/* Of one that was compiled for items; scope->find is not asked. */
struct mapping_item {
    struct value item;
    int64_t index;
};
int mapping_evaluate_item(const struct mapping *m, struct scope *scope,
                          const struct mapping_item *item, struct value *out_value) QP_MUST_USE;

#endif
