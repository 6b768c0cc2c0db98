/* host.c - the host's own writes in a commit, and what they returned (see struct host_tx) */
#include <stdio.h>

#include "run/handle.h"

int host_run(void *host, void *native)
{
    struct host_tx *h = host;
    h->code = h->tx(h->context, native);
    return h->code;
}

const char *host_why(const struct host_tx *h, int rc, const char *why, char text[HOST_TEXT_SIZE])
{
    if (rc != QP_E_ABORTED || h->tx == NULL || h->code == QP_OK) {
        return why;
    }
    (void)snprintf(text, HOST_TEXT_SIZE, "%s: it returned %d", qp_code_text(rc), h->code);
    return text;
}
