/* script.c - a fixed sequence of commits, and the state that the store must have after each (see
 * script.h) */
#include "crash/script.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/files.h"

#define BASE_JOB 50
#define FIRST_JOB 100
#define STEP_MS 1000
#define START_MS 1767225600000
#define FILLER_SIZE 6000
#define CHECKPOINT_EVERY 5
#define DELETE_EVERY 6

static const char *const suffixes[] = {"",        "-wal", "-shm",        "-journal",
                                       "-qplock", ".new", ".new-journal"};

/* ---------------------------------------------------------------------------------------- files */

static void name_of(const struct script *x, const char *suffix, char out[400])
{
    (void)snprintf(out, 400, "%s%s", x->path, suffix); /* fits */
}

void script_remove(struct script *x)
{
    char name[400];
    for (size_t i = 0; i < ARRAY_COUNT(suffixes); i++) {
        name_of(x, suffixes[i], name);
        (void)unlink(name); /* most are not there */
    }
}

void script_place(struct script *x)
{
    script_remove(x);
    files_put(x->path, x->file, x->file_size);
}

/* ---------------------------------------------------------------------------------------- steps */

/* GUIDs by series and number; they live for ever. */
static qp_str guid(char series, int number)
{
    static char guids[26][SCRIPT_STEPS + 1][LIMIT_GUID_SIZE + 1];
    char *g = guids[series - 'a'][number];
    (void)snprintf(g, LIMIT_GUID_SIZE + 1, "%c-%014d", series, number);
    return (qp_str){g, LIMIT_GUID_SIZE};
}

/* Bytes that tell their step, in a size that varies: rows on overflow pages, pages that split and
 * join. */
static qp_str filler(int k)
{
    static char bytes[SCRIPT_STEPS + 1][FILLER_SIZE];
    memset(bytes[k], 'A' + k % 26, FILLER_SIZE);
    return (qp_str){bytes[k], (size_t)(200 + k * 1397 % (FILLER_SIZE - 200))};
}

static qp_str jid(int k)
{
    static char names[SCRIPT_STEPS + 1][16];
    (void)snprintf(names[k], sizeof names[k], "job-%03d", k);
    return str_from(names[k]);
}

static struct job_ref job(int k)
{
    return (struct job_ref){STORE_NS_DEFAULT, FIRST_JOB + k};
}

static const struct job_ref base_job = {STORE_NS_DEFAULT, BASE_JOB};

/* A job with its trigger: created, entered, semaphore opened. */
static void add_job(struct bundle *b, struct job_ref ref, qp_str name, int k)
{
    bundle_op(b, OP_job_create)->job_create = (struct op_job_create){.ref = ref,
                                                                     .jid = name,
                                                                     .workflow = QP_STR("w"),
                                                                     .version = QP_STR("1"),
                                                                     .owner_guid = guid('o', k),
                                                                     .body_hash = QP_STR("hash")};
    bundle_op(b, OP_act_create)->act_create = (struct op_act_create){
        .ref = ref, .addr = QP_STR("a"), .category = 'B', .input = jid(k), .policy = filler(k)};
    bundle_op(b, OP_guid_enter)->guid_enter =
        (struct op_guid_enter){.ref = ref, .addr = QP_STR("a"), .guid = guid('t', k)};
    bundle_op(b, OP_sem_move)->sem_move = (struct op_sem_move){.ref = ref,
                                                               .addr = QP_STR("a"),
                                                               .guid = guid('t', k),
                                                               .delta = 2,
                                                               .n = 2,
                                                               .open = true,
                                                               .close_state = JOB_COMPLETED};
}

/* What step k says about itself in every other table. */
static void add_marks(struct bundle *b, int k)
{
    bundle_op(b, OP_guid_enter)->guid_enter =
        (struct op_guid_enter){.ref = base_job,
                               .addr = QP_STR("a"),
                               .guid = guid('b', k),
                               .ordinal_ceiling = LIMIT_LEG2_ENTRIES,
                               .output = jid(k)};
    bundle_op(b, OP_sem_move)->sem_move = (struct op_sem_move){.ref = base_job,
                                                               .addr = QP_STR("a"),
                                                               .guid = guid('b', k),
                                                               .delta = 1,
                                                               .n = 1,
                                                               .close_state = JOB_COMPLETED};
    bundle_op(b, OP_data_put)->data_put =
        (struct op_data_put){.ref = base_job, .name = QP_STR("last"), .value = jid(k)};
    bundle_op(b, OP_data_put)->data_put =
        (struct op_data_put){.ref = job(k), .name = QP_STR("own"), .value = jid(k)};
    bundle_op(b, OP_event_add)->event_add =
        (struct op_event_add){.ref = job(k), .kind = k, .detail = jid(k)};
    bundle_op(b, OP_attr_put)->attr_put =
        (struct op_attr_put){.ref = job(k), .name = QP_STR("step"), .value = jid(k)};
    bundle_op(b, OP_audit_add)->audit_add =
        (struct op_audit_add){.ns = STORE_NS_DEFAULT, .action = QP_STR("step"), .target = jid(k)};
}

