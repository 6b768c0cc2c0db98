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
    bool lives;     /* set before: its time is the store's, and waits have timers */
    int64_t now_ms; /* else: the time of all instances */
    char id[64];    /* of the job */
    struct instance seen;
    struct instance given;
    bool is_unnamed; /* set before: it is started by its canonical name alone */
    unsigned asked;  /* events and the like: their idempotency keys */
};

/* run.stepwise, run.at may be set before. */
void agentstage_init(struct agentstage *s, enum storetest_kind kind, const char *id);
void agentstage_done(struct agentstage *s);
struct tracestage agentstage_of(struct agentstage *s);

/* What a script does with one execution. False: the branch is left, not ended. */
typedef bool (*agentscript)(void *context, struct draft *draft, const struct branch *branch,
                            qp_str *properties);
/* Every decision in hand, up to AGENTSTAGE_DECISIONS of any job, is made by the script; all are brought together, as those of many
 * workers are, and share commits. Returns how many there were; s->id is that of the last one. */
#define AGENTSTAGE_DECISIONS 500
size_t agentstage_decide(struct agentstage *s, agentscript script, void *context);

/* One decision in hand, of any job; s->id is that of its instance then. And the result of any other task in hand. What was not
 * answered, since the engine died or the store failed, is left to be brought again. */
void agentstage_decide_one(struct agentstage *s, const struct task *task, agentscript script,
                           void *context);
void agentstage_bring(struct agentstage *s, const struct task *task, qp_str told);
/* Another attempt for what has failed; `part` NULL: all of it. */
int agentstage_retry(struct agentstage *s, const char *part);

/* The arrays as they stand, as JSON. */
int agentstage_show(struct agentstage *s, struct buf *out);

#endif
