/* conform.h - the one suite that every provider passes: its vocabulary, its fixture, its topics
 *
 * A test gets a fresh store of some kind as its state and does not know which. After every test the
 * teardown holds the tables against each other (conform_check.c), opens the store again, and
 * compares what is there with what was.
 *
 * Tests read as lists of ops:
 *
 *     DO(f, OP(msg_put, .ref = JOB(7), .guid = G(1), .topic = TOPIC));            it commits
 *     REFUSED(f, QP_E_EXISTS, OP(msg_put, .ref = JOB(7), ...));               the last op stops it; no trace is left
 */
#ifndef QP_TEST_CONFORM_H
#define QP_TEST_CONFORM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/storetest.h"

/* ----------------------------------------------------------------------------------- the topics */

struct conform_topic {
    const char *name;
    const struct CMUnitTest *tests;
    size_t count;
};

extern const struct conform_topic conform_commit;
extern const struct conform_topic conform_decided;
extern const struct conform_topic conform_host;
extern const struct conform_topic conform_jobs;
extern const struct conform_topic conform_sweep;
extern const struct conform_topic conform_ledger;
extern const struct conform_topic conform_sem;
extern const struct conform_topic conform_messages;
extern const struct conform_topic conform_beside;
extern const struct conform_topic conform_lanes;
extern const struct conform_topic conform_wake;
extern const struct conform_topic conform_signals;
extern const struct conform_topic conform_listen;
extern const struct conform_topic conform_keys;
extern const struct conform_topic conform_misc;
extern const struct conform_topic conform_apps;
extern const struct conform_topic conform_facts;
extern const struct conform_topic conform_journal;
extern const struct conform_topic conform_reads;

#define CONFORM(test) cmocka_unit_test_setup_teardown(test, conform_setup, conform_teardown)
#define CONFORM_TOPIC(topic)                                                                       \
    const struct conform_topic conform_##topic = {#topic, tests, ARRAY_COUNT(tests)}

/* ---------------------------------------------------------------------------------- the fixture */

/* The kind that conform_setup opens; set by main before each group. */
void conform_use(enum storetest_kind kind);
int conform_setup(void **state);
int conform_teardown(void **state);

/* True on a provider that gives numbers to many writers: they grow, and are not dense. */
bool conform_is_shared(const struct storetest *f);

/* What must hold between the tables of any committed state; fails the test when it does not. */
void conform_check(struct storetest *f);

/* ------------------------------------------------------------------------------- the vocabulary */

#define NS STORE_NS_DEFAULT
#define TOPIC QP_STR("topic")
#define G(number) storetest_guid(number)
/* The claim on a message of job 100 as it stands now. */
#define HELD(number) MSG(100, number, conform_msg_row(f, 100, number)->token)
/* Numbers 100 .. 999 are reserved in every fresh store: jobs and schedules of a test are among
 * them. */
#define JOB(number) ((struct job_ref){NS, (number)})
#define MSG(number, guid_number, of_token)                                                         \
    ((struct msg_ref){NS, (number), G(guid_number), (of_token)})

/* A ledger as the document writes it: fifteen digits. */
#define LEDGER(text) conform_digits("" text)
int64_t conform_digits(const char *digits);
#define assert_ledger(value, text) conform_digits_equal((value), "" text, __FILE__, __LINE__)
void conform_digits_equal(int64_t value, const char *digits, const char *file, int line);

/* Weights: of an activity's ledger (final, entry, leg 1), and of a GUID's (closed, work, spawn,
 * done). */
#define W_FINAL INT64_C(200000000000000)
#define W_ENTRY INT64_C(1000000000000)
#define W_LEG1 INT64_C(100000000000)
#define W_CLOSED INT64_C(100000000000)
#define W_WORK INT64_C(10000000000)
#define W_SPAWN INT64_C(1000000000)
#define W_DONE INT64_C(100000000)
#define GUARD_CLEAR(digit)                                                                         \
    {                                                                                              \
        .weight = (digit), .radix = 10, .min = 0, .max = 0                                         \
    }
