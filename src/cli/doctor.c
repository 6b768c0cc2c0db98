/* doctor.c - quipu doctor: is everything in place?
 *
 * Looks at a store, or at a server, from the outside: nothing is changed. Every finding that is
 * not good comes with the command to run next. Exit codes: 0 nothing is broken (there may be
 * warnings), else that of the worst finding.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli/output.h"

#define SPACE_LOW ((uint64_t)256 * 1024 * 1024)
#define CLOCK_LEAST 1704067200000 /* 2024-01-01: before this program was written */

enum level { GOOD, WARNING, BAD };

struct doctor {
    struct cli *c;
    enum output kind;
    struct buf out;
    struct json_writer w; /* of `out`, with -o json and the like */
    int status;
};

static void find(struct doctor *d, enum level level, const char *what, const char *next,
                 const char *text)
{
    static const char *const words[] = {"ok", "warning", "error"};
    struct json_writer *w = &d->w;
    if (d->kind == OUTPUT_TEXT || d->kind == OUTPUT_WIDE) {
        printf("%-8s %-10s ", words[level], what);
        print_safe(stdout, str_from(text));
        if (next != NULL) {
            (void)fputs("; next: ", stdout);
            print_safe(stdout, str_from(next));
        }
        (void)fputc('\n', stdout);
        return;
    }
    json_begin_object(w);
    json_key(w, QP_STR("level"));
    json_put_str(w, str_from(words[level]));
    json_key(w, QP_STR("what"));
    json_put_str(w, str_from(what));
    json_key(w, QP_STR("text"));
    json_put_str(w, str_from(text));
    json_key(w, QP_STR("next"));
    json_put_str(w, next == NULL ? QP_NONE : str_from(next));
    json_end_object(w);
}

static void fail(struct doctor *d, int status, const char *what, const char *next, const char *text)
{
    d->status = d->status == EXIT_OK ? status : d->status;
    find(d, BAD, what, next, text);
}

/* --------------------------------------------------------------------------------- this machine */

static void check_clock(struct doctor *d)
{
    if (d->c->env.wall_ms(d->c->env.context) < CLOCK_LEAST) {
        find(d, WARNING, "clock", "date",
             "the clock of this machine is years behind: timers will be late");
    } else {
        find(d, GOOD, "clock", NULL, "the clock has a sensible date");
    }
}

static void check_mode(struct doctor *d, const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return;
    }
    if ((info.st_mode & 077) != 0) {
        find(d, WARNING, "mode", cli_text(d->c, "chmod 600 %s", path),
             "others on this machine may read the store");
    } else if (access(path, W_OK) != 0) {
        find(d, WARNING, "mode", cli_text(d->c, "ls -l %s", path),
             "the store can be read but not written by you");
    } else {
        find(d, GOOD, "mode", NULL, "only its owner may read and write it");
    }
}

/* Who writes holds a lock for as long as it lives. */
static void check_lock(struct doctor *d, const char *path)
{
    int fd = open(cli_text(d->c, "%s-qplock", path), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        find(d, GOOD, "lock", NULL, "no process has it open for writing");
        return;
    }
    if (flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        char text[64] = "";
        ssize_t n = read(fd, text, sizeof text - 1);
        long pid = n > 6 ? strtol(text + 6, NULL, 10) : 0; /* "quipu 4711 ..." */
        find(d, GOOD, "lock", NULL,
             cli_text(d->c, "a process works on it (quipu %ld): ask it with --server", pid));
    } else {
        find(d, GOOD, "lock", NULL, "no process has it open for writing");
    }
    (void)close(fd);
}

static void check_space(struct doctor *d, const char *path)
{
    struct statvfs info;
    uint64_t space;
    if (statvfs(path, &info) != 0) {
        return;
    }
    space = (uint64_t)info.f_bavail * info.f_frsize;
    find(d, space < SPACE_LOW ? WARNING : GOOD, "space",
         space < SPACE_LOW ? cli_text(d->c, "df %s", path) : NULL,
         cli_text(d->c, "%llu MiB are free on its disk", (unsigned long long)(space >> 20)));
}

/* ---------------------------------------------------------------------------- what can be asked */

static struct json *question(struct doctor *d, const char *path, const char *query, int *out_status)
{
    struct reply reply = {0};
    struct json *json = NULL;
    *out_status = ask(d->c, &(struct question){.path = path, .query = query}, &reply);
    if (*out_status == EXIT_OK && reply.status == 200 &&
        json_parse(&d->c->env, buf_slice(&reply.body), NULL, &json) != QP_OK) {
        json = NULL;
    }
    *out_status = *out_status == EXIT_OK ? reply.status : -*out_status;
    reply_done(&reply);
    return json;
}

