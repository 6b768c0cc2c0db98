/* conform.c - the fixture and the vocabulary of the conformance suite (see conform.h) */
#include "store/conform.h"

#include <stdio.h>
#include <stdlib.h>

#define IDS_RESERVED 1000

static struct storetest fixture;
static enum storetest_kind kind_in_use;

void conform_use(enum storetest_kind kind)
{
    kind_in_use = kind;
}

bool conform_is_shared(const struct storetest *f)
{
    return f->kind == STORETEST_POSTGRES;
}

int conform_setup(void **state)
{
    storetest_init(&fixture, kind_in_use, 1);
    DO(&fixture, OP(ids_reserve, .count = IDS_RESERVED));
    *state = &fixture;
    return 0;
}

int conform_teardown(void **state)
{
    struct storetest *f = *state;
    struct buf before = conform_dump(f);
    struct buf after;
    conform_check(f);
    storetest_reopen(f);
    after = conform_dump(f);
    assert_string_equal(before.p, after.p);
    conform_forget(&before);
    conform_forget(&after);
    storetest_done(f);
    return 0;
}

/* -------------------------------------------------------------------------------------- ledgers */

int64_t conform_digits(const char *digits)
{
    int64_t value = 0;
    assert_int_equal(strlen(digits), 15);
    for (const char *p = digits; *p != '\0'; p++) {
        assert_in_range(*p, '0', '9');
        value = value * 10 + (*p - '0');
    }
    return value;
}

void conform_digits_equal(int64_t value, const char *digits, const char *file, int line)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%015lld", (long long)value);
    _assert_string_equal(text, digits, file, line);
}

/* -------------------------------------------------------------------------------------- bundles */

static void fail_at(const char *file, int line, const char *what, int got, int wanted)
{
    print_error("%s: %s, not %s\n", what, qp_code_word(got), qp_code_word(wanted));
    _fail(file, line);
}

void conform_do(struct storetest *f, struct op *ops, size_t count, const char *file, int line)
{
    struct stop stop = {0};
    int rc = storetest_bundle(f, ops, count, &stop);
    if (rc != QP_OK) {
        print_error("stopped by op %zu, weight %lld, found %015lld\n", stop.op_index,
                    (long long)stop.weight, (long long)stop.found);
        fail_at(file, line, "bundle", rc, QP_OK);
    }
}

struct op conform_run(struct storetest *f, struct op op, const char *file, int line)
{
    conform_do(f, &op, 1, file, line);
    return op;
}

struct store_info conform_info(struct storetest *f)
{
    struct store_info info;
    store_info(f->s, &info);
    return info;
}

/* Around the ops that are refused stand others that would change much: a number, a record, a
 * job. */
#define OPS_BEFORE 3
#define OPS_AFTER 1

static void surround(struct op *all, const struct op *ops, size_t count)
{
    all[0] = OP(ids_reserve, .count = 7);
    all[1] = OP(audit_add, .ns = NS, .actor = QP_STR("before"));
    all[2] = OP(job_create, .ref = JOB(999), .jid = QP_STR("job-999"), .workflow = QP_STR("gone"));
    memcpy(all + OPS_BEFORE, ops, count * sizeof *ops);
    all[OPS_BEFORE + count] = OP(audit_add, .ns = NS, .actor = QP_STR("after"));
}

struct stop conform_refused(struct storetest *f, int code, struct op *ops, size_t count,
                            const char *file, int line)
{
    struct op *all = calloc(count + OPS_BEFORE + OPS_AFTER, sizeof *all);
    struct buf before = conform_dump(f);
    struct store_info info = conform_info(f);
    struct stop stop = {0};
    struct buf after;
    int rc;
    assert_non_null(all);
    surround(all, ops, count);
    rc = storetest_bundle(f, all, count + OPS_BEFORE + OPS_AFTER, &stop);
    if (rc != code) {
        fail_at(file, line, "bundle", rc, code);
    }
    _assert_int_equal(stop.op_index, OPS_BEFORE + count - 1, file, line);
    after = conform_dump(f);
    _assert_string_equal(after.p, before.p, file, line);
    _assert_int_equal((uintmax_t)conform_info(f).commits, (uintmax_t)info.commits, file, line);
    _assert_int_equal((uintmax_t)conform_info(f).rows_written, (uintmax_t)info.rows_written, file,
                      line);
    conform_forget(&before);
    conform_forget(&after);
    memcpy(ops, all + OPS_BEFORE, count * sizeof *ops);
    free(all);
    return stop;
}

