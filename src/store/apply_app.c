/* apply_app.c - versions of applications, and the topics that lead to them
 *
 *   I1  what a version is made of never changes: it is written once, and the same version with another
 *       hash is refused, also while it is deleted and not collected yet
 *   I2  at most one version of an application is active                                 (fsck D1)
 *   I3  a topic leads to one application, and to a version of it that is there and not deleted (fsck D2); or it is the
 *       name of a flow, for good
 *   I4  whatever changes what a name means changes the number of definitions in the same commit
 *
 *                 app_put            app_activate
 *       (none) ------------> DEPLOYED -----------> ACTIVE
 *          ^                  |   ^  <---------------' app_activate of another version
 *          |       app_delete |   | app_put, same hash
 *          |                  v   |
 *          '-- app_collect - DELETED
 *
 * A deleted version is hidden: it cannot be activated, and no job begins with it. Its text stays for the jobs that
 * began with it in the moment of its deletion; app_collect takes it away (kernel/chores.c).
 *
 * Deploying, activating and the topics that go with it are one bundle of whoever does it: if we crash before
 * its commit, the version before is still the active one, with its topics.
 */
#include "store/apply.h"

static bool name_is_sound(qp_str name)
{
    return name.n > 0 && name.n <= LIMIT_NAME_SIZE;
}

/* The version gets another state, and names another meaning. `at`: activated_at. */
static int app_set(struct txn *t, const struct app_row *key, enum app_state state, qp_ms at)
{
    struct app_row *row = txn_edit(t, TABLE_app, key);
    if (row == NULL) {
        return apply_missing(t, QP_E_NOT_FOUND);
    }
    row->state = state;
    row->activated_at = at;
    txn_define(t);
    return QP_OK;
}

/* The version, as long as it is not deleted; NULL: it is not there. */
static const struct app_row *app_get(struct txn *t, const struct app_row *key)
{
    const struct app_row *row = txn_get(t, TABLE_app, key);
    return row == NULL || row->state == APP_DELETED ? NULL : row;
}

int apply_app_put(struct txn *t, struct op_app_put *op)
{
    struct app_row row = {.ns = op->ns,
                          .app = op->app,
                          .version = op->version,
                          .source = op->source,
                          .hash = op->hash,
                          .created_at = t->now};
    const struct app_row *there;
    if (!name_is_sound(op->app) || !name_is_sound(op->version) || !name_is_sound(op->hash)) {
        return QP_E_INVALID;
    }
    if (op->source.n > LIMIT_PAYLOAD_HARD_SIZE) {
        return QP_E_TOO_LARGE;
    }
    there = txn_get(t, TABLE_app, &row);
    if (there != NULL) {
        return !str_equal(there->hash, op->hash) ? QP_E_CONFLICT
               : there->state != APP_DELETED     ? QP_E_EXISTS
                                                 : app_set(t, &row, APP_DEPLOYED, 0);
    }
    return t->rc != QP_OK || txn_add(t, TABLE_app, &row) == NULL ? t->rc : QP_OK;
}

/* The version that is active; NULL: none is. */
static int active_version(struct txn *t, const struct app_row *of, const struct app_row **out_row)
{
    struct bundle_rows found;
    int rc = txn_scan(t,
                      &(struct scan){.table = TABLE_app,
                                     .index = INDEX_app_active,
                                     .prefix = of,
                                     .prefix_count = 2,
                                     .limit = 1},
                      &found);
    if (rc == QP_OK) {
        *out_row = found.count > 0 ? found.rows[0] : NULL;
    }
    return rc;
}

/* Two first versions have no row in common that either would wait at: both find none active. So who activates holds the
 * namespace's row, and looks only then. */
static int take_turn(struct txn *t, int64_t ns)
{
    return txn_get(t, TABLE_space, &(struct space_row){.ns = ns}) == NULL
               ? apply_missing(t, QP_E_NOT_FOUND)
               : QP_OK;
}

int apply_app_activate(struct txn *t, struct op_app_activate *op)
{
    struct app_row key = {.ns = op->ns, .app = op->app, .version = op->version};
    const struct app_row *was = NULL;
    QP_TRY(take_turn(t, op->ns));
    if (app_get(t, &key) == NULL) {
        return apply_missing(t, QP_E_NOT_FOUND);
    }
    QP_TRY(active_version(t, &key, &was));
    op->out_was = was == NULL ? QP_NONE : was->version;
    if (was != NULL && str_equal(was->version, op->version)) {
        return QP_OK;
    }
    if (was != NULL) {
        QP_TRY(app_set(t, was, APP_DEPLOYED, was->activated_at));
    }
    return app_set(t, &key, APP_ACTIVE, t->now);
}

