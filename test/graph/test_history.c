/* test_history.c - a history that is one: what was read while a job ran is what is read afterwards, byte for byte
 *
 *   drill      three attempts fail, a sleep runs out, a signal comes, another job is called. After every commit the entries that are
 *              new are noted, as somebody who watches prints them, and all that were noted before are read again. On every kind of
 *              store, fused and step by step: the same lines.
 *   pages      from any entry on, in pages of any size, and by the feed: the same lines
 *   kills      the engine dies after each commit of it: no line changes, and each task that was lost with it has one
 *   failure    the last attempt has its line, too; then the answer, then the end of the job
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/ledger.h"
#include "kernel/query.h"
#include "run/show.h"
#include "support/graphrun.h"

#define LINES_MAX 64
#define LINE_SIZE 1024

static struct graphrun run;
static int64_t failing; /* attempts */

static const char drill[] =
    "app:\n"
    "  id: drill\n"
    "  version: '1'\n"
    "  graphs:\n"
    "    - subscribes: drill.start\n"
    "      activities:\n"
    "        want: { type: trigger }\n"
    "        pay: { type: worker, topic: do.pay, retry: { maximumAttempts: 4, initialInterval: 1 } }\n"
    "        nap: { type: hook, sleep: 5 }\n"
    "        ask: { type: hook, sleep: 3600 }\n"
    "        sub: { type: await, topic: drill.child }\n"
    "      transitions:\n"
    "        want: [{ to: pay }]\n"
    "        pay: [{ to: nap, conditions: { code: 200 } }]\n"
    "        nap: [{ to: ask }]\n"
    "        ask: [{ to: sub }]\n"
    "      hooks:\n"
    "        drill.ok:\n"
    "          - to: ask\n"
    "            conditions:\n"
    "              match: [{ expected: '{$job.metadata.jid}', actual: '{$self.hook.data.id}' }]\n"
    "    - subscribes: drill.child\n"
    "      activities: { start: { type: trigger }, done: { type: worker, topic: do.child } }\n"
    "      transitions: { start: [{ to: done }] }\n";

static void work(struct graphcall *c)
{
    if (str_equal(c->topic, QP_STR("do.pay")) && c->failures < failing) {
        c->kind = RESULT_ERROR;
        c->code = 503;
        (void)snprintf(c->output, sizeof c->output, "{\"message\":\"closed\",\"code\":503}");
    }
}

/* ------------------------------------------------------------------------------------------ lines */

struct lines {
    char texts[LINES_MAX][LINE_SIZE];   /* as JSON, with all that is told */
    char stories[LINES_MAX][LINE_SIZE]; /* for the eye, without times and ids that are made */
    int64_t count;
    int64_t seq;
};

static struct lines watched;
static struct lines again;

static void story_add(char *story, const char *before, qp_str text)
{
    size_t used = strlen(story);
    if (!str_is_none(text)) {
        (void)snprintf(story + used, LINE_SIZE - used, "%s%.*s", before, STR_ARG(text));
    }
}

static void story_number(char *story, const char *before, int64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%lld", (long long)number);
    story_add(story, before, number == 0 ? QP_NONE : str_from(text));
}

static void story_of(const struct qp_event *e, char *story)
{
    char digits[16];
    ledger_text(e->ledger, digits);
    (void)snprintf(story, LINE_SIZE, "%lld %s", (long long)e->seq, e->kind);
    story_add(story, " ", e->address);
    story_add(story, " ", e->ledger == 0 ? QP_NONE : str_from(digits));
    story_number(story, " ", e->code);
    story_add(story, " ", str_from(e->status));
    story_number(story, " attempt ", e->attempt);
    story_number(story, " delivery ", e->delivery);
    story_add(story, " ", e->topic);
    story_add(story, " ", e->key);
    story_add(story, e->until == 0 ? "" : " until", QP_STR(""));
    story_add(story, " ", e->error);
    story_add(story, " ", e->detail);
}

