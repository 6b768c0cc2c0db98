/* format_items.c - formats of items: JSON lines, and tree text (see format.h)
 *
 * The tree is a depth-first walk over levels that are each in the order of paths: visited depth first, the items of one
 * level come in that same order. So one index per level is all there is to keep; what follows an item is the next one
 * of the level below if the item is its parent, else the next one of the nearest level above that has a sibling.
 */
#include "carto/format_items.h"

#include "carto/format_output.h"
#include "carto/result_graph.h"

/* ------------------------------------------------------------------------------------------ JSON lines */

static void put_path(struct json_writer *w, struct buf *room, const char *key, qp_str path)
{
    buf_reset(room);
    path_print(room, path);
    member_put_text(w, key, buf_slice(room));
}

static void put_exclusions(struct json_writer *w, qp_str set)
{
    if (set.n == 0) {
        return;
    }
    json_key(w, QP_STR("exclusions"));
    json_begin_array(w);
    while (set.n > 0) {
        const char *newline = memchr(set.p, '\n', set.n);
        size_t size = newline != NULL ? (size_t)(newline - set.p) : set.n;
        json_put_str(w, (qp_str){set.p, size});
        size += newline != NULL ? 1 : 0;
        set = (qp_str){set.p + size, set.n - size};
    }
    json_end_array(w);
}

static void put_selected(struct json_writer *w, struct buf *room, const struct carto_item *item)
{
    if (item->is_selected) {
        buf_reset(room);
        result_purl(room, &item->selected);
        member_put_text(w, "selected", buf_slice(room));
    }
    member_put_true(w, "virtual", item->is_virtual);
    member_put_true(w, "advice_ignored", item->advice_ignored);
    member_put_true(w, "frontier", item->is_frontier);
    member_put_true(w, "optional", item->is_optional);
    if (item->state == CARTO_DUPLICATE) {
        put_path(w, room, "duplicate_of", item->duplicate_of);
    }
    if (item->failure != CARTO_NO_FAILURE) {
        member_put_text(w, "error", str_from(carto_failure_text(item->failure)));
        member_put_text(w, "message", item->error);
    }
}

/* The parent's path is the own one without its last ordinal. */
static void put_parent(struct json_writer *w, struct buf *room, qp_str path)
{
    buf_reset(room);
    path_print(room, path);
    while (room->n > 0 && room->p[room->n - 1] != '.') {
        room->n--;
    }
    if (room->n > 0) {
        member_put_text(w, "parent", (qp_str){room->p, room->n - 1});
    }
}

static int write_item(struct buf *line, struct buf *room, const struct carto_item *item)
{
    struct json_writer w;
    json_writer_init(&w, line);
    json_begin_object(&w);
    put_path(&w, room, "path", item->path);
    put_parent(&w, room, item->path);
    json_key(&w, QP_STR("ordinal"));
    json_put_i64(&w, (int64_t)path_ordinal(item->path));
    json_key(&w, QP_STR("depth"));
    json_put_i64(&w, (int64_t)path_level(item->path));
    member_put_text(&w, "type", item->target.type);
    member_put_text(&w, "target", item->target.name);
    member_put_some(&w, "advice", item->advice);
    member_put_text(&w, "kind", item->kind);
    member_put_some(&w, "via", item->via);
    member_put_text(&w, "scope", str_from(carto_scope_text(item->context.scope)));
    put_exclusions(&w, item->context.exclusions);
    member_put_text(&w, "state", str_from(carto_state_text(item->state)));
    put_selected(&w, room, item);
    json_end_object(&w);
    QP_TRY(json_writer_done(&w));
    buf_byte(line, '\n');
    QP_TRY(buf_rc(room));
    return buf_rc(line);
}

static int write_lines(const struct carto_items *items, struct buf *line, struct buf *room,
                       void *context, carto_sink sink)
{
    uint64_t level = 0;
    size_t index = 0;
    for (;;) {
        const struct carto_item *item = NULL;
        int rc = items->get(items->context, level, index, &item);
        if (rc == QP_E_NOT_FOUND && index == 0) {
            return QP_OK;
        }
        if (rc == QP_E_NOT_FOUND) {
            level++;
            index = 0;
            continue;
        }
        QP_TRY(rc);
        buf_reset(line);
        QP_TRY(write_item(line, room, item));
        QP_TRY(sink(context, line->p, line->n));
        index++;
    }
}

