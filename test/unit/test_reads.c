/* test_reads.c - lists, filters, pages, activities, journals, the feed, topics: on every kind of store
 *
 * Each test makes jobs in a small store and asks for them in all the ways there are; what must come is computed
 * from what was made.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/json.h"
#include "support/files.h"
#include "support/runtest.h"

#define ON_ALL_KINDS                                                                               \
    for (int kind = 0; kind < rt_kinds(); kind++) {                                                \
        qp *q;                                                                                     \
        rt_begin_on(kind);                                                                         \
        q = rt_open(rt_place);
#define END_KIND                                                                                   \
    rt_close(q);                                                                                   \
    rt_end();                                                                                      \
    }

struct seen {
    char ids[64][64];
    int count;
    char cursor[QP_CURSOR_SIZE];
};

static int see_job(void *context, const struct qp_job_info *job)
{
    struct seen *s = context;
    assert_true(s->count < 64 && job->id.n < 64);
    (void)snprintf(s->ids[s->count++], 64, "%.*s", STR_ARG(job->id));
    return QP_OK;
}

static void list(qp *q, const struct qp_list *what, struct seen *s)
{
    struct qp_err err = {0};
    *s = (struct seen){.count = 0};
    if (qp_job_list(q, what, s, see_job, s->cursor, &err) != QP_OK) {
        fail_msg("%.*s: %s", STR_ARG(what->where), err.text);
    }
}

/* All pages of a list, as one. */
static void list_all(qp *q, const char *where, enum qp_order order, int64_t limit, struct seen *all)
{
    struct qp_list what = {.where = str_from(where), .order = order, .limit = limit};
    char cursor[QP_CURSOR_SIZE] = "";
    *all = (struct seen){.count = 0};
    for (int pages = 0; pages < 100; pages++) {
        struct seen page;
        what.cursor = str_from(cursor);
        list(q, &what, &page);
        assert_true(page.count <= limit);
        for (int i = 0; i < page.count; i++) {
            memcpy(all->ids[all->count++], page.ids[i], 64);
        }
        memcpy(cursor, page.cursor, sizeof cursor);
        if (cursor[0] == '\0') {
            return;
        }
    }
    fail_msg("%s: pages without end", where);
}

static void start(qp *q, const char *topic, const char *id, const char *customer)
{
    struct qp_attribute a = {QP_STR("customer"), str_from(customer)};
    rt_start_with(q, &(struct qp_start){.topic = str_from(topic),
                                        .id = str_from(id),
                                        .input = QP_STR("{\"a\":[1,2]}"),
                                        .retry.attempts = 1,
                                        .attributes = &a,
                                        .attribute_count = customer == NULL ? 0 : 1});
}

/* Twelve jobs: topics a and b by turns, customers x, y, none; the 3rd fails, the 4th is cancelled, the 5th
 * paused, the 6th completed. */
static void populate(qp *q)
{
    struct qp_err err = {0};
    qp_task *task = NULL;
    for (int i = 0; i < 12; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "job-%02d", i);
        start(q,
              i == 3       ? "f"
              : i == 6     ? "c"
              : i % 2 == 0 ? "a"
                           : "b",
              id,
              i % 3 == 0   ? "x"
              : i % 3 == 1 ? "y"
                           : NULL);
    }
    assert_int_equal(qp_task_claim(q, QP_STR("f"), &task, &err), QP_OK);
    assert_int_equal(qp_task_error(task, &(struct qp_failure){.message = "no", .fatal = 1}, &err),
                     QP_OK);
    assert_int_equal(qp_job_cancel(q, QP_STR("job-04"), "enough", &err), QP_OK);
    assert_int_equal(qp_job_pause(q, QP_STR("job-05"), &err), QP_OK);
    assert_int_equal(qp_task_claim(q, QP_STR("c"), &task, &err), QP_OK);
    assert_int_equal(qp_task_complete(task, QP_STR("\"done\""), &err), QP_OK);
}

