/* toml.h - reading a configuration file: the part of TOML that settings need
 *
 * Tables of one or two names, keys with a text in quotes, a whole number, true or false, and
 * comments. What TOML has beside that (arrays, inline tables, dotted keys, texts of several lines,
 * reals, dates) is refused, as is whatever TOML refuses: a key or a table that comes twice, a bare
 * word as a value, a control character. Every error begins with its place, "LINE:COLUMN: ", both
 * from 1, the column in characters.
 *
 * A reader gives one entry at a time, in the order of the file. Texts live in the arena, or in the
 * text that was given. Nothing is read from a disk here.
 */
#ifndef QP_BASE_TOML_H
#define QP_BASE_TOML_H

#include "base/mem.h"

enum toml_kind { TOML_TABLE, TOML_TEXT, TOML_NUMBER, TOML_TRUTH };

struct toml_entry {
    enum toml_kind kind; /* TOML_TABLE: a table begins here; it may be empty */
    qp_str table[2];     /* the names of the table that it stands in; none: fewer */
    qp_str key;
    qp_str text;
    int64_t number;
    bool truth;
    size_t line, column; /* of the key, or of the table's bracket */
};

struct toml_seen;

struct toml {
    struct arena *arena;
    qp_str text;
    size_t at;
    size_t line, line_at; /* its number, and where it begins */
    qp_str table[2];
    struct toml_seen *seen; /* keys and tables, so that none comes twice */
    size_t count;
};

void toml_init(struct toml *t, struct arena *arena, qp_str text);
/* QP_OK: *out_entry is the next one. QP_E_NOT_FOUND: there is none left. QP_E_MALFORMED: an error
 * of the file; QP_E_TOO_LARGE: LIMIT_CONFIG_SIZE or LIMIT_CONFIG_ENTRIES; QP_E_NOMEM. */
int toml_next(struct toml *t, struct toml_entry *out_entry, struct qp_err *err) QP_MUST_USE;

#endif
