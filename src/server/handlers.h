/* handlers.h - the handlers of routes.def: one per row, each answers its call */
#ifndef QP_SERVER_HANDLERS_H
#define QP_SERVER_HANDLERS_H

#include "server/api.h"

#define ROUTE(name, method, path, scope, flags, parameters, body, answer, status, summary)         \
    void endpoint_##name(struct api_call *c);
#include "server/routes.def"
#undef ROUTE

/* wait.c: keeps the call until the job has ended (200) or the time is over (202), and answers
 * with the job. */
void wait_for_job(struct api_call *c, qp_str id, qp_ms within_ms);

/* job_calls.c: answers with a page of the jobs that fit a filter, as the parameters of the call ask. */
void api_list_jobs(struct api_call *c, qp_str where);

/* events.c: answers with a stream of a job's events, or of all that fit a filter. */
bool wants_events(const struct api_call *c);
void follow_job(struct api_call *c, qp_str id);
void follow_jobs(struct api_call *c, qp_str where);
/* Only publications on a topic: of one job, from its beginning; or of all (job none), from now on. */
void follow_topic(struct api_call *c, qp_str topic, qp_str job);

/* openapi.c */
void openapi_write(struct buf *out);

/* page.c */
void page_write(struct buf *out);
void front_write(struct buf *out);

#endif
