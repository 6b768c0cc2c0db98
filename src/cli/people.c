/* people.c - a job and its activities as lines for people (see people.h)
 *
 *     order-7  order.placed
 *     ACTIVITY  STATUS    TIME  DETAIL
 *     pay       retrying  12s   attempt 3 in 4s: the bank is closed (503)
 *     approve   waiting   12s   for the signal order.approved, key order-7, 59m left
 *
 * What a line says follows from members of the API's answer (schemas.def, Activity), so that -o json has all of it.
 */
#include "cli/people.h"

#include <stdlib.h>
#include <unistd.h>

#define VALUE_MOST 60 /* columns of an input or output */
#define LABEL_MOST 32 /* a longer one stands out */
#define MARK_WIDTH 8
#define TIME_WIDTH 7

void people_init(struct people *p, const struct cli *c)
{
    int width = 0;
    (void)terminal_size(&width);
    *p = (struct people){.now = cli_now(c),
                         .colors = output_colors(c),
                         .width = isatty(STDOUT_FILENO) != 0 ? width : 0,
                         .unserved = QP_STR("")};
}

static int commas_in(qp_str text)
{
    int commas = 0;
    for (size_t i = 0; i < text.n; i++) {
        commas += text.p[i] == ',';
    }
    return commas;
}

/* {2, 1} is a generation below {2}. */
int people_depth(const struct json *activity)
{
    return commas_in(member_text(activity, "location"));
}

/* ---------------------------------------------------------------------------------------- labels */

/* ",0,2,0" as "[2]": without the trigger's own dimension, and without zeros at the end. ",0,0": nothing. */
static int print_rounds(FILE *out, qp_str dimensions)
{
    size_t end = dimensions.n;
    const char *own = dimensions.n == 0 ? NULL : memchr(dimensions.p + 1, ',', dimensions.n - 1);
    size_t begin = own == NULL ? dimensions.n : (size_t)(own - dimensions.p);
    while (end >= begin + 2 && dimensions.p[end - 1] == '0' && dimensions.p[end - 2] == ',') {
        end -= 2;
    }
    if (end <= begin) {
        return 0;
    }
    (void)fputc('[', out);
    print_safe(out, (qp_str){dimensions.p + begin + 1, end - begin - 1});
    (void)fputc(']', out);
    return (int)(end - begin) + 1;
}

/* "{2, 1} reserve", "{3} sleep", "{4} child parcel": an activity goes by its name alone. */
static int print_located(FILE *out, const struct json *activity)
{
    qp_str location = member_text(activity, "location");
    qp_str name = member_text(activity, "name");
    qp_str type = member_text(activity, "type");
    int64_t version = member_number(activity, "version");
    int width = (int)location.n;
    print_safe(out, location);
    width += version > 1 ? fprintf(out, "v%lld", (long long)version) : 0;
    if (name.n == 0 || !str_equal(type, QP_STR("activity"))) {
        (void)fputc(' ', out);
        print_safe(out, type);
        width += (int)type.n + 1;
    }
    if (name.n > 0) {
        (void)fputc(' ', out);
        print_safe(out, name);
        width += (int)name.n + 1;
    }
    return width;
}

int people_label(FILE *out, const struct json *activity)
{
    qp_str address = member_text(activity, "address");
    qp_str name = member_text(activity, "name");
    const char *comma = memchr(address.p, ',', address.n);
    size_t split = comma == NULL ? address.n : (size_t)(comma - address.p);
    if (json_get(activity, QP_STR("location")) != NULL) {
        return print_located(out, activity);
    }
    if (name.n == 0 && str_equal(member_text(activity, "type"), QP_STR("flow"))) {
        name = QP_STR("decision");
    }
    name = name.n > 0 ? name : (qp_str){address.p, split};
    print_safe(out, name);
    return (int)name.n + print_rounds(out, (qp_str){address.p + split, address.n - split});
}

static bool is_text(const struct json *object, const char *key, const char *word)
{
    return str_equal(member_text(object, key), str_from(word));
}

bool people_shows(const struct json *activity)
{
    bool named = member_text(activity, "name").n > 0;
    bool over = is_text(activity, "mark", "done") || is_text(activity, "mark", "skipped");
    if (is_text(activity, "type", "join")) {
        return !over;
    }
    if (is_text(activity, "mark", "skipped")) {
        return false; /* people_skipped names all of them */
    }
    if (is_text(activity, "type", "flow")) {
        return json_get(activity, QP_STR("task")) != NULL;
    }
    return named || !is_text(activity, "category", "D");
}

