/* outcome.c - what a decision leaves for the engine to do after the commit (turn.h) */
#include "kernel/engine_internal.h"

/* What the ops have put out is taken before they go. A task that was not born claimed waits in
 * its stream. */
int outcome_seal(struct outcome *o, struct bundle *b)
{
    struct handed **link = &o->handed;
    QP_TRY(bundle_run(b));
    while (*link != NULL) {
        struct handed *h = *link;
        h->until = h->put != NULL ? h->put->out_until : h->until;
        h->token = h->put != NULL ? h->put->out_token : h->token;
        h->put = NULL;
        if (h->token == 0) {
            *link = h->next;
        } else {
            link = &h->next;
        }
    }
    return QP_OK;
}

bool outcome_later(struct outcome *o, const struct bundle *b)
{
    *o = (struct outcome){.later = b->commit->arena.total >= LIMIT_ROUND_SIZE};
    return o->later;
}