struct op conform_refused_op(struct storetest *f, int code, struct op op)
{
    (void)conform_refused(f, code, &op, 1, __FILE__,
                          __LINE__); /* its stop is asked for elsewhere */
    return op;
}

/* ---------------------------------------------------------------------------------------- dumps */

/* The head row has the clock and the mark of a clean end, which opening writes: its numbers alone
 * are compared. */
static void dump_head(struct storetest *f, struct buf *out)
{
    const struct head_row *head = storetest_row(f, TABLE_head, &(struct head_row){.ns = 0});
    assert_non_null(head);
    if (conform_is_shared(f)) {
        return; /* what others may have been given is in it, too */
    }
    buf_printf(out, "head{pos=%lld ord=%lld next_id=%lld}\n", (long long)head->pos,
               (long long)head->ord, (long long)head->next_id);
}

struct buf conform_dump(struct storetest *f)
{
    struct buf all;
    struct buf out;
    struct qp_err err;
    const char *head;
    buf_init(&all, &f->t.env, 0);
    buf_init(&out, &f->t.env, 0);
    assert_int_equal(store_dump(f->s, &all, &err), QP_OK);
    buf_byte(&all, '\0');
    assert_int_equal(buf_rc(&all), QP_OK);
    head = strstr(all.p, "head{");
    assert_non_null(head);
    buf_add(&out, all.p, (size_t)(head - all.p));
    dump_head(f, &out);
    buf_text(&out, strchr(head, '\n') + 1);
    buf_byte(&out, '\0');
    assert_int_equal(buf_rc(&out), QP_OK);
    buf_done(&all);
    return out;
}

void conform_forget(struct buf *dump)
{
    buf_done(dump);
}

/* --------------------------------------------------------------------------------- common moves */

qp_str conform_jid(int64_t number)
{
    static char jids[IDS_RESERVED][16];
    assert_in_range(number, 0, IDS_RESERVED - 1);
    (void)snprintf(jids[number], sizeof jids[number], "job-%lld", (long long)number);
    return str_from(jids[number]);
}

void conform_job(struct storetest *f, int64_t number)
{
    qp_str trigger = QP_STR("t");
    qp_str owner = G((unsigned)number);
    DO(f,
       OP(job_create, .ref = JOB(number), .jid = conform_jid(number), .workflow = QP_STR("order"),
          .owner_guid = owner, .body_hash = QP_STR("body")),
       OP(act_create, .ref = JOB(number), .addr = trigger, .category = 'D',
          .ledger = LEDGER("101100000000001")),
       OP(guid_enter, .ref = JOB(number), .addr = trigger, .guid = owner, .ledger = W_WORK));
}

static struct op open_move(int64_t number, int64_t count)
{
    struct op op = conform_step2(number, QP_STR("t"), (unsigned)number, count, false);
    op.sem_move.delta = count;
    op.sem_move.open = true;
    return op;
}

void conform_job_open(struct storetest *f, int64_t number, int64_t count)
{
    conform_job(f, number);
    DO(f, open_move(number, count));
}

void conform_job_closed(struct storetest *f, int64_t number, bool finished)
{
    conform_job_open(f, number, 0);
    if (finished) {
        DO(f, OP(job_finish, .ref = JOB(number), .guid = G((unsigned)number)));
    }
}

void conform_worker(struct storetest *f, int64_t job, qp_str addr)
{
    DO(f, OP(act_create, .ref = JOB(job), .addr = addr, .category = 'A',
             .ledger = LEDGER("001100000000000")));
}

