/* rules.c - the rules of fsck about instances of agent workflows (see rules.h) */
#include "agent/rules.h"

#include <stdarg.h>
#include <stdio.h>

#include "agent/acting.h"
#include "kernel/deciding.h"
#include "kernel/properties.h"

struct asking {
    const struct sight *sight;
    struct instance s;
    qp_str *out_wrong;
};

static int found(struct asking *a, const char *format, ...) QP_PRINTF(2, 3);

/* Keeps the first sentence. */
static int found(struct asking *a, const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    QP_ASSERT(n > 0 && (size_t)n < sizeof text);
    if (!str_is_none(*a->out_wrong)) {
        return QP_OK;
    }
    return arena_copy(a->sight->arena, (qp_str){text, (size_t)n}, a->out_wrong) ? QP_OK
                                                                                : QP_E_NOMEM;
}

/* *out_there false: the job is no instance that has begun, or a row of it is missing (then *out_whole is false). */
static int load(struct asking *a, const struct sight *sight, qp_str *out_wrong, bool *out_there,
                bool *out_whole)
{
    struct row_source source = acting_sight(sight);
    *a = (struct asking){.sight = sight, .out_wrong = out_wrong};
    *out_wrong = QP_NONE;
    int rc = stored_load_whole(&source, sight->arena, &a->s);
    *out_there = rc == QP_OK;
    *out_whole = rc != QP_E_CORRUPT;
    return rc == QP_E_NOT_FOUND || rc == QP_E_CORRUPT ? QP_OK : rc;
}

/* ----------------------------------------------------------------------------------------------- B1 */

static int rule_rows(void *state, const struct sight *sight, qp_str *out_wrong)
{
    struct asking a;
    bool there = false;
    bool whole = true;
    (void)state;
    QP_TRY(load(&a, sight, out_wrong, &there, &whole));
    if (!whole) {
        return found(&a, "a row of the instance is missing, or not what was written");
    }
    for (int64_t i = 0; there && i < a.s.execution_count; i++) {
        int64_t key = state_execution(&a.s, i);
        if (key < 0 || key >= a.s.branch_count) {
            QP_TRY(found(&a, "execution %lld is of branch %lld, and there are %lld branches",
                         (long long)i, (long long)key, (long long)a.s.branch_count));
        }
    }
    for (size_t i = 0; there && i < a.s.branches_held; i++) {
        const struct branch *b = &a.s.branches[i];
        if (b->key != (int64_t)i || b->start_index < 0 || b->start_index >= a.s.execution_count ||
            state_execution(&a.s, b->start_index) != b->key) {
            QP_TRY(found(&a, "branch %zu does not start where its row says", i));
        }
    }
    return QP_OK;
}

/* ----------------------------------------------------------------------------------------------- B2 */

static int rule_decision(void *state, const struct sight *sight, qp_str *out_wrong)
{
    struct asking a;
    struct deciding_seen d;
    bool there = false;
    bool whole = true;
    (void)state;
    QP_TRY(load(&a, sight, out_wrong, &there, &whole));
    if (!there || sight->job->state != JOB_OPEN) {
        return QP_OK;
    }
    QP_TRY(deciding_see(sight, AGENT_ADDRESS, &d));
    if (a.s.decision_ongoing && !(d.has_task || d.is_dead || d.has_answer || d.is_due)) {
        return found(&a, "a decision is ongoing, and neither its task nor its answer is there");
    }
    if (!a.s.decision_ongoing && (d.has_task || d.is_dead || (d.has_answer && !d.is_applied))) {
        return found(&a, "no decision is ongoing, and the task or the answer of one is there");
    }
    return a.s.parked && !d.is_dead
               ? found(&a, "a decision has failed, and its task is not kept for another attempt")
               : QP_OK;
}

/* -------------------------------------------------------------------------------------------- B3, B4 */

