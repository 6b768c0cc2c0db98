/* flowgen.c - programs and their edits (see flowgen.h; the function and the interpreter: flowgen_run.c, flowgen_read.c) */
#include "support/flowgen.h"

#include <stdio.h>

#include "base/hash.h"
#include "support/testenv.h"

#define DEPTH_MAX 3
#define SPOTS_MAX 256
#define TRIES 20
#define BODY_MAX 3

const char *const flowgen_op_names[FLOWGEN_OPS] = {"activity", "inline", "sleep", "signal",
                                                   "listen",   "timed",  "tell",  "closure",
                                                   "loop",     "all",    "any",   "check"};
const char *const flowgen_fate_names[FLOWGEN_FATES] = {"fine", "flaky",  "fatal", "unstarted",
                                                       "slow", "silent", "beats", "keyed"};
const char *const flowgen_edit_names[FLOWGEN_EDITS] = {"insert", "remove", "check", "wrap",
                                                       "wrap in a loop"};

/* A place of a program where a step may be put: before *slot. */
struct spot {
    struct flowgen_step **slot;
    int64_t context;  /* the version of a step without one */
    int64_t rounds;   /* how often it is passed, at most */
    bool behind_look; /* the event that comes next may have answered a check */
};

struct spots {
    struct spot all[SPOTS_MAX];
    size_t count;
};

static int64_t below(struct flowgen *g, int64_t n)
{
    return (int64_t)testenv_random_below(&g->random, (uint64_t)n);
}

/* ----------------------------------------------------------------------------------------- programs */

static struct flowgen_step *random_list(struct flowgen *g, int depth, int64_t version,
                                        int64_t rounds);

static void give_name(struct flowgen *g, struct flowgen_step *s)
{
    if (s->op == FLOWGEN_ACTIVITY && s->fate == FLOWGEN_UNSTARTED) {
        (void)snprintf(s->name, sizeof s->name, FLOWGEN_UNSERVED);
    } else if (s->op == FLOWGEN_ACTIVITY) {
        (void)snprintf(s->name, sizeof s->name, "a%d", (int)(g->topics++ % FLOWGEN_TOPICS));
    } else {
        (void)snprintf(s->name, sizeof s->name, "n%lld", (long long)g->names++);
    }
}

static void note_listen(struct flowgen *g, const struct flowgen_step *s, int64_t rounds)
{
    struct flowgen_listen *l = &g->listens[g->listen_count];
    QP_ASSERT(g->listen_count < FLOWGEN_LISTENS);
    memcpy(l->name, s->name, sizeof l->name);
    l->most = rounds;
    l->timed = s->op == FLOWGEN_TIMED;
    g->listen_count++;
}

/* Drawn beside the rest: the same seed gives the same steps, with children and without. */
static bool is_child(const struct flowgen *g, const struct flowgen_step *s)
{
    return g->options.with_children && s->op == FLOWGEN_ACTIVITY && s->fate <= FLOWGEN_FATAL &&
           hash_bytes(g->options.seed, &g->topics, sizeof g->topics) % 5 == 0;
}

/* A step of this kind, without its body. */
static struct flowgen_step *make_step(struct flowgen *g, enum flowgen_op op, int64_t version,
                                      int64_t rounds)
{
    struct flowgen_step *s = ARENA_NEW(g->arena, struct flowgen_step);
    QP_ASSERT(s != NULL);
    s->op = op;
    s->version = version;
    s->base = g->count == 0;
    if (op == FLOWGEN_ACTIVITY && g->options.with_fates && below(g, 3) == 0) {
        s->fate = (enum flowgen_fate)below(g, FLOWGEN_FATES);
    }
    give_name(g, s);
    s->child = is_child(g, s);
    g->children_seen += s->child;
    if (op == FLOWGEN_LISTEN || op == FLOWGEN_TIMED) {
        note_listen(g, s, rounds);
    }
    g->weight -= rounds;
    g->ops_seen[op]++;
    g->fates_seen[s->fate] += op == FLOWGEN_ACTIVITY;
    return s;
}

