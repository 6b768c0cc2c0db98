/* job_show.h - how the activities of a job are shown: by show, history, watch and the demo */
#ifndef QP_CLI_JOB_SHOW_H
#define QP_CLI_JOB_SHOW_H

#include "cli/output.h"

/* Activities of an answer: a history by its locations, all else in the order in which it was entered; at most `most` are
 * put into `out`. How many. */
size_t job_activities(const struct json *answer, const struct json **out, size_t most);
/* Sorts activities so. */
void job_sort(const struct json **activities, size_t count);
/* Its location and version, "{2, 1}v1", or its address; how wide that is. */
int job_print_place(FILE *out, const struct json *activity);
/* One event of a history, as a line with its ledger; nothing of an activity that has no location. */
void job_print_located(const struct json *activity);
/* Whether the job has a history of locations: the events are the first of its activities. */
int job_is_located(struct cli *c, const char *id, bool *out_is);

#endif
