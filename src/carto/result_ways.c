/* result_ways.c - the k shortest ways without a node twice (see result_ways.h)
 *
 * Yen's algorithm with Lawler's rule. A way that was found is the parent of further ones: each shares its first nodes up to some
 * place, where it deviates, and is the shortest of those that neither come back to the shared nodes nor go on as a way
 * that was found before. So every way has one parent and one place, no way is found twice, and the shortest one that was
 * not yet given out is always among the candidates.
 *
 * A search for the rest of a way is A*: one breadth-first search back from the targets, made once, gives each node its
 * distance from them. With some nodes barred that is a lower bound, so only nodes that may be on a way of the length
 * that is sought are looked at, and of those that are, the way with the lowest places is taken.
 */
#include "carto/result_ways.h"

#define FAR UINT32_MAX

/* A way that was found, or a candidate. */
struct route {
    struct route *next; /* in its list */
    uint32_t *nodes;
    size_t count;
    size_t deviates; /* how many nodes it shares with its parent */
};

/* A place of the heap: nodes by the length of the shortest way that may lead over them. */
struct place {
    uint32_t length;
    uint32_t node;
};

struct search {
    struct arena *arena;
    const struct ways_question *q;
    const struct result_graph *g;
    uint32_t *after;        /* per edge: where it leads */
    uint32_t *before;       /* nodes with an edge to a node, from before_begin[node] on */
    uint32_t *before_begin; /* per node, and one more */
    uint32_t *rest;         /* per node: edges to the nearest target; FAR: there is no way */
    uint32_t *queue;        /* room for every node */
    struct route *found;    /* the last one first */
    struct route *candidates;
    size_t found_count;
    /* one search for the rest of a way; marks of an earlier round do not count */
    uint32_t round;
    uint32_t *barred; /* round in which a node is on the shared part */
    uint32_t *used;   /* round in which a way that was found goes on here */
    uint32_t *seen;   /* round in which it was reached, after `steps` */
    uint32_t *closed; /* round in which it was taken from the heap */
    uint32_t *good;   /* round in which it was found to be on a shortest way */
    uint32_t *steps;
    struct place *heap;
    size_t heap_count;
    size_t heap_room;
};

/* ------------------------------------------------------------------------------------------ neighbours */

static uint32_t *numbers(struct search *s, size_t count)
{
    return arena_alloc(s->arena, (count + 1) * sizeof(uint32_t));
}

static int link_edges(struct search *s)
{
    const struct result_graph *g = s->g;
    uint32_t *filled = numbers(s, g->node_count);
    if (filled == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < g->edge_count; i++) {
        s->after[i] = (uint32_t)g->edges[i].to->index;
        s->before_begin[s->after[i] + 1]++;
    }
    for (size_t i = 0; i < g->node_count; i++) {
        s->before_begin[i + 1] += s->before_begin[i];
        filled[i] = s->before_begin[i];
    }
    for (size_t i = 0; i < g->edge_count; i++) {
        s->before[filled[s->after[i]]++] = (uint32_t)g->edges[i].from->index;
    }
    return QP_OK;
}

/* Breadth first, back from the targets. */
static void measure_rest(struct search *s)
{
    size_t count = 0;
    for (size_t i = 0; i < s->g->node_count; i++) {
        s->rest[i] = FAR;
    }
    for (size_t i = 0; i < s->q->targets.count; i++) {
        s->rest[s->q->targets.nodes[i]] = 0;
        s->queue[count++] = s->q->targets.nodes[i];
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t to = s->queue[i];
        for (uint32_t e = s->before_begin[to]; e < s->before_begin[to + 1]; e++) {
            uint32_t from = s->before[e];
            if (s->rest[from] == FAR) {
                s->rest[from] = s->rest[to] + 1;
                s->queue[count++] = from;
            }
        }
    }
    QP_ASSERT(count <= s->g->node_count);
}

static int search_begin(struct search *s)
{
    size_t nodes = s->g->node_count;
    uint32_t **rooms[] = {&s->rest,   &s->queue, &s->barred, &s->used,
                          &s->closed, &s->seen,  &s->good,   &s->steps};
    QP_ASSERT(nodes < FAR && s->g->edge_count < FAR);
    s->after = numbers(s, s->g->edge_count);
    s->before = numbers(s, s->g->edge_count);
    s->before_begin = numbers(s, nodes + 1);
    if (s->after == NULL || s->before == NULL || s->before_begin == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < ARRAY_COUNT(rooms); i++) {
        *rooms[i] = numbers(s, nodes);
        if (*rooms[i] == NULL) {
            return QP_E_NOMEM;
        }
    }
    QP_TRY(link_edges(s));
    measure_rest(s);
    return QP_OK;
}

