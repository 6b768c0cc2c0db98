/* item.c - what becomes of a work item in its turn (see item.h)
 *
 *   SELECT-SYNC, SELECT     stage_select: an override, the history, or the type's own choice
 *   the pass of its level   the mark of its node: a context that was expanded and dominates makes it a DUPLICATE
 *   RESOLVE-SYNC, RESOLVE   stage_resolve
 *   TRAVERSE                stage_traverse: its children are born behind the next gate
 *
 *   I1  an item is judged after all items before it in the order of addresses, and sees their marks
 *   I2  step 1 keeps the ending and the mark, step 2 makes the children and counts: both follow from the item's input, the
 *       marks before it and the facts of the job's universe, so either can run alone
 *   I3  an ending is written once; the obligation of the item goes in the same step 2
 *
 * A failure ends the item, not the job; that of a root, and a type that is not known, end the request.
 */
#include "carto/item.h"

/* What the stages have made of an item. */
struct made {
    struct carto_item item;
    struct carto_children children;
    struct carto_counts counts;
};

static int read_item(struct turn *t, struct carto_item *out_item)
{
    const struct traversals *s = t->program->context;
    return item_read(&s->env, turn_arena(t), path_of(t->site.addr), t->act->input, out_item);
}

/* ------------------------------------------------------------------------------------------ history */

static int history_look(void *context, struct carto_id id, bool *out_found,
                        struct carto_package *out)
{
    struct turn *t = context;
    const struct data_row *row = NULL;
    qp_str name;
    QP_TRY(history_name(turn_arena(t), id, &name));
    QP_TRY(turn_data(t, name, &row));
    *out_found = row != NULL;
    if (row == NULL) {
        return QP_OK;
    }
    return package_read(row->value, out) ? QP_OK : QP_E_CORRUPT;
}

static int history_put(struct turn *t, struct carto_id id, const struct carto_package *package)
{
    const struct data_row *row = NULL;
    qp_str name;
    qp_str text;
    QP_TRY(history_name(turn_arena(t), id, &name));
    QP_TRY(turn_data(t, name, &row));
    if (row != NULL) {
        return QP_OK;
    }
    QP_TRY(package_write(turn_arena(t), package, &text));
    return turn_data_put(t, name, text);
}

static bool is_ordered(const struct carto_request *r, const struct carto_item *item)
{
    const struct carto_use *use = carto_use_of(r, item->target.type);
    return use != NULL && use->type->mode == CARTO_ORDERED;
}

/* Of an ordered type the first selection of a target stands; also that of the package it was moved to. */
static int remember(struct turn *t, const struct carto_request *r, const struct carto_item *item)
{
    if (!item->is_selected || !is_ordered(r, item)) {
        return QP_OK;
    }
    QP_TRY(history_put(t, item->target, &item->selected));
    return history_put(t, item->selected.id, &item->selected);
}

/* ------------------------------------------------------------------------------------------- stages */

static int select_item(struct turn *t, const struct carto_request *r, struct made *m)
{
    struct carto_outcome outcome;
    struct qp_err err = {0};
    QP_TRY(stage_select(r, turn_arena(t), &m->item, &outcome, &err));
    if (outcome.result == CARTO_FAILED) {
        stage_fail(&m->item, &outcome, &m->counts);
    }
    return remember(t, r, &m->item);
}

/* Whether the node was expanded in a context that dominates the item's; and its mark, when it was not. */
static int judge_item(struct turn *t, struct made *m)
{
    struct carto_item *item = &m->item;
    const struct carto_package node =
        item->is_selected ? item->selected : (struct carto_package){.id = item->target};
    const struct data_row *row = NULL;
    qp_str name;
    qp_str mark = QP_NONE;
    qp_str of;
    QP_TRY(node_name(turn_arena(t), &node, &name));
    QP_TRY(turn_data(t, name, &row));
    item->is_first = row == NULL;
    of = row == NULL || item->state != CARTO_OPEN ? QP_NONE : mark_dominating(row->value, item);
    if (!str_is_none(of)) {
        stage_duplicate(item, of, &m->counts);
        return QP_OK;
    }
    QP_TRY(mark_add(turn_arena(t), row == NULL ? QP_NONE : row->value, item, &mark));
    return turn_data_put(t, name, mark);
}

