/* test_script_edits.c - generated flows through the C API: crashes, answers in any order, edits while they run
 *
 * A program is a tree of steps that one function interprets with the durable calls. Per seed:
 *
 *   - every decision is made twice before it is committed, as if the process had died: both are the same
 *   - every work is answered once, in random order, and the flow ends, with one output whatever that order was
 *   - edits that document 004 allows (insert with a fresh version, remove) never stop a flow, wherever it is
 *   - the history, replayed once more, gives the same output and writes nothing
 *
 * QP_SEED is the first seed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/hash.h"
#include "fakeflow.h"

#define SEEDS 400
#define SEEDS_TORTURE 10000
#define DEPTH_MAX 3
#define SPOTS_MAX 256

enum step_op {
    OP_ACTIVITY,
    OP_INLINE,
    OP_SLEEP,
    OP_SIGNAL,
    OP_LISTEN,
    OP_TIMED,
    OP_CLOSURE,
    OP_LOOP,
    OP_ALL,
    OP_ANY,
    OPS
};

struct step {
    struct step *next;
    enum step_op op;
    bool removed;
    int64_t version; /* absolute */
    int64_t times;
    char name[16];
    struct step *body; /* closure, loop, all, any */
};

struct world {
    struct arena arena;
    uint64_t random;
    int64_t names;
    int64_t version; /* the highest that was ever used */
    bool with_any;
    bool edited; /* while the flow runs: then inputs and the winner of `any` may change */
    struct step *program;
    struct step **spots[SPOTS_MAX];
    int64_t contexts[SPOTS_MAX];
    size_t spot_count;
};

/* What one call of the function has computed. */
struct running {
    uint64_t sum;
};

static struct testenv t;
static struct fakeflow f;
static struct fakeflow again;
static struct world w;
static int64_t ops_seen[OPS];
static int64_t inserts_seen;
static int64_t removals_seen;

static uint64_t below(uint64_t n)
{
    return testenv_random_below(&w.random, n);
}

/* --------------------------------------------------------------------------------------- programs */

static struct step *random_list(int depth, int64_t context, size_t count);

static struct step *random_member(int depth, int64_t context)
{
    struct step *s = arena_alloc(&w.arena, sizeof *s);
    static const enum step_op members[] = {OP_ACTIVITY, OP_ACTIVITY, OP_SLEEP, OP_TIMED,
                                           OP_CLOSURE};
    assert_non_null(s);
    s->op = members[below(depth < DEPTH_MAX ? 5 : 4)];
    s->version = context;
    (void)snprintf(s->name, sizeof s->name, "n%lld", (long long)w.names++);
    s->body = s->op == OP_CLOSURE ? random_list(depth + 1, context, below(3)) : NULL;
    return s;
}

static struct step *random_members(int depth, int64_t context)
{
    struct step *first = NULL;
    for (size_t count = 1 + below(3); count > 0; count--) {
        struct step *s = random_member(depth, context);
        s->next = first;
        first = s;
    }
    return first;
}

static struct step *random_step(int depth, int64_t version)
{
    struct step *s = arena_alloc(&w.arena, sizeof *s);
    assert_non_null(s);
    do {
        s->op = (enum step_op)below(depth < DEPTH_MAX ? OPS : OP_CLOSURE);
    } while (s->op == OP_ANY && !w.with_any);
    s->version = version;
    s->times = (int64_t)below(4) + 1;
    (void)snprintf(s->name, sizeof s->name, "n%lld", (long long)w.names++);
    if (s->op == OP_CLOSURE || s->op == OP_LOOP) {
        s->body = random_list(depth + 1, version, below(3));
    } else if (s->op == OP_ALL || s->op == OP_ANY) {
        s->body = random_members(depth, version);
    }
    ops_seen[s->op]++;
    return s;
}

static struct step *random_list(int depth, int64_t context, size_t count)
{
    struct step *first = NULL;
    for (; count > 0; count--) {
        struct step *s = random_step(depth, context);
        s->next = first;
        first = s;
    }
    return first;
}

/* ------------------------------------------------------------------------------------ the function */

static int run_list(qp_flow *flow, const struct step *first, int64_t context, struct running *r);

struct body {
    const struct step *step;
    struct running sums; /* of its own: begun bodies share nothing */
};