static int label_width(const struct json *activity)
{
    char *memory = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&memory, &size);
    int width = 2 * people_depth(activity);
    if (out != NULL) {
        width += people_label(out, activity);
        (void)fclose(out);
    }
    free(memory);
    return width;
}

int people_label_width(const struct json *const *activities, size_t count)
{
    int width = (int)sizeof "ACTIVITY" - 1;
    for (size_t i = 0; i < count; i++) {
        int wanted = people_shows(activities[i]) ? label_width(activities[i]) : 0;
        width = wanted > width ? wanted : width;
    }
    return width < LABEL_MOST ? width : LABEL_MOST;
}

/* ---------------------------------------------------------------------------------------- details */

/* A value on one line, shortened. */
static void put_short(FILE *out, const struct json *value)
{
    char *memory = NULL;
    size_t size = 0;
    FILE *whole = open_memstream(&memory, &size);
    if (whole == NULL) {
        return;
    }
    (void)print_value(whole, value);
    (void)fclose(whole);
    (void)print_cut(out, (qp_str){memory, size}, VALUE_MOST);
    (void)fputs(size > VALUE_MOST ? "..." : "", out);
    free(memory);
}

/* "the card is refused (422)" */
static void put_error(FILE *out, const struct json *activity)
{
    const struct json *error = json_get(activity, QP_STR("error"));
    int64_t code = member_number(error, "code");
    (void)print_value(out, error_sentence(error));
    if (code != 0) {
        (void)fprintf(out, " (%lld)", (long long)code);
    }
}

/* Attempts are counted from 1; those that failed are known. */
static long long attempt_of(const struct json *activity)
{
    return (long long)member_number(activity, "failures") + 1;
}

static void put_left(FILE *out, const struct people *p, const struct json *activity,
                     const char *key, const char *before)
{
    char text[SPAN_TEXT_SIZE];
    qp_ms at = member_time(activity, key);
    if (at != 0) {
        (void)fprintf(out, "%s%s", before, left_text(p->now, at, text));
    }
}

static void put_worker(FILE *out, const struct people *p, const struct json *activity)
{
    qp_str topic = member_text(activity, "topic");
    bool decides = is_text(activity, "type", "flow");
    (void)fputs(decides ? "for a worker that runs the flow" : "for a worker of ", out);
    if (!decides) {
        print_safe(out, topic);
    }
    if (p->unserved.n > 0 && (decides || str_equal(topic, p->unserved))) {
        (void)fputs("; none serves it", out);
    }
}

static void put_signal(FILE *out, const struct people *p, const struct json *activity)
{
    (void)fputs("for the signal ", out);
    print_safe(out, member_text(activity, "signal"));
    if (member_text(activity, "key").n > 0) {
        (void)fputs(", key ", out);
        print_safe(out, member_text(activity, "key"));
    }
    put_left(out, p, activity, "until", ", ");
}

/* The person that a hook waits for: ", escalated to boss". */
static void put_escalation(FILE *out, const struct json *activity)
{
    qp_str role = member_text(json_get(activity, QP_STR("escalation")), "role");
    if (role.n > 0) {
        (void)fputs(", escalated to ", out);
        print_safe(out, role);
    }
}

static void put_waiting(FILE *out, const struct people *p, const struct json *activity)
{
    qp_str child = member_text(activity, "child");
    if (member_text(activity, "signal").n > 0) {
        put_signal(out, p, activity);
        put_escalation(out, activity);
    } else if (child.n > 0) {
        (void)fputs("for the job ", out);
        print_safe(out, child);
    } else if (json_get(activity, QP_STR("until")) != NULL) {
        put_left(out, p, activity, "until", "");
    } else if (is_text(activity, "task", "aside")) {
        (void)fputs("until the job is resumed", out);
    } else if (json_get(activity, QP_STR("task")) != NULL) {
        put_worker(out, p, activity);
    } else if (is_text(activity, "type", "join")) {
        (void)fputs("for the other ways that lead here", out);
    } else {
        (void)print_value(out, json_get(activity, QP_STR("note")));
    }
}

static void put_retrying(FILE *out, const struct people *p, const struct json *activity)
{
    char text[SPAN_TEXT_SIZE];
    qp_ms at = member_time(activity, "due_at");
    (void)fprintf(out, "attempt %lld", attempt_of(activity));
    if (at > p->now) {
        (void)fprintf(out, " in %s: ", span_text(at - p->now, text));
    } else {
        (void)fputs(" is due: ", out);
    }
    put_error(out, activity);
}

