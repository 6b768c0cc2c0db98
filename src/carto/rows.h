/* rows.h - how a traversal stands in the store: addresses, names of its data, and the texts of items (ADR 46)
 *
 *   trigger,0       the request; `input` is its body
 *   register,0,0    makes the items of the roots, a page per entry
 *   #a0, #a1 ..     the gate of a level
 *   #a2a0a3b12      an item: the mark of gates and its path (path.h)
 *   format,0,0      FORMAT
 *
 * Data of the job: CARTO_COUNTS, the sums of struct carto_counts and the number of items that were made; a mark per
 * node, which says in which contexts it was expanded; of ordered types a row per target, its history; while a step of an
 * item is with a worker, what the steps before it have answered.
 *
 * An item's `input` is what it was born with, and its last answer is what became of it; both are JSON objects, and what is
 * not said is as in an item of zeros. Pure; any thread.
 */
#ifndef QP_CARTO_ROWS_H
#define QP_CARTO_ROWS_H

#include "carto/stage.h"
#include "store/rows.h"

#define CARTO_KIND 3 /* job_row.kind */
#define CARTO_NAME "carto"

#define CARTO_REGISTER QP_STR("register")
#define CARTO_REGISTER_ADDRESS QP_STR("register,0,0")
#define CARTO_FORMAT_ADDRESS QP_STR("format,0,0")
#define CARTO_FORMAT_TOPIC QP_STR("carto.format")

/* act_row.kind of its rows, in the order in which people read of them. */
enum carto_row { CARTO_ROW_OTHER, CARTO_ROW_GATE, CARTO_ROW_ITEM, CARTO_ROW_FORMAT };

/* The phases of a level. */
#define CARTO_PHASE_SELECT QP_STR("select")
#define CARTO_PHASE_RUN QP_STR("run")

#define CARTO_COUNTS QP_STR("counts")
struct carto_sums {
    struct carto_counts counts;
    int64_t made; /* items, ended or not */
};
int sums_write(struct arena *a, const struct carto_sums *sums, qp_str *out_text) QP_MUST_USE;
/* The text of the row; none: nothing was counted yet. QP_E_CORRUPT. */
int sums_read(qp_str text, struct carto_sums *out_sums) QP_MUST_USE;

/* Digits alone, at most 18. */
bool number_read(qp_str text, int64_t *out_number);

/* The address of an item, and back: path_of of another address is none. */
int address_of_item(struct arena *a, qp_str path, qp_str *out_addr) QP_MUST_USE;
qp_str path_of(qp_str addr);

/* Names of data. QP_E_TOO_LARGE: an id that no row can have. */
int node_name(struct arena *a, const struct carto_package *package, qp_str *out_name) QP_MUST_USE;
int history_name(struct arena *a, struct carto_id id, qp_str *out_name) QP_MUST_USE;

/* What SELECT and RESOLVE have answered for an item that is not through (item.c): 'p' and 'r'. */
int pending_name(struct arena *a, char step, qp_str path, qp_str *out_name) QP_MUST_USE;

/* "type:name@version"; without a version "type:name". */
int package_write(struct arena *a, const struct carto_package *package,
                  qp_str *out_text) QP_MUST_USE;
bool id_read(qp_str text, struct carto_id *out_id); /* "type:name" */
bool package_read(qp_str text, struct carto_package *out_package);

/* What an item is born with. */
int item_write(struct arena *a, const struct carto_item *item, qp_str *out_text) QP_MUST_USE;
int item_read(const struct qp_env *env, struct arena *a, qp_str path, qp_str text,
              struct carto_item *out_item) QP_MUST_USE;
/* The same members in the text of a relationship, which has an ordinal and no path. */
int relation_read(const struct qp_env *env, struct arena *a, qp_str text,
                  struct carto_item *out_item) QP_MUST_USE;
/* What became of it; read into an item that item_read has filled. `counts` are its own; NULL: not asked for. */
int ending_write(struct arena *a, const struct carto_item *item, const struct carto_counts *counts,
                 qp_str *out_text) QP_MUST_USE;
/* The failure alone, as a worker says it. */
int failure_write(struct arena *a, const struct carto_item *item, qp_str *out_text) QP_MUST_USE;
int ending_read(const struct qp_env *env, struct arena *a, qp_str text,
                struct carto_item *item) QP_MUST_USE;

/* The contexts in which a node was expanded, each with the path of the item that was: a text that grows. */
int mark_add(struct arena *a, qp_str mark, const struct carto_item *item,
             qp_str *out_mark) QP_MUST_USE;
/* The path of the first whose context dominates the item's; none: there is none. */
qp_str mark_dominating(qp_str mark, const struct carto_item *item);
/* Whether the item at this path was the first of its node. */
bool mark_begins(qp_str mark, qp_str path);

#endif
