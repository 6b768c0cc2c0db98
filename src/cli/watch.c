/* watch.c - quipu watch and quipu history: a job as it happens
 *
 * Both read the journal: watch, and history with --follow, over SSE from a server, or by looking again at a file. On a
 * terminal watch draws the job's activities as a tree, and draws it anew in place when something has happened;
 * elsewhere it prints a line for every entry. So does history: the same lines, since an entry never changes; but of a flow it
 * prints the events by their locations, as a tree.
 */
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/job_show.h"
#include "cli/jobs.h"
#include "cli/lists.h"

#define ROWS_MOST 200
#define REDRAW_US 100000 /* no more often than a person can read */

/* ---------------------------------------------------------------------------------- an event */

static void put_member(const struct json *event, const char *key, const char *before)
{
    const struct json *value = json_get(event, str_from(key));
    if (value != NULL) {
        (void)fputs(before, stdout);
        (void)print_value(stdout, value);
    }
}

/* "   4  2026-..  answered  run,0,0  000111000000001  200  completed"
 * "   5  2026-..  failed  run,0,0  503  retrying  attempt 1  worker w1  the bank is closed  until 2026-.." */
static void print_event(const struct json *event, bool wide)
{
    printf("%4lld  ", (long long)member_number(event, "seq"));
    put_member(event, "at", "");
    put_member(event, "kind", "  ");
    if (json_get(event, QP_STR("location")) != NULL) {
        (void)fputs("  ", stdout);
        (void)job_print_place(stdout, event);
        put_member(event, "type", " ");
        put_member(event, "name", " ");
    } else {
        put_member(event, "address", "  ");
    }
    put_member(event, "ledger", "  ");
    put_member(event, "code", "  ");
    put_member(event, "status", "  ");
    put_member(event, "attempt", "  attempt ");
    put_member(event, "delivery", "  delivery ");
    put_member(event, "worker", "  worker ");
    put_member(event, "topic", "  topic ");
    put_member(event, "key", "  key ");
    put_member(event, "other", "  job ");
    put_member(json_get(event, QP_STR("error")), "message", "  ");
    put_member(event, "until", "  until ");
    put_member(event, "detail", "  ");
    if (wide) {
        put_member(event, "says", "  ");
    }
    (void)fputc('\n', stdout);
    (void)fflush(stdout); /* somebody waits for it; main asks whether it went well */
}

struct following {
    struct cli *c;
    enum output kind;
    const char *id;
    int64_t drawn_us;
    int rows; /* of the last drawing */
    bool parked;
};

static bool print_one(void *context, qp_str text)
{
    struct following *f = context;
    struct json *json = NULL;
    if (str_is_none(text) || json_parse(&f->c->env, text, NULL, &json) != QP_OK) {
        return true;
    }
    if (f->kind == OUTPUT_TEXT || f->kind == OUTPUT_WIDE) {
        print_event(json, f->kind == OUTPUT_WIDE);
    } else {
        (void)output_object(f->c, f->kind == OUTPUT_YAML ? f->kind : OUTPUT_JSON, "seq", text);
        (void)fflush(stdout);
    }
    json_free(json);
    return true;
}

/* -------------------------------------------------------------------------------------- history */

/* Of a job whose activities have locations their tree, else the journal. */
static int print_history(struct cli *c, const char *id)
{
    bool located = false;
    int status = job_is_located(c, id, &located);
    struct list list = {.path = job_path(c, id, located ? "/activities" : "/history"),
                        .query = "",
                        .name = located ? "address" : "seq",
                        .line = located ? job_print_located : print_event};
    return status == EXIT_OK ? list_run(c, &list) : status;
}

int command_history(struct cli *c)
{
    struct following f = {.c = c};
    int status = cli_expect(c, 1, 1);
    status = status == EXIT_OK ? output_kind(c, &f.kind) : status;
    status = status == EXIT_OK ? job_resolve(c, c->arguments[0], &f.id) : status;
    if (status != EXIT_OK) {
        return status;
    }
    return cli_has(c, OPT_follow) ? ask_follow(c, f.id, 0, 0, &f, print_one)
                                  : print_history(c, f.id);
}

/* ----------------------------------------------------------------------------------------- tree */

static const char *mark_of(const struct json *activity)
{
    qp_str state = member_text(activity, "state");
    qp_str task = member_text(activity, "task");
    return str_equal(state, QP_STR("done"))        ? "\033[32m✓\033[0m"
           : str_equal(state, QP_STR("escalated")) ? "\033[31m✗\033[0m"
           : str_equal(task, QP_STR("dead"))       ? "\033[31m✗\033[0m"
           : str_equal(task, QP_STR("held"))       ? "\033[33m▶\033[0m"
                                                   : "\033[2m·\033[0m";
}

static void draw_activity(const struct json *activity, int width)
{
    int depth = job_depth(activity) + 1;
    char *memory = NULL;
    size_t size = 0;
    FILE *line = open_memstream(&memory, &size);
    if (line == NULL) {
        return;
    }
    (void)job_print_place(line, activity);
    (void)fputs("  ", line);
    (void)print_value(line, json_get(activity, QP_STR("ledger")));
    (void)fputs("  ", line);
    job_print_standing(line, activity);
    if (json_get(activity, QP_STR("location")) != NULL) {
        (void)fputs("  ", line);
        (void)print_value(line, json_get(activity, QP_STR("type")));
        (void)fputc(' ', line);
        (void)print_value(line, json_get(activity, QP_STR("topic")));
    }
    if (json_get(activity, QP_STR("progress")) != NULL) {
        (void)fputs("  ", line);
        (void)print_value(line, json_get(activity, QP_STR("progress")));
    }
    if (json_get(activity, QP_STR("error")) != NULL) {
        (void)fputs("  ", line);
        (void)print_value(line, error_sentence(json_get(activity, QP_STR("error"))));
    }
    (void)fclose(line);
    printf("%*s%s %.*s\n", 2 * depth, "", mark_of(activity), width - 2 * depth - 3, memory);
    free(memory);
}

