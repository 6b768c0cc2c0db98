/* apply.h - the meaning of every op, over the rows of a commit
 *
 * apply_<op> returns QP_OK or the code that stops its bundle; what it changed is undone by the
 * caller. A failure of the provider or of memory is in t->rc and ends the commit. The helpers below
 * are shared by the apply_*.c files.
 */
#ifndef QP_STORE_APPLY_H
#define QP_STORE_APPLY_H

#include "store/txn.h"

#define OP(name) int apply_##name(struct txn *t, struct op_##name *op) QP_MUST_USE;
#include "store/ops.def"
#undef OP

/* Dispatch. host_call is not among them: execute.c runs it at the bundle's end. */
int apply_op(struct txn *t, struct op *op) QP_MUST_USE;

/* t->rc, or else the code that says what a missing row means. */
static inline int apply_missing(const struct txn *t, int code)
{
    return t->rc != QP_OK ? t->rc : code;
}

/* Error texts are kept up to LIMIT_ERROR_TEXT_SIZE; whoever has a longer one cuts it first. */
static inline int error_check(qp_str error)
{
    return error.n > LIMIT_ERROR_TEXT_SIZE ? QP_E_TOO_LARGE : QP_OK;
}

/* apply_status.c: a job's row; its status, after what it follows from has changed; one journal entry more. */
struct journal {
    int64_t seq;
    int64_t pos;
    int64_t at;
};
int job_find(struct txn *t, struct job_ref ref, struct job_row **out_job) QP_MUST_USE;
/* How many jobs of this workflow have a status: n more, or fewer. */
int counter_add(struct txn *t, const struct job_row *job, int64_t status, int64_t n) QP_MUST_USE;
int job_word_update(struct txn *t, struct job_row *job) QP_MUST_USE;
int job_state_close(struct txn *t, struct job_row *job, qp_str guid, int64_t state) QP_MUST_USE;
/* addr and guid say where the entry's row is, as in struct feed_entry. */
int journal_next(struct txn *t, struct job_ref ref, qp_str addr, qp_str guid,
                 struct journal *out_entry) QP_MUST_USE;
/* A journal entry with a row of its own, and the status that the job has now. */
int event_note(struct txn *t, struct job_ref ref, int64_t kind, qp_str addr, qp_str detail,
               int64_t *out_seq) QP_MUST_USE;

/* apply_message.c: a new message, READY, DELAYED or HELD as the op says; any message's next state,
 * with its lane's counters. MSG_NONE deletes it. */
int msg_insert(struct txn *t, struct op_msg_put *put) QP_MUST_USE;
int msg_move(struct txn *t, struct msg_row *m, enum msg_state state, int64_t wake_at,
             int64_t holder) QP_MUST_USE;
/* READY, or ASIDE when its job is paused. */
int msg_release(struct txn *t, struct msg_row *m) QP_MUST_USE;
/* The same for one whose holder is gone. One of `lost_kind` leaves a journal entry of it (ops.h). */
int msg_give_up(struct txn *t, struct msg_row *m, int64_t lost_kind) QP_MUST_USE;
/* Which limit of a message is over whose wake_at has come; TIME_LIMIT_NONE: its lease. */
enum time_limit msg_limit_over(const struct txn *t, const struct msg_row *m);
/* No worker has claimed it within its start limit: claimed for the engine, for hold_ms; 0: the limit begins again. Of a
 * paused job it is set aside. */
int msg_unstarted(struct txn *t, struct msg_row *m, int64_t hold_ms) QP_MUST_USE;

/* apply_hook.c, apply_key.c: a waiter goes; a hold goes and its units pass on. */
int hook_wait_remove(struct txn *t, const struct hook_wait_row *w) QP_MUST_USE;
/* apply_signal.c: a kept signal whose time is over, or whose job has ended, goes. Whether a record is of a signal's id, and what becomes of such a
 * one when it is due: it goes when the job that got the signal has ended long enough ago. */
int signal_expire(struct txn *t, const struct hook_sig_row *sig) QP_MUST_USE;
bool signal_record_is(const struct idem_row *record);
int signal_record_due(struct txn *t, const struct idem_row *record) QP_MUST_USE;
int key_hold_remove(struct txn *t, const struct key_hold_row *h) QP_MUST_USE;
int key_wait_remove(struct txn *t, const struct key_wait_row *w) QP_MUST_USE;

#endif
