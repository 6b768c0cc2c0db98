/* naive.c - histories and programs, by the letter of the rulings (see naive.h) */
#include "naive.h"

#include <stdio.h>
#include <stdlib.h>

#define COORDINATES_MAX 16
#define ORDINATES_MAX 16 /* of one coordinate */
#define EVENTS_MAX 2048

struct coordinate {
    int count;
    int ordinate[ORDINATES_MAX];
};

struct place {
    int depth;
    struct coordinate at[COORDINATES_MAX];
};

struct branch {
    struct place root;
    long long version;
    int event[EVENTS_MAX]; /* of the history, in order */
    int count;
    int index;
    struct coordinate before;
    int looked; /* the index that a check has read; -1: none */
};

struct naive {
    const struct flowcase *flow;
    struct place *places; /* of the events */
    struct buf *out;
};

/* -------------------------------------------------------------------------------------- locations */

/* "a4!b10a1!" is {4, 10.1}. */
static struct place place_of(qp_str key)
{
    struct place p = {0};
    struct coordinate c = {0};
    for (size_t i = 0; i < key.n; i++) {
        char byte = key.p[i];
        assert(p.depth < COORDINATES_MAX && c.count <= ORDINATES_MAX);
        if (byte == '!') {
            p.at[p.depth++] = c;
            c = (struct coordinate){0};
        } else if (byte >= 'a') {
            c.ordinate[c.count++] = 0;
        } else {
            c.ordinate[c.count - 1] = c.ordinate[c.count - 1] * 10 + (byte - '0');
        }
    }
    return p;
}

static int compare(const struct coordinate *a, const struct coordinate *b)
{
    for (int i = 0; i < a->count || i < b->count; i++) {
        int x = i < a->count ? a->ordinate[i] : -1; /* a prefix comes first */
        int y = i < b->count ? b->ordinate[i] : -1;
        if (x != y) {
            return x < y ? -1 : 1;
        }
    }
    return 0;
}

static bool is_child(const struct place *child, const struct place *root)
{
    if (child->depth != root->depth + 1) {
        return false;
    }
    for (int i = 0; i < root->depth; i++) {
        if (compare(&child->at[i], &root->at[i]) != 0) {
            return false;
        }
    }
    return true;
}

static struct coordinate simple(int head)
{
    return (struct coordinate){.count = 1, .ordinate = {head}};
}

static bool is_prefix(const struct coordinate *a, const struct coordinate *b)
{
    for (int i = 0; i < a->count; i++) {
        if (i >= b->count || a->ordinate[i] != b->ordinate[i]) {
            return false;
        }
    }
    return true;
}

/* Insertion between `prev` and `cur`. */
static struct coordinate between(struct coordinate prev, const struct coordinate *cur)
{
    int zeros = 0;
    if (prev.count > cur->count) {
        prev.ordinate[prev.count - 1]++;
        return prev;
    }
    if (prev.count < cur->count) {
        zeros = 1;
        if (is_prefix(&prev, cur)) {
            for (int i = prev.count; cur->ordinate[i] == 0; i++) {
                zeros++;
            }
        }
    }
    assert(prev.count + zeros < ORDINATES_MAX);
    while (zeros-- > 0) {
        prev.ordinate[prev.count++] = 0;
    }
    prev.ordinate[prev.count++] = 1;
    return prev;
}

/* ------------------------------------------------------------------------------------------ words */

static void word(struct naive *n, const char *text)
{
    if (n->out->n > 0) {
        buf_byte(n->out, ' ');
    }
    buf_text(n->out, text);
}

static void word_at(struct naive *n, const char *text, const struct branch *b,
                    const struct coordinate *c, long long version)
{
    word(n, text);
    buf_text(n->out, "{");
    for (int i = 0; i <= b->root.depth; i++) {
        const struct coordinate *x = i < b->root.depth ? &b->root.at[i] : c;
        for (int j = 0; j < x->count; j++) {
            buf_printf(n->out, "%s%d", j > 0 ? "." : i > 0 ? ", " : "", x->ordinate[j]);
        }
    }
    buf_text(n->out, "}");
    if (version > 1) {
        buf_printf(n->out, "v%lld", version);
    }
}

/* --------------------------------------------------------------------------------------- branches */

static const struct history_event *event_of(const struct naive *n, const struct branch *b)
{
    return b->index < b->count ? &n->flow->events[b->event[b->index]] : NULL;
}

static struct coordinate coordinate_of(const struct naive *n, const struct branch *b, int index)
{
    return n->places[b->event[index]].at[b->root.depth];
}

/* All children of the root, sorted. */
static struct branch *branch_new(const struct naive *n, const struct place *root, long long version)
{
    struct branch *b = calloc(1, sizeof *b);
    assert(b != NULL);
    b->root = *root;
    b->version = version;
    b->before = simple(0);
    b->looked = -1;
    for (size_t i = 0; i < n->flow->count; i++) {
        if (is_child(&n->places[i], root)) {
            int at = b->count++;
            b->event[at] = (int)i;
            for (; at > 0; at--) {
                struct coordinate x = coordinate_of(n, b, at - 1);
                struct coordinate y = coordinate_of(n, b, at);
                if (compare(&x, &y) < 0) {
                    break;
                }
                b->event[at] = b->event[at - 1];
                b->event[at - 1] = (int)i;
            }
        }
    }
    return b;
}