/* Proves what each filter gives, in both orders, in pages of every size. */
static void test_filters(void **state)
{
    static const struct {
        const char *where;
        const char *ids; /* oldest first, of the jobs 00 to 11 */
    } cases[] = {
        {"", "00 01 02 03 04 05 06 07 08 09 10 11"},
        {"status=failed", "03"},
        {"status=cancelled", "04"},
        {"status=paused", "05"},
        {"status=completed", "06"},
        {"status=running", "00 01 02 07 08 09 10 11"},
        {"status!=running", "03 04 05 06"},
        {"workflow=a", "00 02 04 08 10"},
        {"topic=b and status=running", "01 07 09 11"},
        {"attr.customer=x", "00 03 06 09"},
        {"attr.customer=x and status=running", "00 09"},
        {"attr.customer!=x", "01 02 04 05 07 08 10 11"},
        {"attr.customer^=y and workflow=b", "01 07"},
        {"attr.other=x", ""},
        {"id=job-07", "07"},
        {"id=job-07 and status=failed", ""},
        {"id=nobody", ""},
        {"id^=job-1", "10 11"},
        {"started>-1h", "00 01 02 03 04 05 06 07 08 09 10 11"},
        {"started<-1h", ""},
        {"started>-1h and status=failed", "03"},
        {"ended>-1h", "03 04 06"},
        {"updated<2001-01-01T00:00:00Z", ""},
        {"status=parked", ""},
    };
    ON_ALL_KINDS
    populate(q);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        for (int64_t limit = 1; limit <= 13; limit += 3) {
            struct seen forwards;
            struct seen backwards;
            char ids[128] = "";
            list_all(q, cases[i].where, QP_OLDEST_FIRST, limit, &forwards);
            list_all(q, cases[i].where, QP_NEWEST_FIRST, limit, &backwards);
            assert_int_equal(forwards.count, backwards.count);
            for (int k = 0; k < forwards.count; k++) {
                assert_string_equal(forwards.ids[k], backwards.ids[backwards.count - 1 - k]);
                (void)snprintf(ids + strlen(ids), sizeof ids - strlen(ids), "%s%s",
                               k > 0 ? " " : "", forwards.ids[k] + 4);
            }
            if (strcmp(ids, cases[i].ids) != 0) {
                fail_msg("%s, pages of %d: %s", cases[i].where, (int)limit, ids);
            }
        }
    }
    END_KIND
}

/* Proves that a cursor goes on where it was, whatever came meanwhile, and is of no use elsewhere. */
static void test_cursors(void **state)
{
    ON_ALL_KINDS
    struct seen page;
    struct seen next;
    struct qp_err err = {0};
    struct qp_list what = {.limit = 3};
    char other[QP_CURSOR_SIZE];
    populate(q);
    list(q, &what, &page);
    assert_string_equal(page.ids[2], "job-09");
    start(q, "a", "late", NULL);
    what.cursor = str_from(page.cursor);
    list(q, &what, &next);
    assert_string_equal(next.ids[0], "job-08");
    what.order = QP_OLDEST_FIRST;
    assert_int_equal(qp_job_list(q, &what, &next, see_job, other, &err), QP_E_INVALID);
    what.order = QP_NEWEST_FIRST;
    what.where = QP_STR("status=failed");
    assert_int_equal(qp_job_list(q, &what, &next, see_job, other, &err), QP_E_INVALID);
    what.where = QP_NONE;
    for (size_t i = 0; i < strlen(page.cursor); i++) {
        char changed[QP_CURSOR_SIZE];
        memcpy(changed, page.cursor, sizeof changed);
        changed[i] = changed[i] == '3' ? '4' : '3';
        what.cursor = str_from(changed);
        assert_int_equal(qp_job_list(q, &what, &next, see_job, other, &err), QP_E_INVALID);
    }
    what.cursor = QP_NONE;
    what.limit = 1001;
    assert_int_equal(qp_job_list(q, &what, &next, see_job, other, &err), QP_E_INVALID);
    what.limit = -1;
    assert_int_equal(qp_job_list(q, &what, &next, see_job, other, &err), QP_E_INVALID);
    what.limit = 0;
    what.ns = QP_STR("nowhere");
    assert_int_equal(qp_job_list(q, &what, &next, see_job, other, &err), QP_E_NOT_FOUND);
    END_KIND
}

