/* agentdrive.h - instances that live in an engine: every decision and every work in hand is done by functions of the test
 *
 *     d.script = handle; d.work = answer;
 *     agentdrive_init(&d, kind, "flow");
 *     agentdrive_wait(&d, 60000);
 *     agentdrive_done(&d);
 *
 * On the store's time, with claims that tell of themselves. Decisions come first, then works in the order of their jobs' workflows and
 * addresses, so what comes of it does not depend on when a message was delivered. With stage.run.kill_at or stage.run.faults what
 * was brought and not answered is brought again. The struct is large: make it static.
 */
#ifndef QP_TEST_AGENTDRIVE_H
#define QP_TEST_AGENTDRIVE_H

#include "support/agentstage.h"

/* What a worker says of a work. */
enum agentreply {
    AGENTREPLY_DONE,  /* its output is its name */
    AGENTREPLY_AGAIN, /* it has failed, and comes again after AGENTDRIVE_AGAIN_MS */
    AGENTREPLY_FAIL,
    AGENTREPLY_KEEP, /* nothing yet */
};

#define AGENTDRIVE_AGAIN_MS 300
#define AGENTDRIVE_ID "i"

struct agentdrive {
    struct agentstage stage;
    agentscript script;
    enum agentreply (*work)(void *context, qp_str name, int64_t failures);
    void *context;
    struct arena arena; /* of what is read; until agentdrive_done */
};

/* stage.run.stepwise may be set before. The instance AGENTDRIVE_ID of this workflow is started. */
void agentdrive_init(struct agentdrive *d, enum storetest_kind kind);
void agentdrive_start(struct agentdrive *d, const char *workflow);
void agentdrive_done(struct agentdrive *d);

/* All that can be done now; and all that becomes due until then, each at its time. */
void agentdrive_settle(struct agentdrive *d);
void agentdrive_wait(struct agentdrive *d, qp_ms ms);

/* What clients ask, until it is answered. `part` NULL: all of it. Both return the answer, QP_OK for what was done before. */
int agentdrive_event(struct agentdrive *d, const char *name);
int agentdrive_retry(struct agentdrive *d, const char *part);

/* The instance as it stands. */
const struct instance *agentdrive_see(struct agentdrive *d);
/* Its arrays, and a line per job: workflow, status, output. What two runs of the same agree in. */
void agentdrive_show(struct agentdrive *d, struct buf *out);
/* A task in hand of a job of this workflow; NULL: none. */
const struct task *agentdrive_task(struct agentdrive *d, const char *workflow);

#endif
