/* flowgen_run.c - a version of a generated flow as a function: the durable calls, and the text of what they gave (flowgen.h) */
#include "support/flowgen.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/hash.h"

#define SLEEP_MS 20
#define LISTEN_MS 60
#define START_MS 25
#define RUN_MS 8
#define BEAT_MS 1000 /* a silent worker is excused for some seconds after a start: not too often */
#define PATH_SIZE 24
#define TEXT_FIRST 256

/* The text of one body, and where it is: the rounds of the loops around it. */
struct told {
    struct flowgen_run *run;
    char *p;
    size_t n;
    size_t room;
    char path[PATH_SIZE];
};

static void told_grow(struct told *t, size_t more)
{
    size_t room = t->room == 0 ? TEXT_FIRST : t->room;
    char *p;
    while (room < t->n + more) {
        room *= 2;
    }
    if (room == t->room) {
        return;
    }
    p = arena_bytes(t->run->arena, room);
    QP_ASSERT(p != NULL);
    if (t->n > 0) {
        memcpy(p, t->p, t->n);
    }
    t->p = p;
    t->room = room;
}

static void tell(struct told *t, const char *format, ...) QP_PRINTF(2, 3);
static void tell(struct told *t, const char *format, ...)
{
    va_list arguments;
    int n;
    va_start(arguments, format);
    n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    QP_ASSERT(n >= 0);
    told_grow(t, (size_t)n + 1);
    va_start(arguments, format);
    (void)vsnprintf(t->p + t->n, (size_t)n + 1, format, arguments);
    va_end(arguments);
    t->n += (size_t)n;
}

/* A JSON string, whose characters need no escape, without its quotes; none: nothing came. */
static qp_str bare(qp_str text)
{
    if (text.p == NULL) {
        return QP_STR("T");
    }
    return text.n >= 2 && text.p[0] == '"' ? (qp_str){text.p + 1, text.n - 2} : text;
}

/* The text so far as JSON. */
static qp_str quoted(const struct told *t)
{
    char *p = arena_bytes(t->run->arena, t->n + 2);
    QP_ASSERT(p != NULL);
    p[0] = '"';
    if (t->n > 0) {
        memcpy(p + 1, t->p, t->n);
    }
    p[t->n + 1] = '"';
    return (qp_str){p, t->n + 2};
}

static int run_list(qp_flow *flow, const struct flowgen_step *first, int64_t context,
                    struct told *t);

/* ---------------------------------------------------------------------------------------- activities */

static const struct qp_step *step_of(const struct flowgen_step *s)
{
    static const int never[] = {404};
    static const struct qp_step steps[FLOWGEN_FATES] = {
        [FLOWGEN_FLAKY] = {.attempts = 50, .backoff_ms = 1, .cap_ms = 2},
        [FLOWGEN_FATAL] = {.never = never, .never_count = 1},
        [FLOWGEN_UNSTARTED] = {.attempts = 2, .backoff_ms = 1, .start_timeout_ms = START_MS},
        [FLOWGEN_SLOW] = {.attempts = 2, .backoff_ms = 1, .timeout_ms = RUN_MS},
        [FLOWGEN_SILENT] = {.attempts = 2, .backoff_ms = 1, .heartbeat_ms = BEAT_MS},
        [FLOWGEN_BEATS] = {.attempts = 2, .backoff_ms = 1, .heartbeat_ms = BEAT_MS},
        [FLOWGEN_KEYED] = {.attempts = 1, .start_timeout_ms = START_MS, .limit_key = "t0"}};
    static const struct qp_step other_key = {.attempts = 1, .limit_key = "t1"};
    if (s->fate == FLOWGEN_FINE) {
        return NULL;
    }
    return s->fate == FLOWGEN_KEYED && s->version % FLOWGEN_KEYS == 0 ? &other_key
                                                                      : &steps[s->fate];
}

