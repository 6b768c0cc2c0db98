/* diff.c - what differs between two versions of an application (see diff.h)
 *
 * Names are told in the order of the text. What they stand for is put into the order of its keys first, so that two maps are
 * compared in one go however many keys they have.
 */
#include "graph/diff.h"

#include <stdlib.h>

#include "base/json.h"

/* -------------------------------------------------------------------------------------- comparing trees */

static const struct node *entry_of(const struct node *map, qp_str key)
{
    const struct node *n = map == NULL || map->kind != NODE_MAP ? NULL : map->first;
    while (n != NULL && !str_equal(n->key, key)) {
        n = n->next;
    }
    return n;
}

static bool same(const struct node *a, const struct node *b);

/* In two maps of one order the next entry is the one that is looked for. */
static bool same_map(const struct node *a, const struct node *b)
{
    const struct node *n = a->count == b->count ? a->first : NULL;
    const struct node *next = b->first;
    while (n != NULL) {
        const struct node *other =
            next != NULL && str_equal(next->key, n->key) ? next : entry_of(b, n->key);
        if (!same(n, other)) {
            return false;
        }
        next = other->next;
        n = n->next;
    }
    return a->count == b->count;
}

static bool same_list(const struct node *a, const struct node *b)
{
    const struct node *x = a->first;
    const struct node *y = b->first;
    while (x != NULL && y != NULL && same(x, y)) {
        x = x->next;
        y = y->next;
    }
    return x == NULL && y == NULL;
}

/* As deep as a tree may be, which is bounded. NULL is nothing. */
static bool same(const struct node *a, const struct node *b)
{
    if (a == NULL || b == NULL || a->kind != b->kind) {
        return a == b;
    }
    return a->kind == NODE_MAP    ? same_map(a, b)
           : a->kind == NODE_LIST ? same_list(a, b)
           : a->kind == NODE_BOOL ? a->truth == b->truth
           : a->kind == NODE_NULL ? true
                                  : str_equal(a->text, b->text);
}

/* ------------------------------------------------------------------------------------------------ lists */

/* One list of names, by what became of those that stand in `these` and may stand in `others`. */
enum change { ADDED, REMOVED, CHANGED };

static const char *const change_words[] = {"added", "removed", "changed"};

static bool is_change(enum change change, const struct node *mine, const struct node *theirs)
{
    return change == CHANGED ? theirs != NULL && !same(mine, theirs) : theirs == NULL;
}

static void put_activities(struct json_writer *w, const struct node *was, const struct node *is)
{
    json_key(w, QP_STR("activities"));
    json_begin_object(w);
    for (int change = ADDED; change <= CHANGED; change++) {
        const struct node *mine = change == REMOVED ? was : is;
        const struct node *theirs = change == REMOVED ? is : was;
        json_key(w, str_from(change_words[change]));
        json_begin_array(w);
        for (const struct node *n = mine == NULL ? NULL : mine->first; n != NULL; n = n->next) {
            if (is_change((enum change)change, n, entry_of(theirs, n->key))) {
                json_put_str(w, n->key);
            }
        }
        json_end_array(w);
    }
    json_end_object(w);
}

/* The transition from one to another; two that are there twice are compared in their order. */
static const struct node *way_of(const struct node *transitions, qp_str from, const struct node *to)
{
    const struct node *list = entry_of(transitions, from);
    const struct node *way = list == NULL ? NULL : list->first;
    while (way != NULL && !same(node_get(way, "to"), to)) {
        way = way->next;
    }
    return way;
}

static void put_way(struct json_writer *w, qp_str from, const struct node *way)
{
    json_begin_object(w);
    json_key(w, QP_STR("from"));
    json_put_str(w, from);
    json_key(w, QP_STR("to"));
    json_put_str(w, node_get(way, "to")->text);
    json_end_object(w);
}

static void put_ways(struct json_writer *w, enum change change, const struct node *mine,
                     const struct node *theirs)
{
    json_key(w, str_from(change_words[change]));
    json_begin_array(w);
    for (const struct node *from = mine == NULL ? NULL : mine->first; from != NULL;
         from = from->next) {
        for (const struct node *way = from->first; way != NULL; way = way->next) {
            const struct node *other = way_of(theirs, from->key, node_get(way, "to"));
            if (is_change(change, way, other)) {
                put_way(w, from->key, way);
            }
        }
    }
    json_end_array(w);
}

static void put_transitions(struct json_writer *w, const struct node *was, const struct node *is)
{
    json_key(w, QP_STR("transitions"));
    json_begin_object(w);
    put_ways(w, ADDED, is, was);
    put_ways(w, REMOVED, was, is);
    put_ways(w, CHANGED, is, was);
    json_end_object(w);
}

static bool is_told_apart(qp_str key)
{
    return str_equal(key, QP_STR("activities")) || str_equal(key, QP_STR("transitions"));
}

