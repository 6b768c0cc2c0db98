/* opworld.c - a store prepared so that one op of every kind succeeds, and those ops (see
 * opworld.h) */
#include "support/opworld.h"

#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

#define DIGIT 1000000000
#define LEASE_MS 60000
#define DUE_MS 500

#define REF(number) ((struct job_ref){STORE_NS_DEFAULT, number})

/* The jobs of the preparation, by what they are there for. */
enum {
    JOB_PLAIN = 1001,
    JOB_ASIDE, /* paused, with a message set aside */
    JOB_SHUT,  /* closed, not finished, with something to sweep */
    JOB_OVER,  /* finished */
    JOB_TO_SHUT,
    JOB_TO_PAUSE,
    JOBS_END,
    JOB_NEW = 2001
};

const char *opworld_name(enum op_kind kind)
{
    static const char *const names[OP_COUNT] = {
#define OP(name) #name,
#include "store/ops.def"
#undef OP
    };
    return names[kind];
}

static qp_str guid(int number)
{
    static char guids[100][LIMIT_GUID_SIZE + 1];
    assert_true(number >= 0 && number < 100);
    (void)snprintf(guids[number], LIMIT_GUID_SIZE + 1, "op-guid-%08d", number);
    return (qp_str){guids[number], LIMIT_GUID_SIZE};
}

static qp_str jid(int64_t job)
{
    static char names[2000][16];
    char *name = names[job - 1000];
    (void)snprintf(name, sizeof names[0], "j-%lld", (long long)job);
    return str_from(name);
}

/* ---------------------------------------------------------------------------------- preparation */

static struct op *next(struct bundle *b, enum op_kind kind)
{
    struct op *op = bundle_op(b, kind);
    assert_non_null(op);
    return op;
}

#define ADD(bundle, name, ...) (next((bundle), OP_##name)->name = (struct op_##name){__VA_ARGS__})

static void enter(struct bundle *b, int64_t job, int number)
{
    ADD(b, guid_enter, .ref = REF(job), .addr = QP_STR("a"), .guid = guid(number));
}

static void move(struct bundle *b, int64_t job, int number, int64_t delta, bool open)
{
    ADD(b, sem_move, .ref = REF(job), .addr = QP_STR("a"), .guid = guid(number), .delta = delta,
        .n = delta, .open = open, .close_state = JOB_COMPLETED);
}

static void put(struct bundle *b, int64_t job, int number, qp_str topic)
{
    ADD(b, msg_put, .ref = REF(job), .guid = guid(number), .topic = topic,
        .payload = QP_STR("payload"));
}

static void prepare_jobs(struct bundle *b)
{
    for (int64_t job = JOB_PLAIN; job < JOBS_END; job++) {
        ADD(b, job_create, .ref = REF(job), .jid = jid(job), .workflow = QP_STR("w"),
            .version = QP_STR("1"), .owner_guid = guid(0), .body_hash = QP_STR("hash"));
        ADD(b, act_create, .ref = REF(job), .addr = QP_STR("a"), .category = 'B',
            .input = QP_STR("input"));
        enter(b, job, 1);
        move(b, job, 1, 3, true);
    }
    ADD(b, act_create, .ref = REF(JOB_PLAIN), .addr = QP_STR("c"), .category = 'A', .cyclic = 1);
    enter(b, JOB_PLAIN, 2); /* to be folded */
    move(b, JOB_PLAIN, 2, 0, false);
    enter(b, JOB_PLAIN, 3); /* to move */
    ADD(b, job_pause, .ref = REF(JOB_ASIDE));
    put(b, JOB_ASIDE, 10, QP_STR("ready"));
    put(b, JOB_SHUT, 11, QP_STR("elsewhere"));
    ADD(b, job_close, .ref = REF(JOB_SHUT), .guid = guid(1), .state = JOB_FAILED);
    ADD(b, job_close, .ref = REF(JOB_OVER), .guid = guid(1), .state = JOB_FAILED);
    ADD(b, job_finish, .ref = REF(JOB_OVER), .guid = guid(1), .output = QP_STR("out"));
}

