/* test_edits.c - generated programs and edits of them: what the cursor says, against a naive second implementation
 *
 * A script begins with a random program and no history. Then, again and again: the program runs, to its end or killed after
 * some writes, and is edited. An edit is LEGAL when it follows the rules of document 004 (what is inserted has a version
 * that was never used before, what goes is replaced by removed, a step that is replaced stands under a version check); a
 * program that was only edited so must never be stopped, whatever point a flow was at. Other edits (the wrong version, another
 * name, a step that is missing) may be stopped, and then by both in the same way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "naive.h"
#include "support/testenv.h"

#define SCRIPTS 10000
#define WRITES_MAX 1024
#define PLACES_MAX 512
#define ROUNDS_MAX 6
#define DEPTH_MAX 3

/* A place in the program where a step may be put: before *slot. */
struct spot {
    struct flowstep **slot;
    int64_t context;  /* the version of a step with v(1) */
    bool behind_look; /* the event that comes next may have answered a check */
    bool in_join;
};

enum edit {
    EDIT_INSERT,
    EDIT_REMOVE,
    EDIT_CHECK,
    EDIT_WRAP_BRANCH,
    EDIT_WRAP_LOOP,
    EDIT_WRONG,
    EDIT_KINDS
};

struct script {
    struct arena arena;
    uint64_t seed;
    uint64_t random;
    bool running;
    struct flowcase flow;
    int64_t version; /* the highest that was ever used */
    int64_t names;   /* that were made up */
    struct spot spots[PLACES_MAX];
    size_t spot_count;
    struct history_event written[WRITES_MAX];
    struct buf line;
    struct buf other;
};

/* What all scripts together have seen: a run that sees too little proves too little. */
static int64_t edits_seen[EDIT_KINDS];
static int64_t verdicts_seen[CURSOR_BAD + 1];
static int64_t kills_seen;

static struct testenv t;
static struct script script;

static uint64_t below(struct script *s, uint64_t n)
{
    return testenv_random_below(&s->random, n);
}

static void *make(struct script *s, size_t size)
{
    void *p = arena_alloc(&s->arena, size);
    assert_non_null(p);
    return p;
}

/* --------------------------------------------------------------------------------------- programs */

static qp_str new_name(struct script *s)
{
    char text[24];
    qp_str name;
    int n = snprintf(text, sizeof text, "s%lld", (long long)s->names++);
    assert_true(arena_copy(&s->arena, (qp_str){text, (size_t)n}, &name));
    return name;
}

static struct flowstep *random_steps(struct script *s, int depth, bool in_join);

static struct flowstep *random_step(struct script *s, int depth, bool in_join)
{
    static const int plain[] = {HISTORY_ACTIVITY, HISTORY_ACTIVITY, HISTORY_RUN,
                                HISTORY_SLEEP,    HISTORY_SIGNAL,   HISTORY_CHILD};
    struct flowstep *step = make(s, sizeof *step);
    uint64_t kind = below(s, depth < DEPTH_MAX ? 10 : 7);
    *step = (struct flowstep){.v = 1, .base = true, .op = plain[below(s, ARRAY_COUNT(plain))]};
    if (kind == 6) {
        step->op = FLOWSTEP_LISTEN;
        step->timeout = below(s, 2) == 0;
        step->comes = below(s, 2) == 0;
    } else if (kind == 7) {
        step->op = HISTORY_BRANCH;
        step->body = random_steps(s, depth + 1, false);
    } else if (kind == 8 && !in_join) {
        step->op = HISTORY_LOOP;
        step->times = (int64_t)below(s, 3);
        step->body = random_steps(s, depth + 1, false);
    } else if (kind == 9 && !in_join) {
        step->op = FLOWSTEP_JOIN;
        step->body = random_steps(s, depth + 1, true);
    }
    /* The same names come again, so that a step may be taken for another. */
    if (step->op != HISTORY_SLEEP && step->op != FLOWSTEP_LISTEN && step->op != FLOWSTEP_JOIN) {
        step->name = below(s, 3) == 0 ? QP_STR("same") : new_name(s);
    }
    return step;
}

/* A join has at least one member. */
static struct flowstep *random_steps(struct script *s, int depth, bool in_join)
{
    struct flowstep *first = NULL;
    struct flowstep **end = &first;
    for (uint64_t count = below(s, 3) + (in_join || depth == 0); count > 0; count--) {
        *end = random_step(s, depth, in_join);
        end = &(*end)->next;
    }
    return first;
}

