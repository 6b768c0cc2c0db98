/* agentagree.c - the arrays of `decisions` against each other (see agentagree.h) */
#include "support/agentagree.h"

struct arrays {
    const struct json *whole;
    const struct json *branches;
    const struct json *executions;
    const struct json *statuses;
};

static const struct json *member(const struct json *object, const char *key)
{
    return json_get(object, str_from(key));
}

static int64_t number(const struct json *object, const char *key)
{
    int64_t n = -1;
    return json_as_i64(member(object, key), &n) ? n : -1;
}

static bool truth(const struct json *object, const char *key)
{
    bool is = false;
    return json_as_bool(member(object, key), &is) && is;
}

static bool is_word(const struct json *object, const char *key, const char *word)
{
    qp_str text = QP_NONE;
    return json_as_str(member(object, key), &text) && str_equal(text, str_from(word));
}

static int64_t execution(const struct arrays *a, int64_t index)
{
    int64_t key = -1;
    bool is = index >= 0 && json_as_i64(json_at(a->executions, (size_t)index), &key);
    return is ? key : -1;
}

static int64_t execution_count(const struct arrays *a)
{
    return (int64_t)json_count(a->executions);
}

/* A1: branches stand in the order of their first executions, so one walk meets each where it starts. */
static const char *check_executions(const struct arrays *a)
{
    int64_t met = 0;
    for (int64_t i = 0; i < execution_count(a); i++) {
        int64_t key = execution(a, i);
        if (key < 0 || key > met || key >= (int64_t)json_count(a->branches)) {
            return "an execution is of no branch";
        }
        if (key == met) {
            const struct json *branch = json_at(a->branches, (size_t)met);
            if (number(branch, "key") != key || number(branch, "start_index") != i) {
                return "a branch does not start where it says";
            }
            met++;
        }
    }
    return met == (int64_t)json_count(a->branches) ? NULL : "a branch was never executed";
}

static const char *check_completion(const struct arrays *a, const struct json *status)
{
    int64_t index = number(status, "completion_index");
    if (is_word(status, "status", "successful") != (index >= 0)) {
        return "a work is successful without a completion_index, or has one";
    }
    if (index >= execution_count(a)) {
        return "a completion_index is behind the executions";
    }
    return index >= 0 && truth(status, "sync") &&
                   execution(a, index) != number(status, "branch_key")
               ? "a completion_index is not an execution of the owner"
               : NULL;
}

/* A2, A3 */
static const char *check_works(const struct arrays *a)
{
    int64_t successes = 0;
    int64_t repeats = 0;
    for (size_t i = 0; i < json_count(a->statuses); i++) {
        const struct json *status = json_at(a->statuses, i);
        const char *wrong = check_completion(a, status);
        if (wrong != NULL) {
            return wrong;
        }
        successes += is_word(status, "status", "successful");
        repeats += is_word(status, "status", "successful") && truth(status, "sync");
    }
    for (size_t i = 0; i < json_count(a->branches); i++) {
        successes -= is_word(json_at(a->branches, i), "type", "onSuccess");
    }
    if (successes != 0) {
        return "there are other onSuccess than works that are successful";
    }
    return execution_count(a) == (int64_t)json_count(a->branches) + repeats
               ? NULL
               : "executions are not those of branches and of completed works";
}

static const struct json *status_of(const struct arrays *a, const struct json *hash)
{
    qp_str wanted = QP_NONE;
    qp_str found = QP_NONE;
    for (size_t i = 0; json_as_str(hash, &wanted) && i < json_count(a->statuses); i++) {
        const struct json *status = json_at(a->statuses, i);
        if (json_as_str(member(status, "hash"), &found) && str_equal(found, wanted)) {
            return status;
        }
    }
    return NULL;
}

/* A4 */
static const char *check_waits(const struct arrays *a)
{
    const struct json *waits = member(a->whole, "waits");
    const struct json *buffer = member(a->whole, "buffer");
    for (size_t i = 0; i < json_count(waits); i++) {
        const struct json *status = status_of(a, member(json_at(waits, i), "hash"));
        if (!is_word(status, "type", "wait") || !is_word(status, "status", "scheduled")) {
            return "what waits is no wait that is scheduled";
        }
    }
    for (size_t i = 0; i < json_count(buffer); i++) {
        const struct json *hash = member(member(json_at(buffer, i), "data"), "hash");
        if (hash != NULL && status_of(a, hash) == NULL) {
            return "an action is of no work";
        }
    }
    return NULL;
}

/* A5 */
static const char *check_properties(const struct arrays *a)
{
    const struct json *properties = member(a->whole, "properties");
    int64_t last = -1;
    for (size_t i = 0; i < json_count(properties); i++) {
        int64_t key = number(json_at(properties, i), "key");
        if (key <= last || (i == 0 && key != 0) || key > execution_count(a)) {
            return "keys of properties do not rise from 0 to the executions";
        }
        last = key;
    }
    return last < 0 ? "there are no properties" : NULL;
}

static bool is_ongoing(const struct arrays *a, int64_t branch)
{
    for (int64_t i = number(a->whole, "ongoing_index"); i < execution_count(a); i++) {
        if (execution(a, i) == branch) {
            return true;
        }
    }
    return false;
}

/* How many items of an array belong to branches that are being executed. */
static size_t ongoing_in(const struct arrays *a, const struct json *items, const char *key)
{
    size_t count = 0;
    for (size_t i = 0; i < json_count(items); i++) {
        count += is_ongoing(a, number(json_at(items, i), key));
    }
    return count;
}

/* A6, A7 */
static const char *check_decision(const struct arrays *a)
{
    const struct json *decision = member(a->whole, "decision");
    const struct json *branches = member(decision, "ongoing_branches");
    const struct json *statuses = member(decision, "ongoing_statuses");
    bool ongoing = truth(a->whole, "decision_ongoing");
    if (ongoing != json_is(decision, JSON_KIND_OBJECT)) {
        return "a decision is ongoing and not there, or there and not ongoing";
    }
    if (!ongoing) {
        bool runs = is_word(a->whole, "decision_mode", "run");
        return runs && json_count(member(a->whole, "buffer")) > 0 ? "actions wait for no decision"
                                                                  : NULL;
    }
    if (number(decision, "decision_current_index") != number(a->whole, "ongoing_index") ||
        number(a->whole, "ongoing_index") < 0) {
        return "the decision has another index than the instance";
    }
    return json_count(branches) != ongoing_in(a, a->branches, "key") ||
                   json_count(branches) != ongoing_in(a, branches, "key") ||
                   json_count(statuses) != ongoing_in(a, a->statuses, "branch_key")
               ? "the decision has other branches or works than the executions"
               : NULL;
}

const char *agentagree(const struct json *decisions)
{
    static const char *(*const checks[])(const struct arrays *a) = {
        check_executions, check_works, check_waits, check_properties, check_decision};
    struct arrays a = {.whole = decisions,
                       .branches = member(decisions, "branches"),
                       .executions = member(decisions, "executions"),
                       .statuses = member(decisions, "statuses")};
    for (size_t i = 0; i < ARRAY_COUNT(checks); i++) {
        const char *wrong = checks[i](&a);
        if (wrong != NULL) {
            return wrong;
        }
    }
    return NULL;
}
