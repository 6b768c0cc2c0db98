/* program.h - workers that are programs: --exec TOPIC=PROGRAM
 *
 * The task's input is the program's stdin, its stdout the output, and when it fails, its stderr is the error. What it is about
 * stands in its environment: QUIPU_JOB, QUIPU_TOPIC, QUIPU_KEY, QUIPU_ATTEMPT.
 *
 * If we crash while a program runs, its task is ready again for whoever comes next, with a higher attempt.
 */
#ifndef QP_CLI_PROGRAM_H
#define QP_CLI_PROGRAM_H

#include "cli/cli.h"

struct program_worker {
    struct cli *c;
    const char *program;
};

/* Adds all of --exec; `workers` outlive the engine. */
int programs_add(struct cli *c, qp *q, struct program_worker workers[CLI_MANY]);

#endif
