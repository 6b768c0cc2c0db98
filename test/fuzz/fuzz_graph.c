/* fuzz_graph.c - any text is an application or is refused with places inside of it; what is taken can be drawn
 *
 * The corpus is that of the tests: test/graph.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/env.h"
#include "base/json.h"
#include "graph/draw.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_report(const struct report *r)
{
    const struct finding *last = NULL;
    QP_ASSERT(r->count > 0 && r->first != NULL);
    for (const struct finding *f = r->first; f != NULL; f = f->next) {
        QP_ASSERT(f->line >= 1 && f->column >= 1 && f->message.n > 0);
        QP_ASSERT(last == NULL || last->line < f->line ||
                  (last->line == f->line && last->column <= f->column));
        for (size_t i = 0; i < f->message.n; i++) {
            QP_ASSERT((unsigned char)f->message.p[i] >= 0x20 && f->message.p[i] != 0x7F);
        }
        last = f;
    }
}

/* What leads somewhere leads up to the trigger, and exits only to gates outside. */
static void check_graph(const struct graph *g)
{
    for (size_t i = 0; i < g->activity_count; i++) {
        const struct activity *a = &g->activities[i];
        QP_ASSERT((a->dominator == NULL) == (a == g->trigger));
        QP_ASSERT(a->dominator == NULL || a->depth == a->dominator->depth + 1);
        QP_ASSERT((a->type == ACTIVITY_GATE) == (i >= g->digit_count));
        QP_ASSERT((a->type == ACTIVITY_CYCLE) == (a->ancestor != NULL));
        for (size_t j = 0; j < a->exit_count; j++) {
            QP_ASSERT(a->exits[j].ways > 0 && a->exits[j].gate->depth <= a->depth);
        }
    }
}

static void draw(const struct qp_env *env, const struct app *app)
{
    struct buf out;
    buf_init(&out, env, 0);
    draw_app(&out, app, DRAW_DOT);
    draw_app(&out, app, DRAW_MERMAID);
    draw_app(&out, app, DRAW_TEXT);
    QP_ASSERT(buf_rc(&out) == QP_OK);
    buf_reset(&out);
    draw_json(&out, app);
    QP_ASSERT(json_check(env, buf_slice(&out), NULL, NULL) == QP_OK);
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qp_env env;
    struct arena arena;
    struct report report;
    struct app *app = NULL;
    int rc;
    qp_env_init(&env);
    env_complete(&env);
    arena_init(&arena, &env, 0);
    report_init(&report, &arena);
    rc = app_compile(&env, (qp_str){(const char *)data, size}, &report, &app);
    if (rc == QP_OK) {
        for (size_t i = 0; i < app->graph_count; i++) {
            check_graph(&app->graphs[i]);
        }
        draw(&env, app);
    } else {
        QP_ASSERT(rc == QP_E_INVALID && app == NULL);
        check_report(&report);
    }
    app_free(app);
    arena_done(&arena);
    return 0;
}
