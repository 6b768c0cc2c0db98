/* result_saved.c - a saved result (see result_saved.h)
 *
 * The text may have some hundred thousand objects: it is checked once, and then read where it stands.
 */
#include "carto/result_saved.h"

#include "base/json.h"
#include "carto/rows.h"

struct saved {
    struct result_graph *g;
    struct result_saved *out;
    struct qp_err *err;
    uint64_t root_count;
    qp_str nodes; /* the arrays, as they stand */
    qp_str edges;
};

static int refuse(const struct saved *s, const char *what)
{
    return err_set(s->err, QP_E_SHAPE,
                   "it is not a result of quipu carto -o json: %s; save one with quipu carto "
                   "result ID -o json",
                   what);
}

static bool take_text(const struct saved *s, const struct raw_walk *w, const char *key, qp_str *out)
{
    return !str_equal(w->key, str_from(key)) || raw_text(s->g->env, &s->g->memory, w->value, out);
}

static int read_head(struct saved *s, qp_str text)
{
    struct raw_walk w = {.rest = text};
    bool is_good = raw_first(text) == '{';
    while (is_good && raw_each(&w)) {
        if (str_equal(w.key, QP_STR("nodes"))) {
            s->nodes = w.value;
        } else if (str_equal(w.key, QP_STR("edges"))) {
            s->edges = w.value;
        } else {
            is_good = take_text(s, &w, "universe", &s->out->universe) &&
                      take_text(s, &w, "hash", &s->out->hash);
        }
    }
    is_good = is_good && s->nodes.n > 0 && raw_first(s->nodes) == '[' && s->edges.n > 0 &&
              raw_first(s->edges) == '[';
    return is_good ? QP_OK : refuse(s, "it has no members nodes and edges");
}

/* "CODE\tsentence\n" each, as result_graph.h says. */
static bool read_errors(const struct saved *s, qp_str list, qp_str *out)
{
    struct raw_walk w = {.rest = list};
    bool is_good = raw_first(list) == '[';
    while (is_good && raw_each(&w)) {
        struct raw_walk error = {.rest = w.value};
        qp_str code = QP_STR("");
        qp_str message = QP_STR("");
        is_good = raw_first(w.value) == '{';
        while (is_good && raw_each(&error)) {
            is_good =
                take_text(s, &error, "code", &code) && take_text(s, &error, "message", &message);
        }
        is_good = is_good && carto_print(&s->g->memory, out, "%.*s%.*s\t%.*s\n", STR_ARG(*out),
                                         STR_ARG(code), STR_ARG(message)) == QP_OK;
    }
    return is_good;
}

static bool read_member(const struct saved *s, const struct raw_walk *w, struct result_node *n,
                        qp_str *relation)
{
    int64_t level = 0;
    if (str_equal(w->key, QP_STR("depth"))) {
        bool is_number = number_read(w->value, &level);
        n->level = (uint64_t)level;
        return is_number;
    }
    if (str_equal(w->key, QP_STR("errors"))) {
        return read_errors(s, w->value, &n->errors);
    }
    if (str_equal(w->key, QP_STR("frontier"))) {
        n->is_frontier = raw_first(w->value) == 't';
    }
    if (str_equal(w->key, QP_STR("virtual"))) {
        n->is_virtual = raw_first(w->value) == 't';
    }
    return take_text(s, w, "relation", relation);
}

static bool read_package(const struct saved *s, qp_str text, struct carto_package *out)
{
    struct raw_walk w = {.rest = text};
    bool is_good = raw_first(text) == '{';
    while (is_good && raw_each(&w)) {
        bool has_version = str_equal(w.key, QP_STR("version")) && raw_first(w.value) == '"';
        is_good = take_text(s, &w, "type", &out->id.type) &&
                  take_text(s, &w, "name", &out->id.name) &&
                  (!has_version || take_text(s, &w, "version", &out->version));
    }
    return is_good && out->id.type.n > 0 && out->id.name.n > 0;
}

static int read_node(struct saved *s, qp_str text)
{
    struct raw_walk w = {.rest = text};
    struct carto_package package = {0};
    struct result_node *n = NULL;
    qp_str relation = QP_NONE;
    bool is_good = read_package(s, text, &package);
    if (!is_good) {
        return refuse(s, "a node has no type or no name");
    }
    QP_TRY(result_graph_node(s->g, &package, 0, &n));
    while (is_good && raw_each(&w)) {
        is_good = read_member(s, &w, n, &relation);
    }
    n->root = str_equal(relation, QP_STR("root")) ? ++s->root_count : 0;
    return is_good ? QP_OK : refuse(s, "a member of a node is not what it should be");
}

static bool read_scope(qp_str text, enum carto_scope *out)
{
    for (enum carto_scope scope = CARTO_RUNTIME; scope <= CARTO_EXTRA; scope++) {
        if (str_equal(text, str_from(carto_scope_text(scope)))) {
            *out = scope;
            return true;
        }
    }
    return false;
}

static int read_edge(struct saved *s, qp_str text)
{
    struct raw_walk w = {.rest = text};
    struct result_edge e = {.scope = CARTO_RUNTIME};
    qp_str from = QP_STR("");
    qp_str to = QP_STR("");
    qp_str scope = QP_STR("");
    bool is_good = raw_first(text) == '{';
    while (is_good && raw_each(&w)) {
        is_good = take_text(s, &w, "from", &from) && take_text(s, &w, "to", &to) &&
                  take_text(s, &w, "requirement", &e.requirement) &&
                  take_text(s, &w, "kind", &e.kind) && take_text(s, &w, "scope", &scope);
    }
    e.from = omap_get(&s->g->by_id, from);
    e.to = omap_get(&s->g->by_id, to);
    if (!is_good || e.from == NULL || e.to == NULL || !read_scope(scope, &e.scope)) {
        return refuse(s, "an edge has no scope, or leads to what is no node");
    }
    return result_graph_add_edge(s->g, &e);
}

static int read_all(struct saved *s, qp_str text)
{
    struct raw_walk w;
    QP_TRY(read_head(s, text));
    w = (struct raw_walk){.rest = s->nodes};
    while (raw_each(&w)) {
        QP_TRY(read_node(s, w.value));
    }
    w = (struct raw_walk){.rest = s->edges};
    while (raw_each(&w)) {
        QP_TRY(read_edge(s, w.value));
    }
    return result_graph_sort(s->g);
}

int saved_open(struct result_graph *g, const struct qp_env *env, qp_str text,
               struct result_saved *out, struct qp_err *err)
{
    const struct json_limits limits = {.size = LIMIT_CARTO_SAVED_SIZE};
    struct result_saved said = {.universe = QP_STR(""), .hash = QP_STR("")};
    struct saved s = {.g = g, .out = &said, .err = err};
    result_graph_init(g, env);
    QP_TRY(json_check(env, text, &limits, err));
    QP_TRY(read_all(&s, text));
    *out = said;
    return QP_OK;
}
