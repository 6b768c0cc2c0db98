/* request_ask.h - a question that only the job's kind understands, as a command (see request.h)
 *
 * The question is decided inside the commit that holds it, with the job's row locked. ask_begin and ask_end are for other
 * requests that give the kind a turn of its own.
 */
#ifndef QP_KERNEL_REQUEST_ASK_H
#define QP_KERNEL_REQUEST_ASK_H

#include "kernel/engine.h"
#include "kernel/face.h"
#include "kernel/request_parts.h"

/* Something that only the job's kind understands (face.ask), of an open job. QP_E_NOT_FOUND; QP_E_CLOSED; QP_E_UNSUPPORTED: its
 * kind has no answer; else what the kind says, with its refusal. With a key: QP_E_EXISTS, it was asked before. */
struct request_ask {
    struct command command;
    struct request_keyed keyed;
    int64_t ns;
    qp_str jid;
    struct kind_question question;
    struct refusal refusal; /* as in request_start */
};
void request_ask(struct request_ask *r);

/* The turn of a question, at the job's trigger, and what it has named is carried out. For requests. */
int ask_begin(struct engine *e, struct command *c, struct bundle *b, const struct job_row *job,
              struct turn *out_turn) QP_MUST_USE;
int ask_end(struct turn *t) QP_MUST_USE;

#endif