static void prepare_messages(struct bundle *b, int64_t epoch)
{
    for (int number = 20; number < 26; number++) {
        put(b, JOB_PLAIN, number, QP_STR("held"));
    }
    ADD(b, msg_claim, .ns = STORE_NS_DEFAULT, .topic = QP_STR("held"), .want = 6,
        .lease_ms = LEASE_MS);
    put(b, JOB_PLAIN, 30, QP_STR("ready"));
    put(b, JOB_PLAIN, 31, QP_STR("ready"));
    ADD(b, msg_put, .ref = REF(JOB_PLAIN), .guid = guid(32), .topic = QP_STR("node"),
        .holder = epoch);
    ADD(b, msg_put, .ref = REF(JOB_PLAIN), .guid = guid(33), .topic = QP_STR("due"),
        .delay_ms = DUE_MS);
}

/* A key that is held; with `wanted`, somebody waits for it. Returns the op of the hold. */
static struct op_key_acquire *prepare_key(struct bundle *b, qp_str name, int number, bool wanted)
{
    struct op_key_acquire acquire = {.ns = STORE_NS_DEFAULT,
                                     .name = name,
                                     .capacity = 1,
                                     .units = 1,
                                     .holder = REF(JOB_PLAIN),
                                     .guid = guid(number),
                                     .msg_topic = QP_STR("keys"),
                                     .lease_ms = LEASE_MS,
                                     .wait = true};
    struct op_key_acquire *hold = &next(b, OP_key_acquire)->key_acquire;
    *hold = acquire;
    if (wanted) {
        acquire.guid = guid(number + 1);
        next(b, OP_key_acquire)->key_acquire = acquire;
    }
    return hold;
}

static struct op_hook_open *prepare_hook(struct bundle *b, qp_str key)
{
    struct op_hook_open *hook = &next(b, OP_hook_open)->hook_open;
    *hook = (struct op_hook_open){.ref = REF(JOB_PLAIN),
                                  .topic = QP_STR("hook"),
                                  .key = key,
                                  .addr = QP_STR("a"),
                                  .msg_topic = QP_STR("signals")};
    return hook;
}

static void run(struct store *s, struct commit *c)
{
    int rc = store_commit(s, c);
    if (rc != QP_OK || c->first->rc != QP_OK) {
        fail_msg("prepare: %s, %s: %s at op %zu", qp_code_word(rc), qp_code_word(c->first->rc),
                 c->err.text, c->first->stop.op_index);
    }
}

static void read_tokens(struct store *s, struct opworld *w);
static struct msg_ref held_message(const struct opworld *w, int number);

