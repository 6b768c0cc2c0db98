/* carto_import.c - quipu carto import: lists of Debian packages become facts; and how facts are sent
 *
 * The lists are read here: the API takes no paths. What is known only when all lists are read (who provides a name) is put
 * together in memory; then the facts go out in pages, and become current with the last one. Compressed lists, and those of apt,
 * are read through apt-helper.
 *
 * If we are killed, the pages so far wait for the next import of the same lists, and no traversal sees them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "carto/deb_import.h"
#include "cli/carto_import.h"

#define APT_LISTS "/var/lib/apt/lists"
#define APT_HELPER "/usr/lib/apt/apt-helper"
#define PAGE_SIZE (1024 * 1024) /* of a body, about */

extern char **environ;

/* -------------------------------------------------------------------------------------------- reading */

static bool is_plain(const char *path)
{
    size_t n = strlen(path);
    const char *dot = strrchr(path, '.');
    return dot == NULL || n < 4 ||
           (strcmp(dot, ".lz4") != 0 && strcmp(dot, ".xz") != 0 && strcmp(dot, ".gz") != 0 &&
            strcmp(dot, ".zst") != 0 && strcmp(dot, ".bz2") != 0);
}

/* A file, or what apt-helper makes of it; *out_pid 0: nothing runs. */
static int open_list(struct cli *c, const char *path, int *out_fd, pid_t *out_pid)
{
    char *arguments[] = {cli_copy(c, APT_HELPER), cli_copy(c, "cat-file"), cli_copy(c, path), NULL};
    posix_spawn_file_actions_t actions;
    int ends[2];
    int rc;
    *out_pid = 0;
    if (is_plain(path)) {
        *out_fd = open(path, O_RDONLY | O_CLOEXEC);
        return *out_fd >= 0 ? EXIT_OK : cli_fail(c, EXIT_USAGE, "'%s': %s", path, strerror(errno));
    }
    if (access(path, R_OK) != 0) {
        return cli_fail(c, EXIT_USAGE, "'%s': %s", path, strerror(errno));
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return cli_fail(c, EXIT_ERROR, "pipe: %s", strerror(errno));
    }
    (void)posix_spawn_file_actions_init(&actions); /* these do not fail on Linux */
    (void)posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    rc = posix_spawn(out_pid, APT_HELPER, &actions, NULL, arguments, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)close(ends[1]);
    *out_fd = ends[0];
    if (rc != 0) {
        (void)close(ends[0]);
        return cli_fail(c, EXIT_ERROR, "%s: %s", APT_HELPER, strerror(rc));
    }
    return EXIT_OK;
}

static int read_stream(struct deb_import *import, int fd, struct qp_err *err)
{
    static char bytes[256 * 1024];
    for (;;) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n < 0 && errno != EINTR) {
            return err_set(err, QP_E_IO, "%s", strerror(errno));
        }
        if (n == 0) {
            return deb_import_end_list(import, err);
        }
        if (n > 0) {
            QP_TRY(deb_import_feed(import, (qp_str){bytes, (size_t)n}, err));
        }
    }
}

static int read_list(struct cli *c, struct deb_import *import, const char *path)
{
    struct qp_err err = {0};
    pid_t pid = 0;
    int fd = -1;
    int ended = 0;
    int status = open_list(c, path, &fd, &pid);
    if (status != EXIT_OK) {
        return status;
    }
    if (read_stream(import, fd, &err) != QP_OK) {
        status = cli_fail(c, EXIT_USAGE, "'%s': %s", path, err.text);
    }
    (void)close(fd);
    if (pid != 0 && waitpid(pid, &ended, 0) == pid && ended != 0 && status == EXIT_OK) {
        status = cli_fail(c, EXIT_ERROR, "'%s': apt-helper cannot read it", path);
    }
    return status;
}