static int refuse_second(void *context, const struct qp_job_info *job)
{
    (void)job;
    return ++*(int *)context == 2 ? QP_E_LIMIT : QP_OK;
}

/* Proves that a visit ends a list with its own code, and that reading goes on after that. */
static void test_visit_ends(void **state)
{
    ON_ALL_KINDS
    struct qp_err err = {0};
    struct seen page;
    char cursor[QP_CURSOR_SIZE] = "untouched";
    int count = 0;
    populate(q);
    assert_int_equal(
        qp_job_list(q, &(struct qp_list){.limit = 9}, &count, refuse_second, cursor, &err),
        QP_E_LIMIT);
    assert_int_equal(count, 2);
    assert_string_equal(cursor, "untouched");
    list(q, &(struct qp_list){.limit = 1}, &page);
    assert_int_equal(page.count, 1);
    END_KIND
}

static int64_t count_of(qp *q, const char *where, enum qp_count_how how)
{
    struct qp_count count = {0};
    struct qp_err err = {0};
    if (qp_job_count(q, QP_NONE, str_from(where), how, &count, &err) != QP_OK) {
        fail_msg("%s: %s", where, err.text);
    }
    assert_true(count.exact);
    return count.count;
}

/* Proves that counts are those of the lists, known or looked for. */
static void test_counts(void **state)
{
    static const struct {
        const char *where;
        int64_t count;
    } cases[] = {{"", 12},
                 {"status=running", 8},
                 {"status=running and workflow=a", 4},
                 {"workflow!=a", 7},
                 {"attr.customer=x", 4},
                 {"attr.customer=x and status=running", 2},
                 {"started>-1h", 12},
                 {"id=job-01", 1},
                 {"id=nobody", 0}};
    ON_ALL_KINDS
    struct qp_count count;
    struct qp_err err;
    populate(q);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(count_of(q, cases[i].where, QP_COUNT_EXACT), cases[i].count);
        assert_int_equal(count_of(q, cases[i].where, QP_COUNT_ESTIMATE), cases[i].count);
    }
    assert_int_equal(qp_job_count(q, QP_NONE, QP_STR("nothing"), QP_COUNT_EXACT, &count, &err),
                     QP_E_INVALID);
    END_KIND
}

static int check_job(void *context, const struct qp_job_info *job)
{
    int *seen = context;
    ++*seen;
    assert_true(str_equal(job->id, QP_STR("job-06")));
    assert_true(str_equal(job->ns, QP_STR("default")));
    assert_true(str_equal(job->workflow, QP_STR("c")));
    assert_string_equal(job->status, "completed");
    assert_true(str_equal(job->input, QP_STR("{\"a\":[1,2]}")));
    assert_true(str_equal(job->output, QP_STR("\"done\"")));
    assert_true(job->created_at > 0 && job->closed_at >= job->created_at);
    assert_int_equal(job->open, 0);
    assert_int_equal(job->attribute_count, 1);
    assert_true(str_equal(job->attributes[0].name, QP_STR("customer")));
    assert_true(str_equal(job->attributes[0].value, QP_STR("x")));
    assert_true(str_is_none(job->unserved_topic));
    return QP_OK;
}

static int check_unserved(void *context, const struct qp_job_info *job)
{
    *(bool *)context = !str_is_none(job->unserved_topic);
    return QP_OK;
}

static int do_nothing(void *context, qp_task *task)
{
    (void)context;
    (void)task;
    return QP_OK;
}

/* Proves that a job is found by its id or the beginning of it, that several are told, and all that is
 * shown; a task that nobody asks for is told of. */