static struct flowstep *copy_steps(struct script *s, const struct flowstep *first)
{
    struct flowstep *copies = NULL;
    struct flowstep **end = &copies;
    for (; first != NULL; first = first->next) {
        struct flowstep *copy = make(s, sizeof *copy);
        struct flowarm **arm_end = &copy->arms;
        *copy = *first;
        copy->next = NULL;
        copy->arms = NULL;
        copy->body = copy_steps(s, first->body);
        for (const struct flowarm *arm = first->arms; arm != NULL; arm = arm->next) {
            *arm_end = make(s, sizeof **arm_end);
            (*arm_end)->value = arm->value;
            (*arm_end)->body = copy_steps(s, arm->body);
            arm_end = &(*arm_end)->next;
        }
        *end = copy;
        end = &copy->next;
    }
    return copies;
}

/* Whether the step certainly takes the cursor on. */
static bool moves(const struct flowstep *step)
{
    if (step->op == FLOWSTEP_JOIN) {
        for (const struct flowstep *m = step->body; m != NULL; m = m->next) {
            if (moves(m)) {
                return true;
            }
        }
        return false;
    }
    return step->op != HISTORY_REMOVED && step->op != HISTORY_VERSION;
}

static void find_spots(struct script *s, struct flowstep **slot, int64_t context, bool behind_look,
                       bool in_join)
{
    for (;; slot = &(*slot)->next) {
        struct flowstep *step = *slot;
        assert_true(s->spot_count < PLACES_MAX);
        s->spots[s->spot_count++] = (struct spot){
            .slot = slot, .context = context, .behind_look = behind_look, .in_join = in_join};
        if (step == NULL) {
            return;
        }
        if (step->op == HISTORY_BRANCH || step->op == HISTORY_LOOP) {
            find_spots(s, &step->body, context + step->v - 1, false, false);
        } else if (step->op == FLOWSTEP_JOIN) {
            find_spots(s, &step->body, context + step->v - 1, behind_look, true);
        }
        for (struct flowarm *arm = step->arms; arm != NULL; arm = arm->next) {
            find_spots(s, &arm->body, context, true, in_join);
        }
        behind_look = step->op == HISTORY_VERSION || (behind_look && !moves(step));
    }
}

/* A spot whose step is plain: one event that goes by its type and name. */
static bool is_plain(const struct spot *spot)
{
    return *spot->slot != NULL && (*spot->slot)->op < HISTORY_REMOVED;
}

/* ------------------------------------------------------------------------------------------ edits */

static void put(struct flowstep **slot, struct flowstep *step)
{
    step->next = *slot;
    *slot = step;
}

/* v(n) for a version that was never used before. */
static int64_t newest(struct script *s, const struct spot *spot)
{
    return ++s->version - spot->context + 1;
}

static struct flowstep *make_removed(struct script *s, const struct flowstep *step)
{
    struct flowstep *removed = make(s, sizeof *removed);
    *removed = (struct flowstep){
        .op = HISTORY_REMOVED, .of = (enum history_type)step->op, .name = step->name, .v = step->v};
    return removed;
}

static bool edit_insert(struct script *s, const struct spot *spot)
{
    struct flowstep *step;
    if (spot->behind_look) {
        return false;
    }
    step = random_step(s, DEPTH_MAX - 1, spot->in_join);
    step->base = false;
    for (struct flowstep *m = step->body; m != NULL; m = m->next) {
        m->base = false;
        if (step->op == FLOWSTEP_JOIN && m->op != FLOWSTEP_LISTEN) {
            m->op = m->op == HISTORY_SLEEP ? HISTORY_RUN : m->op; /* it has no name */
            m->name = new_name(s); /* two namesakes of one version must not be inserted: cursor.h */
        }
    }
    step->v = newest(s, spot);
    put(spot->slot, step);
    return true;
}

static bool edit_remove(struct script *s, const struct spot *spot)
{
    struct flowstep *old = *spot->slot;
    if (!is_plain(spot)) {
        return false;
    }
    *spot->slot = make_removed(s, old);
    (*spot->slot)->next = old->next;
    return true;
}

static struct flowarm *make_arm(struct script *s, int64_t value, struct flowstep *body)
{
    struct flowarm *arm = make(s, sizeof *arm);
    *arm = (struct flowarm){.value = value, .body = body};
    return arm;
}

/* Flows that have the step, or are before it, keep it or get another one. Only a step that every flow has met: what was
 * inserted is missing in those that were past it. */
