/* watch.c - quipu watch and quipu history: a job as it happens
 *
 * Both read the journal: watch, and history with --follow, over SSE from a server, or by looking again at a file. On a
 * terminal watch draws the job's activities, and draws them again in place when something has happened: all that is at
 * work, and as much as there is room for of what was done last. Elsewhere it prints a line for every entry. So does
 * history: the same lines, since an entry never changes; but of a flow it prints the events by their locations, as a tree.
 */
#include "cli/job_show.h"
#include "cli/jobs.h"
#include "cli/lists.h"
#include "cli/story.h"

#define PAGES_MOST 5     /* of activities, that are read for one drawing */
#define REDRAW_US 100000 /* no more often than a person can read */
#define REST_FACTOR 10   /* a drawing takes no more than this part of the time */
#define TREE_COLUMNS 28  /* of a line of a flow's history, where the status begins */

struct following {
    struct cli *c;
    enum output kind;
    const char *id;
    qp_ms started; /* when the job was */
    int64_t drawn_us;
    int64_t rest_us; /* until the next drawing: one that takes long is made less often */
    int rows;        /* of the last drawing */
    bool parked;
};

static bool print_one(void *context, qp_str text)
{
    struct following *f = context;
    struct json *json = NULL;
    if (str_is_none(text) || json_parse(&f->c->env, text, NULL, &json) != QP_OK) {
        return true;
    }
    if (f->kind == OUTPUT_WIDE) {
        story_wide(json);
        (void)fflush(stdout); /* a reader waits for it; main asks whether it went well */
    } else if (f->kind == OUTPUT_TEXT) {
        story_line(json, f->started);
        (void)fflush(stdout);
    } else {
        (void)output_object(f->c, f->kind == OUTPUT_YAML ? f->kind : OUTPUT_JSON, "seq", text);
        (void)fflush(stdout);
    }
    json_free(json);
    return true;
}

/* -------------------------------------------------------------------------------------- history */

static void print_entry(void *context, const struct json *event, bool wide)
{
    const struct following *f = context;
    if (wide) {
        story_wide(event);
    } else {
        story_line(event, f->started);
    }
}

static void print_located(void *context, const struct json *activity, bool wide)
{
    struct people *p = context;
    if (wide) {
        job_print_located(activity);
    } else if (people_shows(activity)) {
        people_activity(p, activity);
    }
}

/* Of a job whose activities have locations their tree, else the journal. */
static int print_history(struct following *f)
{
    struct cli *c = f->c;
    bool located = false;
    int status = job_is_located(c, f->id, &located);
    struct people people;
    struct list list = {.path = job_path(c, f->id, located ? "/activities" : "/history"),
                        .query = "",
                        .name = located ? "address" : "seq",
                        .line = located ? print_located : print_entry,
                        .line_context = f};
    if (located) {
        people_init(&people, c);
        people.label_width = TREE_COLUMNS;
        list.line_context = &people;
    }
    return status == EXIT_OK ? list_run(c, &list) : status;
}

/* The job as it was named: its id, and when it was started. */
static int begin(struct following *f)
{
    struct cli *c = f->c;
    struct reply reply = {0};
    struct json *json = NULL;
    int status = cli_expect(c, 1, 1);
    status = status == EXIT_OK ? output_kind(c, &f->kind) : status;
    status = status == EXIT_OK ? job_resolve(c, c->arguments[0], &f->id) : status;
    status = status == EXIT_OK
                 ? ask_well(c, &(struct question){.path = job_path(c, f->id, "")}, &reply)
                 : status;
    if (status == EXIT_OK && json_parse(&c->env, buf_slice(&reply.body), NULL, &json) == QP_OK) {
        f->started = member_time(json, "started_at");
    }
    json_free(json);
    reply_done(&reply);
    return status;
}

int command_history(struct cli *c)
{
    struct following f = {.c = c};
    int status = begin(&f);
    if (status != EXIT_OK) {
        return status;
    }
    return cli_has(c, OPT_follow) ? ask_follow(c, f.id, 0, 0, &f, print_one) : print_history(&f);
}

/* ----------------------------------------------------------------------------------------- tree */

/* What is drawn at a time: the job, and its activities. */
struct drawing {
    struct json *job;
    struct json *pages[PAGES_MOST];
    size_t page_count;
    const struct json *shown[PAGES_MOST * LIMIT_PAGE_ROWS];
    size_t count;
    bool more; /* the job has further pages */
};

static bool is_over(const struct json *activity)
{
    qp_str mark = member_text(activity, "mark");
    return str_equal(mark, QP_STR("done")) || str_equal(mark, QP_STR("skipped"));
}

/* The room of a terminal is for what is at work; what is left of it for what was done last. The rest goes. */
static size_t keep_in_sight(struct drawing *d, size_t room)
{
    size_t gone = d->count > room ? d->count - room : 0;
    size_t left = gone;
    size_t kept = 0;
    for (int over = 1; over >= 0;
         over--) { /* the oldest first: of what is done, then of the rest */
        for (size_t i = 0; i < d->count && left > 0; i++) {
            if (d->shown[i] != NULL && is_over(d->shown[i]) == (over == 1)) {
                d->shown[i] = NULL;
                left--;
            }
        }
    }
    for (size_t i = 0; i < d->count; i++) {
        if (d->shown[i] != NULL) {
            d->shown[kept++] = d->shown[i];
        }
    }
    d->count = kept;
    return gone;
}

