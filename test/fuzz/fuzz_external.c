/* fuzz_external.c - any text is an answer of a worker of an external type, or is refused with a sentence
 *
 * What is read of SELECT, SELECT-SYNC and RESOLVE is written as the engine keeps it, and reads as the same: its bytes do not
 * change any more. A definition that is read is written and read as itself.
 */
#include <stdint.h>

#include "base/env.h"
#include "carto/external_answer.h"
#include "carto/split.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A failure says why. */
static bool is_done(const struct carto_outcome *outcome)
{
    QP_ASSERT(outcome->result == CARTO_DONE || outcome->result == CARTO_FAILED);
    QP_ASSERT(outcome->result == CARTO_DONE ||
              (outcome->failure != CARTO_NO_FAILURE && outcome->text.n > 0));
    return outcome->result == CARTO_DONE;
}

static void check_selected(struct arena *a, const struct carto_item *item)
{
    struct carto_item again = {0};
    struct carto_outcome outcome;
    qp_str first;
    qp_str second;
    QP_ASSERT(item->is_selected && item->selected.id.name.n > 0);
    QP_ASSERT(item->is_virtual == (item->selected.version.n == 0));
    QP_ASSERT(split_write_selected(a, item, &first) == QP_OK);
    QP_ASSERT(split_selected(a->env, a, first, &again, &outcome) == QP_OK);
    QP_ASSERT(outcome.result == CARTO_DONE && again.is_virtual == item->is_virtual);
    QP_ASSERT(split_write_selected(a, &again, &second) == QP_OK);
    QP_ASSERT(str_equal(first, second));
}

static void check_select(struct arena *a, qp_str text)
{
    struct carto_item item = {0};
    struct carto_item synced = {0};
    struct carto_outcome outcome;
    bool is_known = false;
    QP_ASSERT(external_selected(a, text, &item, &outcome) == QP_OK);
    if (is_done(&outcome)) {
        check_selected(a, &item);
    }
    QP_ASSERT(external_synced(a, text, &synced, &is_known, &outcome) == QP_OK);
    if (is_done(&outcome) && is_known) {
        check_selected(a, &synced);
    }
}

static void check_resolve(struct arena *a, qp_str text)
{
    struct carto_relations relations;
    struct carto_relations again;
    struct carto_outcome outcome;
    qp_str first;
    qp_str second;
    QP_ASSERT(external_relations(a, text, &relations, &outcome) == QP_OK);
    if (!is_done(&outcome)) {
        return;
    }
    QP_ASSERT(relations.count <= LIMIT_CARTO_RELATIONS);
    QP_ASSERT(split_write_relations(a, &relations, &first) == QP_OK);
    QP_ASSERT(split_relations(a->env, a, first, &again, &outcome) == QP_OK);
    QP_ASSERT(outcome.result == CARTO_DONE && again.count == relations.count);
    QP_ASSERT(split_write_relations(a, &again, &second) == QP_OK);
    QP_ASSERT(str_equal(first, second));
}

static void check_definition(struct arena *a, qp_str text)
{
    const struct carto_external *first = NULL;
    const struct carto_external *second = NULL;
    struct qp_err err = {0};
    qp_str written;
    if (external_read(a, QP_STR("ext"), text, &first, &err) != QP_OK) {
        QP_ASSERT(err.text[0] != '\0');
        return;
    }
    QP_ASSERT(external_write(a, first, &written) == QP_OK);
    QP_ASSERT(external_read(a, QP_STR("ext"), written, &second, NULL) == QP_OK);
    QP_ASSERT(str_equal(first->universe, second->universe));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    qp_str text = {(const char *)data, size};
    struct qp_env env;
    struct arena arena;
    qp_env_init(&env);
    env_complete(&env);
    arena_init(&arena, &env, 0);
    check_select(&arena, text);
    check_resolve(&arena, text);
    check_definition(&arena, text);
    arena_done(&arena);
    return 0;
}
