/* test_engine_signals.c - signals through an engine: H12 (to all that wait) and H13 (early and late) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/enginetest.h"

static struct enginetest x;
static struct cast sender;

#define TRIGGER(children)                                                                          \
    {                                                                                              \
        .name = "trigger", .category = 'D', .next = (children)                                     \
    }
#define HOOK(actor, hook_key, children)                                                            \
    {                                                                                              \
        .name = (actor), .category = 'A', .deed = DEED_HOOK, .topic = "h", .key = (hook_key),      \
        .next = (children)                                                                         \
    }
#define SENDER(what)                                                                               \
    {                                                                                              \
        .name = "s", .category = 'B', .deed = (what), .topic = "h", .key = "k"                     \
    }

static const struct actor waiter[] = {TRIGGER("h"), HOOK("h", "@", NULL), {0}};
static const struct actor twice[] = {TRIGGER("h"), HOOK("h", "@", "g"), HOOK("g", "@", NULL), {0}};
static const struct actor pair[] = {
    TRIGGER("h g"), HOOK("h", "k", NULL), HOOK("g", "k", NULL), {0}};
static const struct actor one[] = {TRIGGER("h"), HOOK("h", "k", NULL), {0}};
static const struct actor all[] = {TRIGGER("s"), SENDER(DEED_SIGNAL_ALL), {0}};
static const struct actor single[] = {TRIGGER("s"), SENDER(DEED_SIGNAL), {0}};
static const struct actor both_topics[] = {TRIGGER("s"), SENDER(DEED_SIGNALS), {0}};
static const struct actor two_topics[] = {
    TRIGGER("h g"),
    HOOK("h", "k", NULL),
    {.name = "g", .category = 'A', .deed = DEED_HOOK, .topic = "other", .key = "k"},
    {0}};

static const struct actor relay[] = {
    TRIGGER("h"),
    HOOK("h", "@", "s"),
    {.name = "s", .category = 'B', .deed = DEED_SIGNALS, .topic = "out", .key = "k", .next = "a"},
    {.name = "a", .category = 'B', .deed = DEED_SIGNAL_ALL, .topic = "out"},
    {0}};

/* Jobs of the first cast wait, those of the second send. */
static void setup(enum storetest_kind kind, const struct actor *waits, const struct actor *sends)
{
    enginetest_init(&x, kind, waits);
    cast_init(&sender, CAST_SECOND, sends);
    x.programs[1] = &sender.program;
    x.options.program_count = 2;
    enginetest_open(&x);
}

static void start_many(const char *prefix, int count)
{
    static char names[1200][16];
    static struct request_start requests[1200];
    assert_true(count <= (int)ARRAY_COUNT(names));
    for (int i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof names[i], "%s%04d", prefix, i);
        enginetest_fill_start(&x, &requests[i], names[i], "{}");
        requests[i].command.answer = enginetest_answered;
        engine_submit(x.e, &requests[i].command);
    }
    enginetest_settle(&x);
}

/* The sender's job, as far as the engine gets in so many rounds; -1: to its end. */
static void send_all(const char *jid, int rounds)
{
    struct request_start r;
    struct qp_err err;
    bool busy = true;
    enginetest_fill_start(&x, &r, jid, "{}");
    r.start.job.kind = CAST_SECOND;
    r.command.answer = enginetest_answered;
    engine_submit(x.e, &r.command);
    while (busy && rounds-- != 0) {
        assert_int_equal(enginetest_round(&x, &busy, &err), QP_OK);
    }
    x.job = r.job.job;
}

struct tally {
    int64_t completed;
    int64_t entries; /* Leg2 entries of all activities but triggers */
};

static int tally_job(void *context, const void *row)
{
    const struct job_row *job = row;
    struct tally *t = context;
    t->completed += job->kind == CAST_KIND && job->state == JOB_COMPLETED;
    return QP_OK;
}

static int tally_act(void *context, const void *row)
{
    const struct act_row *act = row;
    struct tally *t = context;
    t->entries += act->category == 'A' ? act->ledger % 100000000 : 0;
    return QP_OK;
}