static int run_body(qp_flow *flow, void *context)
{
    struct body *b = context;
    char text[32];
    QP_TRY(run_list(flow, b->step->body, b->step->version, &b->sums));
    (void)snprintf(text, sizeof text, "\"%016llx\"", (unsigned long long)b->sums.sum);
    return qp_return(flow, str_from(text));
}

static int run_inline(qp_flow *flow, void *context)
{
    char text[64];
    (void)snprintf(text, sizeof text, "\"inline %s\"", (const char *)context);
    return qp_return(flow, str_from(text));
}

static void add(struct running *r, qp_str output)
{
    r->sum =
        hash_bytes(r->sum, output.p == NULL ? "none" : output.p, output.p == NULL ? 4 : output.n);
}

static int run_loop(qp_flow *flow, qp_flow *view, const struct step *s, struct running *r)
{
    struct qp_loop loop = {.name = s->name, .state = QP_STR("0")};
    while (qp_loop_next(view, &loop)) {
        struct running round = {.sum = (uint64_t)loop.iteration};
        char text[32];
        QP_TRY(run_list(flow, s->body, s->version, &round));
        add(&round, loop.state);
        (void)snprintf(text, sizeof text, "\"%016llx\"", (unsigned long long)round.sum);
        qp_loop_state(flow, &loop, str_from(text));
        if (loop.iteration + 1 >= s->times) {
            qp_loop_break(flow, &loop, loop.state);
        }
    }
    QP_TRY(loop.rc);
    add(r, loop.output);
    return QP_OK;
}

static int begin_member(qp_flow *view, const struct step *s, struct body *b, qp_handle *out_handle)
{
    *b = (struct body){.step = s};
    switch (s->op) {
    case OP_SLEEP:
        return qp_begin_sleep(view, 100, out_handle);
    case OP_TIMED:
        return qp_begin_listen(view, s->name, &(struct qp_listen){.timeout_ms = 100}, out_handle);
    case OP_CLOSURE:
        return qp_begin_closure(view, s->name, run_body, b, out_handle);
    default:
        return qp_begin_activity(view, s->name, QP_NONE, NULL, out_handle);
    }
}

/* A later run with another winner would contradict the history. */
static int run_winner(qp_flow *view, const struct step *s, size_t index)
{
    char name[32];
    (void)snprintf(name, sizeof name, "%s-%zu", s->name, index);
    return qp_activity(view, name, QP_NONE, NULL, NULL);
}

static int run_several(qp_flow *view, const struct step *s, struct running *r)
{
    qp_handle handles[4];
    struct body bodies[4];
    size_t count = 0;
    size_t index = 0;
    qp_str output;
    for (const struct step *m = s->body; m != NULL; m = m->next, count++) {
        QP_TRY(begin_member(view, m, &bodies[count], &handles[count]));
    }
    if (s->op == OP_ANY) {
        QP_TRY(qp_any(view, handles, count, &index));
        QP_TRY(qp_output(view, handles[index], &output));
        add(r, output);
        return w.edited ? QP_OK : run_winner(view, s, index);
    }
    QP_TRY(qp_all(view, handles, count));
    for (size_t i = 0; i < count; i++) {
        QP_TRY(qp_output(view, handles[i], &output));
        add(r, output);
    }
    return QP_OK;
}

static int run_removed(qp_flow *view, const struct step *s)
{
    static const enum qp_event_type types[OPS] = {[OP_ACTIVITY] = QP_EVENT_ACTIVITY,
                                                  [OP_INLINE] = QP_EVENT_RUN,
                                                  [OP_SIGNAL] = QP_EVENT_SIGNAL,
                                                  [OP_CLOSURE] = QP_EVENT_BRANCH,
                                                  [OP_LOOP] = QP_EVENT_LOOP};
    return qp_removed(view, types[s->op], s->name);
}

/* Its input is all that was computed so far: a later run that computes something else is warned of. */
static int run_activity(qp_flow *view, const struct step *s, const struct running *r, qp_str *out)
{
    char input[64];
    if (w.edited) {
        return qp_activity(view, s->name, QP_NONE, NULL, out);
    }
    (void)snprintf(input, sizeof input, "\"%016llx %lld\"", (unsigned long long)r->sum,
                   (long long)qp_now(view));
    return qp_activity(view, s->name, str_from(input), NULL, out);
}