/* The fate, and what its output must follow from; behind a bar what must be the same in every run. */
static qp_str input_of(qp_flow *flow, const struct flowgen_step *s, const struct told *t)
{
    char text[256];
    qp_str copy;
    qp_str job = qp_flow_job(flow);
    int n = snprintf(text, sizeof text, "\"%d%.*s/%s/%s/%lld|", (int)s->fate, STR_ARG(job), s->name,
                     t->path, (long long)s->version);
    if (t->run->gen->options.strict) {
        n += snprintf(text + n, sizeof text - (size_t)n, "%016" PRIx64 " %lld %d",
                      hash_bytes(1, t->p == NULL ? "" : t->p, t->n), (long long)qp_now(flow),
                      (int)(qp_random(flow) & 1));
    }
    n += snprintf(text + n, sizeof text - (size_t)n, "\"");
    QP_ASSERT((size_t)n < sizeof text &&
              arena_copy(t->run->arena, (qp_str){text, (size_t)n}, &copy));
    return copy;
}

/* "E408r": which limit it was is in the message. */
static void tell_error(const qp_flow *flow, struct told *t)
{
    struct qp_flow_error error;
    const char *limit = "";
    qp_flow_error(flow, &error);
    if (error.code == 408) {
        limit = error.message.p[0] == 's' ? "s" : error.message.p[0] == 'h' ? "b" : "r";
    }
    tell(t, "E%d%s;", error.code, limit);
}

/* What a call gave, or its error; other codes unwind the function. */
static int tell_value(qp_flow *flow, struct told *t, int rc, qp_str value)
{
    if (rc == QP_E_FAILED) {
        tell_error(flow, t);
        return QP_OK;
    }
    QP_TRY(rc);
    tell(t, "%.*s;", STR_ARG(bare(value)));
    return QP_OK;
}

/* -------------------------------------------------------------------------------------------- bodies */

struct body {
    const struct flowgen_step *step;
    struct told told; /* of its own: begun bodies share nothing */
};

static int run_body(qp_flow *flow, void *context)
{
    struct body *b = context;
    QP_TRY(run_list(flow, b->step->body, b->step->version, &b->told));
    return qp_return(flow, quoted(&b->told));
}

static struct body body_of(const struct flowgen_step *s, const struct told *t)
{
    struct body b = {.step = s, .told = {.run = t->run}};
    memcpy(b.told.path, t->path, sizeof t->path);
    return b;
}

static int run_inline(qp_flow *flow, void *context)
{
    (void)context;
    return qp_return(flow, QP_STR("\"inline\""));
}

static void round_begin(struct told *round, const struct told *t, const struct qp_loop *loop)
{
    qp_str before = bare(loop->state);
    *round = (struct told){.run = t->run};
    (void)snprintf(round->path, sizeof round->path, "%.*s.%d", PATH_SIZE - 6, t->path,
                   (int)loop->iteration % 100);
    tell(round, "%.*s", STR_ARG(before));
}

static int run_loop(qp_flow *flow, qp_flow *view, const struct flowgen_step *s, struct told *t)
{
    struct qp_loop loop = {.name = s->name, .state = QP_STR("\"\"")};
    while (qp_loop_next(view, &loop)) {
        struct told round;
        round_begin(&round, t, &loop);
        QP_TRY(run_list(flow, s->body, s->version, &round));
        tell(&round, "|");
        qp_loop_state(flow, &loop, quoted(&round));
        if (loop.iteration + 1 >= s->times) {
            struct told all = {.run = t->run};
            tell(&all, "%d:%.*s", t->run->version, STR_ARG(bare(loop.state)));
            qp_loop_break(flow, &loop, quoted(&all));
        }
    }
    QP_TRY(loop.rc);
    tell(t, "(%.*s)", STR_ARG(bare(loop.output)));
    return QP_OK;
}

/* ------------------------------------------------------------------------------------- several at once */

