/* compile_shape.c - what leads where: circles, joins and their gates, dominators, exits (see graph.h)
 *
 * Transitions alone, without the way back of cycles, must be free of circles; so there is an order in which each activity
 * comes after all that lead to it, and everything below goes along it once:
 *
 *   dominators   one transition leads to an activity: its source. Several: a gate is put in front, whose
 *                dominator is where the ways up from all sources meet
 *   exits        a transition to a gate is a way out of its source's region, and of every region around it,
 *                up to that of the gate's own dominator, which has the gate in it
 *
 * Cost: each transition walks up at most once per activity of its way, 10,000 x 5,000 steps at worst.
 */
#include <stdio.h>

#include "graph/compile.h"

/* Of each activity the transitions that lead to it: edges[into[i]] to edges[into[i + 1] - 1]. */
struct shape {
    struct making *m;
    size_t count;      /* activities, without gates */
    size_t *into;      /* where those of an activity begin */
    size_t *incoming;  /* edges, by where they lead */
    size_t *waiting;   /* transitions that still have to be gone over, per activity */
    bool *reached;     /* from the trigger */
    size_t done_count; /* of m->order */
};

static bool all_reached(const struct shape *s);
static void index_edges(struct shape *s);
static void check_reached(struct shape *s);
static void find_order(struct shape *s);
static void check_joins(struct shape *s);
static void find_dominators(struct shape *s);
static void check_depth(struct shape *s);
static void check_cycles(struct shape *s);
static void find_exits(struct shape *s);

void shape_make(struct making *m)
{
    size_t before = m->c->report->count;
    struct shape s = {.m = m, .count = m->graph->activity_count};
    s.into = compile_scratch(m->c, s.count + 1, sizeof *s.into);
    s.incoming = compile_scratch(m->c, m->edge_count, sizeof *s.incoming);
    s.waiting = compile_scratch(m->c, s.count, sizeof *s.waiting);
    s.reached = compile_scratch(m->c, s.count, sizeof *s.reached);
    m->order = compile_scratch(m->c, s.count, sizeof *m->order);
    if (m->c->report->no_memory) {
        return;
    }
    index_edges(&s);
    check_reached(&s);
    find_order(&s);
    check_joins(&s);
    if (m->c->report->count == before && all_reached(&s)) {
        find_dominators(&s);
        check_depth(&s);
        check_cycles(&s);
        find_exits(&s);
        m->shaped = true;
    }
}

/* Then the trigger is the one beginning, and all ways up meet. */
static bool all_reached(const struct shape *s)
{
    size_t i = 0;
    while (i < s->count && s->reached[i]) {
        i++;
    }
    return i == s->count && s->m->graph->trigger != NULL;
}

static void index_edges(struct shape *s)
{
    const struct making *m = s->m;
    for (size_t i = 0; i < m->edge_count; i++) {
        s->waiting[m->edges[i].to]++;
    }
    for (size_t i = 0; i < s->count; i++) {
        s->into[i + 1] = s->into[i] + s->waiting[i];
        s->waiting[i] = 0;
    }
    for (size_t i = 0; i < m->edge_count; i++) {
        size_t to = m->edges[i].to;
        s->incoming[s->into[to] + s->waiting[to]++] = i;
    }
}

static struct activity *activity_at(const struct shape *s, size_t index)
{
    return &s->m->graph->activities[index];
}

static size_t incoming_count(const struct shape *s, size_t index)
{
    return s->into[index + 1] - s->into[index];
}

static const struct edge *incoming_at(const struct shape *s, size_t index, size_t i)
{
    return &s->m->edges[s->incoming[s->into[index] + i]];
}

/* --------------------------------------------------------------------------------------- checks */

