/* signals.c - sending signals to activities that wait for them
 *
 * A signal with an id is sent once per (namespace, topic, key): its GUID follows from the three, and the commit
 * that delivers it records it (store/apply_signal.c). If we crash before that commit, the signal is not there, and
 * sending it again sends it; if after it, sending it again is answered with what became of the first.
 */
#include "run/signals.h"

#include "base/hash.h"
#include "base/json.h"
#include "run/enter.h"
#include "run/handle.h"
#include "run/ids.h"
#include "run/jobs.h"
#include "run/loop.h"

int signal_guid(qp *q, const struct qp_signal *signal, unsigned char out_guid[UUID_SIZE],
                struct qp_err *err)
{
    unsigned char place[LIMIT_GUID_SIZE];
    int rc;
    if (!str_is_none(signal->id)) {
        hash_guid(signal->topic.p, signal->topic.n, signal->key.p, signal->key.n, place);
        hash_guid(place, sizeof place, signal->id.p, signal->id.n, out_guid);
        return QP_OK;
    }
    rc = ids_next(&q->ids, &q->env, out_guid);
    return rc == QP_OK ? QP_OK
                       : err_set(err, rc, "signal: no id can be made: the source of chance fails");
}

static int given_id_check(qp_str id, const char *what, struct qp_err *err)
{
    return str_is_none(id) ? QP_OK : id_check(id, what, err);
}

static int payload_check(const qp *q, qp_str payload, enum json_trust trust, struct qp_err *err)
{
    int rc;
    if (payload.n > LIMIT_PAYLOAD_SIZE) {
        return err_set(err, QP_E_TOO_LARGE, "payload: %zu bytes, the limit is %d", payload.n,
                       LIMIT_PAYLOAD_SIZE);
    }
    if (trust == JSON_CHECKED) {
        return QP_OK;
    }
    rc = json_check(&q->env, payload, NULL, err);
    return rc == QP_OK ? QP_OK : err_wrap(err, rc, "payload");
}

static int numbers_check(const struct qp_signal *s, struct qp_err *err)
{
    if (s->code != 0 && (s->code < 100 || s->code > 599)) {
        (void)err_set(err, QP_E_INVALID, "code: %d, it is 100 to 599", s->code);
        return err_point(err, QP_E_INVALID, "/code");
    }
    if (s->ttl_ms < 0 || s->ttl_ms > LIMIT_TIMER_MS) {
        return err_set(err, QP_E_INVALID, "ttl_ms: %lld, it is 0 to %lld (ten years)",
                       (long long)s->ttl_ms, (long long)LIMIT_TIMER_MS);
    }
    return QP_OK;
}

static int target_check(const struct qp_signal *s, struct qp_err *err)
{
    QP_TRY(given_id_check(s->job, "job", err));
    QP_TRY(str_is_none(s->workflow) ? QP_OK : name_check(s->workflow, "workflow", err));
    if (!str_is_none(s->job) && !str_is_none(s->key)) {
        return err_set(err, QP_E_INVALID, "job and key: both are given, a signal has one of them");
    }
    return str_is_none(s->workflow) || !str_is_none(s->job)
               ? QP_OK
               : err_set(err, QP_E_INVALID,
                         "workflow: given without a job, whose custom id belongs to it");
}

static int parts_check(const qp *q, const struct qp_signal *s, enum json_trust trust,
                       struct qp_err *err)
{
    QP_TRY(name_check(s->topic, "topic", err));
    QP_TRY(given_id_check(s->key, "key", err));
    QP_TRY(target_check(s, err));
    QP_TRY(given_id_check(s->id, "signal id", err));
    QP_TRY(given_id_check(s->idem_key, "idempotency key", err));
    QP_TRY(numbers_check(s, err));
    return payload_check(q, s->payload, trust, err);
}

int signal_check(const qp *q, const struct qp_signal *s, enum json_trust trust, struct qp_err *err)
{
    int rc = parts_check(q, s, trust, err);
    return rc == QP_OK ? QP_OK : err_wrap(err, rc, "signal");
}

/* One signal on its way. A blocking one stands on the caller's stack; an async one in an arena of its own,
 * with copies of its texts. */
struct sending {
    struct call call;
    struct arena arena; /* of an async one: itself, and its texts */
    struct request_signal request;
    struct qp_signal signal;
    int64_t ns;
    bool async;
    unsigned char guid[UUID_SIZE];
    unsigned char idem_hash[LIMIT_GUID_SIZE];
};

static void sending_free(struct sending *s)
{
    struct arena arena = s->arena; /* it stands in there itself */
    arena_done(&arena);
}