static struct tally tally(void)
{
    struct tally t = {0};
    struct qp_err err;
    struct scan jobs = {.table = TABLE_job, .index = -1, .limit = SIZE_MAX};
    struct scan acts = {.table = TABLE_act, .index = -1, .limit = SIZE_MAX};
    assert_int_equal(store_scan(x.f.s, &jobs, &t, tally_job, &err), QP_OK);
    assert_int_equal(store_scan(x.f.s, &acts, &t, tally_act, &err), QP_OK);
    return t;
}

/* --------------------------------------------------------------------------------------------- H12 */

#define WAITERS (LIMIT_FANOUT_TARGETS * 2 + 7)

/* 1007 wait; the engine dies after any number of rounds of the fan-out: each waiter gets one signal, in
 * pages of 500, and the sender is finished with the first of them. */
static void test_H12_fanout_cursor(void **state)
{
    (void)state;
    for (int rounds = 1; rounds <= 6; rounds++) {
        struct tally t;
        setup(STORETEST_MEMORY, waiter, all);
        start_many("w", WAITERS);
        send_all("s", rounds);
        t = tally();
        assert_true(rounds > 3 || t.completed <= LIMIT_FANOUT_TARGETS * rounds);
        enginetest_crash(&x);
        enginetest_settle(&x);
        t = tally();
        assert_int_equal(t.completed, WAITERS);
        assert_int_equal(t.entries, WAITERS);
        assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
        assert_int_equal(storetest_count(&x.f, TABLE_msg), 0);
        assert_int_equal(storetest_count(&x.f, TABLE_hook_wait), 0);
        enginetest_done(&x);
    }
}

/* Whoever waits again, or for the first time, after the signal was sent is not meant by it, also when
 * the pages come later. */
static void test_H12_snapshot(void **state)
{
    (void)state;
    setup(STORETEST_SQLITE, twice, all);
    start_many("w", LIMIT_FANOUT_TARGETS + 3);
    send_all("s", 1); /* it is sent, and no page is done */
    assert_int_equal(tally().entries, 0);
    start_many("x", 20); /* these come too late, and so do the second hooks of the first */
    enginetest_settle(&x);
    assert_int_equal(tally().entries, LIMIT_FANOUT_TARGETS + 3);
    assert_int_equal(tally().completed, 0);
    assert_int_equal(storetest_count(&x.f, TABLE_hook_wait), LIMIT_FANOUT_TARGETS + 23);
    send_all("s2", -1); /* a second signal is another one */
    assert_int_equal(tally().completed, LIMIT_FANOUT_TARGETS + 3);
    assert_int_equal(tally().entries, 2 * (LIMIT_FANOUT_TARGETS + 3) + 20);
    enginetest_done(&x);
}

/* Two activities of one job that wait at one key are two targets. */
static void test_H12_two_waiters_of_one_job(void **state)
{
    (void)state;
    setup(STORETEST_MEMORY, pair, all);
    start_many("w", 1);
    send_all("s", -1);
    assert_int_equal(tally().entries, 2);
    assert_int_equal(tally().completed, 1);
    enginetest_done(&x);
}

/* --------------------------------------------------------------------------------------------- H13 */

/* Registration and signal meet, whoever comes first. */
static void test_H13_any_order(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (int early = 0; early < 2; early++) {
            setup((enum storetest_kind)kind, one, single);
            if (early) {
                assert_int_equal(enginetest_signal(&x, "h", "k", 1, 1000), QP_OK);
                assert_int_equal(storetest_count(&x.f, TABLE_hook_sig), 1);
            }
            assert_int_equal(enginetest_start(&x, "a"), QP_OK);
            if (!early) {
                assert_int_equal(storetest_count(&x.f, TABLE_hook_wait), 1);
                assert_int_equal(enginetest_signal(&x, "h", "k", 1, 1000), QP_OK);
            }
            assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
            assert_string_equal(enginetest_digits(&x, "h,0,0"), "201100000000001 000111100000001");
            assert_int_equal(storetest_count(&x.f, TABLE_hook), 0);
            enginetest_done(&x);
        }
    }
}

/* An early signal of an activity waits like one from outside, and dies with nothing: a restart between
 * the two changes nothing. */
static void test_H13_early_from_activity(void **state)
{
    (void)state;
    setup(STORETEST_SQLITE, one, single);
    send_all("s", -1);
    enginetest_crash(&x);
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
    enginetest_done(&x);
}

