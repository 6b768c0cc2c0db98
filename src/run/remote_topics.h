/* remote_topics.h - topics that workers elsewhere ask for, and the calls that wait at each
 *
 * A topic is a service of the engine whose places are those of the calls that wait there. On the thread that drives.
 */
#ifndef QP_RUN_REMOTE_TOPICS_H
#define QP_RUN_REMOTE_TOPICS_H

#include "run/remote.h"

/* Waits at its topics. QP_E_NOMEM, QP_E_LIMIT. */
int waiters_add(struct work_poll *s) QP_MUST_USE;
void waiters_remove(struct work_poll *s);
/* Whether the next round looks into a stream for it. */
bool waiters_hope(const struct work_poll *s);
struct work_topic *topic_find(const struct remote *w, int64_t ns, qp_str name);
/* That of the i-th thing that the call serves: its topics, then the names that it announces. NULL: no memory, or there are
 * too many. */
struct work_topic *topic_need(qp *q, int64_t ns, const struct work_call *c, size_t i);
/* For the engine: what a round has promised is over. */
void work_settled(void *context, int round);
void remote_topics_done(qp *q);

#endif
