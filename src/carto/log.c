/* log.c - the lines of a traversal (see log.h) */
#include "carto/log.h"

#include "base/time.h"
#include "kernel/address.h"
#include "store/error.h"

struct telling {
    const struct qp_env *env;
    struct store *store;
    const struct job_row *job;
    struct arena arena;
    struct buf *out;
    struct result_source *source;
    struct qp_err *err;
};

static void begin_line(struct telling *t, qp_ms at)
{
    char text[RFC3339_SIZE];
    rfc3339_format(at, text);
    buf_printf(t->out, "%s ", text);
}

static int read_act(struct telling *t, qp_str addr, const struct act_row **out_act)
{
    struct act_row key = {.ns = t->job->ns, .job = t->job->job, .addr = addr};
    const void *row = NULL;
    int rc = store_get(t->store, &t->arena, TABLE_act, &key, &row, t->err);
    *out_act = rc == QP_OK ? row : NULL;
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

static void tell_failure(struct telling *t, qp_ms at, const struct carto_item *item)
{
    begin_line(t, at);
    buf_text(t->out, "item ");
    path_print(t->out, item->path);
    buf_printf(t->out, " %.*s:%.*s %s: %.*s%s\n", STR_ARG(item->target.type),
               STR_ARG(item->target.name), carto_failure_text(item->failure), STR_ARG(item->error),
               item->is_optional ? " (optional)" : "");
}

/* The items of a level that is over which have failed; `at` is when the next one began. */
static int tell_failures(struct telling *t, uint64_t level, qp_ms at)
{
    struct carto_items items = result_items(t->source);
    for (size_t i = 0;; i++) {
        const struct carto_item *item = NULL;
        int rc = items.get(items.context, level, i, &item);
        if (rc != QP_OK) {
            return rc == QP_E_NOT_FOUND ? QP_OK : rc;
        }
        if (item->state == CARTO_FAILED_ITEM) {
            tell_failure(t, at, item);
        }
    }
}

/* Its first answer is the edge: END-DETECT. */
static void tell_edge(struct telling *t, uint64_t level, const struct act_row *gate)
{
    struct raw_walk w = {.rest = gate->output};
    begin_line(t, gate->guid_at);
    buf_printf(t->out, "level %llu", (unsigned long long)level);
    while (raw_each(&w)) {
        qp_str text = QP_NONE;
        if (w.key.n > 10 && memcmp(w.key.p, "end-detect", 10) == 0 &&
            raw_text(t->env, &t->arena, w.value, &text)) {
            buf_printf(t->out, " %.*s: %.*s", STR_ARG(w.key), STR_ARG(text));
        }
    }
    buf_byte(t->out, '\n');
}

static int tell_levels(struct telling *t, bool has_failures)
{
    for (uint64_t level = 0; level <= LIMIT_CARTO_LEVELS + 1; level++) {
        const struct act_row *gate = NULL;
        qp_str addr;
        QP_TRY(address_of_gate(&t->arena, level, &addr));
        QP_TRY(read_act(t, addr, &gate));
        if (gate == NULL || gate->guid_at == 0) {
            return QP_OK;
        }
        if (level > 0 && has_failures) {
            QP_TRY(tell_failures(t, level - 1, gate->guid_at));
        }
        tell_edge(t, level, gate);
    }
    return QP_OK;
}

static int tell_format(struct telling *t)
{
    const struct act_row *format = NULL;
    QP_TRY(read_act(t, CARTO_FORMAT_ADDRESS, &format));
    if (format != NULL && format->guid_at != 0) {
        begin_line(t, format->guid_at);
        buf_printf(t->out, "format %.*s\n", STR_ARG(format->output));
    }
    return QP_OK;
}

static int tell_end(struct telling *t)
{
    struct error error = {0};
    if (t->job->closed_at == 0) {
        return QP_OK;
    }
    begin_line(t, t->job->closed_at);
    if (t->job->state == JOB_COMPLETED) {
        buf_text(t->out, "SUCCESS\n");
        return QP_OK;
    }
    QP_TRY(error_read(&t->arena, t->job->error, &error));
    buf_printf(t->out, "ERROR %.*s\n", STR_ARG(error.message));
    return QP_OK;
}

static int tell(struct telling *t)
{
    struct result_state state;
    const struct act_row *trigger = NULL;
    QP_TRY(result_state(t->store, &t->arena, t->job, &state, t->err));
    QP_TRY(read_act(t, QP_STR("trigger,0"), &trigger));
    begin_line(t, t->job->created_at);
    buf_printf(t->out, "register %.*s\n",
               trigger == NULL ? 0 : (int)(trigger->input.n < 1000 ? trigger->input.n : 1000),
               trigger == NULL ? "" : trigger->input.p);
    QP_TRY(tell_levels(t, state.sums.counts.failed > 0));
    QP_TRY(tell_format(t));
    QP_TRY(tell_end(t));
    return buf_rc(t->out);
}

int carto_log(const struct qp_env *env, struct store *s, const struct job_row *job, struct buf *out,
              struct qp_err *err)
{
    struct telling t = {.env = env, .store = s, .job = job, .out = out, .err = err};
    int rc = result_open(env, s, job, err, &t.source);
    arena_init(&t.arena, env, 0);
    if (rc == QP_OK) {
        rc = tell(&t);
    }
    arena_done(&t.arena);
    result_close(t.source);
    return rc;
}