void conform_answer(struct storetest *f, int64_t job, qp_str addr, unsigned guid)
{
    DO(f,
       OP(guid_enter, .ref = JOB(job), .addr = addr, .guid = G(guid),
          .ordinal_ceiling = LIMIT_LEG2_ENTRIES, .guards = {GUARD_SET(W_LEG1)}, .guard_count = 1),
       OP(guid_add, .ref = JOB(job), .addr = addr, .guid = G(guid), .weight = W_WORK,
          .guards = {GUARD_CLEAR(W_WORK)}, .guard_count = 1));
}

struct op conform_step2(int64_t job, qp_str addr, unsigned guid, int64_t n, bool finalize)
{
    return OP(sem_move, .ref = JOB(job), .addr = addr, .guid = G(guid), .delta = n - 1, .n = n,
              .spawn_weight = W_SPAWN, .edge_weight = W_CLOSED, .close_state = JOB_COMPLETED,
              .guards = {GUARD_SET(W_WORK), GUARD_CLEAR(W_SPAWN)}, .guard_count = 2,
              .finalize = finalize, .final_weight = W_FINAL);
}

const struct job_row *conform_job_row(struct storetest *f, int64_t job)
{
    return storetest_row(f, TABLE_job, &(struct job_row){.ns = NS, .job = job});
}

const struct act_row *conform_act_row(struct storetest *f, int64_t job, qp_str addr)
{
    return storetest_row(f, TABLE_act, &(struct act_row){.ns = NS, .job = job, .addr = addr});
}

const struct guid_row *conform_guid_row(struct storetest *f, int64_t job, qp_str addr,
                                        unsigned guid)
{
    static struct guid_row first;
    const struct act_row *act = conform_act_row(f, job, addr);
    if (act != NULL && act_first_guid(act, &first) && str_equal(first.guid, G(guid))) {
        return &first;
    }
    return storetest_row(f, TABLE_guid,
                         &(struct guid_row){.ns = NS, .job = job, .addr = addr, .guid = G(guid)});
}

const struct msg_row *conform_msg_row(struct storetest *f, int64_t job, unsigned guid)
{
    return storetest_row(f, TABLE_msg, &(struct msg_row){.ns = NS, .job = job, .guid = G(guid)});
}

const struct lane_row *conform_lane_row(struct storetest *f, qp_str topic, qp_str limit_key)
{
    return storetest_row(f, TABLE_lane,
                         &(struct lane_row){.ns = NS, .topic = topic, .limit_key = limit_key});
}

int64_t conform_epoch(struct storetest *f)
{
    int64_t epoch = RUN(f, node_put, .name = QP_STR("node")).out_epoch;
    assert_true(epoch > 0);
    return epoch;
}

void conform_put(struct storetest *f, int64_t job, unsigned guid)
{
    DO(f, OP(msg_put, .ref = JOB(job), .guid = G(guid), .topic = TOPIC));
}

/* The number in a GUID of storetest_guid: "guid-00042". */
static unsigned number_of(qp_str guid)
{
    assert_int_equal(guid.n, LIMIT_GUID_SIZE);
    return (unsigned)strtoul(guid.p + strlen("guid-"), NULL, 10);
}

size_t conform_claim(struct storetest *f, int64_t ns, int64_t want, int64_t lease_ms,
                     unsigned *out_guids)
{
    struct commit c;
    struct bundle *b;
    struct op *op;
    size_t count;
    commit_init(&c, f->s);
    b = commit_bundle(&c, "claim");
    op = bundle_op(b, OP_msg_claim);
    assert_non_null(op);
    op->msg_claim = (struct op_msg_claim){
        .ns = ns, .topic = TOPIC, .want = want, .lease_ms = lease_ms, .worker = QP_STR("worker")};
    assert_int_equal(store_commit(f->s, &c), QP_OK);
    assert_int_equal(b->rc, QP_OK);
    count = op->msg_claim.out_count;
    for (size_t i = 0; i < count && out_guids != NULL; i++) {
        out_guids[i] = number_of(op->msg_claim.out_messages[i]->guid);
    }
    commit_done(&c);
    return count;
}

int64_t conform_wake_due(struct storetest *f)
{
    return RUN(f, wake, .limit = LIMIT_WAKE_MESSAGES).out_count;
}