static int begin_member(qp_flow *view, const struct flowgen_step *s, struct body *b,
                        qp_handle *out_handle)
{
    switch (s->op) {
    case FLOWGEN_SLEEP:
        return qp_begin_sleep(view, SLEEP_MS, out_handle);
    case FLOWGEN_TIMED:
        return qp_begin_listen(view, s->name, &(struct qp_listen){.timeout_ms = LISTEN_MS},
                               out_handle);
    case FLOWGEN_CLOSURE:
        return qp_begin_closure(view, s->name, run_body, b, out_handle);
    default:
        return s->child ? qp_begin_child(view, FLOWGEN_KID, input_of(view, s, &b->told), NULL,
                                         out_handle)
                        : qp_begin_activity(view, s->name, input_of(view, s, &b->told), step_of(s),
                                            out_handle);
    }
}

static int tell_member(qp_flow *view, const struct flowgen_step *s, qp_handle handle,
                       struct told *t)
{
    qp_str output = QP_NONE;
    int rc = qp_output(view, handle, &output);
    if (rc == QP_OK && s->op == FLOWGEN_SLEEP) {
        output = QP_STR("z");
    }
    tell(t, "%s=", s->name);
    return tell_value(view, t, rc, output);
}

/* A later run with another winner would contradict the history. */
static int run_winner(qp_flow *view, const struct flowgen_step *s, size_t index)
{
    char name[32];
    (void)snprintf(name, sizeof name, "%s-%zu", s->name, index);
    return qp_inline(view, name, run_inline, NULL, NULL);
}

static int run_any(qp_flow *view, const struct flowgen_step *s, const qp_handle *handles,
                   size_t count, struct told *t)
{
    const struct flowgen_step *member = s->body;
    size_t index = 0;
    QP_TRY(qp_any(view, handles, count, &index));
    for (size_t i = 0; i < index; i++) {
        member = member->next;
    }
    tell(t, "<%zu:", index);
    QP_TRY(tell_member(view, member, handles[index], t));
    tell(t, ">");
    return t->run->gen->options.strict ? run_winner(view, s, index) : QP_OK;
}

static int run_several(qp_flow *view, const struct flowgen_step *s, struct told *t)
{
    qp_handle handles[4];
    struct body bodies[4];
    size_t count = 0;
    int rc;
    for (const struct flowgen_step *m = s->body; m != NULL; m = m->next, count++) {
        bodies[count] = body_of(m, t);
        QP_TRY(begin_member(view, m, &bodies[count], &handles[count]));
    }
    if (s->op == FLOWGEN_ANY) {
        return run_any(view, s, handles, count, t);
    }
    rc = qp_all(view, handles, count);
    QP_TRY(rc == QP_E_FAILED ? QP_OK : rc); /* each says what became of it */
    count = 0;
    tell(t, "[");
    for (const struct flowgen_step *m = s->body; m != NULL; m = m->next, count++) {
        QP_TRY(tell_member(view, m, handles[count], t));
    }
    tell(t, "]");
    return QP_OK;
}

/* --------------------------------------------------------------------------------------------- steps */

static int run_removed(qp_flow *view, const struct flowgen_step *s)
{
    static const enum qp_event_type types[FLOWGEN_OPS] = {[FLOWGEN_ACTIVITY] = QP_EVENT_ACTIVITY,
                                                          [FLOWGEN_INLINE] = QP_EVENT_RUN,
                                                          [FLOWGEN_SIGNAL] = QP_EVENT_SIGNAL,
                                                          [FLOWGEN_CLOSURE] = QP_EVENT_BRANCH,
                                                          [FLOWGEN_LOOP] = QP_EVENT_LOOP};
    return s->child ? qp_removed(view, QP_EVENT_CHILD, FLOWGEN_KID)
                    : qp_removed(view, types[s->op], s->name);
}

static int run_tell(qp_flow *view, const struct flowgen_step *s, qp_str *out_value)
{
    QP_TRY(qp_signal_flow(view, qp_flow_job(view), s->name, QP_STR("\"own\"")));
    return qp_listen(view, s->name, NULL, out_value);
}

