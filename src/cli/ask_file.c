/* ask_file.c - asking a store itself: the handlers of the server, in this process
 *
 * If we are killed in the middle of a write, it was committed or it was not; nothing is left half
 * done, and the next process that opens the file finds it as it is.
 */
#include "cli/output.h"
#include "cli/registry.h"
#include "run/kinds.h"
#include "server/api.h"

#define LOOK_MS 200 /* between two looks at a store that another process works on */

struct file {
    struct ask ask; /* first */
    qp *engine;
    const struct registry *registry; /* of packages; NULL: it works on no traversal */
    struct api *api;
    char name[LIMIT_STORE_NAME_SIZE];
};

static struct file *file_of(const struct cli *c)
{
    return (struct file *)c->ask;
}

static int file_ask(struct cli *c, const struct question *q, struct reply *out_reply)
{
    const char *target = ask_target(c, q);
    size_t path_size = strcspn(target, "?");
    struct api_call call;
    api_call_init(&call, file_of(c)->api, NULL);
    call.local = true;
    call.method = q->method;
    call.path = (qp_str){target, path_size};
    call.query = target[path_size] == '?' ? str_from(target + path_size + 1) : QP_NONE;
    call.body = q->body;
    call.content_type = q->text ? QP_STR("application/yaml") : QP_STR("application/json");
    call.accept = q->text && str_is_none(q->body) ? QP_STR("application/yaml") : QP_STR("");
    call.from = QP_STR("local");
    api_do(&call);
    api_finished(&call);
    out_reply->status = call.status;
    out_reply->body = call.out;
    buf_init(&call.out, &c->env, 0);
    api_call_done(&call);
    return EXIT_OK;
}

/* The entries after *after; *after moves on. *out_ended: the job has, and there is nothing more. */
static int file_look(struct cli *c, const char *job, int64_t *after, void *context,
                     follow_visit visit, bool *out_ended)
{
    const char *path = cli_text(c, "/v1/jobs/%s", cli_encode(c, job));
    struct reply shown = {0};
    struct reply page = {0};
    struct json *job_json = NULL;
    struct json *json = NULL;
    const struct json *items;
    bool go_on = true;
    /* The state first: entries that come in between are read with the next look. */
    int status = ask_well(c, &(struct question){.path = path}, &shown);
    if (status == EXIT_OK) {
        status =
            ask_well(c,
                     &(struct question){.path = cli_text(c, "%s/history", path),
                                        .query = cli_text(c, "cursor=%lld", (long long)*after)},
                     &page);
    }
    if (status == EXIT_OK &&
        json_parse(&c->env, buf_slice(&shown.body), NULL, &job_json) == QP_OK &&
        json_parse(&c->env, buf_slice(&page.body), NULL, &json) == QP_OK) {
        items = json_get(json, QP_STR("items"));
        for (size_t i = 0; i < json_count(items) && go_on; i++) {
            struct buf event;
            struct json_writer w;
            buf_init(&event, &c->env, 0);
            json_writer_init(&w, &event);
            json_write_tree(&w, json_at(items, i));
            *after = member_number(json_at(items, i), "seq");
            go_on = json_writer_done(&w) == QP_OK && visit(context, buf_slice(&event));
            buf_done(&event);
        }
        *out_ended =
            !go_on || (json_count(items) == 0 && json_get(job_json, QP_STR("ended_at")) != NULL);
    }
    json_free(json);
    json_free(job_json);
    reply_done(&shown);
    reply_done(&page);
    return status;
}

static int file_follow(struct cli *c, const char *job, int64_t after, int64_t deadline_us,
                       void *context, follow_visit visit)
{
    bool ended = false;
    int status = EXIT_OK;
    while (status == EXIT_OK && !ended) {
        int64_t before = after;
        struct arena kept = c->arena; /* a look may be one of very many: its texts go with it */
        arena_init(&c->arena, &c->env, 0);
        status = file_look(c, job, &after, context, visit, &ended);
        arena_done(&c->arena);
        c->arena = kept;
        if (status != EXIT_OK || ended || after != before) {
            continue;
        }
        if (deadline_us != 0 && cli_now_us(c) >= deadline_us) {
            return EXIT_TIMEOUT;
        }
        ended = !visit(context, QP_NONE);
        cli_sleep_ms(LOOK_MS);
    }
    return status;
}

static void file_close(struct cli *c)
{
    struct file *f = file_of(c);
    api_drain(f->api, 1000);
    api_close(f->api);
    if (qp_close(f->engine, NULL) != QP_OK) {
        cli_say("quipu: the store was not closed well; run quipu fsck");
    }
    registry_close(f->registry);
    mem_free(&c->env, f);
}

static int refuse(struct cli *c, const char *name, int rc, const struct qp_err *err)
{
    switch (rc) {
    case QP_E_NOT_FOUND:
        return cli_fail_next(c, EXIT_NOT_FOUND, "quipu serve, or name the store with --db",
                             "%s: there is no such store", name);
    case QP_E_LOCKED:
        return cli_fail_next(c, EXIT_CONFLICT, "ask the server that uses it, with --server", "%s",
                             err->text);
    case QP_E_CORRUPT: /* the sentence says what to do, and fsck would say the same */
        return cli_fail(c, EXIT_ERROR, "%s", err->text);
    case QP_E_INVALID:
        return cli_fail(c, EXIT_USAGE, "%s", err->text);
    default:
        return cli_fail_next(c, EXIT_ERROR, "quipu fsck", "%s", err->text);
    }
}

/* A command that waits for its traversal does the work, too. No other one works on what is open in the store. */
static int open_workers(const struct cli *c, struct file *f, struct qp_err *err)
{
    struct kinds_serving serving = {0};
    if ((c->command->flags & WORKS) == 0) {
        return qp_start_threads(f->engine, 0, err);
    }
    f->registry = registry_open(&c->env);
    if (f->registry == NULL) {
        return QP_E_NOMEM;
    }
    serving.registry = f->registry;
    QP_TRY(kinds_serve(f->engine, &serving, err));
    return qp_start_threads(f->engine, LIMIT_NPM_FETCHES, err);
}

int ask_file_open(struct cli *c, const char *place)
{
    struct file *f = mem_alloc(&c->env, sizeof *f);
    struct qp_options options;
    struct api_options api;
    struct qp_err err = {0};
    bool writes = (c->command->flags & WRITES) != 0;
    int rc;
    if (f == NULL) {
        return cli_fail(c, EXIT_ERROR, "out of memory");
    }
    f->ask = (struct ask){.ask = file_ask,
                          .follow = file_follow,
                          .close = file_close,
                          .whom = f->name,
                          .is_file = true};
    cli_place_name(place, f->name, sizeof f->name);
    qp_options_init(&options);
    options.path = cli_place_path(place);
    options.env = &c->env;
    options.accept_loss = cli_has(c, OPT_accept_loss);
    rc =
        writes ? qp_open(&options, &f->engine, &err) : qp_open_readonly(&options, &f->engine, &err);
    if (rc == QP_OK && writes) {
        rc = open_workers(c, f, &err);
    }
    api = (struct api_options){.engine = f->engine, .env = &c->env, .threads = 1, .open = true};
    rc = rc == QP_OK ? api_open(&api, &f->api, &err) : rc;
    if (rc != QP_OK) {
        int status = refuse(c, f->name, rc, &err);
        (void)qp_close(f->engine, NULL); /* nothing was done with it */
        registry_close(f->registry);
        mem_free(&c->env, f);
        return status;
    }
    c->ask = &f->ask;
    return EXIT_OK;
}
