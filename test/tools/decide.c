/* decide.c - plays one trace of an agent workflow, and says where engine and trace differ
 *
 *     decide [--store memory|FILE|URL] TRACE.json
 *     decide --http URL TRACE.json
 *
 * What a trace is: support/agenttrace.h. With a store the trace is a job of an engine on it: `memory` is a new one, FILE a file of
 * SQLite that is made if it is not there, URL a database of PostgreSQL. Without one the instance is in memory alone. With --http it
 * is an instance of the server whose agent port is http://127.0.0.1:PORT (support/agenthttp.h). Exit code 0: they agree; 1: they differ, or the file is bad ("error POINTER: text"); 2: wrong usage;
 * 3: through endpoints such a trace cannot be played.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"
#include "support/agenthttp.h"
#include "support/agentstage.h"

static int read_all(const char *name, struct buf *out)
{
    static char piece[64 * 1024];
    size_t size = 0;
    FILE *file = fopen(name, "r");
    if (file == NULL) {
        (void)fprintf(stderr, "decide: %s: %s\n", name, strerror(errno));
        return 2;
    }
    while ((size = fread(piece, 1, sizeof(piece), file)) > 0) {
        buf_add(out, piece, size);
    }
    (void)fclose(file);
    return buf_rc(out) == QP_OK ? 0 : 2;
}

static struct agentstage stage;

/* A store that is used again has the jobs of earlier traces. */
static void stage_begin(const char *store)
{
    bool in_memory = strcmp(store, "memory") == 0;
    bool is_url = strncmp(store, "postgres", 8) == 0;
    char id[48];
    (void)snprintf(id, sizeof id, "trace-%lld-%lld", (long long)time(NULL), (long long)getpid());
    stage.run.at = in_memory ? NULL : store;
    agentstage_init(&stage,
                    in_memory ? STORETEST_MEMORY
                    : is_url  ? STORETEST_POSTGRES
                              : STORETEST_SQLITE,
                    id);
}

/* What the trace is played on: a store, the port of a server, or neither. */
struct place {
    const char *store;
    int port;
};

static int play_on(const struct qp_env *env, const struct place *place, qp_str text,
                   struct buf *out, struct qp_err *err, size_t *out_differences)
{
    struct tracestage on = agentstage_of(&stage);
    if (place->port > 0) {
        return agenthttp_play(env, place->port, text, out, err, out_differences);
    }
    if (place->store == NULL) {
        return agenttrace_play(env, text, out, NULL, err, out_differences);
    }
    stage_begin(place->store);
    int rc = agenttrace_play_on(&on, env, text, out, NULL, err, out_differences);
    agentstage_done(&stage);
    return rc;
}

static int play(const struct qp_env *env, const struct place *place, qp_str text)
{
    struct qp_err err = {0};
    struct buf out;
    size_t differences = 0;
    buf_init(&out, env, 0);
    int rc = play_on(env, place, text, &out, &err, &differences);
    (void)printf("%.*s", STR_ARG(buf_slice(&out)));
    if (rc == QP_E_UNSUPPORTED) {
        (void)printf("cannot be played: %s\n", err.text);
    } else if (rc != QP_OK) {
        (void)printf("error %s: %s\n", err.pointer, err.text);
    }
    buf_done(&out);
    return rc == QP_E_UNSUPPORTED ? 3 : rc == QP_OK && differences == 0 ? 0 : 1;
}

static int usage(void)
{
    (void)fprintf(stderr, "usage: decide [--store memory|FILE|URL | --http URL] TRACE.json\n");
    return 2;
}

/* "http://127.0.0.1:4001", with a slash behind it or not. */
static bool read_port(const char *url, int *out_port)
{
    static const char prefix[] = "http://127.0.0.1:";
    char *end = NULL;
    long port = 0;
    if (strncmp(url, prefix, sizeof prefix - 1) != 0) {
        return false;
    }
    port = strtol(url + sizeof prefix - 1, &end, 10);
    *out_port = (int)port;
    return port > 0 && port <= 65535 && (*end == '\0' || strcmp(end, "/") == 0);
}

int main(int argc, char **argv)
{
    struct qp_env env;
    struct buf text;
    struct place place = {0};
    if (argc == 4 && strcmp(argv[1], "--store") == 0) {
        place.store = argv[2];
    } else if (argc == 4 && strcmp(argv[1], "--http") == 0) {
        if (!read_port(argv[2], &place.port)) {
            return usage();
        }
    } else if (argc != 2) {
        return usage();
    }
    qp_env_init(&env);
    env_complete(&env);
    buf_init(&text, &env, 0);
    int status = read_all(argv[argc - 1], &text);
    if (status == 0) {
        status = play(&env, &place, buf_slice(&text));
    }
    buf_done(&text);
    return status;
}