static int run_step(qp_flow *flow, const struct step *s, int64_t context, struct running *r)
{
    qp_flow *view = qp_v(flow, s->version - context + 1);
    qp_str output = QP_STR("0");
    struct body b = {.step = s};
    if (s->removed) {
        return run_removed(view, s);
    }
    switch (s->op) {
    case OP_ACTIVITY:
        QP_TRY(run_activity(view, s, r, &output));
        break;
    case OP_INLINE: {
        char name[16];
        memcpy(name, s->name, sizeof name);
        QP_TRY(qp_inline(view, s->name, run_inline, name, &output));
        break;
    }
    case OP_SLEEP:
        QP_TRY(qp_sleep(view, 1000));
        break;
    case OP_SIGNAL:
        QP_TRY(qp_signal_flow(view, QP_STR("other"), s->name, QP_STR("2")));
        break;
    case OP_LISTEN:
        QP_TRY(qp_listen(view, s->name, NULL, &output));
        break;
    case OP_TIMED:
        QP_TRY(qp_listen(view, s->name, &(struct qp_listen){.timeout_ms = 500}, &output));
        break;
    case OP_CLOSURE:
        QP_TRY(qp_closure(view, s->name, run_body, &b, &output));
        break;
    case OP_LOOP:
        return run_loop(flow, view, s, r);
    default:
        return run_several(view, s, r);
    }
    r->sum += qp_random(flow) & 1; /* it is the same in every run */
    add(r, output);
    return QP_OK;
}

static int run_list(qp_flow *flow, const struct step *first, int64_t context, struct running *r)
{
    for (const struct step *s = first; s != NULL; s = s->next) {
        QP_TRY(run_step(flow, s, context, r));
    }
    return QP_OK;
}

static int interpret(qp_flow *flow, qp_str input, void *context)
{
    struct running r = {.sum = 7};
    char text[32];
    QP_TRY(run_list(flow, context, 1, &r));
    (void)snprintf(text, sizeof text, "\"%016llx\"", (unsigned long long)r.sum);
    return qp_return(flow, str_from(text));
}

/* ------------------------------------------------------------------------------------------ edits */

static void find_spots(struct step **slot, int64_t context)
{
    for (;; slot = &(*slot)->next) {
        if (w.spot_count < SPOTS_MAX) {
            w.contexts[w.spot_count] = context;
            w.spots[w.spot_count++] = slot;
        }
        if (*slot == NULL) {
            return;
        }
        if (((*slot)->op == OP_CLOSURE || (*slot)->op == OP_LOOP) && !(*slot)->removed) {
            find_spots(&(*slot)->body, (*slot)->version);
        }
    }
}

static bool may_go(const struct step *s)
{
    return s != NULL && !s->removed &&
           (s->op <= OP_INLINE || s->op == OP_SIGNAL || s->op == OP_CLOSURE || s->op == OP_LOOP);
}

static void edit(void)
{
    size_t i;
    w.spot_count = 0;
    find_spots(&w.program, 1);
    i = below(w.spot_count);
    if (below(3) == 0 && may_go(*w.spots[i])) {
        (*w.spots[i])->removed = true;
        removals_seen++;
    } else {
        struct step *s = random_step(2, ++w.version);
        s->next = *w.spots[i];
        *w.spots[i] = s;
        inserts_seen++;
    }
}

/* ------------------------------------------------------------------------------------------- runs */

static void must(enum script_kind kind, uint64_t seed)
{
    if (kind > SCRIPT_RETURNED) {
        fail_msg("seed %llu: %s %.*s\n%s", (unsigned long long)seed,
                 f.result.reason != NULL ? f.result.reason : "", STR_ARG(f.result.text),
                 fake_text(&f));
    }
}

static void answer_one(void)
{
    size_t which = below(fake_open_count(&f));
    for (size_t i = 0; i < f.count; i++) {
        char text[64];
        if (!fake_is_open(&f.rows[i]) || which-- > 0) {
            continue;
        }
        if (fake_listens(&f.rows[i])) {
            (void)snprintf(text, sizeof text, "%.*s", STR_ARG(f.rows[i].names));
            text[strlen(text) - 2] = '\0'; /* ["name"] */
            if (str_is_none(f.rows[i].got) || f.rows[i].event.key.n % 2 == 0) {
                fake_signal(&f, text + 2, "\"came\"");
                return;
            }
        }
        (void)snprintf(text, sizeof text, "\"of %.*s\"", STR_ARG(f.rows[i].event.name));
        fake_answer_at(&f, i, 200,
                       f.rows[i].event.type == HISTORY_SLEEP ? "{\"interrupted\":false}" : text);
        return;
    }
    fail_msg("nothing is open");
}