static void test_show(void **state)
{
    ON_ALL_KINDS
    struct qp_err err = {0};
    char id[QP_ID_SIZE];
    int seen = 0;
    bool unserved = false;
    populate(q);
    assert_int_equal(qp_job_show(q, QP_NONE, QP_STR("job-06"), &seen, check_job, &err), QP_OK);
    assert_int_equal(qp_job_resolve(q, QP_NONE, QP_STR("job-06"), id, &err), QP_OK);
    assert_string_equal(id, "job-06");
    start(q, "a", "unique-name", NULL);
    assert_int_equal(qp_job_resolve(q, QP_NONE, QP_STR("uniq"), id, &err), QP_OK);
    assert_string_equal(id, "unique-name");
    assert_int_equal(qp_job_resolve(q, QP_NONE, QP_STR("job-"), id, &err), QP_E_CONFLICT);
    assert_non_null(strstr(err.text, "job-00"));
    assert_int_equal(qp_job_resolve(q, QP_NONE, QP_STR("nobody"), id, &err), QP_E_NOT_FOUND);
    assert_int_equal(qp_job_resolve(q, QP_NONE, QP_STR(""), id, &err), QP_E_INVALID);
    assert_int_equal(seen, 1);
    assert_int_equal(qp_job_show(q, QP_NONE, QP_STR("uniq"), &unserved, check_unserved, &err),
                     QP_OK);
    assert_true(unserved);
    rt_worker(q, "a", do_nothing, NULL);
    start(q, "a", "served", NULL);
    assert_int_equal(qp_job_show(q, QP_NONE, QP_STR("served"), &unserved, check_unserved, &err),
                     QP_OK);
    assert_false(unserved);
    END_KIND
}

struct parts {
    char text[2048];
    int count;
    int64_t last;
};

static int see_activity(void *context, const struct qp_activity *a)
{
    struct parts *p = context;
    (void)snprintf(p->text + strlen(p->text), sizeof p->text - strlen(p->text), "%.*s:%s:%s ",
                   STR_ARG(a->address), a->state, a->task);
    p->count++;
    return QP_OK;
}

static int see_event(void *context, const struct qp_event *e)
{
    struct parts *p = context;
    assert_true(e->seq > p->last || p->last == 0);
    p->last = e->seq;
    (void)snprintf(p->text + strlen(p->text), sizeof p->text - strlen(p->text), "%lld:%s:%s ",
                   (long long)e->seq, e->kind, e->status);
    p->count++;
    return QP_OK;
}

/* Proves the parts of a job: its activities with their words, its journal whole and from a sequence on. */
static void test_parts(void **state)
{
    ON_ALL_KINDS
    struct parts p = {.count = 0};
    struct qp_err err = {0};
    bool more = true;
    populate(q);
    assert_int_equal(
        qp_activity_list(q, QP_NONE, QP_STR("job-00"), QP_NONE, 0, &p, see_activity, &more, &err),
        QP_OK);
    assert_string_equal(p.text, "run,0,0:waiting:ready trigger,0:done:none ");
    assert_false(more);
    p = (struct parts){.count = 0};
    assert_int_equal(
        qp_activity_list(q, QP_NONE, QP_STR("job-06"), QP_NONE, 1, &p, see_activity, &more, &err),
        QP_OK);
    assert_string_equal(p.text, "run,0,0:done:none ");
    assert_true(more);
    assert_int_equal(qp_activity_list(q, QP_NONE, QP_STR("job-06"), QP_STR("run,0,0"), 1, &p,
                                      see_activity, &more, &err),
                     QP_OK);
    assert_string_equal(p.text, "run,0,0:done:none trigger,0:done:none ");
    assert_false(more);
    p = (struct parts){.count = 0};
    assert_int_equal(qp_job_journal(q, QP_NONE, QP_STR("job-04"), 0, 0, &p, see_event, &more, &err),
                     QP_OK);
    assert_false(more);
    assert_non_null(strstr(p.text, "entered"));
    assert_non_null(strstr(p.text, "answered"));
    assert_non_null(strstr(p.text, "closed:cancelled"));
    {
        struct parts page = {.count = 0};
        int64_t after = 0;
        do {
            assert_int_equal(qp_job_journal(q, QP_NONE, QP_STR("job-04"), after, 1, &page,
                                            see_event, &more, &err),
                             QP_OK);
            after++;
        } while (more);
        assert_string_equal(page.text, p.text);
    }
    assert_int_equal(qp_job_journal(q, QP_NONE, QP_STR("nobody"), 0, 0, &p, see_event, &more, &err),
                     QP_E_NOT_FOUND);
    assert_int_equal(
        qp_job_journal(q, QP_NONE, QP_STR("job-04"), -1, 0, &p, see_event, &more, &err),
        QP_E_INVALID);
    END_KIND
}