static void draw_head(const struct people *p, const struct json *job)
{
    char age[SPAN_TEXT_SIZE];
    qp_str status = member_text(job, "status");
    printf("%s", p->colors ? "\033[1m" : "");
    (void)print_value(stdout, json_get(job, QP_STR("id")));
    printf("%s  ", color_end(p->colors));
    (void)print_value(stdout, json_get(job, QP_STR("workflow")));
    printf("  %s%.*s%s  started %s\n", color_of(p->colors, status), STR_ARG(status),
           color_end(p->colors), age_text(p->now, member_time(job, "started_at"), age));
}

static void draw(struct following *f, struct drawing *d)
{
    struct people people;
    int width;
    int height = terminal_size(&width);
    size_t gone;
    people_init(&people, f->c);
    people.unserved = unserved_name(d->job);
    people.label_width = people_label_width(d->shown, d->count);
    gone = keep_in_sight(d, (size_t)height - 4);
    if (f->rows > 0) {
        printf("\033[%dA\033[J", f->rows);
    }
    draw_head(&people, d->job);
    people_titles(&people);
    f->rows = 2;
    for (size_t i = 0; i < d->count; i++, f->rows++) {
        people_activity(&people, d->shown[i]);
    }
    if (gone > 0 || d->more) {
        printf("and %zu%s more: quipu show\n", gone, d->more ? " and" : "");
        f->rows++;
    }
    (void)fflush(stdout);
}

static void take_page(struct drawing *d, const struct json *page)
{
    const struct json *items = json_get(page, QP_STR("items"));
    for (size_t i = 0; i < json_count(items) && d->count < ARRAY_COUNT(d->shown); i++) {
        if (people_shows(json_at(items, i))) {
            d->shown[d->count++] = json_at(items, i);
        }
    }
}

static int read_json(struct cli *c, const char *path, const char *query, struct json **out_json)
{
    struct reply reply = {0};
    int status = ask_well(c, &(struct question){.path = path, .query = query}, &reply);
    if (status == EXIT_OK && json_parse(&c->env, buf_slice(&reply.body), NULL, out_json) != QP_OK) {
        status = cli_fail(c, EXIT_ERROR, "the answer cannot be read");
    }
    reply_done(&reply);
    return status;
}

static int read_drawing(struct following *f, struct drawing *d)
{
    struct cli *c = f->c;
    qp_str cursor = QP_STR("");
    int status = read_json(c, job_path(c, f->id, ""), NULL, &d->job);
    while (status == EXIT_OK && !str_is_none(cursor) && d->page_count < PAGES_MOST) {
        struct json **page = &d->pages[d->page_count++];
        const char *query =
            cli_text(c, "limit=%d%s%s", LIMIT_PAGE_ROWS, cursor.n > 0 ? "&cursor=" : "",
                     cli_encode(c, cli_text(c, "%.*s", STR_ARG(cursor))));
        status = read_json(c, job_path(c, f->id, "/activities"), query, page);
        take_page(d, *page);
        if (!json_as_str(json_get(*page, QP_STR("next_cursor")), &cursor)) {
            cursor = QP_NONE;
        }
    }
    d->more = !str_is_none(cursor);
    job_sort(d->shown, d->count);
    return status;
}

static void drawing_free(const struct qp_env *env, struct drawing *d)
{
    for (size_t i = 0; i < d->page_count; i++) {
        json_free(d->pages[i]);
    }
    json_free(d->job);
    mem_free(env, d);
}

static int redraw(struct following *f)
{
    struct cli *c = f->c;
    struct drawing *d = mem_alloc(&c->env, sizeof *d);
    struct arena kept = c->arena; /* one of very many: its texts go with it */
    int64_t began_us = cli_now_us(c);
    int status;
    if (d == NULL) {
        return cli_fail(c, EXIT_ERROR, "out of memory");
    }
    arena_init(&c->arena, &c->env, 0);
    status = read_drawing(f, d);
    if (status == EXIT_OK) {
        draw(f, d);
        f->parked = str_equal(member_text(d->job, "status"), QP_STR("parked"));
    }
    drawing_free(&c->env, d);
    arena_done(&c->arena);
    c->arena = kept;
    f->drawn_us = cli_now_us(c);
    f->rest_us = REDRAW_US + REST_FACTOR * (f->drawn_us - began_us);
    return status;
}

/* On a terminal: something has happened, or some time has passed. */
static bool draw_one(void *context, qp_str text)
{
    struct following *f = context;
    (void)text; /* what it is about is seen in the tree */
    if (f->rows > 0 && cli_now_us(f->c) - f->drawn_us < f->rest_us) {
        return true;
    }
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
    int status = job_deadline(c, &deadline_us);
    status = status == EXIT_OK ? begin(&f) : status;
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