void opworld_prepare(struct store *s, struct testenv *t, struct opworld *w)
{
    struct op *deleted;
    struct op *filling;
    struct op *former;
    struct op *current;
    struct commit c;
    struct bundle *b;
    struct op_node_put *node;
    struct op_hook_open *hook;
    struct op_key_acquire *held;
    struct op_key_acquire *wanted;
    commit_init(&c, s);
    b = commit_bundle(&c, "prepare");
    node = &next(b, OP_node_put)->node_put;
    *node = (struct op_node_put){.name = QP_STR("node"), .lease_ms = LEASE_MS};
    prepare_jobs(b);
    run(s, &c);
    w->epoch = node->out_epoch;
    commit_reset(&c);
    b = commit_bundle(&c, "prepare");
    prepare_messages(b, w->epoch);
    hook = prepare_hook(b, QP_STR("to close"));
    (void)prepare_hook(b, QP_STR("to signal"));
    held = prepare_key(b, QP_STR("held"), 40, false);
    wanted = prepare_key(b, QP_STR("wanted"), 42, true);
    ADD(b, sem_open, .ref = REF(JOB_PLAIN), .scope = 1, .opening = 2, .guid = guid(50),
        .topic = QP_STR("scopes"), .owner_addr = QP_STR("a"));
    ADD(b, access_put, .id = QP_STR("token"), .role = QP_STR("viewer"),
        .hash = QP_STR("0123456789abcdef0123456789abcdef"));
    ADD(b, app_put, .ns = STORE_NS_DEFAULT, .app = QP_STR("app"), .version = QP_STR("1"),
        .hash = QP_STR("hash"));
    ADD(b, app_put, .ns = STORE_NS_DEFAULT, .app = QP_STR("app"), .version = QP_STR("2"),
        .hash = QP_STR("hash"));
    ADD(b, app_put, .ns = STORE_NS_DEFAULT, .app = QP_STR("app"), .version = QP_STR("3"),
        .hash = QP_STR("hash"));
    ADD(b, app_activate, .ns = STORE_NS_DEFAULT, .app = QP_STR("app"), .version = QP_STR("1"));
    ADD(b, app_put, .ns = STORE_NS_DEFAULT, .app = QP_STR("app"), .version = QP_STR("5"),
        .hash = QP_STR("hash"));
    filling = next(b, OP_universe_open);
    filling->universe_open = (struct op_universe_open){
        .ns = STORE_NS_DEFAULT, .type = QP_STR("deb"), .name = QP_STR("filling")};
    former = next(b, OP_universe_open);
    former->universe_open = (struct op_universe_open){
        .ns = STORE_NS_DEFAULT, .type = QP_STR("deb"), .name = QP_STR("to drop")};
    current = next(b, OP_universe_open);
    current->universe_open = (struct op_universe_open){
        .ns = STORE_NS_DEFAULT, .type = QP_STR("npm"), .name = QP_STR("current")};
    deleted = next(b, OP_app_delete);
    deleted->app_delete = (struct op_app_delete){
        .ns = STORE_NS_DEFAULT, .app = QP_STR("app"), .version = QP_STR("5")};
    run(s, &c);
    w->deleted_at = deleted->app_delete.out_at;
    w->filling = filling->universe_open.out_universe;
    w->former = former->universe_open.out_universe;
    w->current = current->universe_open.out_universe;
    w->waiter_seq = hook->out_seq;
    w->held_token = held->out_token;
    w->wanted_token = wanted->out_token;
    read_tokens(s, w);
    commit_reset(&c);
    b = commit_bundle(&c, "prepare");
    ADD(b, msg_dead_letter, .ref = held_message(w, 25), .error = QP_STR("dead"));
    ADD(b, universe_seal, .ns = STORE_NS_DEFAULT, .universe = w->current);
    run(s, &c);
    commit_done(&c);
    testenv_advance_ms(t, 2 * DUE_MS);
}

/* -------------------------------------------------------------------------------------- the ops */

static int host_call(void *context, void *native)
{
    (void)context;
    (void)native;
    return QP_OK;
}

#define FIRST_HELD 20

static struct msg_ref held_message(const struct opworld *w, int number)
{
    return (struct msg_ref){STORE_NS_DEFAULT, JOB_PLAIN, guid(number),
                            w->msg_tokens[number - FIRST_HELD]};
}

/* The tokens of the held messages: they come from the store. */
static void read_tokens(struct store *s, struct opworld *w)
{
    for (int i = 0; i < OPWORLD_HELD; i++) {
        struct msg_row key = {
            .ns = STORE_NS_DEFAULT, .job = JOB_PLAIN, .guid = guid(FIRST_HELD + i)};
        struct arena arena;
        const void *row = NULL;
        arena_init(&arena, store_env(s), 0);
        if (store_get(s, &arena, TABLE_msg, &key, &row, NULL) == QP_OK) {
            w->msg_tokens[i] = ((const struct msg_row *)row)->token;
        }
        arena_done(&arena);
    }
}