/* Claims the message of the step before, acks the one that the step before claimed, puts its
 * own. */
static void add_messages(struct bundle *b, int k, int64_t token)
{
    bundle_op(b, OP_msg_claim)->msg_claim = (struct op_msg_claim){
        .ns = STORE_NS_DEFAULT, .topic = QP_STR("t"), .want = 1, .lease_ms = LIMIT_LEASE_MS};
    if (k >= 3) {
        struct job_ref of = job(k - 2);
        bundle_op(b, OP_msg_ack)->msg_ack.ref =
            (struct msg_ref){of.ns, of.job, guid('m', k - 2), token};
    }
    bundle_op(b, OP_msg_put)->msg_put = (struct op_msg_put){
        .ref = job(k), .guid = guid('m', k), .topic = QP_STR("t"), .payload = jid(k)};
}

static void add_deletion(struct bundle *b, int k)
{
    bundle_op(b, OP_job_close)->job_close =
        (struct op_job_close){.ref = job(k), .guid = guid('t', k), .state = JOB_CANCELLED};
    bundle_op(b, OP_job_finish)->job_finish =
        (struct op_job_finish){.ref = job(k), .guid = guid('t', k)};
    bundle_op(b, OP_job_delete)->job_delete =
        (struct op_job_delete){.ref = job(k), .limit = LIMIT_SWEEP_ROWS};
}

static void set_time(struct script *x, int k)
{
    x->t.now_ms = START_MS + k * STEP_MS;
    x->t.monotonic_us = k * STEP_MS * 1000LL;
}

bool script_has_checkpoint(int k)
{
    return k % CHECKPOINT_EVERY == 0;
}

/* The token by which the step before claimed the message that this one acks. */
static int read_token(struct script *x, int k, int64_t *out_token, struct qp_err *err)
{
    struct arena arena;
    const void *row = NULL;
    struct msg_row key = {.ns = base_job.ns};
    int rc;
    *out_token = 0;
    if (k < 3) {
        return QP_OK;
    }
    key.job = job(k - 2).job;
    key.guid = guid('m', k - 2);
    arena_init(&arena, &x->t.env, 0);
    rc = store_get(x->s, &arena, TABLE_msg, &key, &row, err);
    if (rc == QP_OK) {
        *out_token = ((const struct msg_row *)row)->token;
    }
    arena_done(&arena);
    return rc;
}

int script_step(struct script *x, int k, int *out_idle, struct qp_err *err)
{
    struct commit c;
    struct bundle *b;
    int64_t token;
    int rc;
    set_time(x, k);
    rc = read_token(x, k, &token, err);
    if (rc != QP_OK) {
        return rc;
    }
    commit_init(&c, x->s);
    b = commit_bundle(&c, "step");
    add_job(b, job(k), jid(k), k);
    add_marks(b, k);
    if (k % DELETE_EVERY == 0) {
        add_deletion(b, k - DELETE_EVERY + 1);
    }
    add_messages(commit_bundle(&c, "messages"), k, token);
    rc = store_commit(x->s, &c);
    *err = c.err;
    for (b = c.first; b != NULL && rc == QP_OK; b = b->next) {
        assert_int_equal(b->rc, QP_OK);
    }
    commit_done(&c);
    if (rc == QP_OK && script_has_checkpoint(k)) {
        int idle = store_idle(x->s, err);
        if (out_idle != NULL) {
            *out_idle = idle;
        }
    }
    return rc;
}

int script_open(struct script *x, const char *vfs, enum store_durability durability,
                struct qp_err *err)
{
    struct store_options options = {.path = x->path, .vfs = vfs, .durability = durability};
    set_time(x, 0);
    return store_open(&x->t.env, &options, &x->s, err);
}

int script_close(struct script *x, struct qp_err *err)
{
    int rc;
    set_time(x, SCRIPT_STEPS + 1);
    rc = store_close(x->s, err);
    x->s = NULL;
    return rc;
}

/* --------------------------------------------------------------------------------------- states */

static char *dump_of(struct store *s, struct qp_err *err)
{
    struct buf out;
    char *text = NULL;
    buf_init(&out, store_env(s), 0);
    if (store_dump(s, &out, err) == QP_OK) {
        text = malloc(out.n + 1);
        assert_non_null(text);
        memcpy(text, out.p, out.n);
        text[out.n] = '\0';
    }
    buf_done(&out);
    return text;
}

