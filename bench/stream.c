/* stream.c - a stream that is kept at its size (see stream.h) */
#include "stream.h"

#include "base/env.h"
#include "base/hash.h"
#include "place.h"

#define CLAIM 100
#define PAYLOAD QP_STR("{\"order\":12345,\"amount\":\"99.95\",\"currency\":\"EUR\"}")

static void commit(struct stream *s)
{
    if (store_commit(s->store, &s->commit) != QP_OK) {
        die("commit", s->commit.err.text);
    }
    for (const struct bundle *b = s->commit.first; b != NULL; b = b->next) {
        if (b->rc != QP_OK) {
            die(b->label, qp_code_text(b->rc));
        }
    }
}

static void put(struct stream *s, struct bundle *b)
{
    char *guid = arena_bytes(&s->commit.arena, LIMIT_GUID_SIZE);
    struct op *op = bundle_op(b, OP_msg_put);
    if (guid == NULL || op == NULL) {
        die("put", "out of memory");
    }
    s->put++;
    hash_guid(&s->put, sizeof s->put, "", 0, (unsigned char *)guid);
    /* Each belongs to a number of its own, as each task does to its job. */
    op->msg_put = (struct op_msg_put){.ref = {STORE_NS_DEFAULT, s->put},
                                      .owner = OWNER_SCHEDULE,
                                      .guid = {guid, LIMIT_GUID_SIZE},
                                      .topic = QP_STR("charge"),
                                      .payload = PAYLOAD};
}

static void put_many(struct stream *s, int64_t count)
{
    commit_reset(&s->commit);
    for (int64_t i = 0; i < count; i++) {
        put(s, commit_bundle(&s->commit, "put"));
    }
    commit(s);
}

void stream_open(struct stream *s, const char *path, int64_t size)
{
    struct qp_env env;
    struct qp_err err;
    struct op *op;
    qp_env_init(&env);
    if (store_open(&env, &(struct store_options){.path = path}, &s->store, &err) != QP_OK) {
        die("open", err.text);
    }
    commit_init(&s->commit, s->store);
    op = bundle_op(commit_bundle(&s->commit, "enter"), OP_node_put);
    op->node_put = (struct op_node_put){.name = QP_STR("bench"), .state = NODE_RUNNING};
    commit(s);
    s->epoch = op->node_put.out_epoch;
    for (int64_t left = size; left > 0; left -= 2000) {
        put_many(s, left < 2000 ? left : 2000);
    }
}

void stream_round(struct stream *s)
{
    static struct msg_ref refs[CLAIM];
    static char guids[CLAIM][LIMIT_GUID_SIZE];
    struct op *claim;
    size_t count;
    double from = now_s();
    commit_reset(&s->commit);
    claim = bundle_op(commit_bundle(&s->commit, "claim"), OP_msg_claim);
    claim->msg_claim = (struct op_msg_claim){
        .ns = STORE_NS_DEFAULT, .topic = QP_STR("charge"), .want = CLAIM, .holder = s->epoch};
    commit(s);
    count = claim->msg_claim.out_count;
    for (size_t i = 0; i < count; i++) {
        const struct msg_row *m = claim->msg_claim.out_messages[i];
        memcpy(guids[i], m->guid.p, LIMIT_GUID_SIZE);
        refs[i] = (struct msg_ref){m->ns, m->job, {guids[i], LIMIT_GUID_SIZE}, m->token};
    }
    commit_reset(&s->commit);
    for (size_t i = 0; i < count; i++) {
        struct bundle *b = commit_bundle(&s->commit, "ack");
        bundle_op(b, OP_msg_ack)->msg_ack = (struct op_msg_ack){refs[i]};
        put(s, b);
    }
    commit(s);
    s->seconds += now_s() - from;
    s->claimed += (int64_t)count;
}

void stream_close(struct stream *s)
{
    struct qp_err err;
    commit_done(&s->commit);
    if (store_close(s->store, &err) != QP_OK) {
        die("close", err.text);
    }
}
