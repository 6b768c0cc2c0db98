/* ids.c - ids that are made here, and records of idempotency keys (see ids.h) */
#include "run/ids.h"

#include "base/hash.h"
#include "run/handle.h"

int ids_init(struct ids *ids)
{
    uuid_source_init(&ids->source);
    return pthread_mutex_init(&ids->lock, NULL) == 0 ? QP_OK : QP_E_NOMEM;
}

void ids_done(struct ids *ids)
{
    (void)pthread_mutex_destroy(&ids->lock);
}

int ids_next(struct ids *ids, const struct qp_env *env, unsigned char out_uuid[UUID_SIZE])
{
    int rc;
    (void)pthread_mutex_lock(&ids->lock);
    rc = uuid_next(&ids->source, env, out_uuid);
    (void)pthread_mutex_unlock(&ids->lock);
    return rc;
}

int ids_of_job(qp *q, qp_str given, char out_id[QP_ID_SIZE], struct qp_err *err)
{
    unsigned char uuid[UUID_SIZE];
    int rc;
    if (!str_is_none(given)) {
        QP_ASSERT(given.n < QP_ID_SIZE);
        memcpy(out_id, given.p, given.n);
        out_id[given.n] = '\0';
        return QP_OK;
    }
    rc = ids_next(&q->ids, &q->env, uuid);
    if (rc != QP_OK) {
        return err_set(err, rc, "no id can be made: the source of chance fails");
    }
    uuid_format(uuid, out_id);
    out_id[UUID_TEXT_SIZE] = '\0';
    return QP_OK;
}

void task_key(const struct task *task, char out_key[QP_TASK_KEY_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < LIMIT_GUID_SIZE; i++) {
        out_key[2 * i] = digits[task->guid[i] >> 4];
        out_key[2 * i + 1] = digits[task->guid[i] & 15];
    }
    out_key[QP_TASK_KEY_SIZE - 1] = '\0';
}

struct op_idem_put idem_record(int64_t ns, qp_str key, qp_str body, qp_str answer,
                               unsigned char out_hash[LIMIT_GUID_SIZE])
{
    hash_guid("body", 4, body.p, body.n, out_hash);
    return (struct op_idem_put){.ns = ns,
                                .key = key,
                                .body_hash = {(const char *)out_hash, LIMIT_GUID_SIZE},
                                .status = 201,
                                .answer = answer,
                                .ttl_ms = LIMIT_IDEM_MS};
}
