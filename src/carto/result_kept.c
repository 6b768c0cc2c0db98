/* result_kept.c - nodes and edges of a large result, written and read (see result_kept.h) */
#include "carto/result_kept.h"

#include <stdio.h>
#include <stdlib.h>

#define VERSION 1
#define SIZE_DIGITS 8
#define FLAG_FRONTIER 1U
#define FLAG_VIRTUAL 2U

bool kept_is_due(const struct carto_counts *counts)
{
    return counts->items > LIMIT_CARTO_READ_ITEMS;
}

/* ------------------------------------------------------------------------------------------- writing */

static void put_number(struct buf *out, uint64_t number)
{
    while (number >= 0x80) {
        buf_byte(out, (char)(unsigned char)(number | 0x80));
        number >>= 7;
    }
    buf_byte(out, (char)number);
}

static void put_text(struct buf *out, qp_str text)
{
    put_number(out, text.n);
    buf_str(out, text);
}

static void put_node(struct buf *out, const struct result_graph *g, const struct result_node *n)
{
    put_number(out, n->index);
    put_text(out, n->package.id.type);
    put_text(out, n->package.id.name);
    put_text(out, n->package.version);
    put_number(out, n->level);
    put_number(out, (n->is_frontier ? FLAG_FRONTIER : 0) | (n->is_virtual ? FLAG_VIRTUAL : 0));
    put_text(out, n->errors);
    put_number(out, n->edge_count);
    for (size_t i = 0; i < n->edge_count; i++) {
        const struct result_edge *e = &g->edges[n->first_edge + i];
        put_number(out, e->to->index);
        put_text(out, e->requirement);
        put_text(out, e->kind);
        put_number(out, e->scope);
    }
}

static int compare_ids(const void *a, const void *b)
{
    const struct result_node *x = *(const struct result_node *const *)a;
    const struct result_node *y = *(const struct result_node *const *)b;
    return str_compare(x->id, y->id);
}

/* In the order of their ids, as edges stand in a graph. */
static int put_nodes(struct buf *out, const struct result_graph *g)
{
    const struct result_node **nodes = mem_alloc(g->env, (g->node_count + 1) * sizeof *nodes);
    if (nodes == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < g->node_count; i++) {
        nodes[i] = g->nodes[i];
    }
    qsort(nodes, g->node_count, sizeof *nodes, compare_ids);
    for (size_t i = 0; i < g->node_count; i++) {
        put_node(out, g, nodes[i]);
    }
    mem_free(g->env, nodes);
    return buf_rc(out);
}

int kept_write(const struct result_graph *g, struct buf *out)
{
    char digits[SIZE_DIGITS + 1];
    QP_ASSERT(out->n == 0);
    buf_text(out, "00000000");
    put_number(out, VERSION);
    put_number(out, g->root_count);
    put_number(out, g->node_count);
    QP_TRY(put_nodes(out, g));
    QP_ASSERT(out->n <= UINT32_MAX);
    (void)snprintf(digits, sizeof digits, "%08zx", out->n);
    memcpy(out->p, digits, SIZE_DIGITS);
    return QP_OK;
}

qp_str kept_page(qp_str bytes, size_t index)
{
    size_t from = index * KEPT_PAGE_SIZE;
    size_t rest = from < bytes.n ? bytes.n - from : 0;
    return rest == 0 ? QP_STR("")
                     : (qp_str){bytes.p + from, rest < KEPT_PAGE_SIZE ? rest : KEPT_PAGE_SIZE};
}

int kept_page_name(struct arena *a, size_t index, qp_str *out_name)
{
    return carto_print(a, out_name, "g:%06zu", index);
}

/* ------------------------------------------------------------------------------------------- reading */

struct reader {
    struct result_graph *g;
    qp_str rest;
    bool is_bad;
};

static uint64_t get_number(struct reader *r)
{
    uint64_t number = 0;
    for (unsigned shift = 0; r->rest.n > 0 && shift < 63; shift += 7) {
        unsigned char byte = (unsigned char)*r->rest.p++;
        r->rest.n--;
        number |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            return number;
        }
    }
    r->is_bad = true;
    return 0;
}

static size_t get_count(struct reader *r, uint64_t most)
{
    uint64_t count = get_number(r);
    r->is_bad = r->is_bad || count > most;
    return r->is_bad ? 0 : (size_t)count;
}

/* Lives as long as the pages. */
static qp_str get_text(struct reader *r)
{
    size_t n = get_count(r, r->rest.n);
    qp_str text = {r->rest.p, n};
    r->rest = (qp_str){r->rest.p + n, r->rest.n - n};
    return text;
}

static int add_edge(struct reader *r, const struct result_node *from)
{
    const struct result_graph *g = r->g;
    struct result_edge e = {.from = from};
    e.to = g->nodes[get_count(r, g->node_count - 1)];
    e.requirement = get_text(r);
    e.kind = get_text(r);
    e.scope = (enum carto_scope)get_count(r, CARTO_EXTRA);
    return r->is_bad ? QP_E_CORRUPT : result_graph_add_edge(r->g, &e);
}