static void put_running(FILE *out, const struct json *activity)
{
    const struct json *progress = json_get(activity, QP_STR("progress"));
    if (json_get(activity, QP_STR("task")) != NULL) {
        (void)fprintf(out, "attempt %lld", attempt_of(activity));
    } else {
        (void)print_value(out, json_get(activity, QP_STR("note")));
    }
    if (progress != NULL) {
        (void)fputs(", ", out);
        put_short(out, progress);
    }
}

static void put_failed(FILE *out, const struct json *activity)
{
    long long attempts = (long long)member_number(activity, "failures");
    if (json_get(activity, QP_STR("error")) != NULL) {
        put_error(out, activity);
    } else {
        (void)print_value(out, json_get(activity, QP_STR("note")));
    }
    if (attempts > 1) {
        (void)fprintf(out, ", %lld attempts", attempts);
    }
    (void)fputs(is_text(activity, "task", "dead") ? ", given up until the job is retried" : "",
                out);
}

static bool has_value(const struct json *object, const char *key)
{
    const struct json *value = json_get(object, str_from(key));
    return value != NULL && !json_is(value, JSON_KIND_NULL);
}

static void put_done(FILE *out, const struct json *activity)
{
    int64_t code = member_number(activity, "code");
    long long failures = (long long)member_number(activity, "failures");
    const char *between = "";
    if (code != 0 && code != 200) {
        (void)fprintf(out, "code %lld", (long long)code);
        between = "  ";
    }
    if (failures > 0) {
        (void)fprintf(out, "%sattempt %lld", between, failures + 1);
        between = "  ";
    }
    if (member_text(activity, "child").n > 0) {
        (void)fprintf(out, "%sjob ", between);
        print_safe(out, member_text(activity, "child"));
        between = "  ";
    } else if (json_get(activity, QP_STR("note")) != NULL) {
        (void)fputs(between, out);
        (void)print_value(out, json_get(activity, QP_STR("note")));
        between = "  ";
    }
    if (json_get(activity, QP_STR("note")) == NULL && has_value(activity, "output")) {
        (void)fputs(between, out);
        put_short(out, json_get(activity, QP_STR("output")));
    }
}

static void put_detail(FILE *out, const struct people *p, const struct json *activity)
{
    qp_str mark = member_text(activity, "mark");
    if (str_equal(mark, QP_STR("done"))) {
        put_done(out, activity);
    } else if (str_equal(mark, QP_STR("waiting"))) {
        put_waiting(out, p, activity);
    } else if (str_equal(mark, QP_STR("retrying"))) {
        put_retrying(out, p, activity);
    } else if (str_equal(mark, QP_STR("running"))) {
        put_running(out, activity);
    } else if (str_equal(mark, QP_STR("failed"))) {
        put_failed(out, activity);
    }
}

/* How long it took, or has taken until now; empty: what was skipped took nothing. */
static const char *time_text(const struct people *p, const struct json *activity,
                             char out_text[SPAN_TEXT_SIZE])
{
    qp_ms entered = member_time(activity, "entered_at");
    qp_ms answered = member_time(activity, "answered_at");
    bool over = is_text(activity, "mark", "done") || is_text(activity, "mark", "failed");
    out_text[0] = '\0';
    if (answered != 0 || (entered != 0 && !over && !is_text(activity, "mark", "skipped"))) {
        (void)span_text((over && answered != 0 ? answered : p->now) - entered, out_text);
    }
    return out_text;
}

/* ------------------------------------------------------------------------------------------ lines */

void people_titles(const struct people *p)
{
    printf("%s%-*s  %-*s  %-*s  %s%s\n", p->colors ? "\033[1m" : "", p->label_width, "ACTIVITY",
           MARK_WIDTH, "STATUS", TIME_WIDTH, "TIME", "DETAIL", color_end(p->colors));
}

/* As much of the rest of a line as fits. */
static void print_rest(const struct people *p, qp_str text, int column)
{
    if (p->width == 0 || column + (int)text.n <= p->width) {
        (void)fwrite(text.p, 1, text.n, stdout); /* it was made harmless when it was written */
    } else if (p->width > column + 3) {
        (void)print_cut(stdout, text, (size_t)(p->width - column - 3));
        (void)fputs("...", stdout);
    }
}

