/* failpoint.h - named places where a test can make the world fail
 *
 * A failpoint is compiled in only with -DQP_FAILPOINTS (the test objects); in the shipped objects
 * FP() is the constant QP_OK. Names are listed from the source by tools/failpoints: every FP("...")
 * literal, and every name that the tables of ops and rows give rise to. A name that no test hits
 * fails `make check`.
 *
 * Spec, for failpoint_set: "name=action[@n]" where action is kill | error | delay(ms) | call | off, n is
 * the hit from which it acts (default 1), once; "name=error@3+" acts from the third hit on, for
 * good. `*` as name means any point. Test-only state is global by nature: it is shared by all
 * handles of the process. Not thread-safe to set.
 */
#ifndef QP_BASE_FAILPOINT_H
#define QP_BASE_FAILPOINT_H

#include "base/base.h"

/* PLANTS are bugs on purpose, one at a time, so that the simulator can show that it would find them
 * (test/sim/test_plants.c). In the shipped objects PLANT() is the constant false. */
#define PLANT_LIST(X)                                                                              \
    X(blind_increment)   /* a second delivery of a GUID counts as another entry */                 \
    X(dropped_compare)   /* the digit that ends an activity is not compared */                     \
    X(job_before_guid)   /* a closed job refuses a GUID that is half done (H2) */                  \
    X(ack_before_commit) /* commands are answered well, whatever becomes of the commit */          \
    X(early_timer)       /* timers fire before their time */                                       \
    X(lost_wake)         /* whoever gets a key that came free is not told */                       \
    X(double_wake)       /* and is told again when the next one comes free */                      \
    X(fresh_guid)        /* a response has a new GUID each time, and its task is not acked */      \
    X(unfenced)          /* the token of a claim is not compared */                                \
    X(loose_semaphore)   /* a move commits with the next one, not with its own digit */            \
    X(skipped_position)  /* the feed is read past transactions that are still open */              \
    X(double_release)    /* a key that was released is released again when its job ends */         \
    X(limit_ignored)     /* a task that is born into a worker's hands asks for no limit */         \
    X(limit_forgotten)   /* a place that comes free under a limit is not given out again */        \
    X(forgotten_signal)  /* the id of a signal that was delivered is not remembered */             \
    X(signal_twice)      /* a signal that was kept for a job is delivered, and still kept */       \
    X(decision_twice)    /* the events of a decision that is resumed are counted again */          \
    X(decision_hole)     /* a decision that dies between its steps has lost its first event */     \
    X(stale_names)      /* names mean what they meant when the node last looked between commits */ \
    X(node_alone)       /* an item is a duplicate whatever the context its node was expanded in */ \
    X(lost_way)         /* an item that is through does not say so to the next gate */             \
    X(stale_properties) /* a replay that is left posts what properties were, and it is written */  \
    X(result_twice)     /* a result of a work is taken again when its answer is resumed */         \
    X(event_lost)       /* a decision that ends an instance does not look into the buffer */       \
    X(event_missed)     /* a wait does not look at the events of the batch that asked for it */

#ifdef QP_FAILPOINTS
enum plant {
    PLANT_none,
#define PLANT_NAME(name) PLANT_##name,
    PLANT_LIST(PLANT_NAME)
#undef PLANT_NAME
        PLANT_COUNT
};
extern enum plant plant_set; /* the one that grows */
#define PLANT(name) (plant_set == PLANT_##name)
#else
#define PLANT(name) false
#endif

#ifdef QP_FAILPOINTS
#define FP(name) failpoint_hit(name)
/* QP_OK, or the error code to fail with. Does not return when the action is kill (SIGKILL to
 * itself). */
int failpoint_hit(const char *name);
int failpoint_set(
    const char *spec); /* QP_E_INVALID when it cannot be read; NULL clears all actions */
int64_t failpoint_hits(const char *name); /* since the start or failpoint_reset; "*" sums all */
/* What the action `call` calls, before the point is passed. */
void failpoint_on_call(void (*call)(void *context), void *context);
void failpoint_reset(void);
void failpoint_each(void (*visit)(void *context, const char *name, int64_t hits), void *context);
#else
#define FP(name) ((void)(name), QP_OK)
#endif

#endif