/* The dump of a file, through the usual VFS and read-only; NULL when it is not whole. */
static char *dump_file(struct script *x, const char *path, struct qp_err *why)
{
    struct store_options options = {.path = path, .read_only = true, .full_check = true};
    struct store *s = NULL;
    char *text;
    if (store_open(&x->t.env, &options, &s, why) != QP_OK) {
        return NULL;
    }
    text = dump_of(s, why);
    (void)store_close(s, NULL); /* a reader has nothing to say */
    return text;
}

/* Equal, or equal but for the line of the head row. */
static bool same(const char *a, const char *b, bool with_head)
{
    const char *head_a = strstr(a, "\nhead{");
    const char *head_b = strstr(b, "\nhead{");
    if (with_head || head_a == NULL || head_b == NULL) {
        return strcmp(a, b) == 0;
    }
    return head_a - a == head_b - b && strncmp(a, b, (size_t)(head_a - a)) == 0 &&
           strcmp(strchr(head_a + 1, '\n'), strchr(head_b + 1, '\n')) == 0;
}

static int state_of(struct script *x, const char *path, int from, bool with_head,
                    struct qp_err *why)
{
    char *text = dump_file(x, path, why);
    int state = from;
    if (text == NULL) {
        return SCRIPT_NO_STATE;
    }
    while (state <= SCRIPT_LAST && !same(text, x->states[state], with_head)) {
        state++;
    }
    if (state > SCRIPT_LAST) {
        state = 0;
        while (state < from && !same(text, x->states[state], with_head)) {
            state++;
        }
        (void)err_set(why, QP_E_CORRUPT,
                      state < from ? "an earlier state" : "no state of the script");
        state = state < from ? state : SCRIPT_NO_STATE;
    }
    free(text);
    return state;
}

int script_state(struct script *x, int from, struct qp_err *why)
{
    return state_of(x, x->path, from, true, why);
}

int script_state_rows(struct script *x, int from, struct qp_err *why)
{
    return state_of(x, x->path, from, false, why);
}

int script_state_of_copy(struct script *x, int from, struct qp_err *why)
{
    static const char *const copied[] = {"", "-wal"};
    char from_name[400];
    char copy[360];
    char to_name[400];
    int state;
    (void)snprintf(copy, sizeof copy, "%s/copy.db", x->dir); /* fits */
    for (size_t i = 0; i < ARRAY_COUNT(copied); i++) {
        size_t size;
        unsigned char *bytes;
        name_of(x, copied[i], from_name);
        bytes = files_get(from_name, &size);
        (void)snprintf(to_name, sizeof to_name, "%s%s", copy, copied[i]); /* fits */
        if (bytes != NULL) {
            files_put(to_name, bytes, size);
        }
        free(bytes);
    }
    state = state_of(x, copy, from, true, why);
    for (size_t i = 0; i < ARRAY_COUNT(suffixes); i++) {
        (void)snprintf(to_name, sizeof to_name, "%s%s", copy, suffixes[i]); /* fits */
        (void)unlink(to_name);                                              /* not all are there */
    }
    return state;
}

/* ------------------------------------------------------------------------------------ beginning */

static void must(int rc, const struct qp_err *err)
{
    if (rc != QP_OK) {
        fail_msg("%s (%s)", err->text, qp_code_word(rc));
    }
}

static void prepare_file(struct script *x)
{
    struct qp_err err = {0};
    struct commit c;
    must(script_open(x, NULL, DURABILITY_FULL, &err), &err);
    commit_init(&c, x->s);
    add_job(commit_bundle(&c, "base"), base_job, QP_STR("base"), 0);
    must(store_commit(x->s, &c), &c.err);
    assert_int_equal(c.first->rc, QP_OK);
    commit_done(&c);
    must(script_close(x, &err), &err);
    x->file = files_get(x->path, &x->file_size);
    assert_non_null(x->file);
}

static void note_state(struct script *x, int state)
{
    struct qp_err err = {0};
    x->states[state] = x->s != NULL ? dump_of(x->s, &err) : dump_file(x, x->path, &err);
    must(x->states[state] == NULL ? err.code : QP_OK, &err);
}

void script_init(struct script *x)
{
    struct qp_err err = {0};
    testenv_init(&x->t, 1);
    x->s = NULL;
    files_temporary(x->dir, sizeof x->dir, "script");
    (void)snprintf(x->path, sizeof x->path, "%s/store.db", x->dir);
    prepare_file(x);
    note_state(x, 0);
    must(script_open(x, NULL, DURABILITY_FULL, &err), &err);
    note_state(x, 1);
    for (int k = 1; k <= SCRIPT_STEPS; k++) {
        must(script_step(x, k, NULL, &err), &err);
        note_state(x, 1 + k);
    }
    must(script_close(x, &err), &err);
    note_state(x, SCRIPT_LAST);
}

void script_done(struct script *x)
{
    files_remove(x->dir);
    for (int i = 0; i <= SCRIPT_LAST; i++) {
        free(x->states[i]);
    }
    free(x->file);
    testenv_done(&x->t);
}
