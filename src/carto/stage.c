/* stage.c - the generic stages: override before choice, filters before children (see stage.h) */
#include "carto/stage.h"

void carto_counts_add(struct carto_counts *sum, const struct carto_counts *more)
{
    sum->items += more->items;
    sum->done += more->done;
    sum->duplicate += more->duplicate;
    sum->pruned += more->pruned;
    sum->failed += more->failed;
    sum->optional += more->optional;
    sum->excluded += more->excluded;
    sum->cut += more->cut;
}

/* ------------------------------------------------------------------------------------------ stages */

static int unknown_type(const struct carto_request *r, struct arena *a, qp_str type, qp_str *out)
{
    qp_str known = QP_NONE;
    QP_TRY(carto_known_types(r, a, &known));
    return carto_print(a, out, "unknown package type '%.*s'; known types: %.*s", STR_ARG(type),
                       STR_ARG(known));
}

int stage_root(const struct carto_request *r, struct arena *a, uint64_t index, qp_str text,
               struct carto_item *out, struct qp_err *err)
{
    const char *colon = text.n > 0 ? memchr(text.p, ':', text.n) : NULL;
    struct carto_item item = {.kind = QP_STR("root"), .context = r->context};
    const struct carto_use *use = NULL;
    if (colon == NULL) {
        return err_set(err, QP_E_INVALID, "root '%.*s' has no type: write it as type:name",
                       STR_ARG(text));
    }
    item.target.type = (qp_str){text.p, (size_t)(colon - text.p)};
    use = carto_use_of(r, item.target.type);
    if (use == NULL) {
        qp_str sentence = QP_NONE;
        QP_TRY(unknown_type(r, a, item.target.type, &sentence));
        return err_set(err, QP_E_SHAPE, "%.*s", STR_ARG(sentence));
    }
    QP_TRY(path_root(a, index, &item.path));
    QP_TRY(use->type->root(r, a, (qp_str){colon + 1, text.n - item.target.type.n - 1}, &item, err));
    *out = item;
    return QP_OK;
}

static int fail_unknown(const struct carto_request *r, struct arena *a, qp_str type,
                        struct carto_outcome *outcome)
{
    *outcome = (struct carto_outcome){.result = CARTO_FAILED, .failure = CARTO_UNKNOWN_TYPE};
    return unknown_type(r, a, type, &outcome->text);
}

/* A type that this request has no facts of: another type's package has led there. */
static bool lacks_facts(const struct carto_use *use)
{
    return (use->type->has_facts || use->type->universe != NULL) && use->facts == NULL;
}

static int fail_missing(const struct carto_use *use, struct arena *a, struct carto_outcome *outcome)
{
    *outcome = (struct carto_outcome){.result = CARTO_FAILED, .failure = CARTO_METADATA_MISSING};
    return carto_print(
        a, &outcome->text,
        "this traversal has no lists of '%s': import them first, or name a root of that type",
        use->type->name);
}

int stage_select(const struct carto_request *r, struct arena *a, struct carto_item *item,
                 struct carto_outcome *outcome, struct qp_err *err)
{
    const struct carto_use *use = carto_use_of(r, item->target.type);
    struct carto_selection selection = {0};
    *outcome = (struct carto_outcome){.result = CARTO_AVOIDED};
    if (item->is_selected) {
        return QP_OK;
    }
    if (use == NULL) {
        return fail_unknown(r, a, item->target.type, outcome);
    }
    if (lacks_facts(use)) {
        return fail_missing(use, a, outcome);
    }
    outcome->result = CARTO_DONE;
    QP_TRY(use->type->select(r, a, item, &selection, outcome, err));
    if (outcome->result == CARTO_DONE || outcome->result == CARTO_AVOIDED) {
        item->is_selected = true;
        item->selected = selection.package;
        item->is_virtual = selection.is_virtual;
        item->advice_ignored = selection.advice_ignored;
    }
    return QP_OK;
}

int stage_resolve(const struct carto_request *r, struct arena *a, struct carto_item *item,
                  struct carto_relations *out, struct carto_outcome *outcome, struct qp_err *err)
{
    const struct carto_use *use = NULL;
    QP_ASSERT(item->is_selected);
    use = carto_use_of(r, item->selected.id.type);
    *out = (struct carto_relations){0};
    *outcome = (struct carto_outcome){.result = CARTO_DONE};
    if (use == NULL) {
        return fail_unknown(r, a, item->selected.id.type, outcome);
    }
    if (lacks_facts(use)) {
        return fail_missing(use, a, outcome);
    }
    QP_TRY(use->type->resolve(r, a, item, out, outcome, err));
    if (outcome->result == CARTO_DONE && out->count > LIMIT_CARTO_RELATIONS) {
        *outcome = (struct carto_outcome){
            CARTO_FAILED, CARTO_METADATA_ERROR,
            QP_STR("the package has more than 10000 relationships (LIMIT_CARTO_RELATIONS)")};
    }
    return QP_OK;
}

