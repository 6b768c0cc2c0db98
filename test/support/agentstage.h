/* agentstage.h - a trace on a store: the face of agent workflows, driven by an engine under virtual time, with kills
 *
 * Every decision and every work is a task in the test's hands; its result, events, modes and reports are requests like any. With
 * run.kill_at the engine dies after that many commits, another one begins, and what was asked and not answered is asked
 * again. The struct is large: make it static.
 */
#ifndef QP_TEST_AGENTSTAGE_H
#define QP_TEST_AGENTSTAGE_H

#include "support/agenttrace.h"
#include "support/graphrun.h"

struct agentstage {
    struct graphrun run;
    int64_t now_ms;
    char id[64]; /* of the job */
    struct instance seen;
    unsigned asked; /* events and the like: their idempotency keys */
};

/* run.stepwise, run.at may be set before. */
void agentstage_init(struct agentstage *s, enum storetest_kind kind, const char *id);
void agentstage_done(struct agentstage *s);
struct tracestage agentstage_of(struct agentstage *s);
/* The arrays as they stand, as JSON. */
int agentstage_show(struct agentstage *s, struct buf *out);

#endif