static void check_reached(struct shape *s)
{
    const struct graph *g = s->m->graph;
    size_t *queue = s->m->order; /* find_order has it next */
    size_t count = 0;
    if (g->trigger == NULL) {
        return;
    }
    queue[count++] = g->trigger->index;
    s->reached[g->trigger->index] = true;
    for (size_t at = 0; at < count; at++) {
        const struct activity *a = activity_at(s, queue[at]);
        for (size_t i = 0; i < a->transition_count; i++) {
            size_t to = a->transitions[i].to->index;
            if (!s->reached[to]) {
                s->reached[to] = true;
                queue[count++] = to;
            }
        }
    }
    for (size_t i = 0; i < s->count && !s->m->loose; i++) {
        const struct activity *a = activity_at(s, i);
        if (!s->reached[i] && a->type != ACTIVITY_TRIGGER) {
            report_add(s->m->c->report, "activity_unreached", a->line, a->column,
                       "add a transition to it", "no way leads from the trigger to '%.*s'",
                       STR_ARG(text_shown(a->id)));
        }
    }
}

/* Everything that nothing is waited for any more goes into the order, and so on. */
static void settle(struct shape *s, size_t from)
{
    size_t *order = s->m->order;
    for (size_t at = from; at < s->done_count; at++) {
        const struct activity *a = activity_at(s, order[at]);
        for (size_t i = 0; i < a->transition_count; i++) {
            size_t to = a->transitions[i].to->index;
            if (s->waiting[to] > 0 && --s->waiting[to] == 0) {
                order[s->done_count++] = to;
            }
        }
    }
}

static bool is_waiting(const struct shape *s, size_t index)
{
    return s->waiting[index] > 0;
}

/* Of what leads to a waiting activity, one that waits itself: there is one. */
static const struct edge *waiting_before(const struct shape *s, size_t index)
{
    size_t i = 0;
    while (!is_waiting(s, incoming_at(s, index, i)->from)) {
        i++;
        QP_ASSERT(i < incoming_count(s, index));
    }
    return incoming_at(s, index, i);
}

/* "a -> b -> c -> a", of a long circle the beginning. `way` has room for all of it. */
static void tell_circle(struct shape *s, size_t start, size_t *way)
{
    char text[8 * (LIMIT_NAME_SIZE + 4)] = "";
    const struct edge *e = waiting_before(s, start);
    const struct edge *last = e;
    size_t count = 0;
    size_t n = 0;
    for (; e->from != start; e = waiting_before(s, e->from)) {
        way[count++] = e->from;
    }
    for (size_t i = count; i-- > 0 && count - i < 8;) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%.*s -> ",
                              STR_ARG(text_shown(activity_at(s, way[i])->id)));
    }
    report_add(s->m->c->report, "transition_circle", last->node->line, last->node->column,
               "end a round with an activity of type cycle",
               "transitions run in a circle: %.*s -> %s%s%.*s", STR_ARG(activity_at(s, start)->id),
               text, count > 7 ? "... -> " : "", STR_ARG(activity_at(s, start)->id));
}

/* Going backwards from something that waits ends in a circle. */
static size_t find_circle(const struct shape *s, size_t at, bool *seen)
{
    memset(seen, 0, s->count);
    while (!seen[at]) {
        seen[at] = true;
        at = waiting_before(s, at)->from;
    }
    return at;
}

/* One circle is told, and taken to be open where it was found, so that others are found too. */
static void find_order(struct shape *s)
{
    bool *seen = compile_scratch(s->m->c, s->count, sizeof *seen);
    size_t *way = compile_scratch(s->m->c, s->count, sizeof *way);
    s->done_count = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (s->waiting[i] == 0) {
            s->m->order[s->done_count++] = i;
        }
    }
    settle(s, 0);
    for (size_t i = 0; i < s->count && seen != NULL && way != NULL; i++) {
        while (is_waiting(s, i)) {
            size_t from = s->done_count;
            size_t at = find_circle(s, i, seen);
            tell_circle(s, at, way);
            s->waiting[at] = 0;
            s->m->order[s->done_count++] = at;
            settle(s, from);
        }
    }
}