static struct flowgen_step *random_members(struct flowgen *g, int depth, int64_t version,
                                           int64_t rounds)
{
    static const enum flowgen_op members[] = {FLOWGEN_ACTIVITY, FLOWGEN_ACTIVITY, FLOWGEN_SLEEP,
                                              FLOWGEN_TIMED, FLOWGEN_CLOSURE};
    struct flowgen_step *first = NULL;
    for (int64_t count = 1 + below(g, 3); count > 0; count--) {
        enum flowgen_op op = members[below(g, depth < DEPTH_MAX ? 5 : 4)];
        struct flowgen_step *s = make_step(g, op, version, rounds);
        s->body = op == FLOWGEN_CLOSURE ? random_list(g, depth + 1, version, rounds) : NULL;
        s->next = first;
        first = s;
    }
    return first;
}

static enum flowgen_op random_op(struct flowgen *g, int depth)
{
    enum flowgen_op op;
    if (below(g, 4) == 0) {
        return FLOWGEN_ACTIVITY;
    }
    do {
        op = (enum flowgen_op)below(g, depth < DEPTH_MAX ? FLOWGEN_DRAWN : FLOWGEN_CLOSURE);
    } while ((op == FLOWGEN_ANY && !g->options.with_any) ||
             (op >= FLOWGEN_CLOSURE && g->weight <= 0));
    return op;
}

static struct flowgen_step *random_step(struct flowgen *g, int depth, int64_t version,
                                        int64_t rounds)
{
    struct flowgen_step *s = make_step(g, random_op(g, depth), version, rounds);
    s->times = s->op == FLOWGEN_LOOP ? 1 + below(g, 3) : 1;
    if (s->op == FLOWGEN_CLOSURE || s->op == FLOWGEN_LOOP) {
        s->body = random_list(g, depth + 1, version, rounds * s->times);
    } else if (s->op == FLOWGEN_ALL || s->op == FLOWGEN_ANY) {
        s->body = random_members(g, depth, version, rounds);
    }
    return s;
}

static struct flowgen_step *random_list(struct flowgen *g, int depth, int64_t version,
                                        int64_t rounds)
{
    struct flowgen_step *first = NULL;
    int64_t count = depth == 0 ? 2 + below(g, 4) : below(g, BODY_MAX);
    for (; count > 0; count--) {
        struct flowgen_step *s = random_step(g, depth, version, rounds);
        s->next = first;
        first = s;
    }
    return first;
}

void flowgen_begin(struct flowgen *g, struct arena *arena, const struct flowgen_options *options)
{
    *g = (struct flowgen){.arena = arena,
                          .options = *options,
                          .random = options->seed,
                          .newest = 1,
                          .weight = options->weight};
    g->programs[0] = random_list(g, 0, 1, 1);
    g->count = 1;
}

/* -------------------------------------------------------------------------------------------- spots */

static bool is_looking(const struct flowgen_step *s)
{
    return s->op == FLOWGEN_CHECK && !s->removed;
}

static void find_spots(struct spots *spots, struct flowgen_step **slot, struct spot at)
{
    for (;; slot = &(*slot)->next) {
        struct flowgen_step *s = *slot;
        at.slot = slot;
        if (spots->count < SPOTS_MAX) {
            spots->all[spots->count++] = at;
        }
        if (s == NULL) {
            return;
        }
        if ((s->op == FLOWGEN_CLOSURE || s->op == FLOWGEN_LOOP) && !s->removed) {
            find_spots(spots, &s->body,
                       (struct spot){.context = s->version, .rounds = at.rounds * s->times});
        }
        at.behind_look = is_looking(s) || (at.behind_look && s->removed);
    }
}

/* A step that is one event, and goes by its type and name. */
static bool is_plain(const struct flowgen_step *s)
{
    return s != NULL && !s->removed &&
           (s->op == FLOWGEN_ACTIVITY || s->op == FLOWGEN_INLINE || s->op == FLOWGEN_SIGNAL ||
            s->op == FLOWGEN_CLOSURE || s->op == FLOWGEN_LOOP);
}

/* -------------------------------------------------------------------------------------------- edits */