#define GUARD_SET(digit)                                                                           \
    {                                                                                              \
        .weight = (digit), .radix = 10, .min = 1, .max = 1                                         \
    }

#define OP(op_name, ...)                                                                           \
    ((struct op){.kind = OP_##op_name, .op_name = (struct op_##op_name){__VA_ARGS__}})
#define OPS(...)                                                                                   \
    ((struct op[]){__VA_ARGS__}), sizeof((struct op[]){__VA_ARGS__}) / sizeof(struct op)

/* One bundle, which commits. */
#define DO(f, ...) conform_do((f), OPS(__VA_ARGS__), __FILE__, __LINE__)
void conform_do(struct storetest *f, struct op *ops, size_t count, const char *file, int line);

/* One op, which commits; what it put out. */
#define RUN(f, op_name, ...)                                                                       \
    (conform_run((f), OP(op_name, __VA_ARGS__), __FILE__, __LINE__).op_name)
struct op conform_run(struct storetest *f, struct op op, const char *file, int line);

/* One bundle, stopped by its last op with this code; what it did before is undone, what comes after
 * it never happens, nothing at all is written. Returns what stopped it. */
#define REFUSED(f, code, ...) conform_refused((f), (code), OPS(__VA_ARGS__), __FILE__, __LINE__)
struct stop conform_refused(struct storetest *f, int code, struct op *ops, size_t count,
                            const char *file, int line);
/* The same of one op, for what it puts out. */
struct op conform_refused_op(struct storetest *f, int code, struct op op);

/* All tables as text, without the head's clock; freed by conform_forget. */
struct buf conform_dump(struct storetest *f);
void conform_forget(struct buf *dump);

struct store_info conform_info(struct storetest *f);

/* --------------------------------------------------------------------------------- common moves */

/* A job "job-<number>" of workflow "order" whose trigger "t" has run step 1 (document 20.1); its
 * owner is G(number). */
/* The id of a test's job. */
qp_str conform_jid(int64_t number);
void conform_job(struct storetest *f, int64_t number);
/* The same, and opened: `count` obligations. */
void conform_job_open(struct storetest *f, int64_t number, int64_t count);
/* The same, closed by its trigger (N = 0) and, if asked for, finished. */
void conform_job_closed(struct storetest *f, int64_t number, bool finished);

/* A worker after leg 1: 001100000000000. */
void conform_worker(struct storetest *f, int64_t job, qp_str addr);
/* Leg 2 of a worker up to step 1: the GUID's row is 00001000000000x. */
void conform_answer(struct storetest *f, int64_t job, qp_str addr, unsigned guid);
/* Step 2 of a GUID: n children, delta n - 1. */
struct op conform_step2(int64_t job, qp_str addr, unsigned guid, int64_t n, bool finalize);

const struct job_row *conform_job_row(struct storetest *f, int64_t job);
const struct act_row *conform_act_row(struct storetest *f, int64_t job, qp_str addr);
const struct guid_row *conform_guid_row(struct storetest *f, int64_t job, qp_str addr,
                                        unsigned guid);
const struct msg_row *conform_msg_row(struct storetest *f, int64_t job, unsigned guid);
const struct lane_row *conform_lane_row(struct storetest *f, qp_str topic, qp_str limit_key);

/* Enters a new run of a node: its epoch, which may hold messages until the run is over. */
int64_t conform_epoch(struct storetest *f);
/* Puts a READY message of a job on TOPIC. */
void conform_put(struct storetest *f, int64_t job, unsigned guid);
/* Claims up to `want` of TOPIC for lease_ms; how many. Their GUID numbers go into out_guids, in
 * order (NULL: not asked). */
size_t conform_claim(struct storetest *f, int64_t ns, int64_t want, int64_t lease_ms,
                     unsigned *out_guids);
/* Wakes what is due; how many. */
int64_t conform_wake_due(struct storetest *f);

#define assert_str(a, b) assert_true(str_equal((a), (b)))

#endif