static void check_joins(struct shape *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct activity *a = activity_at(s, i);
        const struct node *join = node_get(s->m->nodes[i], "join");
        size_t count = incoming_count(s, i);
        if (join != NULL && count == 1) {
            report_add(s->m->c->report, "join_single", join->key_line, join->key_column,
                       "leave it out, or add the transition that is missing",
                       "one transition leads to '%.*s': there is nothing to join",
                       STR_ARG(text_shown(a->id)));
        }
        if (a->pivot && count > 1) {
            report_add(s->m->c->report, "pivot_join", a->line, a->column,
                       "put a hook that does nothing in front of it, as the join",
                       "%zu transitions lead to the pivot '%.*s', and one is allowed", count,
                       STR_ARG(text_shown(a->id)));
        }
    }
}

/* --------------------------------------------------------------------------------------- dominators */

/* Where the ways up from two meet. */
static const struct activity *meet(const struct activity *a, const struct activity *b)
{
    while (a != b) {
        if (a->depth >= b->depth) {
            a = a->dominator;
        } else {
            b = b->dominator;
        }
    }
    return a;
}

static qp_str gate_id(struct shape *s, qp_str id)
{
    static const char prefix[] = "join:";
    size_t size = sizeof prefix - 1 + id.n;
    char *text = arena_bytes(s->m->c->arena, size);
    if (text == NULL) {
        s->m->c->report->no_memory = true;
        return QP_NONE;
    }
    memcpy(text, prefix, sizeof prefix - 1);
    memcpy(text + sizeof prefix - 1, id.p, id.n);
    return (qp_str){text, size};
}

static void add_gate(struct shape *s, struct activity *join)
{
    struct graph *g = s->m->graph;
    struct activity *gate = &g->activities[g->activity_count];
    const struct node *word = node_get(s->m->nodes[join->index], "join");
    size_t count = incoming_count(s, join->index);
    const struct activity *dominator = activity_at(s, incoming_at(s, join->index, 0)->from);
    for (size_t i = 1; i < count; i++) {
        dominator = meet(dominator, activity_at(s, incoming_at(s, join->index, i)->from));
    }
    *gate = (struct activity){.id = gate_id(s, join->id),
                              .type = ACTIVITY_GATE,
                              .graph = g,
                              .line = join->line,
                              .column = join->column,
                              .index = g->activity_count++,
                              .digit = SIZE_MAX,
                              .dominator = dominator,
                              .joins = join,
                              .any = word != NULL && str_equal(word->text, QP_STR("any")),
                              .ways = (int64_t)count,
                              .depth = dominator->depth + 1};
    join->gate = gate;
    join->parent = gate;
    join->dominator = gate;
    join->depth = gate->depth + 1;
}

static void find_dominators(struct shape *s)
{
    for (size_t at = 0; at < s->count; at++) {
        struct activity *a = activity_at(s, s->m->order[at]);
        size_t count = incoming_count(s, a->index);
        if (count == 0) {
            a->depth = 1;
        } else if (count == 1) {
            a->parent = activity_at(s, incoming_at(s, a->index, 0)->from);
            a->dominator = a->parent;
            a->depth = a->parent->depth + 1;
        } else {
            add_gate(s, a);
        }
    }
}

/* How long an address can become: a segment for each generation, and that of a pivot counts its rounds. */
static size_t address_size(const struct activity *a)
{
    static const char round[] = ",10000";
    size_t size = a->id.n;
    static_assert(LIMIT_CYCLES <= 10000, "the number of a round has five digits");
    for (; a != NULL; a = a->dominator) {
        size += a->pivot ? sizeof round - 1 : sizeof ",0" - 1;
    }
    return size;
}

/* What comes after it is deeper still: the first one is told. */
static void check_depth(struct shape *s)
{
    for (size_t at = 0; at < s->count; at++) {
        const struct activity *a = activity_at(s, s->m->order[at]);
        size_t size = address_size(a->gate != NULL ? a->gate : a);
        if (a->depth > LIMIT_GRAPH_DEPTH || size > LIMIT_ADDRESS_SIZE) {
            report_add(s->m->c->report, "depth_limit", a->line, a->column,
                       "let an await call a graph of its own for the rest, or give it a shorter id",
                       "'%.*s' is %lld generations below the trigger and its address can have "
                       "%zu bytes, the limits are %d and %d",
                       STR_ARG(text_shown(a->id)), (long long)a->depth, size, LIMIT_GRAPH_DEPTH,
                       LIMIT_ADDRESS_SIZE);
            return;
        }
    }
}