static int run_closure(qp_flow *view, const struct flowgen_step *s, struct told *t)
{
    struct body b = body_of(s, t);
    qp_str output = QP_NONE;
    QP_TRY(qp_closure(view, s->name, run_body, &b, &output));
    tell(t, "{%.*s}", STR_ARG(bare(output)));
    return QP_OK;
}

static int run_check(qp_flow *flow, const struct flowgen_step *s, int64_t context, struct told *t)
{
    int64_t found = 0;
    QP_TRY(qp_check_version(flow, s->version - context + 1, &found));
    tell(t, "?%lld:", (long long)found);
    return run_list(flow, found == s->body->version - context + 1 ? s->body : s->fast, context, t);
}

/* One call that gives one value. */
static int run_simple(qp_flow *view, const struct flowgen_step *s, const struct told *t,
                      qp_str *out_value)
{
    switch (s->op) {
    case FLOWGEN_ACTIVITY:
        return s->child ? qp_child(view, FLOWGEN_KID, input_of(view, s, t), NULL, out_value)
                        : qp_activity(view, s->name, input_of(view, s, t), step_of(s), out_value);
    case FLOWGEN_INLINE:
        return qp_inline(view, s->name, run_inline, NULL, out_value);
    case FLOWGEN_SLEEP:
        *out_value = QP_STR("z");
        return qp_sleep(view, SLEEP_MS);
    case FLOWGEN_SIGNAL:
        *out_value = QP_STR("s");
        return qp_signal_flow(view, QP_STR("other"), s->name, QP_STR("2"));
    case FLOWGEN_TELL:
        return run_tell(view, s, out_value);
    case FLOWGEN_LISTEN:
        return qp_listen(view, s->name, NULL, out_value);
    default:
        return qp_listen(view, s->name, &(struct qp_listen){.timeout_ms = LISTEN_MS}, out_value);
    }
}

static int run_step(qp_flow *flow, const struct flowgen_step *s, int64_t context, struct told *t)
{
    qp_flow *view = s->op == FLOWGEN_CHECK ? flow : qp_v(flow, s->version - context + 1);
    qp_str value = QP_NONE;
    if (s->removed) {
        return run_removed(view, s);
    }
    if (s->op < FLOWGEN_CLOSURE) {
        int rc = run_simple(view, s, t, &value);
        tell(t, "%s=", s->name);
        return tell_value(view, t, rc, value);
    }
    tell(t, "%s", s->name);
    switch (s->op) {
    case FLOWGEN_CLOSURE:
        return run_closure(view, s, t);
    case FLOWGEN_LOOP:
        return run_loop(flow, view, s, t);
    case FLOWGEN_CHECK:
        return run_check(flow, s, context, t);
    default:
        return run_several(view, s, t);
    }
}

static int run_list(qp_flow *flow, const struct flowgen_step *first, int64_t context,
                    struct told *t)
{
    for (const struct flowgen_step *s = first; s != NULL; s = s->next) {
        QP_TRY(run_step(flow, s, context, t));
    }
    return QP_OK;
}

int flowgen_kid(qp_flow *flow, qp_str input, void *context)
{
    struct flowgen_step step = {.fate = flowgen_fate_of(input)};
    qp_str output;
    (void)context;
    QP_TRY(qp_activity(flow, "a0", input, step_of(&step), &output));
    return qp_return(flow, output);
}

int flowgen_function(qp_flow *flow, qp_str input, void *context)
{
    struct flowgen_run *run = context;
    struct told t = {.run = run};
    (void)input;
    QP_ASSERT(run->version >= 0 && run->version < run->gen->count);
    tell(&t, "%d:", run->version);
    QP_TRY(run_list(flow, run->gen->programs[run->version], 1, &t));
    return qp_return(flow, quoted(&t));
}