/* Keys of one graph that differ; those of `mine` that are in both are told once. */
static void put_keys_of(struct json_writer *w, const struct node *mine, const struct node *theirs,
                        bool both)
{
    for (const struct node *n = mine == NULL ? NULL : mine->first; n != NULL; n = n->next) {
        const struct node *other = entry_of(theirs, n->key);
        if (!is_told_apart(n->key) && (other == NULL || (both && !same(n, other)))) {
            json_put_str(w, n->key);
        }
    }
}

/* ----------------------------------------------------------------------------------------------- graphs */

static void put_graph(struct json_writer *w, const struct node *was, const struct node *is)
{
    enum change change = was == NULL ? ADDED : is == NULL ? REMOVED : CHANGED;
    json_begin_object(w);
    json_key(w, QP_STR("topic"));
    json_put_str(w, node_get(is == NULL ? was : is, "subscribes")->text);
    json_key(w, QP_STR("change"));
    json_put_str(w, str_from(change_words[change]));
    json_key(w, QP_STR("keys"));
    json_begin_array(w);
    put_keys_of(w, is, was, true);
    put_keys_of(w, was, is, false);
    json_end_array(w);
    put_activities(w, node_get(was, "activities"), node_get(is, "activities"));
    put_transitions(w, node_get(was, "transitions"), node_get(is, "transitions"));
    json_end_object(w);
}

static const struct node *graph_of(const struct node *graphs, const struct node *topic)
{
    const struct node *g = graphs->first;
    while (g != NULL && !same(node_get(g, "subscribes"), topic)) {
        g = g->next;
    }
    return g;
}

static void put_graphs(struct json_writer *w, const struct node *was, const struct node *is)
{
    json_begin_array(w);
    for (const struct node *g = is->first; g != NULL; g = g->next) {
        const struct node *before = graph_of(was, node_get(g, "subscribes"));
        if (!same(before, g)) {
            put_graph(w, before, g);
        }
    }
    for (const struct node *g = was->first; g != NULL; g = g->next) {
        if (graph_of(is, node_get(g, "subscribes")) == NULL) {
            put_graph(w, g, NULL);
        }
    }
    json_end_array(w);
}

/* ------------------------------------------------------------------------------------------------ order */

static int key_compare(const void *a, const void *b)
{
    return str_compare((*(const struct node *const *)a)->key,
                       (*(const struct node *const *)b)->key);
}

static int sort_entries(struct arena *a, struct node *map)
{
    struct node **entries = arena_room(a, (map->count + 1) * sizeof(struct node *));
    size_t n = 0;
    if (entries == NULL) {
        return QP_E_NOMEM;
    }
    for (struct node *entry = map->first; entry != NULL; entry = entry->next) {
        entries[n++] = entry;
    }
    entries[n] = NULL;
    qsort(entries, n, sizeof entries[0], key_compare);
    map->first = entries[0];
    for (size_t i = 0; i < n; i++) {
        entries[i]->next = entries[i + 1];
    }
    return QP_OK;
}

/* All maps from here down; as deep as a tree may be. */
static int sort_maps(struct arena *a, struct node *node)
{
    int rc = node->kind == NODE_MAP && node->count > 1 ? sort_entries(a, node) : QP_OK;
    for (struct node *n = node->first; n != NULL && rc == QP_OK; n = n->next) {
        rc = sort_maps(a, n);
    }
    return rc;
}

/* The order of activities and transitions is what they are told in. */
static int sort_graph(struct arena *a, struct node *graph)
{
    int rc = QP_OK;
    for (struct node *entry = graph->first; entry != NULL && rc == QP_OK; entry = entry->next) {
        struct node *n = is_told_apart(entry->key) ? entry->first : NULL;
        rc = is_told_apart(entry->key) ? QP_OK : sort_maps(a, entry);
        for (; n != NULL && rc == QP_OK; n = n->next) {
            rc = sort_maps(a, n);
        }
    }
    return rc;
}

static int read_graphs(struct arena *a, qp_str text, const struct node **out_graphs)
{
    struct report report;
    struct node *root = NULL;
    int rc;
    report_init(&report, a);
    rc = tree_read(a, text, &report, &root);
    *out_graphs = node_get(node_get(root, "app"), "graphs");
    if (rc == QP_E_MALFORMED || (rc == QP_OK && *out_graphs == NULL)) {
        return QP_E_INVALID;
    }
    for (struct node *g = rc == QP_OK ? (*out_graphs)->first : NULL; g != NULL && rc == QP_OK;
         g = g->next) {
        rc = sort_graph(a, g);
    }
    return rc;
}

int diff_write(struct arena *a, qp_str from, qp_str to, struct buf *out)
{
    const struct node *was = NULL;
    const struct node *is = NULL;
    struct json_writer w;
    int rc = read_graphs(a, from, &was);
    rc = rc == QP_OK ? read_graphs(a, to, &is) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    json_writer_init(&w, out);
    put_graphs(&w, was, is);
    return json_writer_done(&w);
}