/* A kept signal is kept as long as it says, and not longer. */
static void test_H13_time_to_live(void **state)
{
    (void)state;
    setup(STORETEST_MEMORY, one, single);
    assert_int_equal(enginetest_signal(&x, "h", "k", 1, 1000), QP_OK);
    enginetest_wait(&x, 999);
    assert_int_equal(storetest_count(&x.f, TABLE_hook_sig), 1);
    enginetest_wait(&x, 1);
    assert_int_equal(storetest_count(&x.f, TABLE_hook_sig), 0);
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_OPEN);
    assert_int_equal(enginetest_signal(&x, "h", "k", 2, 0), QP_OK);
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
    enginetest_done(&x);
}

/* The sender's GUID is the signal's: kept twice, it is refused; delivered twice, it enters once. */
static void test_H13_signal_twice(void **state)
{
    (void)state;
    setup(STORETEST_MEMORY, one, single);
    assert_int_equal(enginetest_signal(&x, "h", "k", 1, 1000), QP_OK);
    assert_int_equal(enginetest_signal(&x, "h", "k", 1, 1000), QP_E_EXISTS);
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
    assert_string_equal(enginetest_digits(&x, "h,0,0"), "201100000000001 000111100000001");
    enginetest_done(&x);
}

/* GUIDs of the signals that are kept are of one signal each: two that are the same would be taken for one that was
 * sent twice. */
struct kept_guids {
    char guids[8][LIMIT_GUID_SIZE];
    size_t count;
};

static int kept_guid(void *context, const void *row)
{
    const struct hook_sig_row *sig = row;
    struct kept_guids *k = context;
    assert_true(k->count < ARRAY_COUNT(k->guids));
    for (size_t i = 0; i < k->count; i++) {
        assert_memory_not_equal(k->guids[i], sig->guid.p, LIMIT_GUID_SIZE);
    }
    memcpy(k->guids[k->count++], sig->guid.p, LIMIT_GUID_SIZE);
    return QP_OK;
}

static void expect_kept(size_t count)
{
    struct kept_guids k = {.count = 0};
    struct qp_err err;
    struct scan all_kept = {.table = TABLE_hook_sig, .index = -1, .limit = SIZE_MAX};
    assert_int_equal(store_scan(x.f.s, &all_kept, &k, kept_guid, &err), QP_OK);
    assert_int_equal(k.count, count);
}

/* One activity signals two topics with the same key, and no job waits at either: two signals are kept. */
static void test_H13_two_topics_kept(void **state)
{
    (void)state;
    setup(STORETEST_MEMORY, two_topics, both_topics);
    send_all("s", -1);
    expect_kept(2);
    enginetest_done(&x);
}

/* One activity signals two topics with the same key, and one job waits at both: two signals. */
static void test_H13_two_topics_one_key(void **state)
{
    (void)state;
    setup(STORETEST_MEMORY, two_topics, both_topics);
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
    send_all("s", -1);
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
    assert_int_equal(tally().completed, 1);
    enginetest_done(&x);
}

/* Proves that two jobs whose GUIDs are the same, since one sender gave both theirs, are not taken for one by whom
 * they signal. */
static void test_H13_equal_guids_of_two_jobs(void **state)
{
    struct hook_row key = {.ns = STORE_NS_DEFAULT, .topic = QP_STR("out"), .hkey = QP_STR("k")};
    const void *row;
    struct qp_err err;
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        struct arena arena;
        enginetest_init(&x, (enum storetest_kind)kind, relay);
        enginetest_open(&x);
        assert_int_equal(enginetest_start(&x, "a"), QP_OK);
        assert_int_equal(enginetest_start(&x, "b"), QP_OK);
        assert_int_equal(enginetest_signal(&x, "h", "a", 5, 0), QP_OK);
        assert_int_equal(enginetest_signal(&x, "h", "b", 5, 0), QP_OK);
        assert_int_equal(x.ended, 2);
        arena_init(&arena, &x.f.t.env, 0);
        assert_int_equal(store_get(x.f.s, &arena, TABLE_hook, &key, &row, &err), QP_OK);
        assert_int_equal(((const struct hook_row *)row)->pending, 2);
        expect_kept(4); /* each sends at two topics */
        arena_done(&arena);
        enginetest_done(&x);
    }
}

