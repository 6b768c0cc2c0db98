/* omap.c - an ordered map as a skip list
 *
 * Every node has a tower of `height` forward pointers; level 0 is the sorted list of all nodes,
 * each level above holds about a quarter of the one below. A search starts at the top of the
 * head's tower and goes right as long as the next key is smaller, then one level down: O(log n) on
 * average, without the rotations of a tree.
 *
 *   I1  on every level the keys ascend strictly
 *   I2  a node of height h is on the levels 0 .. h-1, and on no other
 *   I3  the head carries no key and comes before all nodes
 *
 * One allocation holds a node, its tower and its key, so a node is one run of memory and one thing
 * that can fail.
 */
#include "base/omap.h"

#define OMAP_HEIGHT 16 /* 4^16 nodes are more than memory holds */
#define OMAP_SEED 0x9E3779B97F4A7C15u

struct omap_node {
    void *value;
    size_t key_size;
    size_t height;
    struct omap_node *next[]; /* next[height], then the bytes of the key */
};

static struct omap_node *node_create(struct omap *m, size_t height, qp_str key, void *value);
static size_t random_height(struct omap *m);
static bool is_before(const struct omap_node *node, qp_str key);
static bool is_at(const struct omap_node *node, qp_str key);
static struct omap_node *find_before(const struct omap *m, qp_str key, struct omap_node **out_path);

void omap_init(struct omap *m, const struct qp_env *env)
{
    *m = (struct omap){.env = env, .random = OMAP_SEED};
}

void omap_done(struct omap *m)
{
    struct omap_node *node = m->head;

    while (node != NULL) {
        struct omap_node *next = node->next[0];

        mem_free(m->env, node);
        node = next;
    }
    m->head = NULL;
    m->count = 0;
}

int omap_put(struct omap *m, qp_str key, void *value, void **out_old)
{
    struct omap_node *path[OMAP_HEIGHT];
    struct omap_node *node;
    void *old = NULL;

    if (m->head == NULL) {
        m->head = node_create(m, OMAP_HEIGHT, QP_NONE, NULL);
    }
    if (m->head == NULL) {
        return QP_E_NOMEM;
    }
    node = find_before(m, key, path)->next[0];
    if (is_at(node, key)) {
        old = node->value;
        node->value = value;
    } else {
        node = node_create(m, random_height(m), key, value);
        if (node == NULL) {
            return QP_E_NOMEM;
        }
        for (size_t level = 0; level < node->height; level++) {
            node->next[level] = path[level]->next[level];
            path[level]->next[level] = node;
        }
        m->count++;
    }
    if (out_old != NULL) {
        *out_old = old;
    }
    return QP_OK;
}

void *omap_get(const struct omap *m, qp_str key)
{
    struct omap_node *node = omap_seek(m, key);

    return is_at(node, key) ? node->value : NULL;
}

void *omap_delete(struct omap *m, qp_str key)
{
    struct omap_node *path[OMAP_HEIGHT];
    struct omap_node *node;
    void *value;

    if (m->head == NULL) {
        return NULL;
    }
    node = find_before(m, key, path)->next[0];
    if (!is_at(node, key)) {
        return NULL;
    }
    for (size_t level = 0; level < node->height; level++) {
        QP_ASSERT(path[level]->next[level] == node);
        path[level]->next[level] = node->next[level];
    }
    value = node->value;
    mem_free(m->env, node);
    m->count--;
    return value;
}

struct omap_node *omap_seek(const struct omap *m, qp_str key)
{
    return m->head == NULL ? NULL : find_before(m, key, NULL)->next[0];
}

struct omap_node *omap_seek_before(const struct omap *m, qp_str key)
{
    struct omap_node *node = m->head == NULL ? NULL : find_before(m, key, NULL);

    return node == m->head ? NULL : node;
}

struct omap_node *omap_last(const struct omap *m)
{
    struct omap_node *node = m->head;

    if (node == NULL) {
        return NULL;
    }
    for (size_t level = OMAP_HEIGHT; level-- > 0;) {
        while (node->next[level] != NULL) {
            node = node->next[level];
        }
    }
    return node == m->head ? NULL : node;
}

struct omap_node *omap_next(const struct omap_node *node)
{
    return node->next[0];
}

qp_str omap_key(const struct omap_node *node)
{
    return (qp_str){(const char *)(node->next + node->height), node->key_size};
}

void *omap_value(const struct omap_node *node)
{
    return node->value;
}

/* The last node before key, or the head; out_path (may be NULL) gets that node of every level. */
static struct omap_node *find_before(const struct omap *m, qp_str key, struct omap_node **out_path)
{
    struct omap_node *node = m->head;

    for (size_t level = OMAP_HEIGHT; level-- > 0;) {
        while (is_before(node->next[level], key)) {
            node = node->next[level];
        }
        if (out_path != NULL) {
            out_path[level] = node;
        }
    }
    return node;
}

static bool is_before(const struct omap_node *node, qp_str key)
{
    qp_str other;
    int order;

    if (node == NULL) {
        return false;
    }
    other = omap_key(node);
    order = key.n == 0 ? 0 : memcmp(other.p, key.p, other.n < key.n ? other.n : key.n);
    return order < 0 || (order == 0 && other.n < key.n);
}

/* Bytes alone count: a key that is none is the empty key. */
static bool is_at(const struct omap_node *node, qp_str key)
{
    return node != NULL && node->key_size == key.n &&
           (key.n == 0 || memcmp(omap_key(node).p, key.p, key.n) == 0);
}

static struct omap_node *node_create(struct omap *m, size_t height, qp_str key, void *value)
{
    size_t size = sizeof(struct omap_node) + height * sizeof(struct omap_node *);
    struct omap_node *node;

    if (!size_add(size, key.n, &size)) {
        return NULL;
    }
    node = mem_alloc(m->env, size);
    if (node == NULL) {
        return NULL;
    }
    node->value = value;
    node->key_size = key.n;
    node->height = height;
    if (key.n > 0) {
        memcpy(node->next + height, key.p, key.n);
    }
    return node;
}

/* xorshift64: two bits per level, so that one node in four climbs. */
static size_t random_height(struct omap *m)
{
    uint64_t bits;
    size_t height = 1;

    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    bits = m->random >> 16;
    while (height < OMAP_HEIGHT && (bits & 3) == 0) {
        bits >>= 2;
        height++;
    }
    return height;
}
