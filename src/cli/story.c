/* story.c - what happened to a job, line by line (see story.h)
 *
 *        4  12ms    pay      attempt 1 failed: the bank is closed (503), worker till-2; the next one in 1s
 *        5  3.1s    approve  waits for the signal order.approved, key order-7, for 1h
 *
 * A line says only what its entry has, which never changes. So its times are spans from the start of the job and from the
 * entry itself: the same line is printed whenever it is asked for.
 */
#include "cli/story.h"

#include <stdlib.h>

#include "cli/job_show.h"
#include "cli/jobs.h"

#define TIME_WIDTH 7
#define LABEL_WIDTH 14

static void put(const struct json *event, const char *key, const char *before)
{
    const struct json *value = json_get(event, str_from(key));
    if (value != NULL) {
        (void)fputs(before, stdout);
        (void)print_value(stdout, value);
    }
}

/* From the entry to a later time. */
static void put_span(const struct json *event, const char *key, const char *before)
{
    char text[SPAN_TEXT_SIZE];
    qp_ms until = member_time(event, key);
    if (until != 0) {
        printf("%s%s", before, span_text(until - member_time(event, "at"), text));
    }
}

static void put_error(const struct json *event)
{
    int64_t code = member_number(event, "code");
    put(json_get(event, QP_STR("error")), "message", "");
    if (code != 0) {
        printf(" (%lld)", (long long)code);
    }
    put(event, "worker", ", worker ");
}

/* How the job stands, where that is the news. */
static void put_end(const struct json *event)
{
    int code;
    if (status_is_final(member_text(event, "status"), &code)) {
        put(event, "status", "; the job is ");
    }
}

/* It is in front of an activity to which several ways lead. */
static bool is_join(const struct json *event)
{
    return str_equal(member_text(event, "type"), QP_STR("join"));
}

static void say_entered(const struct json *event)
{
    bool begins = member_number(event, "seq") == 1;
    char at[32];
    qp_str time = member_text(event, "at");
    if (!begins) {
        (void)fputs(is_join(event) ? "the first way has come here" : "entered", stdout);
        return;
    }
    (void)snprintf(at, sizeof at, "%.*s", (int)(time.n < 19 ? time.n : 19), time.p);
    at[time.n < 19 ? 0 : 10] = time.n < 19 ? '\0' : ' ';
    printf("started %s UTC", at);
}

static void say_answered(const struct json *event)
{
    int64_t code = member_number(event, "code");
    (void)fputs(is_join(event) ? "another way has come here" : "answered", stdout);
    if (code != 0 && code != 200) {
        printf(" %lld", (long long)code);
    }
    if (!str_equal(member_text(event, "status"), QP_STR("parked"))) {
        put_end(event); /* what parked it has a line of its own */
    }
}

static void say_failed(const struct json *event)
{
    put(event, "attempt", "attempt ");
    (void)fputs(" failed: ", stdout);
    put_error(event);
    if (json_get(event, QP_STR("until")) != NULL) {
        put_span(event, "until", "; the next one in ");
    } else {
        (void)fputs("; it was the last one", stdout);
    }
    put_end(event);
}

static void say_lost(const struct json *event)
{
    put(event, "delivery", "delivery ");
    (void)fputs(" got no answer: ", stdout);
    put_error(event);
    put_end(event);
}

static void say_waits(const struct json *event)
{
    bool signal = json_get(event, QP_STR("topic")) != NULL;
    (void)fputs("waits", stdout);
    put(event, "topic", " for the signal ");
    put(event, "key", ", key ");
    put_span(event, "until", signal ? ", for " : " for ");
}

static void say_called(const struct json *event)
{
    put(event, "other", "started the job ");
    put(event, "topic", ", ");
    put_span(event, "until", "; it begins in ");
}

static void say_forked(const struct json *event)
{
    put(event, "other", "forked from the job ");
}

static void say_refused(const struct json *event)
{
    put(event, "topic", "the signal ");
    put(event, "other", " was refused by the job ");
    put(json_get(event, QP_STR("error")), "message", ": ");
}

/* What has no words of its own: its kind, as it is, and whatever else it says. */
static void say_other(const struct json *event)
{
    put(event, "kind", "");
    put(event, "code", " ");
    put(event, "topic", ", topic ");
    put(event, "key", ", key ");
    put(event, "other", ", job ");
    put(event, "worker", ", worker ");
    put(json_get(event, QP_STR("error")), "message", ": ");
    put(event, "detail", ": ");
    put_end(event);
}

static void say(const struct json *event)
{
    static const struct {
        const char *kind;
        void (*say)(const struct json *event);
    } all[] = {{"entered", say_entered}, {"answered", say_answered}, {"lost", say_lost},
               {"waits", say_waits},     {"called", say_called},     {"forked", say_forked},
               {"refused", say_refused}};
    qp_str kind = member_text(event, "kind");
    if (str_equal(kind, QP_STR("failed")) && json_get(event, QP_STR("attempt")) != NULL) {
        say_failed(event);
        return;
    }
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        if (str_equal(kind, str_from(all[i].kind))) {
            all[i].say(event);
            return;
        }
    }
    say_other(event);
}

void story_line(const struct json *event, qp_ms started)
{
    char span[SPAN_TEXT_SIZE];
    printf("%4lld  %-*s  ", (long long)member_number(event, "seq"), TIME_WIDTH,
           span_text(member_time(event, "at") - started, span));
    if (json_get(event, QP_STR("address")) != NULL) {
        int width = people_label(stdout, event);
        printf("%*s  ", width < LABEL_WIDTH ? LABEL_WIDTH - width : 0, "");
    }
    say(event);
    (void)fputc('\n', stdout);
}

void story_wide(const struct json *event)
{
    printf("%4lld  ", (long long)member_number(event, "seq"));
    put(event, "at", "");
    put(event, "kind", "  ");
    put(event, "address", "  ");
    if (json_get(event, QP_STR("location")) != NULL) {
        (void)fputs("  ", stdout);
        (void)job_print_place(stdout, event);
        put(event, "type", " ");
        put(event, "name", " ");
    }
    put(event, "ledger", "  ");
    put(event, "code", "  ");
    put(event, "status", "  ");
    put(event, "attempt", "  attempt ");
    put(event, "delivery", "  delivery ");
    put(event, "worker", "  worker ");
    put(event, "topic", "  topic ");
    put(event, "key", "  key ");
    put(event, "other", "  job ");
    put(json_get(event, QP_STR("error")), "message", "  ");
    put(event, "until", "  until ");
    put(event, "detail", "  ");
    put(event, "says", "  ");
    (void)fputc('\n', stdout);
}