static void delete_job(const char *jid)
{
    struct request_change r = {
        .ns = STORE_NS_DEFAULT, .jid = str_from(jid), .change = JOB_CHANGE_DELETE};
    request_change(&r);
    assert_int_equal(enginetest_ask(&x, &r.command), QP_OK);
    assert_false(r.more);
}

/* The GUIDs of a job follow from its id and its body. One that is deleted and started again with both has the GUIDs of
 * the first, but is another job: what it signals is another signal. */
static void test_H13_job_started_again(void **state)
{
    (void)state;
    setup(STORETEST_MEMORY, one, single);
    send_all("s", -1);
    expect_kept(1);
    delete_job("s");
    send_all("s", -1);
    expect_kept(2);
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
    enginetest_done(&x);
}

/* ------------------------------------------------------------------------- filters, codes, leaving */

static const struct actor to_gold[] = {
    TRIGGER("s"),
    {.name = "s", .category = 'B', .deed = DEED_SIGNAL_ALL, .topic = "h", .key = "plan=gold"},
    {0}};

/* Of three jobs one has the attribute that is asked for, one another value of it, and one none. */
static void start_plans(int count)
{
    static const struct qp_attribute plans[] = {{{"plan", 4}, {"gold", 4}},
                                                {{"plan", 4}, {"tin", 3}}};
    static char names[WAITERS][16];
    static struct request_start requests[WAITERS];
    assert_true(count <= (int)ARRAY_COUNT(names));
    for (int i = 0; i < count; i++) {
        (void)snprintf(names[i], sizeof names[i], "p%04d", i);
        enginetest_fill_start(&x, &requests[i], names[i], "{}");
        requests[i].attributes = &plans[i % 3];
        requests[i].attribute_count = i % 3 < 2;
        requests[i].command.answer = enginetest_answered;
        engine_submit(x.e, &requests[i].command);
    }
    enginetest_settle(&x);
}

/* A signal for some of those that wait reaches them on all pages, and nobody else, whenever the engine
 * dies. */
static void test_filter(void **state)
{
    int gold = (WAITERS + 2) / 3;
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        setup((enum storetest_kind)kind, waiter, to_gold);
        start_plans(30);
        send_all("s", -1);
        assert_int_equal(tally().completed, 10);
        assert_int_equal(storetest_count(&x.f, TABLE_hook_wait), 20);
        enginetest_done(&x);
    }
    for (int rounds = 1; rounds <= 5; rounds++) {
        setup(STORETEST_MEMORY, waiter, to_gold);
        start_plans(WAITERS);
        send_all("s", rounds);
        enginetest_crash(&x);
        enginetest_settle(&x);
        assert_int_equal(tally().completed, gold);
        assert_int_equal(tally().entries, gold);
        assert_int_equal(storetest_count(&x.f, TABLE_hook_wait), (size_t)(WAITERS - gold));
        enginetest_check(&x);
        enginetest_done(&x);
    }
}

static const struct actor pending[] = {
    TRIGGER("s"),
    {.name = "s", .category = 'B', .deed = DEED_SIGNAL, .topic = "h", .key = "k", .code = 202},
    {0}};
static const struct actor pending_all[] = {
    TRIGGER("s"),
    {.name = "s", .category = 'B', .deed = DEED_SIGNAL_ALL, .topic = "h", .code = 202},
    {0}};

static void assert_sent(const char *what)
{
    const struct act_row *act = enginetest_act(&x, x.job, "s,0,0");
    assert_true(str_equal(act->output, str_from(what)));
}

/* A signal with 202 is an answer after which others come: whoever waits gets it and goes on waiting, also
 * when it was sent before anybody did. */
static void test_pending_signal(void **state)
{
    (void)state;
    for (int early = 0; early < 2; early++) {
        setup(STORETEST_SQLITE, one, pending);
        if (early == 0) {
            assert_int_equal(enginetest_start(&x, "w"), QP_OK);
        }
        send_all("s", -1);
        assert_sent(early == 0 ? "delivered" : "kept");
        if (early != 0) {
            assert_int_equal(enginetest_start(&x, "w"), QP_OK);
        }
        assert_int_equal(tally().entries, 1);
        assert_int_equal(tally().completed, 0);
        assert_int_equal(storetest_count(&x.f, TABLE_hook_wait), 1);
        enginetest_check(&x);
        assert_int_equal(enginetest_signal(&x, "h", "k", 1, 0), QP_OK);
        assert_int_equal(tally().entries, 2);
        assert_int_equal(tally().completed, 1);
        enginetest_done(&x);
    }
    setup(STORETEST_SQLITE, pair, pending_all);
    assert_int_equal(enginetest_start(&x, "w"), QP_OK);
    send_all("s", -1);
    assert_int_equal(tally().entries, 2);
    assert_int_equal(storetest_count(&x.f, TABLE_hook_wait), 2);
    enginetest_done(&x);
}

