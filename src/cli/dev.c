/* dev.c - quipu dev: a server that deploys graphs whenever their files change
 *
 * The server is that of `quipu serve`; between two looks at its signals the files are looked at. When any of them has changed,
 * every application of the directory is read anew, with the parts that it refers to, and what has another text than before is
 * checked, deployed over the server's own socket, and activated. Jobs that are there keep the version that they began with.
 */
#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "cli/program.h"
#include "cli/serve.h"
#include "cli/workflows.h"

#define LOOK_MS LIMIT_STORE_LOOK_MS
#define DEEPEST 8 /* directories below that of the applications */

struct seen {
    char path[LIMIT_STORE_NAME_SIZE];
    unsigned char hash[LIMIT_GUID_SIZE]; /* of its text, with all parts */
};

struct dev {
    struct cli *c;
    const char *directory;
    const char *options;                  /* of commands that are to reach this server */
    unsigned char files[LIMIT_GUID_SIZE]; /* hash of what the files look like from outside */
    struct seen seen[LIMIT_DEV_FILES];
    size_t seen_count;
    struct program_worker workers[CLI_MANY];
};

/* ---------------------------------------------------------------------------------------- files */

static bool is_part(const FTSENT *e)
{
    const char *dot = strrchr(e->fts_name, '.');
    return (e->fts_info == FTS_F || e->fts_info == FTS_SL) && dot != NULL &&
           (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
}

/* Of every file its name, size and times; of a link those of what it leads to. */
static void describe_file(const FTSENT *e, struct buf *out)
{
    struct stat info = *e->fts_statp;
    if (e->fts_info == FTS_SL && stat(e->fts_path, &info) != 0) {
        info = *e->fts_statp; /* it leads nowhere now */
    }
    buf_printf(out, "%s %lld %lld %lld %lld\n", e->fts_path, (long long)info.st_ino,
               (long long)info.st_size, (long long)info.st_mtim.tv_sec,
               (long long)info.st_mtim.tv_nsec);
}

static void describe_files(FTS *walk, struct buf *out)
{
    FTSENT *e;
    while ((e = fts_read(walk)) != NULL) {
        bool hidden = e->fts_level > 0 && e->fts_name[0] == '.';
        if (e->fts_info == FTS_D && (hidden || e->fts_level > DEEPEST)) {
            (void)fts_set(walk, e, FTS_SKIP);
        } else if (is_part(e)) {
            describe_file(e, out);
        }
    }
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Whether anything looks different from the last time. */
static bool have_changed(struct dev *d)
{
    char *paths[] = {cli_copy(d->c, d->directory), NULL};
    FTS *walk = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, by_name);
    unsigned char hash[LIMIT_GUID_SIZE];
    struct buf all;
    bool changed;
    if (walk == NULL) {
        return false;
    }
    buf_init(&all, &d->c->env, 0);
    describe_files(walk, &all);
    (void)fts_close(walk);
    hash_guid("dev", 3, all.p != NULL ? all.p : "", all.n, hash);
    changed = buf_rc(&all) == QP_OK && memcmp(hash, d->files, sizeof hash) != 0;
    buf_done(&all);
    memcpy(d->files, hash, sizeof hash);
    return changed;
}

/* Its text is another one than at the last time, or there was none. */
static bool is_new(struct dev *d, const char *path, qp_str text)
{
    unsigned char hash[LIMIT_GUID_SIZE];
    size_t i = 0;
    hash_guid("dev", 3, text.p, text.n, hash);
    while (i < d->seen_count && strcmp(d->seen[i].path, path) != 0) {
        i++;
    }
    if (i < d->seen_count && memcmp(d->seen[i].hash, hash, sizeof hash) == 0) {
        return false;
    }
    if (i == LIMIT_DEV_FILES || strlen(path) >= sizeof d->seen[i].path) {
        cli_say("%s: more than %d applications are not looked at", path, LIMIT_DEV_FILES);
        return false;
    }
    (void)snprintf(d->seen[i].path, sizeof d->seen[i].path, "%s", path);
    memcpy(d->seen[i].hash, hash, sizeof hash);
    d->seen_count += i == d->seen_count;
    return true;
}

static bool is_among(const char *path, const char *const *paths, size_t count)
{
    size_t i = 0;
    while (i < count && strcmp(paths[i], path) != 0) {
        i++;
    }
    return i < count;
}

/* A file that is gone is new when it comes back: another one may have had its application meanwhile. */
static void forget_gone(struct dev *d, const char *const *paths, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < d->seen_count; i++) {
        if (is_among(d->seen[i].path, paths, count)) {
            d->seen[n++] = d->seen[i];
        }
    }
    d->seen_count = n;
}

/* --------------------------------------------------------------------------------------- deploy */

/* The version with a few letters of the text's hash: the same text has the same version again. */
static const char *own_version(struct cli *c, const struct app *app, qp_str text)
{
    unsigned char hash[LIMIT_GUID_SIZE];
    hash_guid("dev", 3, text.p, text.n, hash);
    return cli_text(c, "%.*s-%02x%02x%02x", STR_ARG(app->version), hash[0], hash[1], hash[2]);
}