static int read_node(struct reader *r, struct result_node *n)
{
    unsigned flags;
    struct buf id;
    bool is_copied;
    n->package.id.type = get_text(r);
    n->package.id.name = get_text(r);
    n->package.version = get_text(r);
    n->level = get_count(r, LIMIT_CARTO_LEVELS);
    flags = (unsigned)get_count(r, FLAG_FRONTIER | FLAG_VIRTUAL);
    n->is_frontier = (flags & FLAG_FRONTIER) != 0;
    n->is_virtual = (flags & FLAG_VIRTUAL) != 0;
    n->errors = get_text(r);
    n->edge_count = get_count(r, r->rest.n);
    n->first_edge = r->g->edge_count;
    if (r->is_bad || n->package.id.type.n == 0) {
        return QP_E_CORRUPT;
    }
    buf_init(&id, r->g->env, 0);
    result_purl(&id, &n->package);
    is_copied = buf_rc(&id) == QP_OK && arena_copy(&r->g->memory, buf_slice(&id), &n->id);
    buf_done(&id);
    for (size_t i = 0; is_copied && i < n->edge_count; i++) {
        QP_TRY(add_edge(r, n));
    }
    return is_copied ? QP_OK : QP_E_NOMEM;
}

static int read_graph(struct reader *r)
{
    struct result_graph *g = r->g;
    struct result_node *nodes;
    if (get_number(r) != VERSION) {
        return QP_E_CORRUPT;
    }
    g->root_count = get_count(r, LIMIT_CARTO_ITEMS);
    g->node_count = get_count(r, r->rest.n);
    if (r->is_bad || g->node_count == 0 || g->root_count > g->node_count) {
        return QP_E_CORRUPT;
    }
    nodes = arena_alloc(&g->memory, g->node_count * sizeof *nodes);
    g->nodes = arena_alloc(&g->memory, g->node_count * sizeof *g->nodes);
    if (nodes == NULL || g->nodes == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < g->node_count; i++) {
        g->nodes[i] = &nodes[i];
        nodes[i].index = i;
        nodes[i].root = i < g->root_count ? i + 1 : 0;
    }
    for (size_t i = 0; i < g->node_count; i++) {
        size_t index = get_count(r, g->node_count - 1);
        QP_TRY(nodes[index].id.n == 0 ? read_node(r, &nodes[index]) : QP_E_CORRUPT);
    }
    return r->rest.n == 0 ? QP_OK : QP_E_CORRUPT;
}

static int get_page(struct store *s, struct arena *a, const struct job_row *job, size_t index,
                    qp_str *out_page, struct qp_err *err)
{
    struct data_row key = {.ns = job->ns, .job = job->job};
    const void *row = NULL;
    QP_TRY(kept_page_name(a, index, &key.name));
    QP_TRY(store_get(s, a, TABLE_data, &key, &row, err));
    *out_page = ((const struct data_row *)row)->value;
    return QP_OK;
}

/* The size that the first page has before it. */
static bool size_of(qp_str page, size_t *out_size)
{
    size_t size = 0;
    for (size_t i = 0; i < SIZE_DIGITS; i++) {
        char c = page.n > SIZE_DIGITS ? page.p[i] : 'x';
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            return false;
        }
        size = size * 16 + (size_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *out_size = size;
    return size >= page.n;
}

/* All pages as one text, in the memory of the graph. */
static int gather(struct result_graph *g, struct store *s, const struct job_row *job,
                  qp_str *out_bytes, struct qp_err *err)
{
    size_t size = 0;
    size_t filled = 0;
    char *bytes = NULL;
    qp_str page;
    QP_TRY(get_page(s, &g->memory, job, 0, &page, err));
    if (!size_of(page, &size) || (bytes = arena_bytes(&g->memory, size)) == NULL) {
        return bytes == NULL && size > 0 ? QP_E_NOMEM : QP_E_CORRUPT;
    }
    for (size_t i = 1; filled + page.n <= size; i++) {
        memcpy(bytes + filled, page.p, page.n);
        filled += page.n;
        if (filled == size) {
            *out_bytes = (qp_str){bytes, size};
            return QP_OK;
        }
        QP_TRY(get_page(s, &g->memory, job, i, &page, err));
    }
    return QP_E_CORRUPT;
}

int kept_open(struct result_graph *g, struct store *s, const struct job_row *job,
              struct qp_err *err)
{
    struct reader r = {.g = g};
    qp_str bytes = QP_NONE;
    result_graph_init(g, store_env(s));
    QP_TRY(gather(g, s, job, &bytes, err));
    r.rest = (qp_str){bytes.p + SIZE_DIGITS, bytes.n - SIZE_DIGITS};
    return read_graph(&r);
}