static struct flowgen_step *copy_list(struct arena *arena, const struct flowgen_step *first)
{
    struct flowgen_step *copies = NULL;
    struct flowgen_step **end = &copies;
    for (; first != NULL; first = first->next) {
        struct flowgen_step *copy = ARENA_NEW(arena, struct flowgen_step);
        QP_ASSERT(copy != NULL);
        *copy = *first;
        copy->next = NULL;
        copy->body = copy_list(arena, first->body);
        copy->fast = copy_list(arena, first->fast);
        *end = copy;
        end = &copy->next;
    }
    return copies;
}

static bool edit_insert(struct flowgen *g, const struct spot *spot)
{
    struct flowgen_step *s;
    if (spot->behind_look) {
        return false;
    }
    s = random_step(g, DEPTH_MAX - 1, ++g->newest, spot->rounds);
    s->next = *spot->slot;
    *spot->slot = s;
    return true;
}

static bool edit_remove(const struct spot *spot)
{
    if (!is_plain(*spot->slot)) {
        return false;
    }
    (*spot->slot)->removed = true;
    return true;
}

/* Flows that have the step keep it, others get another one. Only a step that every flow has met: what was inserted is
 * missing in those that were past it. */
static bool edit_replace(struct flowgen *g, const struct spot *spot)
{
    struct flowgen_step *old = *spot->slot;
    struct flowgen_step *check;
    if (!is_plain(old) || !old->base) {
        return false;
    }
    check = make_step(g, FLOWGEN_CHECK, ++g->newest, spot->rounds);
    check->fast = make_step(g, FLOWGEN_ACTIVITY, g->newest, spot->rounds);
    check->body = old;
    check->next = old->next;
    old->next = NULL;
    *spot->slot = check;
    return true;
}

/* The step runs inside of something new, and is gone from its old place. */
static bool edit_wrap(struct flowgen *g, const struct spot *spot, enum flowgen_op outer)
{
    struct flowgen_step *old = *spot->slot;
    struct flowgen_step *s;
    if (!is_plain(old) || spot->behind_look || old->op != FLOWGEN_ACTIVITY) {
        return false;
    }
    s = make_step(g, outer, ++g->newest, spot->rounds);
    s->times = outer == FLOWGEN_LOOP ? 1 + below(g, 2) : 1;
    s->body = make_step(g, FLOWGEN_ACTIVITY, g->newest, spot->rounds * s->times);
    memcpy(s->body->name, old->name, sizeof old->name);
    s->body->fate = old->fate;
    s->body->child = old->child;
    s->next = old;
    old->removed = true;
    *spot->slot = s;
    return true;
}

static bool edit_at(struct flowgen *g, const struct spot *spot, enum flowgen_edit_kind kind)
{
    switch (kind) {
    case FLOWGEN_INSERT:
        return edit_insert(g, spot);
    case FLOWGEN_REMOVE:
        return edit_remove(spot);
    case FLOWGEN_REPLACE:
        return edit_replace(g, spot);
    case FLOWGEN_WRAP:
        return edit_wrap(g, spot, FLOWGEN_CLOSURE);
    default:
        return edit_wrap(g, spot, FLOWGEN_LOOP);
    }
}

bool flowgen_edit(struct flowgen *g)
{
    enum flowgen_edit_kind kind = (enum flowgen_edit_kind)below(g, FLOWGEN_EDITS);
    struct spots spots = {.count = 0};
    struct flowgen_step *program;
    if (g->count >= FLOWGEN_VERSIONS || g->listen_count > FLOWGEN_LISTENS / 2) {
        return false;
    }
    program = copy_list(g->arena, g->programs[g->count - 1]);
    find_spots(&spots, &program, (struct spot){.context = 1, .rounds = 1});
    for (int tries = 0; tries < TRIES; tries++) {
        if (edit_at(g, &spots.all[below(g, (int64_t)spots.count)], kind)) {
            g->edits_seen[kind]++;
            g->edits[g->count] = kind;
            g->programs[g->count++] = program;
            return true;
        }
    }
    return false;
}
