/* output.h - what goes to stdout
 *
 * For people tables and lines; for programs the JSON of the API, as one text (json), an item a
 * line (jsonl) or YAML. Text that could control a terminal is escaped in all of them.
 */
#ifndef QP_CLI_OUTPUT_H
#define QP_CLI_OUTPUT_H

#include <stdio.h>

#include "cli/ask.h"

enum output { OUTPUT_TEXT, OUTPUT_WIDE, OUTPUT_JSON, OUTPUT_JSONL, OUTPUT_YAML, OUTPUT_NAME };

/* Of -o and -q; a usage error for another word. */
int output_kind(const struct cli *c, enum output *out_kind);
/* stdout is a terminal, and colours are wanted there. */
bool output_colors(const struct cli *c);

/* How a column is shown: as it is; only with -o wide; and, but for -o wide, as a status in its colour, as an age (3m ago),
 * or, not with -o wide, as how long a job took, or has left. */
enum cell { CELL_PLAIN = 0, CELL_WIDE = 1, CELL_STATUS = 2, CELL_AGE = 4, CELL_TOOK = 8 };

/* A column of a table: a member of the items. Of items that are arrays the first column is the first
 * value, and so on; then there are no keys. */
struct table_column {
    const char *title;
    const char *key;
    int how; /* of enum cell */
};

#define COLUMNS_MOST LIMIT_SQL_COLUMNS

/* Prints an item as one line of its own kind. */
typedef void (*output_line)(void *context, const struct json *item, bool wide);

/* A list, in the way that was asked for, item by item or page by page as they come: nothing of it
 * is kept. A table has its widths from the items that come first; a later one that is wider stands
 * out. */
struct output_list {
    const struct cli *c;
    enum output kind;
    const struct table_column *columns;
    size_t column_count;
    const char *name; /* the member that -q and -o name print */
    output_line line; /* for people, in place of the table; NULL: the table */
    void *line_context;
    /* of the printing */
    size_t shown[COLUMNS_MOST];
    size_t widths[COLUMNS_MOST];
    size_t shown_count;
    bool begun; /* something was printed */
};
void output_items(struct output_list *l, const struct json *const *items, size_t count);
/* All were printed; next_cursor NULL: there are no more. */
void output_end(struct output_list *l, const char *next_cursor);
/* One object: json, jsonl, yaml, or its `name`. False: people want to read it, and it was not
 * printed. */
bool output_object(struct cli *c, enum output kind, const char *name, qp_str json);

/* A tree as its JSON, harmless to a terminal. */
void output_tree(const struct cli *c, const struct json *item);
/* Members of an object as lines "name  value". */
void output_members(const struct json *object);

/* A member that is a string, or a number; else empty, or 0. */
qp_str member_text(const struct json *object, const char *key);
int64_t member_number(const struct json *object, const char *key);
/* One that is a time; 0: there is none. */
qp_ms member_time(const struct json *object, const char *key);

/* Text without anything that could control a terminal: good UTF-8 as it is, all else as \xNN. */
void print_safe(FILE *out, qp_str text);
/* The same, cut after `most` columns, about; returns how many there are. */
size_t print_cut(FILE *out, qp_str text, size_t most);
/* A value as one line: strings without quotes, all else as JSON. NULL: nothing. Its width in
 * columns, about. */
size_t print_value(FILE *out, const struct json *value);
/* What a person reads of an error: its message. */
const struct json *error_sentence(const struct json *error);
/* The JSON text as it is, but for control characters beyond ASCII, which become \u escapes. */
void print_json(FILE *out, qp_str json);
void print_yaml(FILE *out, const struct json *json);
/* One item of a list that is a member. */
void print_yaml_item(FILE *out, const struct json *json);

#endif
