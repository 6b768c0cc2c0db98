/* serve.h - a server of the program's own, with more around it: quipu serve, quipu dev */
#ifndef QP_CLI_SERVE_H
#define QP_CLI_SERVE_H

#include "cli/cli.h"
#include "server/server.h"

struct serve_more {
    void *context;
    bool programs; /* there will be workers that take their time: threads for them */
    /* When it can be asked, over `socket` ("unix:..."; empty: it has none). Another code than EXIT_OK ends it. */
    int (*opened)(void *context, struct server *server, const char *socket);
    void (*look)(void *context); /* every look_ms */
    void (*ending)(void *context);
    qp_ms look_ms;
};

/* Serves as the options say until it is asked to end; after cli_settings. NULL functions are not called. */
int serve_with(struct cli *c, const struct serve_more *more);

#endif
