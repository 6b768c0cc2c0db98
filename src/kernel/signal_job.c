/* signal_job.c - where a signal to one job goes (see signal_job.h)
 *
 *   I1  nothing is written here, and no row is locked: apply_signal_job.c compares what stands in the job's row
 *
 * If we crash before the commit of the signal, it was not sent.
 */
#include "kernel/signal_job.h"

#include "kernel/turn_internal.h"

static int number_of(struct bundle *b, int64_t ns, const struct signal_job *to, int64_t *out_number)
{
    struct job_custom_row custom = {.ns = ns, .workflow = to->workflow, .custom_id = to->id};
    struct job_name_row name = {.ns = ns, .jid = to->id};
    const void *row = NULL;
    if (!str_is_none(to->workflow)) {
        QP_TRY(bundle_peek(b, TABLE_job_custom, &custom, &row));
        *out_number = row == NULL ? 0 : ((const struct job_custom_row *)row)->job;
        return QP_OK;
    }
    QP_TRY(bundle_peek(b, TABLE_job_name, &name, &row));
    *out_number = row == NULL ? 0 : ((const struct job_name_row *)row)->job;
    return QP_OK;
}

int signal_job_find(struct bundle *b, int64_t ns, const struct signal_job *to,
                    const struct job_row **out_job)
{
    struct job_row key = {.ns = ns};
    const void *row = NULL;
    QP_TRY(number_of(b, ns, to, &key.job));
    if (key.job > 0) {
        QP_TRY(bundle_peek(b, TABLE_job, &key, &row));
    }
    if (row == NULL) {
        return QP_E_NOT_FOUND;
    }
    *out_job = row;
    return QP_OK;
}

int signal_name_topic(struct arena *a, qp_str name, qp_str *out_topic)
{
    char *text = arena_bytes(a, name.n + 1);
    QP_ASSERT(name.n > 0);
    if (text == NULL) {
        return QP_E_NOMEM;
    }
    text[0] = SIGNAL_NAME_MARK;
    memcpy(text + 1, name.p, name.n);
    *out_topic = (qp_str){text, name.n + 1};
    return QP_OK;
}

int signal_id_guid(struct bundle *b, struct op_hook_signal *signal, qp_str id)
{
    qp_str place;
    QP_TRY(step_guid(b, signal->topic, signal->key, &place));
    return step_guid(b, place, id, &signal->guid);
}

bool signal_job_takes(const struct kernel *k, const struct job_row *job)
{
    const struct program *program = kernel_program(k, job->kind);
    return program != NULL && program->takes_signals;
}

int signal_job_aim(const struct kernel *k, struct bundle *b, const struct job_row *job, qp_str id,
                   struct op_hook_signal *signal)
{
    signal->key = job->jid;
    if (signal_job_takes(k, job)) {
        if (signal->code != 200) {
            return QP_E_INVALID;
        }
        signal->to = (struct job_ref){job->ns, job->job};
        QP_TRY(signal_name_topic(&b->commit->arena, signal->topic, &signal->topic));
    }
    return str_is_none(id) ? QP_OK : signal_id_guid(b, signal, id);
}