static bool edit_check(struct script *s, const struct spot *spot)
{
    struct flowstep *old = *spot->slot;
    struct flowstep *check = make(s, sizeof *check);
    struct flowstep *fast = make(s, sizeof *fast);
    int64_t n = newest(s, spot);
    if (!is_plain(spot) || !old->base || spot->in_join) {
        return false;
    }
    *fast = (struct flowstep){.op = HISTORY_ACTIVITY, .v = n, .name = new_name(s)};
    *check = (struct flowstep){.op = HISTORY_VERSION, .v = 1, .n = n, .next = old->next};
    check->arms = make_arm(s, old->v, old);
    check->arms->next = make_arm(s, 0, fast);
    old->next = NULL;
    *spot->slot = check;
    return true;
}

/* The step runs inside of something new, and is gone from its old place. */
static bool edit_wrap(struct script *s, const struct spot *spot, enum history_type outer)
{
    struct flowstep *old = *spot->slot;
    struct flowstep *wrapped;
    struct flowstep *inner;
    if (!is_plain(spot) || spot->behind_look || spot->in_join) {
        return false;
    }
    wrapped = make(s, sizeof *wrapped);
    inner = make(s, sizeof *inner);
    *inner = (struct flowstep){.op = HISTORY_ACTIVITY, .v = 1, .name = old->name};
    *wrapped = (struct flowstep){.op = (int)outer,
                                 .v = newest(s, spot),
                                 .name = new_name(s),
                                 .times = 1 + (int64_t)below(s, 2),
                                 .body = inner};
    *spot->slot = make_removed(s, old);
    (*spot->slot)->next = old->next;
    put(spot->slot, wrapped);
    return true;
}

/* Something that the rules forbid, or that is only right for some flows. */
static bool edit_wrong(struct script *s, const struct spot *spot)
{
    struct flowstep *step = *spot->slot;
    switch (below(s, 5)) {
    case 0:
        put(spot->slot, random_step(s, DEPTH_MAX - 1, spot->in_join));
        (*spot->slot)->v = 1 + (int64_t)below(s, 3);
        return true;
    case 1:
        put(spot->slot, make(s, sizeof **spot->slot));
        **spot->slot = (struct flowstep){.op = HISTORY_VERSION,
                                         .v = 1 + (int64_t)below(s, 2),
                                         .n = 1 + (int64_t)below(s, 3),
                                         .next = step};
        return true;
    case 2:
        if (step != NULL) {
            *spot->slot = step->next;
        }
        return step != NULL;
    case 3:
        if (step != NULL) {
            step->name = QP_STR("renamed");
        }
        return step != NULL;
    default:
        if (step != NULL && step->op == HISTORY_LOOP) {
            step->times = (int64_t)below(s, 3);
        } else if (step != NULL) {
            step->v = 1 + (int64_t)below(s, 4);
        }
        return step != NULL;
    }
}

static bool edit_once(struct script *s, enum edit edit)
{
    const struct spot *spot;
    s->spot_count = 0;
    find_spots(s, &s->flow.program, 1, false, false);
    spot = &s->spots[below(s, s->spot_count)];
    switch (edit) {
    case EDIT_INSERT:
        return edit_insert(s, spot);
    case EDIT_REMOVE:
        return edit_remove(s, spot);
    case EDIT_CHECK:
        return edit_check(s, spot);
    case EDIT_WRAP_BRANCH:
        return edit_wrap(s, spot, HISTORY_BRANCH);
    case EDIT_WRAP_LOOP:
        return edit_wrap(s, spot, HISTORY_LOOP);
    default:
        return edit_wrong(s, spot);
    }
}

static void edit_program(struct script *s, enum edit edit)
{
    for (int tries = 0; tries < 20; tries++) {
        if (edit_once(s, edit)) {
            edits_seen[edit]++;
            return;
        }
    }
}

/* ------------------------------------------------------------------------------------------- runs */

/* Runs the program; both implementations must say the same. `writes` above 0: the run is killed with that write. */
static struct flowrun run(struct script *s, int64_t writes)
{
    struct flowrun r = {.flow = &s->flow,
                        .arena = &s->arena,
                        .out = &s->line,
                        .written = s->written,
                        .written_room = WRITES_MAX,
                        .writes_left = writes};
    buf_reset(&s->line);
    flowcase_run(&r);
    assert_int_equal(r.rc, QP_OK);
    kills_seen += r.killed;
    verdicts_seen[r.verdict]++;
    return r;
}