/* The nodes behind a node; none behind a target. The way has no node yet: the sources. */
struct next_nodes {
    const uint32_t *nodes;
    size_t count;
};

static struct next_nodes next_of(const struct search *s, const uint32_t *node)
{
    const struct result_node *n;
    if (node == NULL) {
        return (struct next_nodes){s->q->sources.nodes, s->q->sources.count};
    }
    n = s->g->nodes[*node];
    return s->rest[*node] == 0 ? (struct next_nodes){NULL, 0}
                               : (struct next_nodes){s->after + n->first_edge, n->edge_count};
}

/* ------------------------------------------------------------------------------------------------ heap */

static bool is_before(struct place a, struct place b)
{
    return a.length != b.length ? a.length < b.length : a.node < b.node;
}

static int heap_push(struct search *s, struct place new)
{
    size_t i = s->heap_count++;
    if (i == s->heap_room) {
        size_t room = s->heap_room == 0 ? 1024 : 2 * s->heap_room;
        struct place *heap = arena_room(s->arena, room * sizeof *heap);
        if (heap == NULL) {
            return QP_E_NOMEM;
        }
        if (i > 0) {
            memcpy(heap, s->heap, i * sizeof *heap);
        }
        s->heap = heap;
        s->heap_room = room;
    }
    for (; i > 0 && is_before(new, s->heap[(i - 1) / 2]); i = (i - 1) / 2) {
        s->heap[i] = s->heap[(i - 1) / 2];
    }
    s->heap[i] = new;
    return QP_OK;
}

static struct place heap_pop(struct search *s)
{
    struct place first = s->heap[0];
    struct place last = s->heap[--s->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child + 1 < s->heap_count && is_before(s->heap[child + 1], s->heap[child])) {
            child++;
        }
        if (child >= s->heap_count || !is_before(s->heap[child], last)) {
            break;
        }
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return first;
}

/* ------------------------------------------------------------------------------------- one more way */

/* A node is reached; `steps` counts the nodes behind the shared part, itself included. */
static int reach(struct search *s, uint32_t node, uint32_t steps)
{
    if (s->rest[node] == FAR || s->barred[node] == s->round ||
        (s->seen[node] == s->round && s->steps[node] <= steps)) {
        return QP_OK;
    }
    s->seen[node] = s->round;
    s->steps[node] = steps;
    return heap_push(s, (struct place){steps + s->rest[node], node});
}

/* Closes all nodes that may be on a way as short as the shortest one. *out_length 0: there is no way. */
static int explore(struct search *s, const uint32_t *from, uint32_t *out_length)
{
    struct next_nodes next = next_of(s, from);
    uint32_t length = FAR;
    s->heap_count = 0;
    for (size_t i = 0; i < next.count; i++) {
        if (s->used[next.nodes[i]] != s->round) {
            QP_TRY(reach(s, next.nodes[i], 1));
        }
    }
    while (s->heap_count > 0) {
        struct place p = heap_pop(s);
        if (p.length > length) {
            break;
        }
        if (s->closed[p.node] == s->round) {
            continue;
        }
        s->closed[p.node] = s->round;
        length = s->rest[p.node] == 0 ? p.length : length;
        next = next_of(s, &p.node);
        for (size_t i = 0; i < next.count; i++) {
            QP_TRY(reach(s, next.nodes[i], s->steps[p.node] + 1));
        }
    }
    *out_length = length == FAR ? 0 : length;
    return QP_OK;
}

/* Marks the nodes of all shortest ways, back from the targets that were reached after `length` nodes. */
static void mark_good(struct search *s, uint32_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < s->q->targets.count; i++) {
        uint32_t target = s->q->targets.nodes[i];
        if (s->closed[target] == s->round && s->steps[target] == length) {
            s->good[target] = s->round;
            s->queue[count++] = target;
        }
    }
    for (size_t i = 0; i < count; i++) {
        uint32_t to = s->queue[i];
        for (uint32_t e = s->before_begin[to]; e < s->before_begin[to + 1]; e++) {
            uint32_t node = s->before[e];
            if (s->closed[node] == s->round && s->good[node] != s->round && s->rest[node] > 0 &&
                s->steps[node] + 1 == s->steps[to]) {
                s->good[node] = s->round;
                s->queue[count++] = node;
            }
        }
    }
}

