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