struct feed_seen {
    int count;
    int64_t last;
    char job[64];
};

static int see_feed(void *context, const struct qp_event *e)
{
    struct feed_seen *f = context;
    assert_true(e->pos > f->last);
    f->last = e->pos;
    f->count++;
    (void)snprintf(f->job, sizeof f->job, "%.*s", STR_ARG(e->job));
    return QP_OK;
}

static int feed_all(qp *q, struct qp_feed what, struct feed_seen *f)
{
    struct qp_err err = {0};
    bool more = true;
    *f = (struct feed_seen){.count = 0};
    while (more) {
        int64_t after = -1;
        if (qp_feed_read(q, &what, f, see_feed, &after, &more, &err) != QP_OK) {
            fail_msg("feed: %s", err.text);
        }
        assert_true(after >= what.after);
        what.after = after;
    }
    return f->count;
}

/* Proves that the feed gives each entry once, in order, in pages of any size, of all, one or some jobs. */
static void test_feed(void **state)
{
    ON_ALL_KINDS
    struct feed_seen f;
    struct qp_err err;
    int64_t position = -1;
    int all;
    populate(q);
    all = feed_all(q, (struct qp_feed){.limit = 0}, &f);
    assert_true(all > 24);
    for (int64_t limit = 1; limit < 30; limit += 7) {
        assert_int_equal(feed_all(q, (struct qp_feed){.limit = limit}, &f), all);
    }
    assert_int_equal(qp_feed_position(q, &position, &err), QP_OK);
    assert_int_equal(position, f.last);
    assert_int_equal(feed_all(q, (struct qp_feed){.after = position}, &f), 0);
    start(q, "a", "late", NULL);
    assert_true(feed_all(q, (struct qp_feed){.after = position}, &f) >= 2);
    assert_string_equal(f.job, "late");
    assert_true(feed_all(q, (struct qp_feed){.id = QP_STR("job-03")}, &f) >= 3);
    assert_string_equal(f.job, "job-03");
    assert_true(feed_all(q, (struct qp_feed){.where = QP_STR("status=failed")}, &f) >= 3);
    assert_string_equal(f.job, "job-03");
    assert_int_equal(feed_all(q, (struct qp_feed){.where = QP_STR("status=parked")}, &f), 0);
    END_KIND
}

struct topics_seen {
    char text[512];
};

static int see_topic(void *context, const struct qp_topic *t)
{
    struct topics_seen *s = context;
    (void)snprintf(s->text + strlen(s->text), sizeof s->text - strlen(s->text),
                   "%.*s=%lld/%lld%s%s ", STR_ARG(t->name), (long long)t->ready, (long long)t->held,
                   t->oldest_at > 0 ? " old" : "", t->workers > 0 ? " served" : "");
    return QP_OK;
}

/* Proves what waits at each topic, limit keys summed, in pages. */
static void test_topics(void **state)
{
    ON_ALL_KINDS
    struct topics_seen s = {""};
    struct qp_err err = {0};
    qp_task *task = NULL;
    bool more = true;
    populate(q);
    for (int i = 0; i < 3; i++) {
        rt_start_with(q, &(struct qp_start){.topic = QP_STR("k"),
                                            .input = QP_STR("{}"),
                                            .limit_key = i == 0 ? QP_STR("k1") : QP_STR("k2")});
    }
    assert_int_equal(qp_task_claim(q, QP_STR("a"), &task, &err), QP_OK);
    assert_int_equal(qp_topic_list(q, QP_NONE, QP_NONE, 0, &s, see_topic, &more, &err), QP_OK);
    assert_false(more);
    assert_string_equal(s.text, "a=3/1 old b=5/0 old c=0/0 f=0/0 k=3/0 old ");
    s.text[0] = '\0';
    assert_int_equal(qp_topic_list(q, QP_NONE, QP_NONE, 2, &s, see_topic, &more, &err), QP_OK);
    assert_true(more);
    assert_string_equal(s.text, "a=3/1 old b=5/0 old ");
    s.text[0] = '\0';
    assert_int_equal(qp_topic_list(q, QP_NONE, QP_STR("b"), 3, &s, see_topic, &more, &err), QP_OK);
    assert_false(more);
    assert_string_equal(s.text, "c=0/0 f=0/0 k=3/0 old ");
    rt_worker(q, "c", do_nothing, NULL);
    s.text[0] = '\0';
    assert_int_equal(qp_topic_list(q, QP_NONE, QP_STR("b"), 1, &s, see_topic, &more, &err), QP_OK);
    assert_string_equal(s.text, "c=0/0 served ");
    END_KIND
}