static void sending_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_signal *r = (struct request_signal *)c;
    struct sending *s = (struct sending *)((char *)r - offsetof(struct sending, request));
    qp *q = s->call.q;
    (void)e;
    if (s->signal.out_sent != NULL) {
        *s->signal.out_sent = r->delivered ? QP_SENT_DELIVERED
                              : r->kept    ? QP_SENT_KEPT
                                           : QP_SENT_UNKNOWN;
    }
    why = refusal_text(&r->refusal, rc, why);
    if (!s->async) {
        if (rc != QP_OK && !str_is_none(s->signal.job)) {
            (void)job_error(s->call.err, rc, s->signal.job, "signal to job", why);
        } else if (rc != QP_OK && str_is_none(s->signal.key)) {
            (void)err_set(s->call.err, rc, "signal: %s", why);
        } else if (rc != QP_OK) {
            (void)job_error(s->call.err, rc, s->signal.key, "signal", why);
        }
        call_done(&q->driver, &s->call, rc);
        return;
    }
    call_left(&q->driver, &s->call);
    if (s->signal.sent != NULL) {
        s->signal.sent(s->signal.context, rc, rc == QP_OK ? "" : why);
    }
    sending_free(s);
}

static void sending_execute(qp *q, struct call *c)
{
    struct sending *s = (struct sending *)c;
    const struct qp_signal *signal = &s->signal;
    s->request.signal = (struct op_hook_signal){.ns = s->ns,
                                                .topic = signal->topic,
                                                .key = signal->key,
                                                .guid = {(const char *)s->guid, sizeof s->guid},
                                                .payload = signal->payload,
                                                .code = signal->code > 0 ? signal->code : 200,
                                                .keep = signal->code == 202,
                                                .has_id = !str_is_none(signal->id),
                                                .ttl_ms = signal->ttl_ms > 0 ? signal->ttl_ms
                                                                             : LIMIT_SIGNAL_TTL_MS};
    s->request.id = str_is_none(signal->key) ? signal->id : QP_NONE;
    s->request.to = (struct signal_job){.workflow = signal->workflow, .id = signal->job};
    if (!str_is_none(signal->idem_key)) {
        s->request.keyed.idem =
            idem_record(s->ns, signal->idem_key, signal->idem_body, QP_STR(""), s->idem_hash);
    }
    request_signal(&s->request);
    s->request.command.answer = sending_answered;
    engine_submit(q->engine, &s->request.command);
}

static void sending_withdrawn(qp *q, struct call *c)
{
    struct sending *s = (struct sending *)c;
    QP_ASSERT(s->async);
    sending_answered(q->engine, &s->request.command, QP_E_TIMEOUT, call_late_text());
}

static int sending_prepare(qp *q, struct sending *s, struct qp_err *err)
{
    s->call = (struct call){.execute = sending_execute, .q = q};
    QP_TRY(space_number(q, s->signal.ns, &s->ns, err));
    return signal_guid(q, &s->signal, s->guid, err);
}

static int send_now(qp *q, const struct qp_signal *signal, enum json_trust trust,
                    struct qp_err *err)
{
    struct sending s = {.signal = *signal};
    QP_TRY(signal_check(q, signal, trust, err));
    QP_TRY(sending_prepare(q, &s, err));
    return call_do(&q->driver, &s.call, err);
}

int qp_signal_send(qp *q, const struct qp_signal *signal, struct qp_err *err)
{
    ENTER(q, signal != NULL, err);
    return send_now(q, signal, JSON_UNCHECKED, err);
}

int signal_send(qp *q, const struct qp_signal *signal, enum json_trust trust, struct qp_err *err)
{
    ENTER(q, signal != NULL, err);
    return send_now(q, signal, trust, err);
}

/* With copies of its texts. NULL: no memory. */
static struct sending *sending_copy(qp *q, const struct qp_signal *signal)
{
    struct arena arena;
    struct sending *s;
    arena_init(&arena, &q->env, 0);
    s = ARENA_NEW(&arena, struct sending);
    if (s == NULL) {
        return NULL;
    }
    s->arena = arena;
    s->signal = *signal;
    s->async = true;
    qp_str *const texts[] = {&s->signal.topic, &s->signal.key,      &s->signal.payload,
                             &s->signal.id,    &s->signal.idem_key, &s->signal.idem_body,
                             &s->signal.job,   &s->signal.workflow};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        if (!arena_copy(&s->arena, *texts[i], texts[i])) {
            sending_free(s);
            return NULL;
        }
    }
    return s;
}

int qp_signal_send_async(qp *q, const struct qp_signal *signal, struct qp_err *err)
{
    ENTER(q, signal != NULL, err);
    struct sending *s;
    int rc;
    QP_TRY(signal_check(q, signal, JSON_UNCHECKED, err));
    s = sending_copy(q, signal);
    if (s == NULL) {
        return err_set(err, QP_E_NOMEM, "signal: out of memory");
    }
    rc = sending_prepare(q, s, err);
    s->call.withdrawn = sending_withdrawn;
    if (rc == QP_OK) {
        rc = call_queue(&q->driver, &s->call, err);
    }
    if (rc != QP_OK) {
        sending_free(s);
    }
    return rc;
}
