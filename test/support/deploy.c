/* deploy.c - a compiled application becomes rows (see deploy.h) */
#include "support/deploy.h"

#include "base/hash.h"
#include "graph/library.h"
#include "kernel/chores.h"
#include "kernel/step.h"

static int put_topics(struct bundle *b, const struct app *app)
{
    int rc = QP_OK;
    for (size_t i = 0; i < app->graph_count + app->hook_count && rc == QP_OK; i++) {
        bool hook = i >= app->graph_count;
        struct op op = {.kind = OP_topic_put,
                        .topic_put = {.ns = STORE_NS_DEFAULT,
                                      .kind = hook ? APP_TOPIC_HOOK : APP_TOPIC_START,
                                      .topic = hook ? app->hooks[i - app->graph_count].topic
                                                    : app->graphs[i].subscribes,
                                      .app = app->id,
                                      .version = app->version}};
        rc = step_op(b, &op);
    }
    return rc;
}

static int deploy_delete(struct bundle *b, const struct app *app)
{
    struct op_app_delete op = {.ns = STORE_NS_DEFAULT, .app = app->id, .version = app->version};
    qp_str name;
    QP_TRY(version_name(&b->commit->arena, app->id, app->version, &name));
    return delete_version(b, &op, name);
}

static int deploy_decide(struct engine *e, struct command *c, struct bundle *b)
{
    struct deploy *d = (struct deploy *)c;
    const struct app *app = d->app;
    struct op put = {.kind = OP_app_put,
                     .app_put = {.ns = STORE_NS_DEFAULT,
                                 .app = app->id,
                                 .version = app->version,
                                 .source = app->source,
                                 .hash = {(const char *)d->hash, sizeof d->hash}}};
    struct op activate = {
        .kind = OP_app_activate,
        .app_activate = {.ns = STORE_NS_DEFAULT, .app = app->id, .version = app->version}};
    int rc = QP_OK;
    (void)e;
    if (d->deletes) {
        return deploy_delete(b, app);
    }
    hash_guid("app", 3, app->source.p, app->source.n, d->hash);
    rc = d->activates ? QP_OK : step_op(b, &put);
    rc = rc == QP_OK ? step_op(b, &activate) : rc;
    rc = rc == QP_OK ? put_topics(b, app) : rc;
    return rc == QP_OK ? bundle_run(b) : rc;
}

void deploy_init(struct deploy *d)
{
    d->command.label = "deploy";
    d->command.decide = deploy_decide;
}
