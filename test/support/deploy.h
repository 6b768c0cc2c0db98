/* deploy.h - a compiled application becomes rows, as one command of the engine: put, activated, its topics taken
 *
 *     struct deploy d = {.app = app};
 *     deploy_init(&d);
 *     d.command.answer = ...;
 *     engine_submit(e, &d.command);
 *
 * Or one that is there is activated, or deleted. The app and this live until it is answered. The same text again changes
 * nothing.
 */
#ifndef QP_TEST_DEPLOY_H
#define QP_TEST_DEPLOY_H

#include "kernel/engine.h"

struct app;

struct deploy {
    struct command command; /* first */
    const struct app *app;
    bool activates;                      /* a version that is there, and no more */
    bool deletes;                        /* the same, it goes */
    unsigned char hash[LIMIT_GUID_SIZE]; /* until the commit */
};

void deploy_init(struct deploy *d);

#endif