/* Whether a topic leads to this version. */
static int has_topic(struct txn *t, const struct app_row *app, bool *out_has)
{
    struct app_topic_row of = {.ns = app->ns, .app = app->app};
    struct scan scan = {.table = TABLE_app_topic,
                        .index = INDEX_app_topic_app,
                        .prefix = &of,
                        .prefix_count = 2,
                        .limit = LIMIT_SWEEP_ROWS};
    struct bundle_rows page = {0};
    int rc;
    *out_has = false;
    do {
        scan.after = page.count > 0 ? page.rows[page.count - 1] : NULL;
        rc = txn_scan(t, &scan, &page);
        for (size_t i = 0; rc == QP_OK && i < page.count && !*out_has; i++) {
            const struct app_topic_row *topic = page.rows[i];
            *out_has = str_equal(topic->version, app->version);
        }
    } while (rc == QP_OK && !*out_has && (page.count == scan.limit || page.cut));
    return rc;
}

int apply_app_delete(struct txn *t, struct op_app_delete *op)
{
    struct app_row key = {.ns = op->ns, .app = op->app, .version = op->version};
    const struct app_row *row;
    bool has = false;
    QP_TRY(take_turn(t, op->ns));
    row = app_get(t, &key);
    if (row == NULL) {
        return apply_missing(t, QP_E_NOT_FOUND);
    }
    if (row->state == APP_ACTIVE) {
        return QP_E_CONFLICT;
    }
    QP_TRY(has_topic(t, row, &has));
    op->out_at = t->now;
    return has ? QP_E_CONFLICT : app_set(t, &key, APP_DELETED, t->now);
}

int apply_app_collect(struct txn *t, struct op_app_collect *op)
{
    struct app_row key = {.ns = op->ns, .app = op->app, .version = op->version};
    const struct app_row *row = txn_get(t, TABLE_app, &key);
    if (row == NULL) {
        return apply_missing(t, QP_E_NOT_FOUND);
    }
    if (row->state != APP_DELETED || row->activated_at != op->at) {
        return QP_E_CONFLICT;
    }
    txn_drop(t, TABLE_app, &key);
    txn_define(t);
    return t->rc;
}

/* The topic leads nowhere any more, if it led here. */
static int topic_drop(struct txn *t, const struct app_topic_row *row)
{
    const struct app_topic_row *there = txn_get(t, TABLE_app_topic, row);
    if (there != NULL && str_equal(there->app, row->app)) {
        txn_drop(t, TABLE_app_topic, row);
        txn_define(t);
    }
    return t->rc;
}

/* A name that starts jobs means one thing: the same topic as START and as FLOW is refused. Two that take it at once hold
 * the namespace's row, since they have no other row in common. */
static int topic_is_free(struct txn *t, struct op_topic_put *op)
{
    struct app_topic_row row = {.ns = op->ns, .topic = op->topic};
    const struct app_topic_row *other;
    if (op->kind == APP_TOPIC_HOOK) {
        return QP_OK;
    }
    QP_TRY(take_turn(t, op->ns));
    row.kind = op->kind == APP_TOPIC_FLOW ? APP_TOPIC_START : APP_TOPIC_FLOW;
    other = txn_get(t, TABLE_app_topic, &row);
    if (other != NULL) {
        op->out_app = other->app;
        return QP_E_CONFLICT;
    }
    return t->rc;
}

/* The name of a flow, for good. */
static int flow_put(struct txn *t, struct op_topic_put *op)
{
    struct app_topic_row row = {.ns = op->ns,
                                .kind = APP_TOPIC_FLOW,
                                .topic = op->topic,
                                .app = op->topic,
                                .version = APP_FLOW_VERSION};
    if (!name_is_sound(op->topic)) {
        return QP_E_INVALID;
    }
    QP_TRY(topic_is_free(t, op));
    if (txn_get(t, TABLE_app_topic, &row) != NULL || t->rc != QP_OK) {
        return t->rc;
    }
    txn_define(t);
    return txn_add(t, TABLE_app_topic, &row) == NULL ? t->rc : QP_OK;
}

int apply_topic_put(struct txn *t, struct op_topic_put *op)
{
    struct app_topic_row row = {
        .ns = op->ns, .kind = op->kind, .topic = op->topic, .app = op->app, .version = op->version};
    struct app_row key = {.ns = op->ns, .app = op->app, .version = op->version};
    struct app_topic_row *there;
    if (op->kind == APP_TOPIC_FLOW) {
        return flow_put(t, op);
    }
    if (op->kind < APP_TOPIC_START || op->kind >= APP_TOPIC_KINDS || !name_is_sound(op->topic) ||
        !name_is_sound(op->app)) {
        return QP_E_INVALID;
    }
    if (str_is_none(op->version)) {
        return topic_drop(t, &row);
    }
    if (app_get(t, &key) == NULL) {
        return apply_missing(t, QP_E_NOT_FOUND);
    }
    QP_TRY(topic_is_free(t, op));
    there = txn_edit(t, TABLE_app_topic, &row);
    if (there == NULL) {
        txn_define(t);
        return t->rc != QP_OK || txn_add(t, TABLE_app_topic, &row) == NULL ? t->rc : QP_OK;
    }
    if (!str_equal(there->app, op->app)) {
        op->out_app = there->app;
        return QP_E_CONFLICT;
    }
    if (!str_equal(there->version, op->version)) {
        there->version = op->version;
        txn_define(t);
    }
    return QP_OK;
}