/* The decision that was lost is made again, to the letter; and an answer may come while it is on its way. */
static void decide(uint64_t seed)
{
    char *lost;
    size_t n;
    must(fake_run_lost(&f, interpret, w.program), seed);
    n = f.result.decision.n;
    lost = malloc(n + 1);
    assert_non_null(lost);
    memcpy(lost, f.result.decision.p, n);
    must(fake_run_lost(&f, interpret, w.program), seed);
    assert_int_equal(f.result.decision.n, n);
    assert_memory_equal(f.result.decision.p, lost, n);
    free(lost);
    if (f.result.kind == SCRIPT_WAITS && below(3) == 0 && fake_open_count(&f) > 0) {
        answer_one();
    }
    fake_commit(&f);
}

static void replay(uint64_t seed)
{
    fake_copy(&again, &f, &t);
    again.over = false;
    assert_int_equal(fake_run(&again, interpret, w.program), SCRIPT_RETURNED);
    if (again.commands != 1 || !str_equal(again.end, f.end)) {
        fail_msg("seed %llu: the replay has %zu commands, %.*s", (unsigned long long)seed,
                 again.commands, STR_ARG(again.result.decision));
    }
    fake_done(&again);
}

static void run_flow(uint64_t seed, bool edits, uint64_t *out_sum)
{
    w.edited = edits;
    fake_init(&f, &t);
    testenv_log_reset(&t);
    for (int round = 0; !f.over; round++) {
        assert_true(round < 5000);
        if (edits && below(4) == 0 && round < 40) {
            edit();
        }
        decide(seed);
        for (size_t count = below(3) + 1; count > 0 && !f.over && fake_open_count(&f) > 0;
             count--) {
            answer_one();
        }
    }
    for (size_t i = 0; i < f.count; i++) {
        assert_true(f.rows[i].used <= 1);
    }
    *out_sum = hash_bytes(1, f.end.p, f.end.n);
    replay(seed);
    if (t.log_size > 0) {
        fail_msg("seed %llu: %s", (unsigned long long)seed, testenv_log(&t));
    }
    fake_done(&f);
}

static void begin(uint64_t seed, bool with_any)
{
    w = (struct world){.random = seed, .version = 1, .with_any = with_any};
    arena_init(&w.arena, &t.env, 0);
    w.program = random_list(0, 1, 2 + below(4));
}

static uint64_t seed_count(void)
{
    const char *lane = getenv("QP_LANE");
    return lane != NULL && strcmp(lane, "torture") == 0 ? SEEDS_TORTURE : SEEDS;
}

/* Without edits, and without `any`, the output does not depend on crashes or on the order of answers. */
static void test_any_order_of_answers(void **state)
{
    uint64_t first = testenv_seed();
    (void)state;
    for (uint64_t seed = first; seed < first + seed_count() / 2; seed++) {
        uint64_t one;
        uint64_t two;
        begin(seed, false);
        run_flow(seed, false, &one);
        run_flow(seed, false, &two);
        assert_int_equal(one, two);
        arena_done(&w.arena);
    }
}

/* The winner of `any` is the same in every later run, and so is all that is derived. */
static void test_the_first_stays_the_first(void **state)
{
    uint64_t first = testenv_seed();
    (void)state;
    for (uint64_t seed = first; seed < first + seed_count(); seed++) {
        uint64_t sum;
        begin(seed, true);
        run_flow(seed, false, &sum);
        arena_done(&w.arena);
    }
}

static void test_edits_of_running_flows(void **state)
{
    uint64_t first = testenv_seed();
    (void)state;
    for (uint64_t seed = first; seed < first + seed_count(); seed++) {
        uint64_t sum;
        begin(seed, true);
        run_flow(seed, true, &sum);
        arena_done(&w.arena);
    }
    for (int op = 0; op < OPS; op++) {
        assert_true(ops_seen[op] > 0);
    }
    assert_true(inserts_seen > 100 && removals_seen > 10);
}

static int setup(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    testenv_done(&t);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_any_order_of_answers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_first_stays_the_first, setup, teardown),
        cmocka_unit_test_setup_teardown(test_edits_of_running_flows, setup, teardown),
    };
    return cmocka_run_group_tests_name("script_edits", tests, NULL, NULL);
}
