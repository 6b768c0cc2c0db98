/* publish.c - publications: what a job tells the rest of the world (see program.h)
 *
 *   I1  a publication is an entry of the job's journal, in the commit of the step that makes it; streams read it from the feed
 *   I2  a workflow that has the topic as its name starts a job in the same commit. Its id follows from the publishing job's
 *       step, so a step that runs again starts none beside it
 *   I3  what a subscriber refuses does not stop the publisher: an entry says why (EVENT_REFUSED)
 *
 * A job does not start by what its own workflow publishes. If we crash before the commit, nothing was published; after it, the
 * entry stands, and the job begins by the message that stands beside it.
 */
#include <stdio.h>

#include "kernel/face.h"
#include "kernel/turn_internal.h"

static_assert(LIMIT_PAYLOAD_SIZE == 2097152, "a sentence below names it");

static int refuse(struct turn *t, qp_str topic, int64_t code, const char *why)
{
    return turn_note(
        t, EVENT_REFUSED,
        &(struct event_facts){
            .topic = topic, .code = code, .error = str_from(why), .address = t->site.addr});
}

/* Whether a workflow, and no plain topic, has this name now. */
static int is_workflow(struct turn *t, qp_str topic, bool *out_is)
{
    struct faces *faces = turn_faces(t);
    struct meaning meaning = {.kind = MEANS_NOTHING};
    *out_is = false;
    if (faces == NULL || str_equal(topic, t->job->workflow)) {
        return QP_OK;
    }
    QP_TRY(names_find(faces->names, t->bundle, turn_arena(t), t->site.ref.ns, NAME_START, topic,
                      &meaning));
    *out_is = meaning.kind != MEANS_NOTHING;
    return QP_OK;
}

static int subscriber_start(struct turn *t, const struct publication *p)
{
    struct naming name = {.ns = t->site.ref.ns,
                          .name = p->topic,
                          .input = str_is_none(p->data) ? QP_STR("{}") : p->data,
                          .caller = t->job->version,
                          .caller_kind = t->job->kind};
    struct call_job call = {.workflow = p->topic,
                            .input = name.input,
                            .purpose =
                                p->code == CODE_PENDING ? QP_STR("emitted") : QP_STR("published"),
                            .detached = true,
                            .close = CLOSE_ABANDON};
    struct qp_err err = {0};
    int rc;
    if (name.input.n > LIMIT_PAYLOAD_SIZE) {
        return refuse(t, p->topic, 413,
                      "the data are too large for an input: the limit is 2097152 bytes");
    }
    rc = faces_start(turn_faces(t), t->bundle, &name, &err);
    if (rc == QP_E_SHAPE || rc == QP_E_INVALID || rc == QP_E_NOT_FOUND) {
        return refuse(t, p->topic, rc == QP_E_NOT_FOUND ? 404 : 422, err.text);
    }
    QP_TRY(rc);
    call.kind = name.kind;
    call.version = name.version;
    return turn_call(t, &call);
}

int turn_publish(struct turn *t, const struct publication *p)
{
    struct op op = {
        .kind = OP_event_add,
        .event_add = {.ref = t->site.ref, .kind = EVENT_PUBLISHED, .addr = t->site.addr}};
    bool starts = false;
    QP_TRY(publication_write(store_env(t->bundle->commit->store), turn_arena(t), p,
                             &op.event_add.detail));
    QP_TRY(turn_op(t, &op));
    if (p->code >= 400) {
        return QP_OK;
    }
    QP_TRY(is_workflow(t, p->topic, &starts));
    return starts ? subscriber_start(t, p) : QP_OK;
}
