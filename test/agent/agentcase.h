/* agentcase.h - one instance that meets all that works can do, in phases, for runs that are disturbed
 *
 *   A  task, 10 s    fails once and comes again; the second attempt takes long, then succeeds        needs (a), (c)
 *   D  dispatched    likewise, in its own job, which tells the instance                              need (b)
 *   W  wait          ends by an event                                                                need (e)
 *   F  task          fails for good; a person gives it another attempt                               need (d)
 *   C  child         asks for a task of its own
 *   V  wait          ends by an event, which ends the instance
 *   O  dispatched    outlives the instance
 *
 * Each hook appends what it was called for to the properties: so they tell what came, how often, and in which order.
 */
#ifndef QP_TEST_AGENTCASE_H
#define QP_TEST_AGENTCASE_H

#include "support/agentdrive.h"

#define AGENTCASE_LOG "sA sA tA +A sW sD sD tD +D eW +W sF -F sF +F sC +C sV eV +V "

struct agentcase {
    enum storetest_kind kind;
    bool stepwise;
    bool dies;       /* with fail_at */
    int64_t kill_at; /* after so many commits; 0: never */
    int64_t fail_at; /* the failpoint that fails, counted from the start; 0: none */
};

struct agentcase_end {
    int64_t commits;
    bool disturbed;
};

/* Plays it to the end; asserts the log, the jobs, that no attempt had two onStart, and that fsck finds nothing. `out` gets what
 * agentdrive_show says. */
struct agentcase_end agentcase_run(const struct agentcase *c, struct buf *out);

#endif
