/* ids.h - ids that are made here: of jobs and signals, keys of tasks, and records of idempotency keys
 *
 * From any thread.
 */
#ifndef QP_RUN_IDS_H
#define QP_RUN_IDS_H

#include <pthread.h>

#include "base/uuid.h"
#include "kernel/request.h"

struct ids {
    pthread_mutex_t lock;
    struct uuid_source source; /* under the lock */
};

int ids_init(struct ids *ids) QP_MUST_USE;
void ids_done(struct ids *ids);

/* A new one. Fails when the source of chance does. */
int ids_next(struct ids *ids, const struct qp_env *env,
             unsigned char out_uuid[UUID_SIZE]) QP_MUST_USE;
/* The id of a job that is given, or a new one. */
int ids_of_job(qp *q, qp_str given, char out_id[QP_ID_SIZE], struct qp_err *err) QP_MUST_USE;

/* qp_task_key of a task of the kernel. */
void task_key(const struct task *task, char out_key[QP_TASK_KEY_SIZE]);

/* The record of an idempotency key that commits with a request: the hash of what was asked goes to out_hash,
 * which lives as long as the record. */
struct op_idem_put idem_record(int64_t ns, qp_str key, qp_str body, qp_str answer,
                               unsigned char out_hash[LIMIT_GUID_SIZE]);

#endif