static bool dominates(const struct activity *above, const struct activity *a)
{
    while (a != NULL && a->depth > above->depth) {
        a = a->dominator;
    }
    return a == above;
}

static void check_cycles(struct shape *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct activity *a = activity_at(s, i);
        const struct node *node = node_get(s->m->nodes[i], "ancestor");
        if (a->ancestor != NULL && !dominates(a->ancestor, a)) {
            report_add(s->m->c->report, "ancestor_around", node->line, node->column,
                       "a loop goes back to where all its ways have come through",
                       "not all ways to '%.*s' lead through '%.*s'", STR_ARG(text_shown(a->id)),
                       STR_ARG(text_shown(a->ancestor->id)));
        }
    }
}

/* --------------------------------------------------------------------------------------- exits */

/* The regions that transitions into a gate leave, and how many leave each. */
static size_t count_ways(struct shape *s, const struct activity *gate, int64_t *ways,
                         size_t *regions)
{
    size_t join = gate->joins->index;
    size_t count = 0;
    for (size_t i = 0; i < incoming_count(s, join); i++) {
        const struct activity *a = activity_at(s, incoming_at(s, join, i)->from);
        for (; a != gate->dominator; a = a->dominator) {
            if (ways[a->index]++ == 0) {
                regions[count++] = a->index;
            }
        }
    }
    return count;
}

/* First how many there are of each region (room is NULL), then what they are. */
static void go_over_gates(struct shape *s, int64_t *ways, size_t *regions, struct gate_exit **room)
{
    struct graph *g = s->m->graph;
    for (size_t i = s->count; i < g->activity_count; i++) {
        size_t count = count_ways(s, &g->activities[i], ways, regions);
        for (size_t r = 0; r < count; r++) {
            struct activity *a = &g->activities[regions[r]];
            if (room != NULL) {
                room[a->index][a->exit_count] =
                    (struct gate_exit){&g->activities[i], ways[a->index]};
            }
            a->exit_count++;
            ways[a->index] = 0;
        }
    }
}

static void give_room(struct shape *s, struct gate_exit *all, struct gate_exit **room)
{
    struct graph *g = s->m->graph;
    for (size_t i = 0; i < g->activity_count; i++) {
        struct activity *a = &g->activities[i];
        room[i] = all;
        a->exits = all;
        all += a->exit_count;
        a->exit_count = 0;
    }
}

static void find_exits(struct shape *s)
{
    struct graph *g = s->m->graph;
    struct compiler *c = s->m->c;
    int64_t *ways = compile_scratch(c, g->activity_count, sizeof *ways);
    size_t *regions = compile_scratch(c, g->activity_count, sizeof *regions);
    struct gate_exit **room = compile_scratch(c, g->activity_count, sizeof(struct gate_exit *));
    struct gate_exit *all = NULL;
    size_t count = 0;
    if (c->report->no_memory) {
        return;
    }
    go_over_gates(s, ways, regions, NULL);
    for (size_t i = 0; i < g->activity_count; i++) {
        count += g->activities[i].exit_count;
    }
    c->exit_count += count;
    if (c->exit_count > LIMIT_APP_EXITS) {
        report_add(c->report, "exits_limit", node_line(s->m->node), node_column(s->m->node),
                   "bring branches together before they join others",
                   "more ways out of branches into joins than the limit of %d", LIMIT_APP_EXITS);
        return;
    }
    all = compile_keep(c, count, sizeof *all);
    if (all != NULL) {
        give_room(s, all, room);
        go_over_gates(s, ways, regions, room);
    }
}
