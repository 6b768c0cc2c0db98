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
#define TEXT_COLUMN 31

static void put(FILE *out, const struct json *event, const char *key, const char *before)
{
    const struct json *value = json_get(event, str_from(key));
    if (value != NULL) {
        (void)fputs(before, out);
        (void)print_value(out, value);
    }
}

/* From the entry to a later time. */
static void put_span(FILE *out, const struct json *event, const char *key, const char *before)
{
    char text[SPAN_TEXT_SIZE];
    qp_ms until = member_time(event, key);
    if (until != 0) {
        (void)fprintf(out, "%s%s", before, span_text(until - member_time(event, "at"), text));
    }
}

static void put_error(FILE *out, const struct json *event)
{
    int64_t code = member_number(event, "code");
    put(out, json_get(event, QP_STR("error")), "message", "");
    if (code != 0) {
        (void)fprintf(out, " (%lld)", (long long)code);
    }
    put(out, event, "worker", ", worker ");
}

/* How the job stands, where that is the news. */
static void put_end(FILE *out, const struct json *event)
{
    int code;
    if (status_is_final(member_text(event, "status"), &code)) {
        put(out, event, "status", "; the job is ");
    }
}

/* It is in front of an activity to which several ways lead. */
static bool is_join(const struct json *event)
{
    return str_equal(member_text(event, "type"), QP_STR("join"));
}

static void say_entered(FILE *out, const struct json *event)
{
    bool begins = member_number(event, "seq") == 1;
    char at[32];
    qp_str time = member_text(event, "at");
    if (!begins) {
        (void)fputs(is_join(event) ? "the first way has come here" : "entered", out);
        return;
    }
    (void)snprintf(at, sizeof at, "%.*s", (int)(time.n < 19 ? time.n : 19), time.p);
    at[time.n < 19 ? 0 : 10] = time.n < 19 ? '\0' : ' ';
    (void)fprintf(out, "started %s UTC", at);
}

static void say_answered(FILE *out, const struct json *event)
{
    int64_t code = member_number(event, "code");
    (void)fputs(is_join(event) ? "another way has come here" : "answered", out);
    if (code != 0 && code != 200) {
        (void)fprintf(out, " %lld", (long long)code);
    }
    if (!str_equal(member_text(event, "status"), QP_STR("parked"))) {
        put_end(out, event); /* what parked it has a line of its own */
    }
}

static void say_failed(FILE *out, const struct json *event)
{
    put(out, event, "attempt", "attempt ");
    (void)fputs(" failed: ", out);
    put_error(out, event);
    if (json_get(event, QP_STR("until")) != NULL) {
        put_span(out, event, "until", "; the next one in ");
    } else {
        (void)fputs("; it was the last one", out);
    }
    put_end(out, event);
}

static void say_lost(FILE *out, const struct json *event)
{
    put(out, event, "delivery", "delivery ");
    (void)fputs(" got no answer: ", out);
    put_error(out, event);
    put_end(out, event);
}

static void say_waits(FILE *out, const struct json *event)
{
    bool signal = json_get(event, QP_STR("topic")) != NULL;
    (void)fputs("waits", out);
    put(out, event, "topic", " for the signal ");
    put(out, event, "key", ", key ");
    put_span(out, event, "until", signal ? ", for " : " for ");
}

static void say_called(FILE *out, const struct json *event)
{
    put(out, event, "other", "started the job ");
    put(out, event, "topic", ", ");
    put_span(out, event, "until", "; it begins in ");
}

static void say_forked(FILE *out, const struct json *event)
{
    put(out, event, "other", "forked from the job ");
}

static void say_refused(FILE *out, const struct json *event)
{
    bool signal = json_get(event, QP_STR("other")) != NULL;
    put(out, event, "topic", signal ? "the signal " : "no job was started by the publication on ");
    put(out, event, "other", " was refused by the job ");
    put(out, json_get(event, QP_STR("error")), "message", ": ");
}

static void say_published(FILE *out, const struct json *event)
{
    int64_t code = member_number(event, "code");
    put(out, event, "topic", "published on ");
    (void)fputs(code == 202  ? ", and more will come"
                : code < 400 ? ", at its end"
                             : ", as failed",
                out);
    put_end(out, event);
}

/* What has no words of its own: its kind, as it is, and whatever else it says. */
static void say_other(FILE *out, const struct json *event)
{
    put(out, event, "kind", "");
    put(out, event, "code", " ");
    put(out, event, "topic", ", topic ");
    put(out, event, "key", ", key ");
    put(out, event, "other", ", job ");
    put(out, event, "worker", ", worker ");
    put(out, json_get(event, QP_STR("error")), "message", ": ");
    put(out, event, "detail", ": ");
    put_end(out, event);
}

static void say(FILE *out, const struct json *event)
{
    static const struct {
        const char *kind;
        void (*say)(FILE *out, const struct json *event);
    } all[] = {{"entered", say_entered}, {"answered", say_answered},  {"lost", say_lost},
               {"waits", say_waits},     {"called", say_called},      {"forked", say_forked},
               {"refused", say_refused}, {"published", say_published}};
    qp_str kind = member_text(event, "kind");
    if (str_equal(kind, QP_STR("failed")) && json_get(event, QP_STR("attempt")) != NULL) {
        say_failed(out, event);
        return;
    }
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        if (str_equal(kind, str_from(all[i].kind))) {
            all[i].say(out, event);
            return;
        }
    }
    say_other(out, event);
}

void story_line(const struct json *event, qp_ms started)
{
    char span[SPAN_TEXT_SIZE];
    char *memory = NULL;
    size_t size = 0;
    FILE *words;
    printf("%4lld  %-*s  ", (long long)member_number(event, "seq"), TIME_WIDTH,
           span_text(member_time(event, "at") - started, span));
    if (json_get(event, QP_STR("address")) != NULL) {
        int width = people_label(stdout, event);
        printf("%*s  ", width < LABEL_WIDTH ? LABEL_WIDTH - width : 0, "");
    }
    words = open_memstream(&memory, &size);
    if (words != NULL) {
        say(words, event);
        (void)fclose(words);
        print_wrapped((qp_str){memory, size}, TEXT_COLUMN);
    }
    free(memory);
}

void story_wide(const struct json *event)
{
    printf("%4lld  ", (long long)member_number(event, "seq"));
    put(stdout, event, "at", "");
    put(stdout, event, "kind", "  ");
    put(stdout, event, "address", "  ");
    if (json_get(event, QP_STR("location")) != NULL) {
        (void)fputs("  ", stdout);
        (void)job_print_place(stdout, event);
        put(stdout, event, "type", " ");
        put(stdout, event, "name", " ");
    }
    put(stdout, event, "ledger", "  ");
    put(stdout, event, "code", "  ");
    put(stdout, event, "status", "  ");
    put(stdout, event, "attempt", "  attempt ");
    put(stdout, event, "delivery", "  delivery ");
    put(stdout, event, "worker", "  worker ");
    put(stdout, event, "topic", "  topic ");
    put(stdout, event, "key", "  key ");
    put(stdout, event, "other", "  job ");
    put(stdout, json_get(event, QP_STR("error")), "message", "  ");
    put(stdout, event, "until", "  until ");
    put(stdout, event, "detail", "  ");
    put(stdout, event, "says", "  ");
    (void)fputc('\n', stdout);
}
