/* people.h - what people read: spans and ages in words, and how a job and its activities stand
 *
 * A line shows the work as its author named it; ledgers, keys and addresses are for -o wide. Times are spans: how long it
 * took, how long ago, how long until. Lines are cut at the width of a terminal, and whole elsewhere.
 */
#ifndef QP_CLI_PEOPLE_H
#define QP_CLI_PEOPLE_H

#include "cli/output.h"
#include "cli/words.h"

/* How things are shown, for all lines of one command. */
struct people {
    qp_ms now;
    bool colors;
    int width;       /* of the terminal; 0: lines are whole */
    qp_str unserved; /* the topic that no worker serves; empty: none */
    int label_width; /* of the first column */
};
/* Of stdout, now. */
void people_init(struct people *p, const struct cli *c);

/* The activity as its author named it: "pay", "look[2]" in the third round, "{2, 1} reserve" of a flow. Columns, about. */
int people_label(FILE *out, const struct json *activity);
/* How many generations below the top of a history an activity is: 0 without a location. */
int people_depth(const struct json *activity);
/* Whether people want to see it: not what the engine has beside the work, once that is done. */
bool people_shows(const struct json *activity);
/* The width of the first column for these activities. */
int people_label_width(const struct json *const *activities, size_t count);
/* "  ACTIVITY  STATUS  TIME  DETAIL", and a line for an activity. */
void people_titles(const struct people *p);
void people_activity(const struct people *p, const struct json *activity);
/* The lines about the job itself. */
void people_job(const struct people *p, const struct json *job);

/* A line for each activity of a graph that no way leads to any more: it has no row of its own. */
void people_skipped(const struct people *p, const struct json *job);

#endif
