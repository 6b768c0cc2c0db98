/* bench_backlog.c - claims from a backlog of 1,000 messages and of 1,000,000
 *
 * A stream is filled to its size and kept there: every claim of a hundred is acked, and as many new messages are
 * put, each in one commit. What is told is the speed of these rounds and the memory of the process: both
 * should not depend on how much waits. The sizes run in turns in one process, so that a noisy machine
 * is noisy for both. SQLite, synchronous=FULL, in $TMPDIR.
 *
 * BENCH_SMOKE=1 only shows that it runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/env.h"
#include "base/hash.h"
#include "place.h"
#include "store/store.h"

#define CLAIM 100
#define PAYLOAD QP_STR("{\"order\":12345,\"amount\":\"99.95\",\"currency\":\"EUR\"}")

struct stream {
    char path[320];
    struct store *store;
    struct commit commit;
    int64_t epoch;
    int64_t put; /* so far */
    double seconds;
    int64_t claimed;
};

/* Resident memory, in MiB. */
static double resident_mib(void)
{
    char text[256] = {0};
    FILE *f = fopen("/proc/self/statm", "r");
    char *end;
    if (f == NULL || fgets(text, sizeof text, f) == NULL) {
        die("statm", "cannot be read");
    }
    (void)fclose(f);
    (void)strtoll(text, &end, 10);
    return (double)strtoll(end, NULL, 10) * (double)sysconf(_SC_PAGESIZE) / (1024 * 1024);
}

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

static void stream_open(struct stream *s, const char *dir, int64_t size)
{
    struct qp_env env;
    struct qp_err err;
    struct op *op;
    (void)snprintf(s->path, sizeof s->path, "%s/%lld.db", dir, (long long)size);
    qp_env_init(&env);
    if (store_open(&env, &(struct store_options){.path = s->path}, &s->store, &err) != QP_OK) {
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

/* One claim, its acks, and as many new messages. */
static void stream_round(struct stream *s)
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

static void stream_close(struct stream *s)
{
    struct qp_err err;
    commit_done(&s->commit);
    if (store_close(s->store, &err) != QP_OK) {
        die("close", err.text);
    }
    file_remove(s->path);
}

int main(void)
{
    bool smoke = getenv("BENCH_SMOKE") != NULL;
    static const int64_t sizes[] = {1000, 1000000};
    static struct stream streams[ARRAY_COUNT(sizes)];
    double memory[ARRAY_COUNT(sizes)];
    int rounds = smoke ? 5 : 400;
    struct place place;
    place_make(&place);
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        double before = resident_mib();
        stream_open(&streams[i], place.dir, smoke && sizes[i] > 10000 ? 10000 : sizes[i]);
        memory[i] = resident_mib() - before;
    }
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
            stream_round(&streams[i]);
        }
    }
    printf("%12s %14s %22s %8s\n", "backlog", "messages/s", "memory of filling, MiB", "ratio");
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        const struct stream *s = &streams[i];
        double speed = (double)s->claimed / s->seconds;
        double first = (double)streams[0].claimed / streams[0].seconds;
        printf("%12lld %14.0f %22.1f %8.2f\n", (long long)sizes[i], speed, memory[i],
               speed / first);
    }
    printf("resident at the end: %.1f MiB\n", resident_mib());
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        stream_close(&streams[i]);
    }
    place_remove(&place);
    return 0;
}
