/* host.c - the host's own writes in a commit, and single operations (see host.h) */
#include "run/host.h"

#include <stdio.h>

#include "run/enter.h"
#include "run/handle.h"
#include "run/loop.h"

int host_call(void *host, void *native)
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

/* ----------------------------------------------------------------------------- one operation in a commit */

struct op_call {
    struct call call;
    struct request_op op;
    struct host_tx host;
    const char *what;
};

static void op_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    struct request_op *r = (struct request_op *)c;
    struct op_call *x = (struct op_call *)((char *)r - offsetof(struct op_call, op));
    char text[HOST_TEXT_SIZE];
    (void)e;
    if (rc != QP_OK) {
        (void)err_set(x->call.err, rc, "%s: %s", x->what, host_why(&x->host, rc, why, text));
    }
    call_done(&x->call.q->driver, &x->call, rc);
}

static void op_execute(qp *q, struct call *c)
{
    struct op_call *x = (struct op_call *)c;
    request_op(&x->op);
    x->op.command.answer = op_answered;
    engine_submit(q->engine, &x->op.command);
}

int qp_exec(qp *q, qp_tx tx, void *context, struct qp_err *err)
{
    ENTER(q, tx != NULL, err);
    struct op_call x = {.call = {.execute = op_execute, .q = q},
                        .host = {.tx = tx, .context = context},
                        .what = "exec 'host'"};
    x.op.op = (struct op){.kind = OP_host_call, .host_call = {host_call, &x.host}};
    return call_do(&q->driver, &x.call, err);
}

int op_do(qp *q, struct op *op, const char *what, struct qp_err *err)
{
    struct op_call x = {.call = {.execute = op_execute, .q = q}, .op.op = *op, .what = what};
    int rc = call_do(&q->driver, &x.call, err);
    *op = x.op.op;
    return rc;
}