static void check_server(struct doctor *d)
{
    int status;
    struct json *json = question(d, "/version", NULL, &status);
    qp_str version = member_text(json, "version");
    if (json == NULL) {
        fail(d, status < 0 ? -status : EXIT_ERROR, "server", "quipu serve", "it does not answer");
        return;
    }
    find(d, str_equal(version, str_from(qp_version())) ? GOOD : WARNING, "server",
         str_equal(version, str_from(qp_version())) ? NULL
                                                    : "install the same version on both sides",
         cli_text(d->c, "%s is version %.*s, this program is %s", ask_whom(d->c), STR_ARG(version),
                  qp_version()));
    json_free(json);
    json = question(d, "/readyz", NULL, &status);
    if (json == NULL) {
        fail(d, EXIT_ERROR, "ready", "see the server's log",
             "the server is there, but its store cannot be used");
    } else {
        find(d, GOOD, "ready", NULL, "its store answers");
    }
    json_free(json);
}

static bool check_token(struct doctor *d)
{
    int status;
    struct json *json = question(d, "/v1/whoami", NULL, &status);
    if (json == NULL) {
        fail(d, EXIT_AUTH, "token", "quipu doctor --token-file quipu-data/admin.token",
             status == 401 ? "there is no token, or it is unknown, revoked or expired"
                           : "the token does not allow to read");
        return false;
    }
    find(d, GOOD, "token", NULL,
         cli_text(d->c, "known as '%.*s'", STR_ARG(member_text(json, "token"))));
    json_free(json);
    return true;
}

static void check_topics(struct doctor *d)
{
    int status;
    bool all_served = true;
    struct json *json = question(d, "/v1/topics", NULL, &status);
    const struct json *items = json_get(json, QP_STR("items"));
    for (size_t i = 0; i < json_count(items); i++) {
        const struct json *topic = json_at(items, i);
        if (member_number(topic, "ready") > 0 && member_number(topic, "workers") == 0) {
            all_served = false;
            find(d, WARNING, "workers", "start a worker: see docs/workers.md",
                 cli_text(d->c, "no worker serves the topic '%.*s', and %lld tasks wait",
                          STR_ARG(member_text(topic, "name")),
                          (long long)member_number(topic, "ready")));
        }
    }
    if (json != NULL && all_served) {
        find(d, GOOD, "workers", NULL, "no task waits for a worker that is missing");
    }
    json_free(json);
}

static void check_parked(struct doctor *d)
{
    int status;
    struct json *json = question(d, "/v1/parked", "count=estimate&limit=1", &status);
    int64_t count = member_number(json, "count");
    if (json != NULL) {
        find(d, count > 0 ? WARNING : GOOD, "parked", count > 0 ? "quipu parked" : NULL,
             cli_text(d->c, "%lld jobs need a person", (long long)count));
    }
    json_free(json);
}

/* ------------------------------------------------------------------------------------ all of it */

static void check_file(struct doctor *d, const char *place)
{
    const char *path = cli_place_path(place);
    if (!cli_place_is_url(place)) {
        if (access(path, F_OK) != 0) {
            fail(d, EXIT_NOT_FOUND, "store", "quipu serve, or name the store with --db",
                 cli_text(d->c, "%s: there is no such file", path));
            return;
        }
        check_mode(d, path);
        check_lock(d, path);
        check_space(d, path);
    }
    if (ask_open(d->c) != EXIT_OK) {
        fail(d, EXIT_ERROR, "store", "quipu fsck", "it cannot be opened");
        return;
    }
    find(d, GOOD, "store", NULL,
         cli_text(d->c, "%s can be read, and its schema is known", ask_whom(d->c)));
    check_topics(d);
    check_parked(d);
}

static void check_all(struct doctor *d)
{
    const char *place = ask_file_place(d->c);
    check_clock(d);
    if (place != NULL) {
        check_file(d, place);
        return;
    }
    check_server(d);
    if (d->status == EXIT_OK && check_token(d)) {
        check_topics(d);
        check_parked(d);
    }
}

int command_doctor(struct cli *c)
{
    struct doctor d = {.c = c};
    int status = cli_expect(c, 0, 0);
    status = status == EXIT_OK ? output_kind(c, &d.kind) : status;
    status = status == EXIT_OK ? cli_settings(c) : status;
    if (status != EXIT_OK) {
        return status;
    }
    buf_init(&d.out, &c->env, 0);
    json_writer_init(&d.w, &d.out);
    json_begin_object(&d.w);
    json_key(&d.w, QP_STR("findings"));
    json_begin_array(&d.w);
    check_all(&d);
    json_end_array(&d.w);
    json_end_object(&d.w);
    if (d.kind != OUTPUT_TEXT && d.kind != OUTPUT_WIDE) {
        (void)output_object(c, d.kind, "findings", buf_slice(&d.out));
    }
    buf_done(&d.out);
    return d.status;
}