static const struct actor leaves[] = {TRIGGER("e v"),
                                      {.name = "e",
                                       .category = 'A',
                                       .deed = DEED_BOTH,
                                       .ms = 1000,
                                       .topic = "h",
                                       .key = "k",
                                       .closes = true},
                                      HOOK("v", "v", NULL),
                                      {0}};

/* Whoever has stopped waiting because of a timer takes no signal: the next one who waits gets it. Others of the
 * same job go on waiting. */
static void leave_hook(void)
{
    assert_int_equal(enginetest_start(&x, "w"), QP_OK);
    assert_int_equal(storetest_count(&x.f, TABLE_hook_wait), 2);
    enginetest_wait(&x, 1000);
    assert_int_equal(storetest_count(&x.f, TABLE_hook_wait), 1);
    assert_int_equal(enginetest_signal(&x, "h", "k", 1, 60000), QP_OK);
    assert_int_equal(storetest_count(&x.f, TABLE_hook_sig), 1);
    assert_int_equal(enginetest_start(&x, "next"), QP_OK);
    assert_int_equal(storetest_count(&x.f, TABLE_hook_sig), 0);
    assert_int_equal(enginetest_job(&x, x.job)->sem, 1);
    assert_int_equal(engine_stats(x.e).late, 0);
    assert_int_equal(enginetest_signal(&x, "h", "v", 2, 0), QP_OK);
    enginetest_check(&x);
}

static void test_timer_leaves_the_hook(void **state)
{
    (void)state;
    enginetest_each(&x, leaves, false, leave_hook);
    enginetest_each(&x, leaves, true, leave_hook);
}

/* -------------------------------------------------------------------------------- to a job by name */

static const struct actor listener[] = {
    TRIGGER("l"),
    {.name = "l",
     .category = 'A',
     .deed = DEED_LISTEN,
     .topic = "yes",
     .key = "no",
     .depth = 2,
     .next = "m"},
    {.name = "m", .category = 'A', .deed = DEED_LISTEN, .topic = "more", .key = "less", .depth = 1},
    {0}};
static const struct actor tells[] = {
    TRIGGER("s"),
    {.name = "s", .category = 'B', .deed = DEED_SIGNAL_JOB, .topic = "no", .key = "a"},
    {0}};

static const struct actor tells_and_waits[] = {
    TRIGGER("s h"),
    {.name = "s", .category = 'B', .deed = DEED_SIGNAL_JOB, .topic = "no", .key = "a"},
    HOOK("h", "k", NULL),
    {0}};

static const struct signal_job to_a = {.id = {"a", 1}};

static int send(const char *name, const char *id, struct request_signal *out_request)
{
    return enginetest_signal_job(&x, &to_a, name, id, out_request);
}

/* Proves that a signal to a job by name is delivered or kept whatever its name is, that its id is sent once, that a
 * listen is over with its first answer, and that a job which has ended is closed for signals and keeps none. */
static void listen_once(void)
{
    struct request_signal r;
    assert_int_equal(send("yes", NULL, &r), QP_E_NOT_FOUND);
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
    assert_int_equal(enginetest_job(&x, x.job)->status, STATUS_WAITING);
    assert_int_equal(send("more", "1", &r), QP_OK);
    assert_true(r.kept && !r.delivered);
    assert_int_equal(send("more", "1", &r), QP_E_EXISTS);
    assert_true(r.kept);
    assert_int_equal(send("unheard", NULL, &r), QP_OK);
    assert_true(r.kept);
    enginetest_crash(&x);
    assert_int_equal(enginetest_job(&x, x.job)->kept, 2);
    assert_int_equal(send("no", NULL, &r), QP_OK);
    assert_true(r.delivered);
    assert_string_equal(enginetest_digits(&x, "l,0,0"), "201100000000001 000011000000001");
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED); /* "more" was kept */
    assert_int_equal(send("more", "1", &r), QP_E_EXISTS);
    assert_true(r.delivered);
    assert_int_equal(send("more", "2", &r), QP_E_CLOSED);
    assert_int_equal(storetest_count(&x.f, TABLE_hook_sig), 0);
    assert_int_equal(storetest_count(&x.f, TABLE_hook), 0);
    enginetest_check(&x);
}

