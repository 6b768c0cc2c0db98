/* cursor.c - tries histories against programs: one case per line in, one line of words per case out
 *
 *     cursor < CASES
 *
 * What a case is and what the words mean: support/flowcase.h. A line that is no case is answered "error POINTER: text",
 * and the exit code is 1 at the end.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/env.h"
#include "support/flowcase.h"

/* False: the line is no case. */
static bool answer(struct arena *arena, qp_str line, struct buf *out)
{
    struct flowcase flow;
    struct flowrun run = {.flow = &flow, .arena = arena, .out = out};
    qp_str why;
    int rc = flowcase_parse(arena, line, &flow, &why);
    if (rc == QP_OK) {
        flowcase_run(&run);
        rc = run.rc;
    } else if (rc == QP_E_INVALID) {
        buf_printf(out, "error %.*s", STR_ARG(why));
        return false;
    }
    if (rc != QP_OK || buf_rc(out) != QP_OK) {
        (void)fprintf(stderr, "cursor: %s\n", qp_code_text(rc != QP_OK ? rc : buf_rc(out)));
        exit(2);
    }
    return true;
}

int main(void)
{
    struct qp_env env;
    struct arena arena;
    struct buf out;
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    bool all_good = true;
    qp_env_init(&env);
    env_complete(&env);
    arena_init(&arena, &env, 0);
    buf_init(&out, &env, 0);
    while ((n = getline(&line, &room, stdin)) >= 0) {
        if (n > 0 && line[n - 1] == '\n') {
            n--;
        }
        all_good &= answer(&arena, (qp_str){line, (size_t)n}, &out);
        (void)printf("%.*s\n", STR_ARG(buf_slice(&out)));
        buf_reset(&out);
        arena_reset(&arena);
    }
    free(line);
    buf_done(&out);
    arena_done(&arena);
    return all_good ? 0 : 1;
}
