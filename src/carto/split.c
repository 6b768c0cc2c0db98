/* split.c - the answers of steps, written and read (see split.h) */
#include "carto/split.h"

#include <inttypes.h>
#include <stdio.h>

#include "carto/format_output.h"

const char *carto_step_text(enum carto_step step)
{
    static const char *const texts[] = {"select", "resolve", "traverse"};
    QP_ASSERT(step < ARRAY_COUNT(texts));
    return texts[step];
}

int split_topic(struct arena *a, enum carto_step step, qp_str type, qp_str *out_topic)
{
    return carto_print(a, out_topic, "carto.%s.%.*s", carto_step_text(step), STR_ARG(type));
}

/* ------------------------------------------------------------------------------------------ writing */

static int keep_text(struct buf *text, struct arena *a, qp_str *out)
{
    bool is_copied = buf_rc(text) == QP_OK && arena_copy(a, buf_slice(text), out);
    buf_done(text);
    return is_copied ? QP_OK : QP_E_NOMEM;
}

static int write_failure(const struct qp_env *env, struct arena *a,
                         const struct carto_outcome *outcome, qp_str *out)
{
    struct buf text;
    struct json_writer w;
    buf_init(&text, env, 0);
    json_writer_init(&w, &text);
    json_begin_object(&w);
    member_put_some(&w, "failure", str_from(carto_failure_text(outcome->failure)));
    member_put_some(&w, "message", outcome->text);
    json_end_object(&w);
    return keep_text(&text, a, out);
}

int split_write_selected(struct arena *a, const struct carto_item *item, qp_str *out_answer)
{
    struct buf text;
    struct json_writer w;
    qp_str package;
    QP_TRY(package_write(a, &item->selected, &package));
    buf_init(&text, a->env, 0);
    json_writer_init(&w, &text);
    json_begin_object(&w);
    member_put_some(&w, "selected", package);
    member_put_true(&w, "virtual", item->is_virtual);
    member_put_true(&w, "advice_ignored", item->advice_ignored);
    json_end_object(&w);
    return keep_text(&text, a, out_answer);
}

static int run_select(const struct split_item *s, struct arena *a, qp_str *out, struct qp_err *err)
{
    struct carto_item item = s->item;
    struct carto_outcome outcome;
    QP_TRY(stage_select(s->request, a, &item, &outcome, err));
    if (outcome.result == CARTO_FAILED) {
        return write_failure(s->env, a, &outcome, out);
    }
    return split_write_selected(a, &item, out);
}

static void put_relation(struct json_writer *w, const struct carto_relation *r)
{
    char id[LIMIT_CARTO_NAME_SIZE + 64];
    int n = snprintf(id, sizeof id, "%.*s:%.*s", STR_ARG(r->target.type), STR_ARG(r->target.name));
    QP_ASSERT(n > 0 && (size_t)n < sizeof id);
    json_begin_object(w);
    json_key(w, QP_STR("ordinal"));
    json_put_i64(w, (int64_t)r->ordinal);
    member_put_some(w, "target", (qp_str){id, (size_t)n});
    member_put_some(w, "advice", r->advice);
    member_put_some(w, "kind", r->kind);
    member_put_some(w, "via", r->via);
    member_put_some(w, "scope", str_from(carto_scope_text(r->scope)));
    member_put_some(w, "exclusions", r->exclusions);
    member_put_true(w, "optional", r->is_optional);
    json_end_object(w);
}

int split_write_relations(struct arena *a, const struct carto_relations *relations,
                          qp_str *out_answer)
{
    struct buf text;
    struct json_writer w;
    buf_init(&text, a->env, LIMIT_PAYLOAD_HARD_SIZE);
    json_writer_init(&w, &text);
    json_begin_object(&w);
    json_key(&w, QP_STR("relations"));
    json_begin_array(&w);
    for (size_t i = 0; i < relations->count; i++) {
        put_relation(&w, &relations->rows[i]);
    }
    json_end_array(&w);
    json_end_object(&w);
    return keep_text(&text, a, out_answer);
}

static int resolve(const struct split_item *s, struct arena *a, struct carto_item *item,
                   struct carto_relations *out, struct carto_outcome *outcome, struct qp_err *err)
{
    QP_TRY(split_selected(s->env, a, s->pending, item, outcome));
    if (outcome->result == CARTO_FAILED) {
        return QP_OK;
    }
    return stage_resolve(s->request, a, item, out, outcome, err);
}

static int run_resolve(const struct split_item *s, struct arena *a, qp_str *out, struct qp_err *err)
{
    struct carto_item item = s->item;
    struct carto_relations relations = {0};
    struct carto_outcome outcome;
    QP_TRY(resolve(s, a, &item, &relations, &outcome, err));
    if (outcome.result == CARTO_FAILED) {
        return write_failure(s->env, a, &outcome, out);
    }
    return split_write_relations(a, &relations, out);
}

static int run_traverse(const struct split_item *s, struct arena *a, qp_str *out,
                        struct qp_err *err)
{
    struct carto_item item = s->item;
    struct carto_relations relations = {0};
    struct carto_children children = {0};
    struct carto_counts counts = {0};
    struct carto_outcome outcome;
    QP_TRY(resolve(s, a, &item, &relations, &outcome, err));
    if (outcome.result == CARTO_FAILED) {
        return write_failure(s->env, a, &outcome, out);
    }
    QP_TRY(stage_traverse(s->request, a, &item, &relations, &children, &counts));
    return carto_print(a, out, "{\"children\":%zu,\"excluded\":%" PRId64 ",\"cut\":%" PRId64 "}",
                       children.count, counts.excluded, counts.cut);
}