/* Those of apt on this machine. */
static int read_machine(struct cli *c, struct deb_import *import)
{
    DIR *dir = opendir(APT_LISTS);
    struct dirent *entry;
    int status = EXIT_OK;
    size_t count = 0;
    while (dir != NULL && status == EXIT_OK && (entry = readdir(dir)) != NULL) {
        if (strstr(entry->d_name, "_Packages") != NULL) {
            status = read_list(c, import, cli_text(c, "%s/%s", APT_LISTS, entry->d_name));
            count++;
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return status != EXIT_OK || count > 0
               ? status
               : cli_fail_next(c, EXIT_NOT_FOUND, "apt-get update, or name a Packages file",
                               "apt has no lists of packages in %s", APT_LISTS);
}

/* --------------------------------------------------------------------------------------------- sending */

struct sending {
    struct cli *c;
    const char *type;
    const struct facts_table *table;
    struct ask_body body;
    bool is_begun;
    size_t count; /* in this page */
    int64_t sent;
    bool is_current;
};

static void page_begin(struct sending *s)
{
    ask_body_begin(s->c, &s->body);
    ask_body_text(&s->body, "type", s->type);
    ask_body_text(&s->body, "universe", s->table->universe);
    json_key(&s->body.w, QP_STR("facts"));
    json_begin_array(&s->body.w);
    s->is_begun = true;
    s->count = 0;
}

static int page_send(struct sending *s, int64_t complete)
{
    struct question q = {
        .method = API_POST, .path = "/v1/traversals/imports", .patience_ms = 30000};
    struct reply reply = {0};
    struct json *json = NULL;
    int status;
    if (!s->is_begun) {
        page_begin(s);
    }
    json_end_array(&s->body.w);
    if (complete > 0) {
        json_key(&s->body.w, QP_STR("complete"));
        json_put_i64(&s->body.w, complete);
    }
    s->is_begun = false;
    status = ask_body_send(s->c, &s->body, EXIT_OK, &q, &reply);
    if (status == EXIT_OK && json_parse(&s->c->env, buf_slice(&reply.body), NULL, &json) == QP_OK) {
        bool truth = false;
        s->is_current = json_as_bool(json_get(json, QP_STR("current")), &truth) && truth;
    }
    json_free(json);
    reply_done(&reply);
    return status;
}

static void put_hex(struct json_writer *w, struct buf *room, qp_str bytes)
{
    static const char digits[] = "0123456789abcdef";
    buf_reset(room);
    for (size_t i = 0; i < bytes.n; i++) {
        unsigned char b = (unsigned char)bytes.p[i];
        buf_byte(room, digits[b >> 4]);
        buf_byte(room, digits[b & 15]);
    }
    json_put_str(w, buf_slice(room));
}

static int put_fact(struct sending *s, struct buf *room, const char *kind, qp_str name,
                    qp_str value)
{
    if (!s->is_begun) {
        page_begin(s);
    }
    json_begin_array(&s->body.w);
    json_put_str(&s->body.w, str_from(kind));
    json_put_str(&s->body.w, name);
    put_hex(&s->body.w, room, value);
    json_end_array(&s->body.w);
    s->count++;
    s->sent++;
    return s->count >= LIMIT_CARTO_PAGE_FACTS || s->body.text.n > PAGE_SIZE ? page_send(s, 0)
                                                                            : EXIT_OK;
}

static int send_values(struct sending *s, struct buf *room)
{
    int status = EXIT_OK;
    for (size_t i = 0; i < s->table->fact_count && status == EXIT_OK && !s->is_current; i++) {
        const struct fact *f = &s->table->facts[i];
        status = put_fact(s, room, "value", f->name, f->value);
    }
    return status;
}

/* The sources of a target, a line each, are one fact. */
static int send_sources(struct sending *s, struct buf *room)
{
    const struct facts_table *t = s->table;
    struct buf sources;
    int status = EXIT_OK;
    buf_init(&sources, &s->c->env, LIMIT_PAYLOAD_HARD_SIZE);
    for (size_t i = 0; i < t->ref_count && status == EXIT_OK && !s->is_current;) {
        qp_str target = t->refs[i].target;
        buf_reset(&sources);
        for (; i < t->ref_count && str_equal(t->refs[i].target, target); i++) {
            buf_str(&sources, t->refs[i].source);
            buf_byte(&sources, '\n');
        }
        status = buf_rc(&sources) != QP_OK
                     ? cli_fail(s->c, EXIT_ERROR, "out of memory")
                     : put_fact(s, room, "sources", target, buf_slice(&sources));
    }
    buf_done(&sources);
    return status;
}

int carto_send_facts(struct cli *c, const char *type, const struct facts_table *table,
                     int64_t *out_sent)
{
    struct sending s = {.c = c, .type = type, .table = table};
    struct buf room;
    int status;
    buf_init(&room, &c->env, 0);
    status = send_values(&s, &room);
    status = status == EXIT_OK ? send_sources(&s, &room) : status;
    if (status == EXIT_OK && !s.is_current) {
        status = page_send(&s, s.sent);
    }
    buf_done(&room);
    *out_sent = s.sent;
    return status;
}

int command_carto_import(struct cli *c)
{
    struct deb_import import;
    struct facts_table table;
    struct qp_err err = {0};
    int64_t sent = 0;
    int status = EXIT_OK;
    deb_import_init(&import, &c->env);
    facts_table_init(&table, &c->env);
    if (c->argument_count == 0) {
        status = read_machine(c, &import);
    }
    for (size_t i = 0; i < c->argument_count && status == EXIT_OK; i++) {
        status = read_list(c, &import, c->arguments[i]);
    }
    if (status == EXIT_OK && deb_import_finish(&import, &table, &err) != QP_OK) {
        status = cli_fail(c, EXIT_ERROR, "%s", err.text);
    }
    if (status == EXIT_OK && import.package_count == 0) {
        status = cli_fail(c, EXIT_USAGE, "the lists have no packages");
    }
    status = status == EXIT_OK ? carto_send_facts(c, "deb", &table, &sent) : status;
    if (status == EXIT_OK) {
        printf("deb@%s: %lld packages, %lld facts\n", table.universe,
               (long long)import.package_count, (long long)sent);
    }
    facts_table_done(&table);
    deb_import_done(&import);
    return status;
}