static int rule_waits(void *state, const struct sight *sight, qp_str *out_wrong)
{
    struct asking a;
    bool there = false;
    bool whole = true;
    (void)state;
    QP_TRY(load(&a, sight, out_wrong, &there, &whole));
    for (size_t i = 0; there && i < a.s.wait_count; i++) {
        const struct status *status = a.s.waits[i].status;
        if (status->work.type != WORK_WAIT || status->state != WORK_SCHEDULED ||
            status->completed) {
            QP_TRY(found(&a, "work %lld waits, and is not a wait that is scheduled",
                         (long long)status->number));
        }
    }
    return QP_OK;
}

static int rule_completions(void *state, const struct sight *sight, qp_str *out_wrong)
{
    struct asking a;
    bool there = false;
    bool whole = true;
    (void)state;
    QP_TRY(load(&a, sight, out_wrong, &there, &whole));
    for (size_t i = 0; there && i < a.s.statuses.count; i++) {
        const struct status *status = a.s.statuses.items[i];
        bool has_index = status->completion_index != NO_INDEX;
        if (has_index != (status->state == WORK_SUCCESSFUL) ||
            status->completion_index >= a.s.execution_count) {
            QP_TRY(found(&a, "work %lld has the state %d and the completion_index %lld",
                         (long long)status->number, (int)status->state,
                         (long long)status->completion_index));
        }
    }
    return QP_OK;
}

/* ----------------------------------------------------------------------------------------------- B5 */

struct properties_seen {
    int64_t count;
    int64_t last;
    bool rise;
    bool written;
    struct arena *arena;
};

static int see_property(void *visitor, qp_str name, qp_str value)
{
    struct properties_seen *seen = visitor;
    qp_str prefix = agent_prefix(AGENT_PROPERTY);
    qp_str values;
    int64_t key = 0;
    if (name.n <= prefix.n || memcmp(name.p, prefix.p, prefix.n) != 0) {
        return QP_OK; /* a row behind them */
    }
    for (size_t i = prefix.n + 1; i < name.n; i++) {
        key = key * 10 + (name.p[i] - '0');
    }
    seen->rise &= seen->count == 0 ? key == 0 : key > seen->last;
    seen->written &= properties_unwrap(seen->arena, value, &values) == QP_OK;
    seen->last = key;
    seen->count++;
    return QP_OK;
}

static int rule_properties(void *state, const struct sight *sight, qp_str *out_wrong)
{
    struct asking a;
    struct row_source source = acting_sight(sight);
    struct properties_seen seen = {.rise = true, .written = true, .arena = sight->arena};
    bool there = false;
    bool whole = true;
    (void)state;
    QP_TRY(load(&a, sight, out_wrong, &there, &whole));
    if (!there) {
        return QP_OK;
    }
    struct row_range range = {.arena = sight->arena,
                              .after = agent_prefix(AGENT_PROPERTY),
                              .limit = a.s.property_count + 1};
    QP_TRY(source.each(source.context, &range, &seen, see_property));
    if (!seen.rise || !seen.written || seen.last > a.s.execution_count) {
        return found(&a, "the keys of its properties do not rise from 0 to the executions");
    }
    return seen.count != (int64_t)a.s.property_count ||
                   seen.last != a.s.properties[a.s.property_count - 1].key
               ? found(&a, "it has other properties than its head says")
               : QP_OK;
}

#define NEXT_DAMAGE                                                                                \
    "keep a copy of the store, restore the latest backup for which quipu fsck finds nothing, and " \
    "report the evidence"

const struct face_rule agent_rules[] = {
    {"B1", QP_SEVERITY_ERROR, NEXT_DAMAGE, rule_rows},
    {"B2", QP_SEVERITY_ERROR, NEXT_DAMAGE, rule_decision},
    {"B3", QP_SEVERITY_ERROR, NEXT_DAMAGE, rule_waits},
    {"B4", QP_SEVERITY_ERROR, NEXT_DAMAGE, rule_completions},
    {"B5", QP_SEVERITY_ERROR, NEXT_DAMAGE, rule_properties},
    {NULL, QP_SEVERITY_ERROR, NULL, NULL},
};