static void test_listen(void **state)
{
    (void)state;
    enginetest_each(&x, listener, false, listen_once);
    enginetest_each(&x, listener, true, listen_once);
}

static int count_refused(void *context, const void *row)
{
    const struct event_row *e = row;
    *(int *)context += event_kind(e) == EVENT_REFUSED;
    return QP_OK;
}

static int refused_entries(void)
{
    struct scan scan = {.table = TABLE_event, .index = -1, .limit = SIZE_MAX};
    struct qp_err err;
    int count = 0;
    assert_int_equal(store_scan(x.f.s, &scan, &count, count_refused, &err), QP_OK);
    return count;
}

/* Proves that a job signals another by a message: it arrives once, also when the sender's engine dies between the two
 * commits; a target that is closed or unknown leaves no trace but an entry of a sender that is open. */
static void test_signal_from_a_job(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        setup((enum storetest_kind)kind, listener, tells);
        send_all("early", -1); /* there is no such job, and the sender has ended */
        assert_int_equal(refused_entries(), 0);
        assert_int_equal(enginetest_start(&x, "a"), QP_OK);
        send_all("s", 1);
        enginetest_crash(&x);
        enginetest_settle(&x);
        assert_int_equal(storetest_count(&x.f, TABLE_hook_wait), 2); /* of m: l has got its own */
        assert_int_equal(storetest_count(&x.f, TABLE_hook_sig), 0);
        enginetest_check(&x);
        enginetest_done(&x);
    }
}

/* Proves that an open sender learns that its signal was refused: of a job that is not there, and of one that is closed. */
static void test_refused_signal(void **state)
{
    (void)state;
    setup(STORETEST_SQLITE, listener, tells_and_waits);
    send_all("s1", -1);
    assert_int_equal(refused_entries(), 1);
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
    assert_int_equal(enginetest_end(&x, "a", JOB_CANCELLED), QP_OK);
    send_all("s2", -1);
    assert_int_equal(refused_entries(), 2);
    assert_int_equal(storetest_count(&x.f, TABLE_hook_sig), 0);
    enginetest_check(&x);
    enginetest_done(&x);
}

/* Proves that a signal to a job of a kind that takes none by name goes to the hook at the job's id. */
static void test_signal_to_job_with_hook(void **state)
{
    struct request_signal r;
    (void)state;
    setup(STORETEST_MEMORY, waiter, single);
    assert_int_equal(enginetest_start(&x, "a"), QP_OK);
    assert_int_equal(send("h", "1", &r), QP_OK);
    assert_true(r.delivered);
    assert_int_equal(enginetest_job(&x, x.job)->state, JOB_COMPLETED);
    enginetest_done(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_H12_fanout_cursor),
        cmocka_unit_test(test_H12_snapshot),
        cmocka_unit_test(test_H12_two_waiters_of_one_job),
        cmocka_unit_test(test_H13_any_order),
        cmocka_unit_test(test_H13_early_from_activity),
        cmocka_unit_test(test_H13_time_to_live),
        cmocka_unit_test(test_H13_signal_twice),
        cmocka_unit_test(test_H13_two_topics_kept),
        cmocka_unit_test(test_H13_two_topics_one_key),
        cmocka_unit_test(test_H13_equal_guids_of_two_jobs),
        cmocka_unit_test(test_H13_job_started_again),
        cmocka_unit_test(test_filter),
        cmocka_unit_test(test_pending_signal),
        cmocka_unit_test(test_timer_leaves_the_hook),
        cmocka_unit_test(test_listen),
        cmocka_unit_test(test_signal_from_a_job),
        cmocka_unit_test(test_refused_signal),
        cmocka_unit_test(test_signal_to_job_with_hook),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