int format_jsonl(const struct qp_env *env, const struct carto_items *items, void *context,
                 carto_sink sink)
{
    struct buf line;
    struct buf room;
    int rc = QP_OK;
    buf_init(&line, env, 0);
    buf_init(&room, env, 0);
    rc = write_lines(items, &line, &room, context, sink);
    buf_done(&line);
    buf_done(&room);
    return rc;
}

/* ------------------------------------------------------------------------------------------------ tree */

/* What is kept of an item while those below it are written. */
struct ancestor {
    qp_str path;
    qp_str name; /* the text of its node */
};

struct walk {
    const struct carto_items *items;
    struct arena memory; /* texts of ancestors, with room to spare: it is emptied with every root */
    struct ancestor ancestors[LIMIT_CARTO_LEVELS + 1];
    size_t next[LIMIT_CARTO_LEVELS + 2];
    struct buf line;
    void *context;
    carto_sink sink;
};

/* The next item of a level, if it stands below the given parent (NULL: of the roots, any). */
static int peek(struct walk *w, uint64_t level, const struct ancestor *parent, bool *out_found,
                const struct carto_item **out)
{
    int rc = QP_E_NOT_FOUND;
    if (level <= LIMIT_CARTO_LEVELS) {
        rc = w->items->get(w->items->context, level, w->next[level], out);
    }
    *out_found = rc == QP_OK && (parent == NULL || path_is_parent(parent->path, (*out)->path));
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

static bool is_circular(const struct walk *w, uint64_t level, qp_str name)
{
    for (uint64_t i = 0; i < level; i++) {
        if (str_equal(w->ancestors[i].name, name)) {
            return true;
        }
    }
    return false;
}

static int node_text(struct walk *w, const struct carto_item *item, qp_str *out)
{
    struct carto_package p = result_package(item);
    return carto_print(&w->memory, out, "%.*s:%.*s%s%.*s", STR_ARG(p.id.type), STR_ARG(p.id.name),
                       p.version.n > 0 ? "@" : "", STR_ARG(p.version));
}

static void write_marks(struct walk *w, const struct carto_item *item, uint64_t level, qp_str name)
{
    if (item->is_virtual) {
        buf_text(&w->line, " (virtual)");
    }
    if (item->via.n > 0) {
        buf_printf(&w->line, " (provides %.*s)", STR_ARG(item->via));
    }
    if (item->state == CARTO_DUPLICATE) {
        buf_text(&w->line, is_circular(w, level, name) ? " (circular)" : " (deduped)");
    }
    if (item->is_frontier) {
        buf_text(&w->line, " (...)");
    }
    if (item->state == CARTO_FAILED_ITEM) {
        buf_printf(&w->line, " (%s: %.*s)", carto_failure_text(item->failure),
                   STR_ARG(item->error));
    }
}

static int write_line(struct walk *w, const struct carto_item *item, uint64_t level)
{
    struct ancestor *own = &w->ancestors[level];
    bool is_copied = arena_copy(&w->memory, item->path, &own->path);
    QP_TRY(is_copied ? node_text(w, item, &own->name) : QP_E_NOMEM);
    buf_reset(&w->line);
    for (uint64_t i = 0; i < level; i++) {
        buf_text(&w->line, "  ");
    }
    buf_str(&w->line, own->name);
    write_marks(w, item, level, own->name);
    buf_byte(&w->line, '\n');
    QP_TRY(buf_rc(&w->line));
    return w->sink(w->context, w->line.p, w->line.n);
}

static int walk_items(struct walk *w)
{
    uint64_t level = 0;
    for (;;) {
        const struct carto_item *item = NULL;
        bool is_found = false;
        QP_TRY(peek(w, level, level > 0 ? &w->ancestors[level - 1] : NULL, &is_found, &item));
        if (is_found) {
            if (level == 0) {
                arena_reset(&w->memory);
            }
            QP_TRY(write_line(w, item, level));
            w->next[level]++;
            level++;
        } else if (level == 0) {
            return QP_OK;
        } else {
            level--;
        }
    }
}

int format_tree(const struct qp_env *env, const struct carto_items *items, void *context,
                carto_sink sink)
{
    struct walk *w = mem_alloc(env, sizeof(*w));
    int rc = QP_OK;
    if (w == NULL) {
        return QP_E_NOMEM;
    }
    w->items = items;
    w->context = context;
    w->sink = sink;
    arena_init(&w->memory, env, LIMIT_CARTO_UNIVERSE_SIZE);
    buf_init(&w->line, env, 0);
    rc = walk_items(w);
    buf_done(&w->line);
    arena_done(&w->memory);
    mem_free(env, w);
    return rc;
}