static int add_piece(void *context, qp_str piece)
{
    buf_str(context, piece);
    return buf_rc(context);
}

/* Proves that an export is one JSON object with all parts of the job. */
static void test_export(void **state)
{
    ON_ALL_KINDS
    struct qp_err err = {0};
    struct buf text;
    struct json *json = NULL;
    qp_str id = QP_NONE;
    populate(q);
    buf_init(&text, &rt.env, 0);
    assert_int_equal(qp_job_export(q, QP_NONE, QP_STR("job-06"), &text, add_piece, &err), QP_OK);
    if (json_parse(&rt.env, buf_slice(&text), &err, &json) != QP_OK) {
        fail_msg("%s: %.*s", err.text, (int)text.n, text.p);
    }
    assert_true(json_as_str(json_get(json_get(json, QP_STR("job")), QP_STR("id")), &id));
    assert_true(str_equal(id, QP_STR("job-06")));
    assert_int_equal(json_count(json_get(json, QP_STR("activities"))), 2);
    assert_true(json_count(json_get(json, QP_STR("journal"))) >= 4);
    assert_true(json_is(json_get(json, QP_STR("data")), JSON_KIND_OBJECT));
    json_free(json);
    buf_reset(&text);
    assert_int_equal(qp_job_export(q, QP_NONE, QP_STR("nobody"), &text, add_piece, &err),
                     QP_E_NOT_FOUND);
    buf_done(&text);
    END_KIND
}

static int see_space(void *context, const struct qp_space *s)
{
    struct parts *p = context;
    assert_true(s->created_at >= 0);
    (void)snprintf(p->text + strlen(p->text), sizeof p->text - strlen(p->text), "%.*s ",
                   STR_ARG(s->name));
    return QP_OK;
}

/* Proves that namespaces are made once, listed, and know nothing of each other. */
static void test_spaces(void **state)
{
    ON_ALL_KINDS
    struct parts p = {.count = 0};
    struct qp_err err = {0};
    struct seen seen;
    char id[QP_ID_SIZE];
    assert_int_equal(qp_space_create(q, QP_STR("team"), &err), QP_OK);
    assert_int_equal(qp_space_create(q, QP_STR("team"), &err), QP_E_EXISTS);
    assert_int_equal(qp_space_create(q, QP_STR("no good"), &err), QP_E_INVALID);
    assert_int_equal(qp_space_list(q, &p, see_space, &err), QP_OK);
    assert_string_equal(p.text, "default team ");
    start(q, "a", "one", NULL);
    rt_start_with(q, &(struct qp_start){.ns = QP_STR("team"),
                                        .topic = QP_STR("a"),
                                        .id = QP_STR("one"),
                                        .input = QP_STR("2")});
    rt_start_with(q, &(struct qp_start){.ns = QP_STR("team"),
                                        .topic = QP_STR("a"),
                                        .id = QP_STR("two"),
                                        .input = QP_STR("2")});
    list(q, &(struct qp_list){.ns = QP_STR("team")}, &seen);
    assert_int_equal(seen.count, 2);
    list(q, &(struct qp_list){0}, &seen);
    assert_int_equal(seen.count, 1);
    assert_int_equal(qp_job_resolve(q, QP_NONE, QP_STR("two"), id, &err), QP_E_NOT_FOUND);
    assert_int_equal(
        qp_job_start(
            q,
            &(struct qp_start){.ns = QP_STR("nowhere"), .topic = QP_STR("a"), .input = QP_STR("1")},
            id, &err),
        QP_E_NOT_FOUND);
    END_KIND
}

