/* rules.c - what must hold of a traversal's rows (see rules.h) */
#include "carto/rules.h"

#include "carto/result.h"
#include "carto/result_kept.h"

/* What the items of a job add up to. A job of any size is read a page at a time. */
struct adding {
    struct carto_counts counts;
    int64_t made;
    qp_str
        wrong; /* the path of an item that cannot be read or has ended without an ending; none: all can */
};

static void add_item(struct adding *a, const struct carto_item *item)
{
    struct carto_counts *c = &a->counts;
    a->made++;
    c->items += item->state != CARTO_OPEN;
    c->done += item->state == CARTO_ENDED;
    c->duplicate += item->state == CARTO_DUPLICATE;
    c->pruned += item->state == CARTO_PRUNED;
    c->failed += item->state == CARTO_FAILED_ITEM;
    c->optional += item->state == CARTO_FAILED_ITEM && item->is_optional;
}

static int add_items(const struct sight *sight, struct carto_items items, struct adding *a)
{
    bool is_over = sight->job->state == JOB_COMPLETED;
    for (uint64_t level = 0; level <= LIMIT_CARTO_LEVELS; level++) {
        const struct carto_item *item = NULL;
        int rc = items.get(items.context, level, 0, &item);
        if (rc == QP_E_NOT_FOUND) {
            return QP_OK;
        }
        for (size_t i = 1; rc == QP_OK; i++) {
            add_item(a, item);
            if (is_over && item->state == CARTO_OPEN && str_is_none(a->wrong)) {
                QP_TRY(arena_copy(sight->arena, item->path, &a->wrong) ? QP_OK : QP_E_NOMEM);
            }
            rc = items.get(items.context, level, i, &item);
        }
        if (rc == QP_E_CORRUPT) {
            a->wrong = QP_STR("of a text that cannot be read");
            return QP_OK;
        }
        if (rc != QP_E_NOT_FOUND) {
            return rc;
        }
    }
    return QP_OK;
}

static int add_up(const struct sight *sight, struct adding *a)
{
    struct result_source *source = NULL;
    int rc;
    QP_TRY(result_open(store_env(sight->store), sight->store, sight->job, sight->err, &source));
    rc = add_items(sight, result_items(source), a);
    result_close(source);
    return rc;
}

static int rule_items(void *state, const struct sight *sight, qp_str *out_wrong)
{
    struct adding a = {0};
    (void)state;
    QP_TRY(add_up(sight, &a));
    if (str_is_none(a.wrong)) {
        return QP_OK;
    }
    return carto_print(sight->arena, out_wrong,
                       "the item %.*s has ended, and does not say what became of it",
                       STR_ARG(a.wrong));
}

static bool is_same(const struct carto_counts *a, const struct carto_counts *b)
{
    return a->items == b->items && a->done == b->done && a->duplicate == b->duplicate &&
           a->pruned == b->pruned && a->failed == b->failed && a->optional == b->optional;
}

/* Of a job that was ended from outside or by an item the last page is not counted. */
static int rule_sums(void *state, const struct sight *sight, qp_str *out_wrong)
{
    struct adding a = {0};
    struct result_state r;
    (void)state;
    if (sight->job->state != JOB_OPEN && sight->job->state != JOB_COMPLETED) {
        return QP_OK;
    }
    QP_TRY(add_up(sight, &a));
    QP_TRY(result_state(sight->store, sight->arena, sight->job, &r, sight->err));
    if (!str_is_none(a.wrong) || (a.made == r.sums.made && is_same(&a.counts, &r.sums.counts))) {
        return QP_OK; /* what cannot be read is found by V1 */
    }
    return carto_print(sight->arena, out_wrong,
                       "%lld items of %lld have ended, and the sums say %lld of %lld",
                       (long long)a.counts.items, (long long)a.made, (long long)r.sums.counts.items,
                       (long long)r.sums.made);
}

/* Nodes and edges that FORMAT has kept are those of the hash that it has answered. */
static int compare_kept(const struct sight *sight, const struct result_graph *g, qp_str *out_wrong)
{
    struct result_state r;
    struct format_digest digest;
    if (sight->job->state != JOB_COMPLETED) {
        return QP_OK;
    }
    QP_TRY(result_state(sight->store, sight->arena, sight->job, &r, sight->err));
    QP_TRY(format_digest_of(g, &r.head, &digest));
    return str_equal(str_from(digest.hash), r.hash)
               ? QP_OK
               : carto_print(sight->arena, out_wrong,
                             "the nodes and edges that are kept have the hash %s, and the result "
                             "has %.*s",
                             digest.hash, STR_ARG(r.hash));
}

static int rule_kept(void *state, const struct sight *sight, qp_str *out_wrong)
{
    struct result_graph g;
    int rc = kept_open(&g, sight->store, sight->job, NULL);
    (void)state;
    if (rc == QP_OK) {
        rc = compare_kept(sight, &g, out_wrong);
    } else if (rc == QP_E_CORRUPT) {
        *out_wrong = QP_STR("the nodes and edges that are kept of it cannot be read");
        rc = QP_OK;
    }
    result_graph_close(&g);
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

#define NEXT_DAMAGE                                                                                \
    "keep a copy of the store, restore the latest backup for which quipu fsck finds nothing, and " \
    "report the evidence"

const struct face_rule carto_rules[] = {
    {"V1", QP_SEVERITY_ERROR, NEXT_DAMAGE, rule_items},
    {"V2", QP_SEVERITY_ERROR, NEXT_DAMAGE, rule_sums},
    {"V3", QP_SEVERITY_ERROR, NEXT_DAMAGE, rule_kept},
    {NULL, QP_SEVERITY_ERROR, NULL, NULL},
};