static int terminal_size(int *out_width)
{
    struct winsize size = {0};
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20 || size.ws_row < 4) {
        *out_width = 80;
        return 24;
    }
    *out_width = size.ws_col;
    return size.ws_row;
}

static void draw_tree(struct following *f, const struct json *job, const struct json *answer)
{
    const struct json *activities[ROWS_MOST] = {NULL};
    int width;
    int height = terminal_size(&width);
    size_t count = job_activities(answer, activities, ARRAY_COUNT(activities));
    int room = height - 3;
    if (f->rows > 0) {
        printf("\033[%dA\033[J", f->rows);
    }
    printf("\033[1m");
    (void)print_value(stdout, json_get(job, QP_STR("id")));
    printf("\033[0m  ");
    (void)print_value(stdout, json_get(job, QP_STR("workflow")));
    printf("  ");
    (void)print_value(stdout, json_get(job, QP_STR("status")));
    if (json_get(job, QP_STR("state")) != NULL) {
        printf("  ");
        (void)print_value(stdout, json_get(job, QP_STR("state")));
    }
    printf("\n");
    f->rows = 1;
    for (size_t i = 0; i < count && (int)i < room; i++, f->rows++) {
        draw_activity(activities[i], width);
    }
    if ((int)count > room) {
        printf("  .. and %zu more: quipu show\n", count - (size_t)room);
        f->rows++;
    }
    (void)fflush(stdout);
}

static int redraw(struct following *f)
{
    struct cli *c = f->c;
    struct reply job = {0};
    struct reply acts = {0};
    struct json *job_json = NULL;
    struct json *acts_json = NULL;
    struct arena kept = c->arena; /* one of very many: its texts go with it */
    int status;
    arena_init(&c->arena, &c->env, 0);
    status = ask_well(c, &(struct question){.path = job_path(c, f->id, "")}, &job);
    status = status == EXIT_OK
                 ? ask_well(c,
                            &(struct question){.path = job_path(c, f->id, "/activities"),
                                               .query = "limit=200"},
                            &acts)
                 : status;
    if (status == EXIT_OK && json_parse(&c->env, buf_slice(&job.body), NULL, &job_json) == QP_OK &&
        json_parse(&c->env, buf_slice(&acts.body), NULL, &acts_json) == QP_OK) {
        draw_tree(f, job_json, acts_json);
        f->parked = str_equal(member_text(job_json, "status"), QP_STR("parked"));
    }
    json_free(job_json);
    json_free(acts_json);
    reply_done(&job);
    reply_done(&acts);
    arena_done(&c->arena);
    c->arena = kept;
    return status;
}

/* On a terminal: something has happened, or some time has passed. */
static bool draw_one(void *context, qp_str text)
{
    struct following *f = context;
    int64_t now_us = cli_now_us(f->c);
    (void)text; /* what it is about is seen in the tree */
    if (now_us - f->drawn_us < REDRAW_US) {
        return true;
    }
    f->drawn_us = now_us;
    return redraw(f) == EXIT_OK && !f->parked;
}

/* Elsewhere: a line, and whether the job waits for a person. */
static bool print_watched(void *context, qp_str text)
{
    struct following *f = context;
    struct json *json = NULL;
    (void)print_one(context, text);
    if (!str_is_none(text) && json_parse(&f->c->env, text, NULL, &json) == QP_OK) {
        f->parked = str_equal(member_text(json, "status"), QP_STR("parked"));
    }
    json_free(json);
    return !f->parked;
}

/* ---------------------------------------------------------------------------------------- watch */

/* How the job has ended; it is looked at once more, since its last event may be an old one. */
static int end_of(struct cli *c, const char *id)
{
    struct reply reply;
    struct json *json = NULL;
    qp_str word = QP_NONE;
    int code = EXIT_OK;
    int status = ask_well(c, &(struct question){.path = job_path(c, id, "")}, &reply);
    if (status == EXIT_OK && json_parse(&c->env, buf_slice(&reply.body), NULL, &json) == QP_OK &&
        json_as_str(json_get(json, QP_STR("status")), &word)) {
        (void)status_is_final(word, &code);
        cli_say("the job '%s' is %.*s", id, STR_ARG(word));
    }
    json_free(json);
    reply_done(&reply);
    return status == EXIT_OK ? code : status;
}

int command_watch(struct cli *c)
{
    struct following f = {.c = c};
    int64_t deadline_us;
    bool draws;
    int status = cli_expect(c, 1, 1);
    status = status == EXIT_OK ? output_kind(c, &f.kind) : status;
    status = status == EXIT_OK ? job_deadline(c, &deadline_us) : status;
    status = status == EXIT_OK ? job_resolve(c, c->arguments[0], &f.id) : status;
    if (status != EXIT_OK) {
        return status;
    }
    draws = f.kind == OUTPUT_TEXT && output_colors(c);
    status = ask_follow(c, f.id, 0, deadline_us, &f, draws ? draw_one : print_watched);
    if (status == EXIT_OK && draws) {
        status = redraw(&f);
    }
    if (status == EXIT_TIMEOUT) {
        return cli_fail_next(c, EXIT_TIMEOUT, cli_text(c, "quipu show %s", f.id),
                             "the job '%s' has not ended in time", f.id);
    }
    return status == EXIT_OK ? end_of(c, f.id) : status;
}