int split_run(const struct split_item *s, struct arena *a, enum carto_step step, qp_str *out_answer,
              struct qp_err *err)
{
    switch (step) {
    case CARTO_STEP_SELECT:
        return run_select(s, a, out_answer, err);
    case CARTO_STEP_RESOLVE:
        return run_resolve(s, a, out_answer, err);
    case CARTO_STEP_TRAVERSE:
    case CARTO_STEPS:
        break;
    }
    return run_traverse(s, a, out_answer, err);
}

/* ------------------------------------------------------------------------------------------ reading */

static int read_failure(const struct carto_item *read, struct carto_outcome *out)
{
    *out = (struct carto_outcome){.result = CARTO_DONE};
    if (read->failure != CARTO_NO_FAILURE) {
        *out = (struct carto_outcome){CARTO_FAILED, read->failure, read->error};
    }
    return QP_OK;
}

/* An answer has members that an ending has. */
int split_selected(const struct qp_env *env, struct arena *a, qp_str answer,
                   struct carto_item *item, struct carto_outcome *out_outcome)
{
    if (str_is_none(answer)) { /* it was born with its selection */
        *out_outcome = (struct carto_outcome){.result = CARTO_AVOIDED};
        return item->is_selected ? QP_OK : QP_E_CORRUPT;
    }
    QP_TRY(ending_read(env, a, answer, item));
    QP_TRY(read_failure(item, out_outcome));
    item->failure = CARTO_NO_FAILURE;
    item->error = QP_NONE;
    return out_outcome->result == CARTO_FAILED || item->is_selected ? QP_OK : QP_E_CORRUPT;
}

static int read_relation(const struct qp_env *env, struct arena *a, qp_str text,
                         struct carto_relation *out)
{
    struct raw_walk w = {.rest = text};
    struct carto_item item;
    int64_t ordinal = -1;
    /* the members are those of an item's birth, and the ordinal */
    while (raw_each(&w)) {
        if (str_equal(w.key, QP_STR("ordinal")) && !number_read(w.value, &ordinal)) {
            return QP_E_CORRUPT;
        }
    }
    QP_TRY(relation_read(env, a, text, &item));
    if (ordinal < 0) {
        return QP_E_CORRUPT;
    }
    *out = (struct carto_relation){.ordinal = (uint64_t)ordinal,
                                   .target = item.target,
                                   .advice = item.advice,
                                   .kind = item.kind,
                                   .via = item.via,
                                   .scope = item.context.scope,
                                   .is_optional = item.is_optional,
                                   .exclusions = item.context.exclusions};
    return QP_OK;
}

static size_t count_items(qp_str array)
{
    struct raw_walk w = {.rest = array};
    size_t count = 0;
    while (raw_each(&w)) {
        count++;
    }
    return count;
}

static int read_array(const struct qp_env *env, struct arena *a, qp_str array,
                      struct carto_relations *out)
{
    struct raw_walk w = {.rest = array};
    size_t count = count_items(array);
    if (count > LIMIT_CARTO_RELATIONS) {
        return QP_E_CORRUPT;
    }
    out->rows = arena_alloc(a, (count + 1) * sizeof *out->rows);
    if (out->rows == NULL) {
        return QP_E_NOMEM;
    }
    while (raw_each(&w)) {
        QP_TRY(read_relation(env, a, w.value, &out->rows[out->count]));
        out->count++;
    }
    return QP_OK;
}

int split_relations(const struct qp_env *env, struct arena *a, qp_str answer,
                    struct carto_relations *out_relations, struct carto_outcome *out_outcome)
{
    struct raw_walk w = {.rest = answer};
    struct carto_relations relations = {0};
    struct carto_item failed = {0};
    bool is_found = false;
    while (raw_first(answer) == '{' && raw_each(&w)) {
        if (str_equal(w.key, QP_STR("relations")) && raw_first(w.value) == '[') {
            is_found = true;
            QP_TRY(read_array(env, a, w.value, &relations));
        }
    }
    if (!is_found) {
        QP_TRY(raw_first(answer) == '{' ? ending_read(env, a, answer, &failed) : QP_E_CORRUPT);
        QP_TRY(read_failure(&failed, out_outcome));
        return out_outcome->result == CARTO_FAILED ? QP_OK : QP_E_CORRUPT;
    }
    *out_outcome = (struct carto_outcome){.result = CARTO_DONE};
    *out_relations = relations;
    return QP_OK;
}

bool split_agrees(qp_str answer, size_t children, const struct carto_counts *counts)
{
    struct raw_walk w = {.rest = answer};
    int64_t want[3] = {(int64_t)children, counts->excluded, counts->cut};
    static const char *const names[3] = {"children", "excluded", "cut"};
    size_t agreed = 0;
    while (raw_first(answer) == '{' && raw_each(&w)) {
        for (size_t i = 0; i < 3; i++) {
            int64_t number = -1;
            agreed += str_equal(w.key, str_from(names[i])) && number_read(w.value, &number) &&
                      number == want[i];
        }
    }
    return agreed == 3;
}
