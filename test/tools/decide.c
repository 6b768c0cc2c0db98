/* decide.c - plays one trace of an agent workflow, and says where engine and trace differ
 *
 *     decide [--store memory] TRACE.json
 *
 * What a trace is: support/agenttrace.h. Exit code 0: they agree; 1: they differ, or the file is bad ("error POINTER: text");
 * 2: wrong usage.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/env.h"
#include "support/agenttrace.h"

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

static int play(const struct qp_env *env, qp_str text)
{
    struct qp_err err = {0};
    struct buf out;
    size_t differences = 0;
    buf_init(&out, env, 0);
    int rc = agenttrace_play(env, text, &out, NULL, &err, &differences);
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
        (void)fprintf(stderr, "usage: decide [--store memory] TRACE.json\n");
        return 2;
    }
    if (has_store && strcmp(argv[2], "memory") != 0) {
        (void)fprintf(stderr, "decide: --store must be memory, got '%s'\n", argv[2]);
        return 2;
    }
    qp_env_init(&env);
    env_complete(&env);
    buf_init(&text, &env, 0);
    int status = read_all(argv[argc - 1], &text);
    if (status == 0) {
        status = play(&env, buf_slice(&text));
    }
    buf_done(&text);
    return status;
}