#define SET(name, ...)                                                                             \
    case OP_##name:                                                                                \
        op->name = (struct op_##name){__VA_ARGS__};                                                \
        break

/* Jobs, ledgers and semaphores. */
static void fill_job(struct op *op)
{
    static const struct guard zero = {.weight = DIGIT, .radix = 10};
    switch ((int)op->kind) {
        SET(job_create, .ref = REF(JOB_NEW), .jid = QP_STR("new"), .workflow = QP_STR("w"),
            .version = QP_STR("1"), .custom_id = QP_STR("custom"), .owner_guid = guid(0),
            .body_hash = QP_STR("hash"));
        SET(job_set, .ref = REF(JOB_PLAIN), .what = JOB_SET_ERROR | JOB_SET_PARKED,
            .parked = QP_STR("why"), .error = QP_STR("error"));
        SET(job_close, .ref = REF(JOB_TO_SHUT), .guid = guid(1), .state = JOB_CANCELLED);
        SET(job_finish, .ref = REF(JOB_SHUT), .guid = guid(1), .output = QP_STR("out"),
            .keep_ms = LEASE_MS);
        SET(job_pause, .ref = REF(JOB_TO_PAUSE));
        SET(job_resume, .ref = REF(JOB_ASIDE), .limit = 10);
        SET(job_sweep, .ref = REF(JOB_SHUT), .limit = 10);
        SET(job_delete, .ref = REF(JOB_OVER), .limit = LIMIT_SWEEP_ROWS);
        SET(attr_put, .ref = REF(JOB_PLAIN), .name = QP_STR("name"), .value = QP_STR("value"));
        SET(act_create, .ref = REF(JOB_PLAIN), .addr = QP_STR("b"), .category = 'A',
            .input = QP_STR("input"));
        SET(act_add, .ref = REF(JOB_PLAIN), .addr = QP_STR("a"), .weight = DIGIT, .guards = {zero},
            .guard_count = 1, .attempt = 1, .error = QP_STR("error"));
        SET(act_notify, .ref = REF(JOB_PLAIN), .addr = QP_STR("c"), .rests = true, .after = 2);
        SET(guid_enter, .ref = REF(JOB_PLAIN), .addr = QP_STR("a"), .guid = guid(60),
            .ordinal_ceiling = LIMIT_LEG2_ENTRIES, .output = QP_STR("out"));
        SET(guid_add, .ref = REF(JOB_PLAIN), .addr = QP_STR("a"), .guid = guid(1), .weight = DIGIT,
            .guards = {zero}, .guard_count = 1, .output = QP_STR("out"));
        SET(guid_fold, .ref = REF(JOB_PLAIN), .addr = QP_STR("a"), .guid = guid(2));
        SET(sem_open, .ref = REF(JOB_PLAIN), .scope = 2, .opening = 2, .guid = guid(51),
            .topic = QP_STR("scopes"), .owner_addr = QP_STR("a"));
        SET(sem_move, .ref = REF(JOB_PLAIN), .addr = QP_STR("a"), .guid = guid(3), .scope = 1,
            .delta = -2);
    }
}

static void fill_message(const struct opworld *w, struct op *op)
{
    switch ((int)op->kind) {
        SET(msg_put, .ref = REF(JOB_PLAIN), .guid = guid(61), .topic = QP_STR("ready"),
            .limit_key = QP_STR("key"), .payload = QP_STR("payload"));
        SET(msg_claim, .ns = STORE_NS_DEFAULT, .topic = QP_STR("ready"), .want = 5,
            .lease_ms = LEASE_MS, .worker = QP_STR("worker"));
        SET(msg_fence, .ref = held_message(w, 20));
        SET(msg_extend, .ref = held_message(w, 21), .lease_ms = 2 * LEASE_MS);
        SET(msg_ack, .ref = held_message(w, 22));
        SET(msg_retry, .ref = held_message(w, 23), .delay_ms = DUE_MS, .error = QP_STR("error"));
        SET(msg_dead_letter, .ref = held_message(w, 24), .error = QP_STR("error"));
        SET(msg_revive, .ref = held_message(w, 25));
        SET(msg_withdraw, .ref = held_message(w, 25));
        SET(msg_adopt, .epoch = w->epoch, .limit = 10);
        SET(lane_limit, .ns = STORE_NS_DEFAULT, .topic = QP_STR("ready"), .limit_key = QP_STR("*"),
            .max = 3);
    }
}

static void fill_meeting(const struct opworld *w, struct op *op)
{
    switch ((int)op->kind) {
        SET(hook_open, .ref = REF(JOB_PLAIN), .topic = QP_STR("hook"), .key = QP_STR("new"),
            .addr = QP_STR("a"), .msg_topic = QP_STR("signals"));
        SET(hook_close, .ns = STORE_NS_DEFAULT, .topic = QP_STR("hook"), .key = QP_STR("to close"),
            .seq = w->waiter_seq);
        SET(hook_signal, .ns = STORE_NS_DEFAULT, .topic = QP_STR("hook"),
            .key = QP_STR("to signal"), .guid = guid(62), .payload = QP_STR("payload"));
        SET(key_acquire, .ns = STORE_NS_DEFAULT, .name = QP_STR("new"), .capacity = 2, .units = 1,
            .holder = REF(JOB_PLAIN), .guid = guid(63), .lease_ms = LEASE_MS);
        SET(key_extend, .ns = STORE_NS_DEFAULT, .name = QP_STR("held"), .token = w->held_token,
            .lease_ms = 2 * LEASE_MS);
        SET(key_release, .ns = STORE_NS_DEFAULT, .name = QP_STR("wanted"),
            .token = w->wanted_token);
    }
}

static void fill_rest(const struct opworld *w, struct op *op)
{
    switch ((int)op->kind) {
        SET(space_create, .name = QP_STR("other"));
        SET(ids_reserve, .count = 10);
        SET(node_put, .epoch = w->epoch, .state = NODE_RUNNING, .lease_ms = LEASE_MS,
            .intent = QP_STR("intent"));
        SET(wake, .limit = 100);
        SET(data_put, .ref = REF(JOB_PLAIN), .name = QP_STR("name"), .value = QP_STR("value"));
        SET(event_add, .ref = REF(JOB_PLAIN), .kind = 1, .detail = QP_STR("detail"));
        SET(feed_trim, .upto = 1, .limit = 10);
        SET(audit_add, .ns = STORE_NS_DEFAULT, .actor = QP_STR("actor"),
            .action = QP_STR("action"));
        SET(idem_put, .ns = STORE_NS_DEFAULT, .key = QP_STR("key"), .body_hash = QP_STR("hash"),
            .answer = QP_STR("answer"), .ttl_ms = LEASE_MS);
        SET(access_put, .id = QP_STR("fresh"), .role = QP_STR("viewer"),
            .hash = QP_STR("0123456789abcdef0123456789abcdef"));
        SET(access_set, .id = QP_STR("token"), .used = true);
        SET(app_put, .ns = STORE_NS_DEFAULT, .app = QP_STR("app"), .version = QP_STR("4"),
            .source = QP_STR("source"), .hash = QP_STR("hash"));
        SET(app_activate, .ns = STORE_NS_DEFAULT, .app = QP_STR("app"), .version = QP_STR("2"));
        SET(app_delete, .ns = STORE_NS_DEFAULT, .app = QP_STR("app"), .version = QP_STR("3"));
        SET(app_collect, .ns = STORE_NS_DEFAULT, .app = QP_STR("app"), .version = QP_STR("5"),
            .at = w->deleted_at);
        SET(universe_open, .ns = STORE_NS_DEFAULT, .type = QP_STR("deb"), .name = QP_STR("new"));
        SET(fact_put, .ns = STORE_NS_DEFAULT, .universe = w->filling, .name = QP_STR("curl"),
            .value = QP_STR("value"));
        SET(universe_seal, .ns = STORE_NS_DEFAULT, .universe = w->filling);
        SET(universe_retire, .ns = STORE_NS_DEFAULT, .universe = w->current);
        SET(universe_drop, .ns = STORE_NS_DEFAULT, .universe = w->former, .limit = 10);
        SET(topic_put, .ns = STORE_NS_DEFAULT, .topic = QP_STR("topic"), .app = QP_STR("app"),
            .version = QP_STR("1"));
        SET(host_call, .call = host_call);
    }
}

void opworld_fill(const struct opworld *w, struct op *op)
{
    fill_job(op);
    fill_message(w, op);
    fill_meeting(w, op);
    fill_rest(w, op);
}
