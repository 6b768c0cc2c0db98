/* request_parts.c - the record of an idempotency key, and why a request is refused (see request_parts.h)
 *
 *   I1  the record of a key is looked for and written in the bundle of what it makes repeatable: both are there, or neither
 */
#include "kernel/request_parts.h"

int request_job(struct bundle *b, int64_t ns, qp_str jid, const struct job_row **out_job)
{
    const void *name = NULL;
    const void *job = NULL;
    struct job_row key = {.ns = ns};
    QP_TRY(bundle_get(b, TABLE_job_name, &(struct job_name_row){.ns = ns, .jid = jid}, &name));
    if (name == NULL) {
        return QP_E_NOT_FOUND;
    }
    key.job = ((const struct job_name_row *)name)->job;
    QP_TRY(bundle_get(b, TABLE_job, &key, &job));
    if (job == NULL) {
        return QP_E_NOT_FOUND;
    }
    *out_job = job;
    return QP_OK;
}

void keyed_taken(char taken[QP_ID_SIZE], qp_str id)
{
    QP_ASSERT(id.n < QP_ID_SIZE);
    memcpy(taken, id.p, id.n);
    taken[id.n] = '\0';
}

int keyed_find(struct request_keyed *k, struct bundle *b)
{
    struct idem_row key = {.ns = k->idem.ns, .ikey = k->idem.key};
    const struct idem_row *record;
    const void *row = NULL;
    k->met = false;
    k->taken[0] = '\0';
    if (str_is_none(k->idem.key)) {
        return QP_OK;
    }
    QP_TRY(bundle_get(b, TABLE_idem, &key, &row));
    if (row == NULL) {
        return QP_OK;
    }
    record = row;
    k->met = true;
    if (!str_equal(record->body_hash, k->idem.body_hash)) {
        return QP_E_CONFLICT;
    }
    keyed_taken(k->taken, record->answer);
    return QP_E_EXISTS;
}

int keyed_put(const struct request_keyed *k, struct bundle *b, qp_str answer)
{
    struct op put = {.kind = OP_idem_put, .idem_put = k->idem};
    put.idem_put.answer = answer;
    return str_is_none(k->idem.key) ? QP_OK : step_op(b, &put);
}

int keyed_begin(struct request_keyed *k, struct bundle *b)
{
    QP_TRY(keyed_find(k, b));
    QP_TRY(keyed_put(k, b, k->idem.answer));
    return bundle_run(b);
}

static const char *keep_text(struct bundle *b, const char *text)
{
    qp_str copy;
    return arena_copy(&b->commit->arena, (qp_str){text, strlen(text) + 1}, &copy) ? copy.p : NULL;
}

int refusal_keep(struct refusal *out, struct bundle *b, int rc, const struct qp_err *err)
{
    *out = (struct refusal){.rc = rc};
    if (rc != QP_OK) {
        out->text = keep_text(b, err->text);
        out->pointer = keep_text(b, err->pointer);
    }
    return rc;
}

const char *refusal_text(const struct refusal *refusal, int rc, const char *otherwise)
{
    return rc != QP_OK && rc == refusal->rc && refusal->text != NULL ? refusal->text : otherwise;
}

const char *refusal_pointer(const struct refusal *refusal, int rc)
{
    return rc != QP_OK && rc == refusal->rc && refusal->pointer != NULL ? refusal->pointer : "";
}
