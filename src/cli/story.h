/* story.h - the lines of a history: what happened to a job, one line an entry */
#ifndef QP_CLI_STORY_H
#define QP_CLI_STORY_H

#include "cli/people.h"

/* Prints an entry of the journal. `started` is when the job was: times are told from there, so that a line is the same
 * whenever it is printed. 0: not known. */
void story_line(const struct json *event, qp_ms started);
/* The same with all that the entry has: its exact time, address, ledger. */
void story_wide(const struct json *event);

#endif