static int expand_item(struct turn *t, const struct carto_request *r, struct made *m)
{
    struct carto_relations relations;
    struct carto_outcome outcome;
    struct qp_err err = {0};
    QP_TRY(stage_resolve(r, turn_arena(t), &m->item, &relations, &outcome, &err));
    if (outcome.result == CARTO_FAILED) {
        stage_fail(&m->item, &outcome, &m->counts);
        return QP_OK;
    }
    return stage_traverse(r, turn_arena(t), &m->item, &relations, &m->children, &m->counts);
}

static struct carto_request request_of(struct turn *t, const struct carto_plan *plan)
{
    struct carto_request r = plan->request;
    r.history = history_look;
    r.history_context = t;
    return r;
}

/* -------------------------------------------------------------------------------------------- steps */

int item_work(struct turn *t, struct work *work)
{
    const struct carto_plan *plan = NULL;
    struct made *m = ARENA_NEW(turn_arena(t), struct made);
    struct carto_request r;
    if (m == NULL) {
        return QP_E_NOMEM;
    }
    QP_TRY(turn_plan(t, &plan));
    r = request_of(t, plan);
    QP_TRY(read_item(t, &m->item));
    QP_TRY(select_item(t, &r, m));
    QP_TRY(judge_item(t, m));
    if (m->item.state == CARTO_OPEN) {
        QP_TRY(expand_item(t, &r, m));
    }
    t->kept = m;
    work->code = m->item.state == CARTO_FAILED_ITEM ? 422 : 200;
    return ending_write(turn_arena(t), &m->item, &m->counts, &work->output);
}

/* What step 1 has kept, and the children and counts that follow from it. */
static int make_again(struct turn *t, const struct carto_request *r, struct made *m)
{
    const struct traversals *s = t->program->context;
    enum carto_state state;
    QP_TRY(read_item(t, &m->item));
    QP_TRY(ending_read(&s->env, turn_arena(t), t->guid.output, &m->item));
    state = m->item.state;
    if (state == CARTO_ENDED || state == CARTO_PRUNED || m->item.failure == CARTO_LEVEL_LIMIT) {
        m->item.state = CARTO_OPEN;
        QP_TRY(expand_item(t, r, m));
        return m->item.state == state ? QP_OK : QP_E_CORRUPT;
    }
    m->counts =
        (struct carto_counts){.items = 1,
                              .duplicate = state == CARTO_DUPLICATE,
                              .failed = state == CARTO_FAILED_ITEM,
                              .optional = state == CARTO_FAILED_ITEM && m->item.is_optional};
    return QP_OK;
}

/* A type that is not known, and a root that cannot be selected or resolved, end the request. */
static bool is_fatal(const struct carto_item *item)
{
    return item->state == CARTO_FAILED_ITEM &&
           (item->failure == CARTO_UNKNOWN_TYPE || path_level(item->path) == 0);
}

static int refuse(struct turn *t, const struct carto_item *item)
{
    struct buf text;
    qp_str sentence = QP_NONE;
    bool is_copied;
    buf_init(&text, turn_arena(t)->env, 0);
    buf_text(&text, "item ");
    path_print(&text, item->path);
    buf_printf(&text, " (%.*s:%.*s): ", STR_ARG(item->target.type), STR_ARG(item->target.name));
    buf_str(&text, item->error);
    is_copied = buf_rc(&text) == QP_OK && arena_copy(turn_arena(t), buf_slice(&text), &sentence);
    buf_done(&text);
    return is_copied ? turn_refuse(t, str_from(carto_failure_text(item->failure)), sentence)
                     : QP_E_NOMEM;
}

int item_spawn(struct turn *t, struct spawn *spawn)
{
    const struct made *m = t->kept;
    (void)spawn;
    if (m == NULL) {
        const struct carto_plan *plan = NULL;
        struct made *again = ARENA_NEW(turn_arena(t), struct made);
        struct carto_request r;
        if (again == NULL) {
            return QP_E_NOMEM;
        }
        QP_TRY(turn_plan(t, &plan));
        r = request_of(t, plan);
        QP_TRY(make_again(t, &r, again));
        m = again;
    }
    if (is_fatal(&m->item)) {
        return refuse(t, &m->item);
    }
    for (size_t i = 0; i < m->children.count; i++) {
        QP_TRY(item_born(t, &m->children.rows[i]));
    }
    return turn_count(t, &m->counts, (int64_t)m->children.count);
}
