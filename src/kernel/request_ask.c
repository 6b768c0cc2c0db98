/* request_ask.c - a question that only the job's kind understands, decided inside the commit that holds it (see request_ask.h)
 *
 *   I1  the job's row is locked before the kind is asked: what it reads is what stands there when the answer commits
 *   I2  the GUID of the turn follows from the job's journal, and the question leaves an entry there: no two have the same
 *   I3  a closed job is not asked, so nothing comes behind the commit that has closed it
 *
 * If we crash before the commit, it was not asked; after it, all that the kind has written stands.
 */
#include "kernel/request_ask.h"

#include <stdio.h>

#include "kernel/engine_internal.h"

static int ask_site(struct bundle *b, const struct job_row *job, struct site *out_site)
{
    char text[40];
    int n = snprintf(text, sizeof text, "ask %lld", (long long)job->seq);
    *out_site =
        (struct site){.ref = {job->ns, job->job}, .addr = TRIGGER_ADDRESS, .never_final = true};
    return step_guid(b, job->owner_guid, (qp_str){text, (size_t)n}, &out_site->guid);
}

int ask_begin(struct engine *e, struct command *c, struct bundle *b, const struct job_row *job,
              struct turn *out_turn)
{
    struct site site;
    QP_TRY(ask_site(b, job, &site));
    return turn_init(out_turn, engine_kernel(e), b, &c->outcome, &site);
}

int ask_end(struct turn *t)
{
    QP_TRY(bundle_run(t->bundle));
    return turn_answers(t);
}

static int ask_kind(struct engine *e, struct request_ask *r, struct bundle *b,
                    const struct job_row *job)
{
    struct faces *faces = engine_kernel(e)->faces;
    const struct faced *of = faces == NULL ? NULL : faces_of(faces, job->kind);
    struct qp_err err = {0};
    struct turn t;
    if (of == NULL || of->face->ask == NULL) {
        return QP_E_UNSUPPORTED;
    }
    QP_TRY(ask_begin(e, &r->command, b, job, &t));
    QP_TRY(refusal_keep(&r->refusal, b, of->face->ask(of->state, &t, &r->question, &err), &err));
    return ask_end(&t);
}

static int ask_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_ask *r = (struct request_ask *)c;
    const struct job_row *job = NULL;
    r->refusal = (struct refusal){0};
    QP_TRY(keyed_begin(&r->keyed, b));
    QP_TRY(request_job(b, r->ns, r->jid, &job));
    return job->closed_by.p != NULL ? QP_E_CLOSED : ask_kind(e, r, b, job);
}

void request_ask(struct request_ask *r)
{
    r->command.label = "ask";
    r->command.decide = ask_decide;
}
