/* traversal.c - plans, sums, gates and births in the turns of a traversal (see traversal.h) */
#include "carto/traversal.h"

#include "store/error.h"

int traversals_open(const struct qp_env *env, const struct plan_types *types,
                    struct traversals **out_state)
{
    struct traversals *s = mem_alloc(env, sizeof *s);
    int rc;
    if (s == NULL) {
        return QP_E_NOMEM;
    }
    *s = (struct traversals){.env = *env, .item_limit = LIMIT_CARTO_ITEMS};
    rc = atlas_open(env, types, &s->atlas);
    if (rc != QP_OK) {
        mem_free(env, s);
        return rc;
    }
    *out_state = s;
    return QP_OK;
}

void traversals_close(struct traversals *s)
{
    struct qp_env env = s->env;
    atlas_close(s->atlas);
    mem_free(&env, s);
}

int turn_plan(struct turn *t, const struct carto_plan **out_plan)
{
    const struct traversals *s = t->program->context;
    const struct act_row *trigger = NULL;
    QP_TRY(turn_act(t, TRIGGER_ADDRESS, &trigger));
    if (trigger == NULL) {
        return QP_E_CORRUPT;
    }
    return atlas_plan(
        s->atlas, t->bundle,
        &(struct plan_of){.job = t->site.ref, .version = t->job->version, .body = trigger->input},
        out_plan);
}

int turn_sums(struct turn *t, struct carto_sums *out_sums)
{
    const struct data_row *row = NULL;
    QP_TRY(turn_data(t, CARTO_COUNTS, &row));
    return sums_read(row == NULL ? QP_NONE : row->value, out_sums);
}

static int refuse_items(struct turn *t, int64_t limit)
{
    qp_str sentence;
    QP_TRY(carto_print(turn_arena(t), &sentence,
                       "the traversal has more than %lld items (LIMIT_CARTO_ITEMS): set a depth or "
                       "exclusions",
                       (long long)limit));
    return turn_refuse(t, str_from(carto_failure_text(CARTO_ITEM_LIMIT)), sentence);
}

int turn_count(struct turn *t, const struct carto_counts *counts, int64_t made)
{
    const struct traversals *s = t->program->context;
    struct carto_sums sums;
    qp_str text;
    QP_TRY(turn_sums(t, &sums));
    carto_counts_add(&sums.counts, counts);
    sums.made += made;
    QP_ASSERT(sums.counts.items <= sums.made);
    if (sums.made > s->item_limit) {
        return refuse_items(t, s->item_limit);
    }
    QP_TRY(sums_write(turn_arena(t), &sums, &text));
    return turn_data_put(t, CARTO_COUNTS, text);
}

int turn_refuse(struct turn *t, qp_str word, qp_str sentence)
{
    struct error e = {.code = 422, .addr = t->site.addr};
    qp_str error;
    QP_TRY(carto_print(turn_arena(t), &e.message, "%.*s: %.*s", STR_ARG(word), STR_ARG(sentence)));
    QP_TRY(error_write(turn_arena(t), &e, &error));
    turn_forget(t);
    turn_fail(t, JOB_FAILED, error);
    return QP_OK;
}

int gate_arrive(struct turn *t, const struct gate_visit *visit)
{
    struct arrival a = {
        .purpose = visit->purpose, .ways = visit->ways, .delta = visit->delta, .live = true};
    QP_TRY(address_of_gate(turn_arena(t), visit->level, &a.addr));
    return turn_arrive(t, &a);
}

int item_born(struct turn *t, const struct carto_item *item)
{
    struct op_act_create row = {.category = 'A', .kind = CARTO_ROW_ITEM};
    QP_TRY(address_of_item(turn_arena(t), item->path, &row.addr));
    QP_TRY(item_write(turn_arena(t), item, &row.input));
    return turn_born(t, &row);
}
