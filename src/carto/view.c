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

int carto_describe_activity(void *state, const struct sight *sight, const struct act_row *act,
                            struct qp_activity *told)
{
    qp_str gate = address_gate(act->addr);
    (void)state;
    (void)sight;
    if (!str_is_none(gate) && gate.n < act->addr.n) {
        describe_item(act, told);
    } else if (!str_is_none(gate)) {
        describe_gate(act, told);
    } else if (str_equal(act->addr, CARTO_REGISTER_ADDRESS)) {
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