static bool was_taken(const struct reply *reply)
{
    return reply->status >= 200 && reply->status <= 299;
}

/* The topic of the first graph that anybody may start. */
static qp_str first_topic(const struct app *app)
{
    for (size_t i = 0; i < app->graph_count; i++) {
        if (app->graphs[i].subscribes.p[0] != '.') {
            return app->graphs[i].subscribes;
        }
    }
    return QP_NONE;
}

static void tell_deployed(struct dev *d, const char *path, const struct app *app,
                          const char *version)
{
    qp_str topic = first_topic(app);
    printf("%s: %.*s %s is active\n", path, STR_ARG(app->id), version);
    if (!str_is_none(topic)) {
        printf("    next: quipu start %.*s --wait%s\n", STR_ARG(topic), d->options);
    }
    (void)fflush(stdout);
}

static int deploy(struct dev *d, const char *path, const struct app *app, qp_str text)
{
    struct cli *c = d->c;
    const char *version = cli_text(c, "%.*s", STR_ARG(app->version));
    struct reply reply = {0};
    int status = deploy_text(c, text, true, &reply);
    if (status == EXIT_OK && reply.status == 409) { /* it is there with another text */
        reply_done(&reply);
        version = own_version(c, app, text);
        status = graph_file_with_version(c, text, version, &text);
        status = status == EXIT_OK ? deploy_text(c, text, true, &reply) : status;
    }
    if (status == EXIT_OK && !was_taken(&reply)) {
        status = ask_refused(c, &reply);
    } else if (status == EXIT_OK) {
        tell_deployed(d, path, app, version);
    }
    reply_done(&reply);
    return status;
}

static void look_at_file(struct dev *d, const char *path)
{
    struct app *app = NULL;
    struct graph_text text;
    int status = graph_file_read(d->c, path, &text);
    if (status == EXIT_OK && (!deploy_is_app(d->c, text.text) || !is_new(d, path, text.text))) {
        return;
    }
    status = status == EXIT_OK ? graph_file_compile(d->c, &text, &app) : status;
    status = status == EXIT_OK ? deploy(d, path, app, text.text) : status;
    if (status != EXIT_OK) {
        cli_say("%s: what was active stays so", path);
    }
    app_free(app);
}

static void look(void *context)
{
    struct dev *d = context;
    struct cli *c = d->c;
    struct arena kept = c->arena; /* one look of very many: its texts go with it */
    const char *const *paths = NULL;
    size_t count = 0;
    arena_init(&c->arena, &c->env, 0);
    if (have_changed(d) && deploy_files(c, d->directory, &paths, &count) == EXIT_OK) {
        forget_gone(d, paths, count);
        for (size_t i = 0; i < count; i++) {
            look_at_file(d, paths[i]);
        }
    }
    arena_done(&c->arena);
    c->arena = kept;
}

/* ------------------------------------------------------------------------------------ the whole */

static int opened(void *context, struct server *server, const char *socket)
{
    struct dev *d = context;
    struct cli *c = d->c;
    int status = programs_add(c, server_engine(server), d->workers);
    if (status != EXIT_OK) {
        return status;
    }
    if (*socket == '\0') {
        return cli_fail_next(c, EXIT_USAGE, "quipu dev --data-dir with a shorter name",
                             "the name of the data directory is too long for a socket in it");
    }
    c->values[OPT_server] = cli_text(c, "%s", socket);
    d->options = cli_has(c, OPT_data_dir) ? cli_text(c, " --server %s", socket) : "";
    status = ask_open(c);
    if (status == EXIT_OK) {
        printf("looking at the files *.yaml in %s; Ctrl-C ends it\n", d->directory);
        (void)fflush(stdout);
        look(d);
    }
    return status;
}

static void ending(void *context)
{
    struct dev *d = context;
    ask_close(d->c);
}

int command_dev(struct cli *c)
{
    struct dev *d = arena_alloc(&c->arena, sizeof *d); /* large */
    struct stat info;
    int status = cli_expect(c, 0, 1);
    status = status == EXIT_OK ? cli_settings(c) : status;
    if (status != EXIT_OK || d == NULL) {
        return d != NULL ? status : cli_fail(c, EXIT_ERROR, "out of memory");
    }
    *d = (struct dev){.c = c, .directory = c->argument_count > 0 ? c->arguments[0] : "."};
    if (stat(d->directory, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return cli_fail_next(c, EXIT_USAGE, "quipu new hello", "'%s': there is no such directory",
                             d->directory);
    }
    if (!cli_has(c, OPT_log_level)) {
        c->values[OPT_log_level] = "warn"; /* what it says itself is enough */
    }
    return serve_with(c, &(struct serve_more){.context = d,
                                              .programs = c->many_count[OPT_exec] > 0,
                                              .opened = opened,
                                              .look = look,
                                              .ending = ending,
                                              .look_ms = LOOK_MS});
}