static bool is_excluded(const struct carto_item *item, const struct carto_relation *relation)
{
    qp_str set = item->context.exclusions;
    if (set.n == 0) {
        return false;
    }
    return exclusions_match(set, relation->target.type, relation->target.name) ||
           (relation->via.n > 0 && exclusions_match(set, relation->target.type, relation->via));
}

/* Below the first level everything is needed to run what is above. */
static int make_child(struct arena *a, const struct carto_item *item,
                      const struct carto_relation *relation, struct carto_item *out)
{
    struct carto_item child = {.target = relation->target,
                               .advice = relation->advice,
                               .kind = relation->kind,
                               .via = relation->via,
                               .context.scope = CARTO_RUNTIME,
                               .is_optional = relation->is_optional};
    QP_TRY(path_child(a, item->path, relation->ordinal, &child.path));
    QP_TRY(exclusions_union(a, item->context.exclusions, relation->exclusions,
                            &child.context.exclusions));
    *out = child;
    return QP_OK;
}

void stage_fail(struct carto_item *item, const struct carto_outcome *outcome,
                struct carto_counts *counts)
{
    QP_ASSERT(outcome->result == CARTO_FAILED && outcome->failure != CARTO_NO_FAILURE);
    QP_ASSERT(item->state == CARTO_OPEN);
    item->state = CARTO_FAILED_ITEM;
    item->failure = outcome->failure;
    item->error = outcome->text;
    counts->items++;
    counts->failed++;
    counts->optional += item->is_optional ? 1 : 0;
}

void stage_duplicate(struct carto_item *item, qp_str of, struct carto_counts *counts)
{
    QP_ASSERT(item->state == CARTO_OPEN && item->is_selected);
    item->state = CARTO_DUPLICATE;
    item->duplicate_of = of;
    counts->items++;
    counts->duplicate++;
}

static void finish(struct carto_item *item, struct carto_counts *counts)
{
    item->is_frontier = counts->cut > 0;
    item->state = item->is_frontier ? CARTO_PRUNED : CARTO_ENDED;
    counts->items++;
    counts->pruned += item->is_frontier ? 1 : 0;
    counts->done += item->is_frontier ? 0 : 1;
}

static void fail_level(struct carto_item *item, struct carto_counts *counts)
{
    static const char sentence[] = "relationships are nested too deeply: the traversal stops here; "
                                   "set a depth or an exclusion";
    struct carto_outcome outcome = {CARTO_FAILED, CARTO_LEVEL_LIMIT, str_from(sentence)};
    counts->cut = 0;
    stage_fail(item, &outcome, counts);
}

int stage_traverse(const struct carto_request *r, struct arena *a, struct carto_item *item,
                   const struct carto_relations *relations, struct carto_children *out,
                   struct carto_counts *counts)
{
    bool is_last = r->depth != CARTO_NO_DEPTH && path_level(item->path) >= (uint64_t)r->depth;
    struct carto_counts own = {0};
    struct carto_children children = {0};
    QP_ASSERT(item->state == CARTO_OPEN && item->is_selected);
    children.rows = arena_alloc(a, (relations->count + 1) * sizeof(*children.rows));
    if (children.rows == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < relations->count; i++) {
        const struct carto_relation *relation = &relations->rows[i];
        int rc = QP_OK;
        if (!carto_scope_admits(item->context.scope, relation->scope)) {
            continue;
        }
        if (is_excluded(item, relation)) {
            own.excluded++;
        } else if (is_last) {
            own.cut++;
        } else {
            rc = make_child(a, item, relation, &children.rows[children.count]);
            children.count += rc == QP_OK ? 1 : 0;
        }
        if (rc == QP_E_TOO_LARGE) {
            children.count = 0;
            fail_level(item, &own);
            break;
        }
        QP_TRY(rc);
    }
    if (item->state == CARTO_OPEN) {
        finish(item, &own);
    }
    carto_counts_add(counts, &own);
    *out = children;
    return QP_OK;
}

const char *stage_end(const struct carto_counts *counts)
{
    return counts->cut > 0 ? "MAX_DEPTH_REACHED" : "TRAVERSE_COMPLETE";
}