static int note(void *context, const struct qp_event *e)
{
    struct lines *l = context;
    struct json_writer w;
    struct buf text;
    assert_true(l->count < LINES_MAX);
    buf_init(&text, &run.f.t.env, 0);
    json_writer_init(&w, &text);
    show_event(&w, e);
    assert_int_equal(json_writer_done(&w), QP_OK);
    (void)snprintf(l->texts[l->count], LINE_SIZE, "%.*s", STR_ARG(buf_slice(&text)));
    buf_done(&text);
    story_of(e, l->stories[l->count]);
    assert_true(e->seq > l->seq);
    l->seq = e->seq;
    l->count++;
    return QP_OK;
}

static struct query query_here(void)
{
    return (struct query){.store = run.f.s, .ns = STORE_NS_DEFAULT, .ns_name = QP_STR("default")};
}

/* The entries after the last one that it has; a job that is not there yet has none. */
static void read_more(struct lines *l, int64_t page)
{
    struct query q = query_here();
    struct qp_err err = {0};
    bool more = true;
    while (more) {
        int rc = query_journal(&q, QP_STR("j"), l->seq, page, l, note, &more, &err);
        if (rc == QP_E_NOT_FOUND) {
            return;
        }
        assert_int_equal(rc, QP_OK);
    }
}

static void assert_same(void)
{
    assert_int_equal(again.count, watched.count);
    for (int64_t i = 0; i < watched.count; i++) {
        assert_string_equal(again.texts[i], watched.texts[i]);
    }
}

/* Somebody watches: what is new is printed; and what was printed is what stands there. */
static void look(struct graphrun *r)
{
    (void)r;
    read_more(&watched, 100);
    again.count = again.seq = 0;
    read_more(&again, 100);
    assert_same();
}

static void begin(int kind, bool stepwise, int64_t fails)
{
    failing = fails;
    watched.count = watched.seq = 0;
    run.stepwise = stepwise;
    graphrun_init(&run, (enum storetest_kind)kind, "do.pay do.child", work);
    graphrun_deploy(&run, drill);
    run.after_round = look;
}

/* ------------------------------------------------------------------------------------------ drill */

#define CLOSED " {\"code\":503,\"message\":\"closed\",\"activity\":\"pay\",\"address\":\"pay,0,0\"}"

static const char *const told[] = {
    "1 entered trigger,0 101100000000001 running",
    "2 answered trigger,0 000011000000000 running",
    "3 entered pay,0,0 001000000000000 running",
    "4 failed pay,0,0 503 retrying attempt 1 until" CLOSED,
    "5 failed pay,0,0 503 retrying attempt 2 until" CLOSED,
    "6 failed pay,0,0 503 retrying attempt 3 until" CLOSED,
    "7 answered pay,0,0 000011000000001 200 running",
    "8 entered nap,0,0,0 001000000000000 running",
    "9 waits nap,0,0,0 running until",
    "10 answered nap,0,0,0 000011000000001 running",
    "11 entered ask,0,0,0,0 001000000000000 running",
    "12 waits ask,0,0,0,0 running drill.ok j until",
    "13 answered ask,0,0,0,0 000011000000001 200 running",
    "14 entered sub,0,0,0,0,0 001000000000000 running",
    "15 called sub,0,0,0,0,0 running drill.child",
    "16 answered sub,0,0,0,0,0 000111000000001 200 completed",
};

static void run_drill(void)
{
    assert_int_equal(graphrun_start(&run, "drill.start", "j", "{}"), QP_OK);
    graphrun_wait(&run, 30000);
    assert_int_equal(graphrun_signal(&run, "drill.ok", "{\"id\":\"j\"}", 200), QP_OK);
    graphrun_wait(&run, 1000);
    graphrun_expect(&run, "j", "completed", NULL);
}

