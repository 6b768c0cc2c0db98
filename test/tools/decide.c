/* decide.c - plays one trace of an agent workflow, and says where engine and trace differ
 *
 *     decide [--store memory|FILE|URL] TRACE.json
 *
 * What a trace is: support/agenttrace.h. With a store the trace is a job of an engine on it: `memory` is a new one, FILE a file of
 * SQLite that is made if it is not there, URL a database of PostgreSQL. Without one the instance is in memory alone. Exit
 * code 0: they agree; 1: they differ, or the file is bad ("error POINTER: text"); 2: wrong usage.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"
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

static int play_on(const struct qp_env *env, const char *store, qp_str text, struct buf *out,
                   struct qp_err *err, size_t *out_differences)
{
    struct tracestage on = agentstage_of(&stage);
    if (store == NULL) {
        return agenttrace_play(env, text, out, NULL, err, out_differences);
    }
    stage_begin(store);
    int rc = agenttrace_play_on(&on, env, text, out, NULL, err, out_differences);
    agentstage_done(&stage);
    return rc;
}

static int play(const struct qp_env *env, const char *store, qp_str text)
{
    struct qp_err err = {0};
    struct buf out;
    size_t differences = 0;
    buf_init(&out, env, 0);
    int rc = play_on(env, store, text, &out, &err, &differences);
    (void)printf("%.*s", STR_ARG(buf_slice(&out)));
    if (rc != QP_OK) {
        (void)printf("error %s: %s\n", err.pointer, err.text);
    }
    buf_done(&out);
    return rc == QP_OK && differences == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct qp_env env;
    struct buf text;
    bool has_store = argc == 4 && strcmp(argv[1], "--store") == 0;
    if (argc != 2 && !has_store) {
        (void)fprintf(stderr, "usage: decide [--store memory|FILE|URL] TRACE.json\n");
        return 2;
    }
    qp_env_init(&env);
    env_complete(&env);
    buf_init(&text, &env, 0);
    int status = read_all(argv[argc - 1], &text);
    if (status == 0) {
        status = play(&env, has_store ? argv[2] : NULL, buf_slice(&text));
    }
    buf_done(&text);
    return status;
}
