/* view.c - rows of a traversal for people (see view.h)
 *
 * The type of a row is its step: REGISTER, END-DETECT (a gate), FORMAT, and of an item the last stage that it has reached.
 * Its status is what became of it; of an item that waits for its gate, PENDING.
 */
#include "carto/view.h"

#include "carto/result.h"
#include "kernel/address.h"

/* The word of an ending in a text that item rows have; NULL: there is none. */
static const char *state_of(qp_str output)
{
    static const struct {
        const char *text;
        const char *word;
    } words[] = {
        {"{\"state\":\"DONE\"", "DONE"},
        {"{\"state\":\"DUPLICATE\"", "DUPLICATE"},
        {"{\"state\":\"DEPTH_PRUNED\"", "DEPTH_PRUNED"},
        {"{\"state\":\"FAILED\"", "FAILED"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        size_t n = strlen(words[i].text);
        if (output.n > n && memcmp(output.p, words[i].text, n) == 0) {
            return words[i].word;
        }
    }
    return NULL;
}

static void describe_item(const struct act_row *act, struct qp_activity *told)
{
    const char *word = state_of(act->output);
    told->type = word == NULL                     ? "SELECT-SYNC"
                 : strcmp(word, "DUPLICATE") == 0 ? "SELECT"
                                                  : "TRAVERSE";
    told->status = word == NULL ? "PENDING" : word;
}

static void describe_gate(const struct act_row *act, struct qp_activity *told)
{
    told->type = "END-DETECT";
    told->status = act->guid_at == 0 ? "PENDING" : act->code == 204 ? "DONE" : "IN_PROGRESS";
}

/* "level 2" of "#a2": a gate ends a level. */
static int level_name(struct arena *a, qp_str gate, qp_str *out_name)
{
    static const char before[] = "level ";
    size_t n = sizeof before - 1;
    char *name = arena_bytes(a, n + gate.n);
    QP_ASSERT(gate.n > 2); /* its mark, and how many digits the number has */
    if (name == NULL) {
        return QP_E_NOMEM;
    }
    memcpy(name, before, n);
    memcpy(name + n, gate.p + 2, gate.n - 2);
    *out_name = (qp_str){name, n + gate.n - 2};
    return QP_OK;
}

/* The name of an item's row: the package that it is about. */
static int item_name(struct arena *a, qp_str input, qp_str *out_name)
{
    struct raw_walk w = {.rest = input};
    while (raw_first(input) == '{' && raw_each(&w)) {
        if (str_equal(w.key, QP_STR("target"))) {
            return raw_text(a->env, a, w.value, out_name) ? QP_OK : QP_E_NOMEM;
        }
    }
    return QP_OK;
}

int carto_describe_history(void *state, const struct sight *sight, int64_t kind,
                           struct qp_event *event)
{
    struct act_row key = {.ns = sight->job->ns, .job = sight->job->job, .addr = event->address};
    qp_str gate = address_gate(event->address);
    const void *row = NULL;
    int rc;
    (void)state;
    (void)kind;
    if (str_is_none(gate)) {
        return QP_OK;
    }
    if (gate.n == event->address.n) {
        return level_name(sight->arena, gate, &event->name);
    }
    rc = store_get(sight->store, sight->arena, TABLE_act, &key, &row, sight->err);
    if (rc != QP_OK) {
        return rc == QP_E_NOT_FOUND ? QP_OK : rc;
    }
    return item_name(sight->arena, ((const struct act_row *)row)->input, &event->name);
}

int carto_describe_activity(void *state, const struct sight *sight, const struct act_row *act,
                            struct qp_activity *told)
{
    qp_str gate = address_gate(act->addr);
    (void)state;
    if (!str_is_none(gate) && gate.n < act->addr.n) {
        describe_item(act, told);
        return item_name(sight->arena, act->input, &told->name);
    }
    if (!str_is_none(gate)) {
        describe_gate(act, told);
        told->mark = strcmp(told->state, "done") == 0 ? "done" : NULL; /* its level is over */
        return level_name(sight->arena, gate, &told->name);
    }
    if (str_equal(act->addr, CARTO_REGISTER_ADDRESS)) {
        told->type = "REGISTER";
    } else if (str_equal(act->addr, CARTO_FORMAT_ADDRESS)) {
        told->type = "FORMAT";
    }
    return QP_OK;
}

int carto_export(void *state, const struct sight *sight, struct buf *out, bool *out_done)
{
    struct result_state r;
    qp_str sums;
    (void)state;
    QP_TRY(result_state(sight->store, sight->arena, sight->job, &r, sight->err));
    QP_TRY(sums_write(sight->arena, &r.sums, &sums));
    buf_printf(out, ",\"data\":{\"counts\":%.*s}", STR_ARG(sums));
    *out_done = true;
    return buf_rc(out);
}