static struct flowrun run_both(struct script *s)
{
    struct flowrun r = run(s, 0);
    buf_reset(&s->other);
    naive_run(&s->flow, &s->other);
    if (!str_equal(buf_slice(&s->line), buf_slice(&s->other))) {
        fail_msg("cursor: %.*s\nnaive:  %.*s", STR_ARG(buf_slice(&s->line)),
                 STR_ARG(buf_slice(&s->other)));
    }
    return r;
}

static void keep(struct script *s, const struct flowrun *r)
{
    assert_int_equal(flowcase_after(r, &s->flow), QP_OK);
}

static void assert_ended(struct script *s, const struct flowrun *r)
{
    if (r->verdict != CURSOR_END) {
        fail_msg("a legal program was stopped: %.*s", STR_ARG(buf_slice(&s->line)));
    }
}

/* Some of the loops have an output from now on. */
static void break_loops(struct script *s)
{
    for (size_t i = 0; i < s->flow.count; i++) {
        s->flow.facts[i].done =
            s->flow.facts[i].done || (s->flow.events[i].type == HISTORY_LOOP && below(s, 4) == 0);
    }
}

/* To the end, with a kill after every single write, and in one: the same history. Then a replay that
 * writes nothing. */
static void run_whole(struct script *s)
{
    struct flowcase before = s->flow;
    struct flowcase killed;
    struct flowrun r = run_both(s);
    assert_ended(s, &r);
    do {
        r = run(s, 1);
        keep(s, &r);
    } while (r.killed);
    assert_ended(s, &r);
    assert_int_equal(r.written_count, 0);
    killed = s->flow;
    s->flow = before;
    r = run(s, 0);
    keep(s, &r);
    assert_int_equal(s->flow.count, killed.count);
    for (size_t i = 0; i < killed.count; i++) {
        assert_true(str_equal(killed.events[i].key, s->flow.events[i].key));
        assert_int_equal(killed.events[i].version, s->flow.events[i].version);
        assert_int_equal(killed.events[i].type, s->flow.events[i].type);
    }
    r = run_both(s);
    assert_ended(s, &r);
    assert_int_equal(r.written_count, 0);
}

/* A wrong edit: both say the same, and it is taken back. */
static void try_wrong(struct script *s)
{
    struct flowstep *program = s->flow.program;
    s->flow.program = copy_steps(s, program);
    edit_program(s, EDIT_WRONG);
    (void)run_both(s);
    s->flow.program = program;
}

static void run_script(struct script *s)
{
    int rounds = 1 + (int)below(s, ROUNDS_MAX);
    s->flow = (struct flowcase){.program = random_steps(s, 0, false)};
    s->version = 1;
    s->names = 0;
    for (int i = 0; i < rounds; i++) {
        if (below(s, 3) > 0) {
            struct flowrun r = run(s, 1 + (int64_t)below(s, 6));
            assert_ended(s, &r);
            keep(s, &r);
        } else {
            run_whole(s);
            break_loops(s);
        }
        try_wrong(s);
        edit_program(s, (enum edit)below(s, EDIT_WRONG));
    }
    run_whole(s);
}

/* QP_SEED=(what a failure prints) begins with the script that failed. */
static void test_scripts(void **state)
{
    uint64_t seed = testenv_seed();
    (void)state;
    for (int i = 0; i < SCRIPTS; i++) {
        script.seed = seed + (uint64_t)i;
        script.random = script.seed;
        script.running = true;
        run_script(&script);
        script.running = false;
        arena_reset(&script.arena);
    }
    for (int i = 0; i < EDIT_KINDS; i++) {
        assert_true(edits_seen[i] >= SCRIPTS / 20);
    }
    assert_true(kills_seen > SCRIPTS && verdicts_seen[CURSOR_END] > SCRIPTS);
    assert_true(verdicts_seen[CURSOR_DIVERGED] > SCRIPTS / 20);
    assert_true(verdicts_seen[CURSOR_LATENT] > SCRIPTS / 20);
    assert_true(verdicts_seen[CURSOR_REFUSED] > SCRIPTS / 1000);
}

static int setup(void **state)
{
    (void)state;
    testenv_init(&t, 1);
    arena_init(&script.arena, &t.env, 0);
    buf_init(&script.line, &t.env, 0);
    buf_init(&script.other, &t.env, 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (script.running) {
        print_message("the script with QP_SEED=%llu\n", (unsigned long long)script.seed);
    }
    buf_done(&script.line);
    buf_done(&script.other);
    arena_done(&script.arena);
    testenv_done(&t);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_scripts, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