void people_activity(const struct people *p, const struct json *activity)
{
    qp_str mark = member_text(activity, "mark");
    char span[SPAN_TEXT_SIZE];
    char *memory = NULL;
    size_t size = 0;
    FILE *detail = open_memstream(&memory, &size);
    int column = 2 * people_depth(activity);
    if (detail == NULL) {
        return;
    }
    put_detail(detail, p, activity);
    (void)fclose(detail);
    printf("%*s", column, "");
    column += people_label(stdout, activity);
    printf("%*s  %s%.*s%s", p->label_width > column ? p->label_width - column : 0, "",
           color_of(p->colors, mark), STR_ARG(mark), color_end(p->colors));
    column = p->label_width > column ? p->label_width : column;
    column += 2 + MARK_WIDTH + 2 + TIME_WIDTH + 2;
    (void)time_text(p, activity, span);
    if (size == 0 && span[0] == '\0') {
        (void)fputc('\n', stdout); /* no line ends in spaces */
    } else if (size == 0) {
        printf("%*s  %s\n", MARK_WIDTH - (int)mark.n, "", span);
    } else {
        printf("%*s  %-*s  ", MARK_WIDTH - (int)mark.n, "", TIME_WIDTH, span);
        print_rest(p, (qp_str){memory, size}, column);
        (void)fputc('\n', stdout);
    }
    free(memory);
}

/* --------------------------------------------------------------------------------------- the job */

#define NAME_WIDTH 12

static void put_name(const char *name)
{
    printf("%-*s", NAME_WIDTH, name);
}

static void line_value(const struct json *job, const char *key, const char *name)
{
    const struct json *value = json_get(job, str_from(key));
    if (value != NULL) {
        put_name(name);
        (void)print_value(stdout, value);
        (void)fputc('\n', stdout);
    }
}

static void line_short(const struct json *job, const char *key)
{
    if (has_value(job, key)) {
        put_name(key);
        put_short(stdout, json_get(job, str_from(key)));
        (void)fputc('\n', stdout);
    }
}

/* "status      waiting", "started     3m ago, took 1.2s" */
static void print_standing(const struct people *p, const struct json *job)
{
    char text[SPAN_TEXT_SIZE];
    qp_str status = member_text(job, "status");
    qp_ms started = member_time(job, "started_at");
    qp_ms ended = member_time(job, "ended_at");
    put_name("status");
    printf("%s%.*s%s\n", color_of(p->colors, status), STR_ARG(status), color_end(p->colors));
    put_name("started");
    printf("%s", age_text(p->now, started, text));
    if (ended != 0) {
        printf(", took %s", span_text(ended - started, text));
    }
    if (member_time(job, "begins_at") > p->now) {
        printf(", begins in %s", span_text(member_time(job, "begins_at") - p->now, text));
    }
    if (member_time(job, "times_out_at") != 0) {
        printf(", times out in %s", span_text(member_time(job, "times_out_at") - p->now, text));
    }
    (void)fputc('\n', stdout);
}

static void print_error(const struct json *job)
{
    if (json_get(job, QP_STR("error")) != NULL) {
        put_name("error");
        put_error(stdout, job);
        if (member_text(json_get(job, QP_STR("error")), "activity").n > 0) {
            (void)fputs(", in ", stdout);
            print_safe(stdout, member_text(json_get(job, QP_STR("error")), "activity"));
        }
        (void)fputc('\n', stdout);
    }
}

void people_job(const struct people *p, const struct json *job)
{
    static const struct {
        const char *key;
        const char *name;
    } more[] = {
        {"parked", "parked"},       {"awaits", "awaits"},           {"custom_id", "custom id"},
        {"parent", "parent"},       {"forked_from", "forked from"}, {"retried_as", "retried as"},
        {"limit_key", "limit key"}, {"attributes", "attributes"},   {"properties", "properties"}};
    line_value(job, "id", "id");
    line_value(job, "workflow", "workflow");
    line_value(job, "version", "version");
    if (!is_text(job, "namespace", "default")) {
        line_value(job, "namespace", "namespace");
    }
    print_standing(p, job);
    print_error(job);
    for (size_t i = 0; i < ARRAY_COUNT(more); i++) {
        line_value(job, more[i].key, more[i].name);
    }
    line_short(job, "input");
    line_short(job, json_get(job, QP_STR("output")) != NULL ? "output" : "data");
}

void people_skipped(const struct people *p, const struct json *job)
{
    const struct json *skipped = json_get(job, QP_STR("skipped"));
    for (size_t i = 0; i < json_count(skipped); i++) {
        qp_str name = QP_STR("");
        if (json_as_str(json_at(skipped, i), &name)) {
            print_safe(stdout, name);
            printf("%*s  %sskipped%s\n",
                   (int)name.n < p->label_width ? p->label_width - (int)name.n : 0, "",
                   color_of(p->colors, QP_STR("skipped")), color_end(p->colors));
        }
    }
}