static void read_by_feed(void)
{
    struct query q = query_here();
    struct qp_feed feed = {.id = QP_STR("j"), .limit = 2};
    struct qp_err err = {0};
    bool more = true;
    again.count = again.seq = 0;
    for (int tries = 0; tries < 100000 && (more || again.count < watched.count); tries++) {
        /* on a server that others use, too, the feed comes when no older transaction is open */
        assert_int_equal(query_feed(&q, &feed, &again, note, &feed.after, &more, &err), QP_OK);
    }
    assert_same();
}

static void test_drill(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * storetest_kinds(); i++) {
        begin(i / 2, i % 2 != 0, 3);
        run_drill();
        look(&run);
        assert_int_equal(watched.count, ARRAY_COUNT(told));
        for (size_t k = 0; k < ARRAY_COUNT(told); k++) {
            assert_string_equal(watched.stories[k], told[k]);
        }
        for (int64_t page = 1; page < 6; page++) {
            again.count = again.seq = 0;
            read_more(&again, page);
            assert_same();
        }
        read_by_feed();
        graphrun_check(&run);
        graphrun_done(&run);
    }
}

/* ------------------------------------------------------------------------------------------ kills */

static int64_t count_of(const char *kind)
{
    int64_t count = 0;
    for (int64_t i = 0; i < watched.count; i++) {
        const char *word = strchr(watched.stories[i], ' ') + 1;
        count += strncmp(word, kind, strlen(kind)) == 0;
    }
    return count;
}

/* Whatever the commit after which the engine dies, all lines stay, every attempt has one, and the job ends. */
static void test_kills(void **state)
{
    int64_t lost = 0;
    (void)state;
    for (int stepwise = 0; stepwise < 2; stepwise++) {
        bool killed = true;
        for (int64_t at = 1; killed; at++) {
            begin(STORETEST_MEMORY, stepwise != 0, 3);
            run.kill_at = at;
            run.kills = 0;
            run.commits = 0;
            run_drill();
            look(&run);
            killed = run.kills > 0;
            assert_int_equal(count_of("failed"), 3);
            assert_int_equal(count_of("answered"), 5);
            assert_int_equal(count_of("waits"), 2);
            assert_int_equal(count_of("called"), 1);
            lost += count_of("lost");
            graphrun_check(&run);
            graphrun_done(&run);
        }
    }
    assert_true(lost > 0);
}

/* A task that its worker took with it when it died: the line says which delivery it was. */
static void test_lost(void **state)
{
    struct task *task;
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        begin(kind, false, 0);
        assert_int_equal(graphrun_start(&run, "drill.start", "j", "{}"), QP_OK);
        task = graphrun_take(&run, "pay,0,0");
        assert_non_null(task);
        graphrun_kill(&run);
        graphrun_rest(&run);
        look(&run);
        assert_string_equal(
            watched.stories[3],
            "4 lost pay,0,0 504 running delivery 1 {\"code\":504,\"message\":\"lease "
            "expired\",\"activity\":\"pay\",\"address\":\"pay,0,0\"}");
        graphrun_forget(&run, task);
        graphrun_settle(&run);
        assert_string_equal(watched.stories[4], "5 answered pay,0,0 000011000000001 200 running");
        graphrun_check(&run);
        graphrun_done(&run);
    }
}

/* ---------------------------------------------------------------------------------------- failure */

static void test_failure(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * storetest_kinds(); i++) {
        begin(i / 2, i % 2 != 0, 4);
        assert_int_equal(graphrun_start(&run, "drill.start", "j", "{}"), QP_OK);
        graphrun_wait(&run, 30000);
        graphrun_expect(&run, "j", "failed", NULL);
        look(&run);
        assert_int_equal(watched.count, 9);
        assert_string_equal(watched.stories[6], "7 failed pay,0,0 503 retrying attempt 4" CLOSED);
        assert_string_equal(watched.stories[7], "8 answered pay,0,0 000111000000001 503 failed");
        assert_non_null(strstr(watched.stories[8], "9 closed failed {"));
        graphrun_check(&run);
        graphrun_done(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drill),
        cmocka_unit_test(test_kills),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