/* Proves that a store is read while another handle writes to it, and that a reader writes nothing. */
static void test_readonly(void **state)
{
    for (int kind = RT_FILE; kind < rt_kinds(); kind++) {
        struct qp_options options;
        struct qp_err err = {0};
        struct seen seen;
        qp *q;
        qp *r = NULL;
        rt_begin_on(kind);
        q = rt_open(rt_place);
        qp_options_init(&options);
        options.path = rt_place;
        options.env = &rt.env;
        assert_int_equal(qp_open_readonly(&options, &r, &err), QP_OK);
        populate(q);
        list(r, &(struct qp_list){0}, &seen);
        assert_int_equal(seen.count, 12);
        assert_int_equal(qp_job_cancel(r, QP_STR("job-00"), NULL, &err), QP_E_READONLY);
        assert_int_equal(
            qp_job_start(r, &(struct qp_start){.topic = QP_STR("a"), .input = QP_STR("1")}, NULL,
                         &err),
            QP_E_READONLY);
        assert_int_equal(qp_poll(r, &err), QP_E_READONLY);
        assert_int_equal(qp_run(r, &err), QP_E_READONLY);
        assert_int_equal(qp_start_threads(r, 0, &err), QP_E_READONLY);
        rt_close(q);
        list(r, &(struct qp_list){.limit = 2}, &seen); /* the file goes on without its writer */
        assert_int_equal(seen.count, 2);
        rt_close(r);
        options.namespace_name = "nowhere";
        assert_int_equal(qp_open_readonly(&options, &r, &err), QP_E_NOT_FOUND);
        options.path = NULL;
        assert_int_equal(qp_open_readonly(&options, &r, &err), QP_E_INVALID);
        rt_end();
    }
}

#define READERS 8

static void read_much(void *context, int index)
{
    qp *q = context;
    for (int i = 0; i < 50; i++) {
        struct qp_err err;
        struct qp_count count;
        char id[QP_ID_SIZE];
        if (index == 0) {
            QP_ASSERT(qp_job_start(q,
                                   &(struct qp_start){.topic = QP_STR("a"), .input = QP_STR("1")},
                                   id, &err) == QP_OK);
            QP_ASSERT(qp_job_resolve(q, QP_NONE, str_from(id), id, &err) == QP_OK);
        } else {
            QP_ASSERT(qp_job_count(q, QP_NONE, QP_STR("started>-1h"), QP_COUNT_EXACT, &count,
                                   &err) == QP_OK);
            QP_ASSERT(count.count >= 12);
        }
    }
}

/* Proves that many threads read while one writes, and that whoever was told of a job finds it. */
static void test_threads(void **state)
{
    ON_ALL_KINDS
    struct qp_err err;
    populate(q);
    assert_int_equal(qp_start_threads(q, 0, &err), QP_OK);
    rt_threads(READERS, read_much, q);
    END_KIND
}

/* The readers are closed before the engine's own connection: what was committed is in the file then, and no
 * log stays beside it. */
static void test_close_leaves_one_file(void **state)
{
    struct seen s;
    char name[400];
    size_t size = 0;
    unsigned char *bytes;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(rt_path);
    for (int i = 0; i < 5; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "job-%d", i); /* fits */
        rt_start(q, id);
    }
    list(q, &(struct qp_list){0}, &s);
    assert_int_equal(s.count, 5);
    rt_close(q);
    (void)snprintf(name, sizeof name, "%s-wal", rt_path); /* fits */
    assert_int_not_equal(access(name, F_OK), 0);
    (void)snprintf(name, sizeof name, "%s.alone", rt_path); /* fits */
    bytes = files_get(rt_path, &size);
    assert_non_null(bytes);
    files_put(name, bytes, size);
    free(bytes);
    rt_check(name, 5);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close_leaves_one_file),
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_cursors),
        cmocka_unit_test(test_visit_ends),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_show),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_feed),
        cmocka_unit_test(test_topics),
        cmocka_unit_test(test_export),
        cmocka_unit_test(test_spaces),
        cmocka_unit_test(test_readonly),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
