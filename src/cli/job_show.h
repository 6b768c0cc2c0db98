/* job_show.h - how the activities of a job are shown: by show, by watch and by the demo */
#ifndef QP_CLI_JOB_SHOW_H
#define QP_CLI_JOB_SHOW_H

#include "cli/output.h"

/* Activities of an answer, parents before their children; at most `most` are put into `out`. How
 * many. */
size_t job_activities(const struct json *answer, const struct json **out, size_t most);
/* How many generations below the trigger an activity is: 0, or a comma more for each. */
int job_depth(qp_str address);
/* How an activity stands: of a graph's digit and word, else the state of its ledger. */
void job_print_standing(FILE *out, const struct json *activity);

#endif