/* The one with the lowest place. */
static uint32_t choose(const struct search *s, const uint32_t *from, uint32_t steps)
{
    struct next_nodes next = next_of(s, from);
    uint32_t best = FAR;
    for (size_t i = 0; i < next.count; i++) {
        uint32_t node = next.nodes[i];
        bool is_open = steps > 1 || s->used[node] != s->round;
        if (is_open && s->good[node] == s->round && s->steps[node] == steps && node < best) {
            best = node;
        }
    }
    QP_ASSERT(best != FAR);
    return best;
}

/* The shortest way that begins as `parent` up to `shared` nodes and goes on as no other; NULL: there is none. */
static int deviate(struct search *s, const struct route *parent, size_t shared,
                   struct route **out_route)
{
    const uint32_t *last = shared == 0 ? NULL : &parent->nodes[shared - 1];
    struct route *new = NULL;
    uint32_t length = 0;
    QP_TRY(explore(s, last, &length));
    *out_route = NULL;
    if (length == 0) {
        return QP_OK;
    }
    mark_good(s, length);
    new = ARENA_NEW(s->arena, struct route);
    if (new == NULL || (new->nodes = numbers(s, shared + length)) == NULL) {
        return QP_E_NOMEM;
    }
    if (shared > 0) {
        memcpy(new->nodes, parent->nodes, shared * sizeof(uint32_t));
    }
    new->count = shared + length;
    new->deviates = shared;
    for (uint32_t steps = 1; steps <= length; steps++) {
        new->nodes[shared + steps - 1] = choose(s, last, steps);
        last = &new->nodes[shared + steps - 1];
    }
    QP_ASSERT(s->rest[*last] == 0);
    *out_route = new;
    return QP_OK;
}

static bool begins_as(const struct route *a, const struct route *b, size_t count)
{
    return a->count > count && memcmp(a->nodes, b->nodes, count * sizeof(uint32_t)) == 0;
}

/* All candidates that a way which was just found is the parent of. */
static int add_candidates(struct search *s, const struct route *parent)
{
    for (size_t shared = parent->deviates; shared < parent->count; shared++) {
        struct route *new = NULL;
        s->round++;
        for (size_t i = 0; i < shared; i++) {
            s->barred[parent->nodes[i]] = s->round;
        }
        for (const struct route *f = s->found; f != NULL; f = f->next) {
            if (begins_as(f, parent, shared)) {
                s->used[f->nodes[shared]] = s->round;
            }
        }
        QP_TRY(deviate(s, parent, shared, &new));
        if (new != NULL) {
            new->next = s->candidates;
            s->candidates = new;
        }
    }
    return QP_OK;
}

static int compare_routes(const struct route *a, const struct route *b)
{
    if (a->count != b->count) {
        return a->count < b->count ? -1 : 1;
    }
    for (size_t i = 0; i < a->count; i++) {
        if (a->nodes[i] != b->nodes[i]) {
            return a->nodes[i] < b->nodes[i] ? -1 : 1;
        }
    }
    return 0;
}

static struct route *take_first(struct search *s)
{
    struct route **first = &s->candidates;
    struct route *taken;
    for (struct route **at = &s->candidates; *at != NULL; at = &(*at)->next) {
        if (compare_routes(*at, *first) < 0) {
            first = at;
        }
    }
    taken = *first;
    if (taken != NULL) {
        *first = taken->next;
    }
    return taken;
}

/* -------------------------------------------------------------------------------------------- asking */

static int find_all(struct search *s, struct ways *out)
{
    struct route *route = NULL;
    s->round = 1;
    QP_TRY(deviate(s, NULL, 0, &route));
    while (route != NULL && out->count < s->q->limit) {
        out->rows[out->count++] = (struct way){route->nodes, route->count};
        route->next = s->found;
        s->found = route;
        QP_TRY(add_candidates(s, route));
        route = take_first(s);
    }
    out->has_more = route != NULL;
    return QP_OK;
}

int ways_find(struct arena *a, const struct ways_question *q, struct ways *out)
{
    struct search s = {.arena = a, .q = q, .g = q->graph};
    struct ways ways = {0};
    QP_ASSERT(q->limit >= 1 && q->limit <= LIMIT_CARTO_WAYS);
    ways.rows = arena_alloc(a, q->limit * sizeof *ways.rows);
    if (ways.rows == NULL) {
        return QP_E_NOMEM;
    }
    QP_TRY(search_begin(&s));
    QP_TRY(find_all(&s, &ways));
    *out = ways;
    return QP_OK;
}