static struct branch *branch_below(const struct naive *n, const struct branch *b,
                                   const struct coordinate *c, long long version)
{
    struct place root = b->root;
    assert(root.depth < COORDINATES_MAX - 1);
    root.at[root.depth++] = *c;
    return branch_new(n, &root, version);
}

static struct coordinate current(const struct naive *n, const struct branch *b)
{
    if (b->index < b->count) {
        return coordinate_of(n, b, b->index);
    }
    if (b->count > 0) {
        struct coordinate last = coordinate_of(n, b, b->count - 1);
        return simple(last.ordinate[0] + (b->index - b->count) + 1);
    }
    return simple(b->index + 1);
}

/* ------------------------------------------------------------------------------------------ steps */

static bool steps(struct naive *n, struct branch *b, const struct flowstep *first,
                  long long raised);

static bool same_name(qp_str a, qp_str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static void append(struct naive *n, struct branch *b, long long version, struct coordinate *out)
{
    *out = current(n, b);
    word_at(n, "N", b, out, version);
    b->index++;
    b->before = *out;
}

static bool insert(struct naive *n, struct branch *b, long long version, struct coordinate *out)
{
    struct coordinate cur = current(n, b);
    *out = between(b->before, &cur);
    if (b->looked == b->index) {
        word_at(n, "REFUSED", b, out, 0);
        return false;
    }
    word_at(n, "I", b, out, version);
    b->before = *out;
    return true;
}

static void pass(struct naive *n, struct branch *b, const char *text, struct coordinate *out)
{
    *out = current(n, b);
    word_at(n, text, b, out, event_of(n, b)->version);
    b->index++;
    b->before = *out;
}

/* *out_facts: of the event that was replayed; else NULL. */
static bool meet(struct naive *n, struct branch *b, enum history_type type, const qp_str *name,
                 long long version, struct coordinate *out, const struct flowfacts **out_facts)
{
    const struct history_event *e = event_of(n, b);
    struct coordinate cur = current(n, b);
    *out_facts = NULL;
    if (e == NULL) {
        append(n, b, version, out);
        return true;
    }
    if (version > e->version) {
        return insert(n, b, version, out);
    }
    if (version < e->version || e->type != type || (name != NULL && !same_name(e->name, *name))) {
        word_at(n, "HD", b, &cur, 0);
        return false;
    }
    *out_facts = &n->flow->facts[b->event[b->index]];
    pass(n, b, "R", out);
    return true;
}

/* The body of a branch, and nothing may be left of it. */
static bool body(struct naive *n, struct branch *b, const struct flowstep *first)
{
    bool good = steps(n, b, first, 0);
    if (good && b->index < b->count) {
        struct coordinate left = current(n, b);
        word_at(n, "LH", b, &left, 0);
        good = false;
    }
    free(b);
    return good;
}

/* The iteration with exactly this coordinate; -1: none. */
static int find(const struct naive *n, const struct branch *loop, const struct coordinate *c)
{
    for (int i = 0; i < loop->count; i++) {
        struct coordinate x = coordinate_of(n, loop, i);
        if (compare(&x, c) == 0) {
            return i;
        }
    }
    return -1;
}

static bool iteration(struct naive *n, struct branch *loop, int number, const struct flowstep *step)
{
    struct coordinate c = simple(number + 1);
    int index = find(n, loop, &c);
    if (index >= 0) {
        const struct history_event *e = &n->flow->events[loop->event[index]];
        if (e->type != HISTORY_BRANCH || e->version != loop->version) {
            word_at(n, "HD", loop, &c, 0);
            return false;
        }
    }
    word_at(n, index >= 0 ? "R" : "N", loop, &c, loop->version);
    return body(n, branch_below(n, loop, &c, loop->version), step->body);
}

static bool loop_body(struct naive *n, struct branch *loop, int number, const struct flowstep *step)
{
    for (; number < step->times; number++) {
        if (!iteration(n, loop, number, step)) {
            return false;
        }
    }
    for (int i = 0; i < loop->count; i++) {
        struct coordinate x = coordinate_of(n, loop, i);
        struct coordinate last = simple(number);
        if (compare(&x, &last) > 0) {
            word_at(n, "LH", loop, &x, 0);
            return false;
        }
    }
    return true;
}

static bool plain(struct naive *n, struct branch *b, const struct flowstep *s, long long version)
{
    struct coordinate c;
    const struct flowfacts *facts;
    struct branch *loop;
    bool good;
    if (!meet(n, b, (enum history_type)s->op, &s->name, version, &c, &facts)) {
        return false;
    }
    if (s->op == HISTORY_BRANCH) {
        return body(n, branch_below(n, b, &c, version), s->body);
    }
    if (s->op != HISTORY_LOOP || (facts != NULL && facts->done)) {
        return true;
    }
    loop = branch_below(n, b, &c, version);
    good = loop_body(n, loop, facts != NULL ? (int)facts->iteration : 0, s);
    free(loop);
    return good;
}

static bool removed(struct naive *n, struct branch *b, const struct flowstep *s, long long version)
{
    const struct history_event *e = event_of(n, b);
    struct coordinate c;
    if (e == NULL) {
        append(n, b, version, &c);
        return true;
    }
    if (e->version == version && (s->of == HISTORY_SIGNALS || same_name(e->name, s->name)) &&
        (e->type == s->of || (e->type == HISTORY_REMOVED && e->of == s->of))) {
        pass(n, b, "S", &c);
    } else {
        word(n, "G");
    }
    return true;
}

static const struct flowstep *arm_for(const struct flowstep *s, long long value)
{
    const struct flowstep *other = NULL;
    for (const struct flowarm *arm = s->arms; arm != NULL; arm = arm->next) {
        if (arm->value == value) {
            return arm->body;
        }
        other = arm->value == 0 ? arm->body : other;
    }
    return other;
}

static bool check(struct naive *n, struct branch *b, const struct flowstep *s, long long raised)
{
    const struct history_event *e = event_of(n, b);
    long long context = b->version + raised + s->v - 1;
    long long value = s->n;
    struct coordinate c = current(n, b);
    char text[32];
    if (e == NULL) {
        append(n, b, context + s->n - 1, &c);
    } else {
        value = e->version - context + 1;
        if (value < 1) {
            word_at(n, "HD", b, &c, 0);
            return false;
        }
        if (e->type == HISTORY_VERSION) {
            pass(n, b, "R", &c);
        } else {
            b->looked = b->index;
        }
    }
    (void)snprintf(text, sizeof text, "C=%lld", value);
    word(n, text);
    return steps(n, b, arm_for(s, value), raised);
}

static bool listen(struct naive *n, struct branch *b, const struct flowstep *s, long long version)
{
    struct coordinate c;
    const struct flowfacts *facts;
    enum flowsleep sleep;
    if (!s->timeout) {
        return meet(n, b, HISTORY_SIGNALS, NULL, version, &c, &facts);
    }
    if (!meet(n, b, HISTORY_SLEEP, NULL, version, &c, &facts)) {
        return false;
    }
    sleep = facts != NULL ? facts->sleep : FLOWSLEEP_OPEN;
    if (sleep == FLOWSLEEP_NORMAL || (sleep == FLOWSLEEP_OPEN && !s->comes)) {
        return true;
    }
    return meet(n, b, HISTORY_SIGNALS, NULL, version, &c, &facts);
}

static bool member(struct naive *n, struct branch *b, const struct flowstep *s, long long raised);

static bool join(struct naive *n, struct branch *b, const struct flowstep *s, long long raised)
{
    for (const struct flowstep *m = s->body; m != NULL; m = m->next) {
        if (!member(n, b, m, raised + s->v - 1)) {
            return false;
        }
    }
    return true;
}

/* `raised`: what the joins around it add to the version of the branch. */
static bool one_step(struct naive *n, struct branch *b, const struct flowstep *s, long long raised)
{
    long long version = b->version + raised + s->v - 1;
    switch (s->op) {
    case FLOWSTEP_JOIN:
        return join(n, b, s, raised);
    case FLOWSTEP_LISTEN:
        return listen(n, b, s, version);
    case HISTORY_VERSION:
        return check(n, b, s, raised);
    case HISTORY_REMOVED:
        return removed(n, b, s, version);
    default:
        return plain(n, b, s, version);
    }
}

/* A listen with a timeout stands in a branch of its own. */
static bool member(struct naive *n, struct branch *b, const struct flowstep *s, long long raised)
{
    long long version = b->version + raised + s->v - 1;
    const struct flowfacts *facts;
    struct flowstep alone = *s;
    struct coordinate c;
    if (s->op != FLOWSTEP_LISTEN || !s->timeout) {
        return one_step(n, b, s, raised);
    }
    alone.next = NULL;
    alone.v = 1;
    return meet(n, b, HISTORY_BRANCH, NULL, version, &c, &facts) &&
           body(n, branch_below(n, b, &c, version), &alone);
}

static bool steps(struct naive *n, struct branch *b, const struct flowstep *first, long long raised)
{
    for (const struct flowstep *s = first; s != NULL; s = s->next) {
        if (!one_step(n, b, s, raised)) {
            return false;
        }
    }
    return true;
}

void naive_run(const struct flowcase *flow, struct buf *out)
{
    struct naive n = {.flow = flow, .out = out};
    struct place root = {0};
    n.places = calloc(flow->count + 1, sizeof *n.places);
    assert(n.places != NULL && flow->count < EVENTS_MAX);
    for (size_t i = 0; i < flow->count; i++) {
        n.places[i] = place_of(flow->events[i].key);
    }
    (void)body(&n, branch_new(&n, &root, 1), flow->program);
    free(n.places);
}
