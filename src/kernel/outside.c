/* outside.c - what an application's transaction asked for, checked and carried out (see outside.h)
 *
 *   I1  nothing is computed with that was not checked here
 *   I2  the ack of the message and what it asks for are one bundle (delivery.c): if we crash before its
 *       commit, the message is still there; if after it, it is gone, and all of it happened
 */
#include "kernel/outside.h"

#include <stdio.h>

#include "base/json.h"
#include "kernel/message.h"
#include "kernel/signal_job.h"

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

/* ------------------------------------------------------------------------------------- to one job */

int outside_to_payload(struct arena *a, const struct outside_to *to, qp_str *out_payload)
{
    const qp_str texts[] = {to->address, to->workflow, to->id, to->payload};
    char head[96];
    size_t at = (size_t)snprintf(head, sizeof head, "%lld %zu %zu %zu\n", (long long)to->sender,
                                 to->address.n, to->workflow.n, to->id.n);
    size_t size = at + texts[0].n + texts[1].n + texts[2].n + texts[3].n;
    char *text = size > LIMIT_PAYLOAD_HARD_SIZE ? NULL : arena_bytes(a, size);
    if (text == NULL) {
        return size > LIMIT_PAYLOAD_HARD_SIZE ? QP_E_TOO_LARGE : QP_E_NOMEM;
    }
    memcpy(text, head, at);
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        if (texts[i].n > 0) {
            memcpy(text + at, texts[i].p, texts[i].n);
        }
        at += texts[i].n;
    }
    QP_ASSERT(at == size);
    *out_payload = (qp_str){text, size};
    return QP_OK;
}

static bool take_text(qp_str *rest, int64_t size, qp_str *out_text)
{
    if ((size_t)size > rest->n) {
        return false;
    }
    *out_text = size == 0 ? QP_NONE : (qp_str){rest->p, (size_t)size};
    *rest = (qp_str){rest->p + size, rest->n - (size_t)size};
    return true;
}

int outside_to_parse(qp_str payload, struct outside_to *out_to)
{
    qp_str rest = payload;
    struct outside_to to = {0};
    int64_t sizes[3];
    if (!take_number(&rest, ' ', &to.sender) || !take_number(&rest, ' ', &sizes[0]) ||
        !take_number(&rest, ' ', &sizes[1]) || !take_number(&rest, '\n', &sizes[2]) ||
        !take_text(&rest, sizes[0], &to.address) || !take_text(&rest, sizes[1], &to.workflow) ||
        !take_text(&rest, sizes[2], &to.id)) {
        return QP_E_MALFORMED;
    }
    to.payload = rest;
    *out_to = to;
    return QP_OK;
}

/* The sender's history says that the signal did not arrive, as long as the sender is open. */
static int refused_note(struct bundle *b, const struct msg_row *m, const struct outside_to *to,
                        int rc)
{
    struct op op = {
        .kind = OP_event_add,
        .event_add = {.ref = {m->ns, to->sender}, .kind = EVENT_REFUSED, .addr = to->address}};
    struct event_facts facts = {.topic = {m->addr.p + 1, m->addr.n - 1},
                                .job = to->id,
                                .code = qp_code_http(rc),
                                .error = str_from(qp_code_text(rc)),
                                .address = to->address};
    struct job_row key = {.ns = m->ns, .job = to->sender};
    const void *sender = NULL;
    QP_TRY(bundle_peek(b, TABLE_job, &key, &sender));
    if (sender == NULL || ((const struct job_row *)sender)->state != JOB_OPEN) {
        return QP_OK;
    }
    QP_TRY(
        event_write(store_env(b->commit->store), &b->commit->arena, &facts, &op.event_add.detail));
    return step_op(b, &op);
}

static int to_check(struct bundle *b, const struct msg_row *m, const struct outside_to *to)
{
    qp_str name = {m->addr.p + 1, m->addr.n - 1};
    QP_TRY(json_is_good(store_env(b->commit->store), to->payload));
    if (name_check(name, "name", NULL) != QP_OK || id_check(to->id, "job", NULL) != QP_OK ||
        (!str_is_none(to->workflow) && name_check(to->workflow, "workflow", NULL) != QP_OK)) {
        return QP_E_MALFORMED;
    }
    return QP_OK;
}

/* QP_E_NOT_FOUND, QP_E_CLOSED, QP_E_LIMIT in *out_refused: the job does not take it, and the bundle goes on. */
static int to_send(const struct kernel *k, struct bundle *b, const struct msg_row *m,
                   const struct outside_to *to, int *out_refused)
{
    struct signal_job target = {.workflow = to->workflow, .id = to->id};
    const struct job_row *job = NULL;
    struct op *op;
    int rc = signal_job_find(b, m->ns, &target, &job);
    if (rc != QP_OK) {
        *out_refused = rc;
        return rc == QP_E_NOT_FOUND ? QP_OK : rc;
    }
    op = bundle_op(b, OP_hook_signal);
    if (op == NULL) {
        return b->commit->rc;
    }
    op->hook_signal = (struct op_hook_signal){.ns = m->ns,
                                              .topic = {m->addr.p + 1, m->addr.n - 1},
                                              .guid = m->guid,
                                              .payload = to->payload,
                                              .code = 200,
                                              .ttl_ms = LIMIT_SIGNAL_TTL_MS,
                                              .once = true};
    QP_TRY(signal_job_aim(k, b, job, QP_NONE, &op->hook_signal));
    QP_TRY(bundle_run(b));
    *out_refused = op->hook_signal.out_refused;
    return QP_OK;
}

static int to_job(const struct kernel *k, struct bundle *b, const struct msg_row *m)
{
    struct outside_to to;
    int refused = QP_OK;
    QP_TRY(outside_to_parse(m->payload, &to));
    QP_TRY(to_check(b, m, &to));
    QP_TRY(to_send(k, b, m, &to, &refused));
    return refused == QP_OK ? QP_OK : refused_note(b, m, &to, refused);
}

/* ------------------------------------------------------------------------------- to a topic and key */

static int to_key(struct bundle *b, const struct msg_row *m)
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

int outside_signal(const struct kernel *k, struct bundle *b, const struct msg_row *m)
{
    return m->addr.n > 1 && m->addr.p[0] == SIGNAL_NAME_MARK ? to_job(k, b, m) : to_key(b, m);
}
