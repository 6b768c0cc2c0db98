/* outside.c - what an application's transaction asked for, checked and carried out (see outside.h)
 *
 *   I1  nothing is computed with that was not checked here
 *   I2  the ack of the message and what it asks for are one bundle (delivery.c): if we crash before its
 *       commit, the message is still there; if after it, it is gone, and all of it happened
 */
#include "kernel/outside.h"

#include "base/json.h"
#include "kernel/message.h"
#include "kernel/step.h"

bool outside_is(const struct msg_row *m)
{
    return m->kind == MESSAGE_START || m->kind == MESSAGE_SIGNAL || m->kind == MESSAGE_RESULT;
}

static int json_is_good(const struct qp_env *env, qp_str json)
{
    int rc = json.n > LIMIT_PAYLOAD_SIZE ? QP_E_MALFORMED : json_check(env, json, NULL, NULL);
    return rc == QP_OK || rc == QP_E_NOMEM ? rc : QP_E_MALFORMED;
}

int outside_check(const struct qp_env *env, const struct msg_row *m)
{
    return m->code < 0 || m->code > 599 ? QP_E_MALFORMED : json_is_good(env, m->payload);
}

/* Digits up to the byte `end`, which is passed over; at most ten years of milliseconds. */
static bool take_number(qp_str *rest, char end, int64_t *out_number)
{
    int64_t number = 0;
    size_t i = 0;
    for (; i < rest->n && rest->p[i] >= '0' && rest->p[i] <= '9' && number <= LIMIT_TIMER_MS; i++) {
        number = number * 10 + (rest->p[i] - '0');
    }
    if (i == 0 || i == rest->n || rest->p[i] != end || number > LIMIT_TIMER_MS) {
        return false;
    }
    *rest = (qp_str){rest->p + i + 1, rest->n - i - 1};
    *out_number = number;
    return true;
}

/* The last number of the head, with the mark of an id behind it or without. */
static bool take_key_size(qp_str *rest, int64_t *out_size, bool *out_has_id)
{
    static const char mark[] = "id\n";
    *out_has_id = false;
    if (take_number(rest, '\n', out_size)) {
        return true;
    }
    *out_has_id = take_number(rest, ' ', out_size) && rest->n >= sizeof mark - 1 &&
                  memcmp(rest->p, mark, sizeof mark - 1) == 0;
    if (*out_has_id) {
        *rest = (qp_str){rest->p + sizeof mark - 1, rest->n - (sizeof mark - 1)};
    }
    return *out_has_id;
}

int outside_signal_parse(qp_str payload, struct outside_signal *out_signal)
{
    qp_str rest = payload;
    int64_t ttl_ms;
    int64_t key_size;
    bool has_id;
    if (!take_number(&rest, ' ', &ttl_ms) || !take_key_size(&rest, &key_size, &has_id) ||
        ttl_ms == 0 || key_size > LIMIT_ID_SIZE || (size_t)key_size > rest.n) {
        return QP_E_MALFORMED;
    }
    *out_signal =
        (struct outside_signal){.ttl_ms = ttl_ms,
                                .has_id = has_id,
                                .key = {rest.p, (size_t)key_size},
                                .payload = {rest.p + key_size, rest.n - (size_t)key_size}};
    return QP_OK;
}

int outside_signal(struct bundle *b, const struct msg_row *m)
{
    struct outside_signal s;
    struct op op = {.kind = OP_hook_signal};
    int rc = outside_signal_parse(m->payload, &s);
    rc = rc == QP_OK ? json_is_good(store_env(b->commit->store), s.payload) : rc;
    if (rc == QP_OK &&
        (name_check(m->addr, "topic", NULL) != QP_OK || id_check(s.key, "key", NULL) != QP_OK)) {
        rc = QP_E_MALFORMED;
    }
    if (rc != QP_OK) {
        return rc;
    }
    op.hook_signal = (struct op_hook_signal){.ns = m->ns,
                                             .topic = m->addr,
                                             .key = s.key,
                                             .guid = m->guid,
                                             .payload = s.payload,
                                             .code = 200,
                                             .ttl_ms = s.ttl_ms,
                                             .has_id = s.has_id,
                                             .once = true};
    return step_op(b, &op);
}
