/* rows.c - the texts of a traversal's rows (see rows.h)
 *
 * Texts of items are written some hundred thousand times per request: they are put together here and not by the writer of
 * json.h. Only strings with bytes that need an escape go through that one.
 */
#include "carto/rows.h"

#include <inttypes.h>
#include <stdio.h>

#include "kernel/address.h"

/* ------------------------------------------------------------------------------------------ texts */

/* A text that is put together in the arena; its room is known beforehand. */
struct text {
    char *p;
    size_t n;
    size_t room;
};

static int text_init(struct text *t, struct arena *a, size_t room)
{
    *t = (struct text){.p = arena_bytes(a, room), .room = room};
    return t->p == NULL ? QP_E_NOMEM : QP_OK;
}

static void text_add(struct text *t, qp_str more)
{
    QP_ASSERT(more.n <= t->room - t->n);
    if (more.n > 0) {
        memcpy(t->p + t->n, more.p, more.n);
        t->n += more.n;
    }
}

static void text_byte(struct text *t, char byte)
{
    QP_ASSERT(t->n < t->room);
    t->p[t->n++] = byte;
}

static qp_str text_done(const struct text *t)
{
    return (qp_str){t->p, t->n};
}

/* An escape is at most six bytes. */
#define ESCAPED(text) (6 * (text).n + 2)

static void text_string(struct text *t, qp_str text)
{
    static const char digits[] = "0123456789abcdef";
    text_byte(t, '"');
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c == '"' || c == '\\') {
            text_byte(t, '\\');
            text_byte(t, (char)c);
        } else if (c < 0x20) {
            text_add(t, QP_STR("\\u00"));
            text_byte(t, digits[c >> 4]);
            text_byte(t, digits[c & 15]);
        } else {
            text_byte(t, (char)c);
        }
    }
    text_byte(t, '"');
}

/* ,"key":  the first without its comma */
static void text_key(struct text *t, const char *key)
{
    text_byte(t, t->n == 0 ? '{' : ',');
    text_byte(t, '"');
    text_add(t, str_from(key));
    text_add(t, QP_STR("\":"));
}

static void text_member(struct text *t, const char *key, qp_str value)
{
    if (value.n > 0) {
        text_key(t, key);
        text_string(t, value);
    }
}

static void text_true(struct text *t, const char *key, bool truth)
{
    if (truth) {
        text_key(t, key);
        text_add(t, QP_STR("true"));
    }
}

static void text_number(struct text *t, const char *key, int64_t number)
{
    char digits[24];
    int n;
    if (number != 0) {
        text_key(t, key);
        n = snprintf(digits, sizeof digits, "%" PRId64, number);
        text_add(t, (qp_str){digits, (size_t)n});
    }
}

static void text_end(struct text *t)
{
    if (t->n == 0) {
        text_byte(t, '{');
    }
    text_byte(t, '}');
}

bool number_read(qp_str text, int64_t *out_number)
{
    int64_t number = 0;
    if (text.n == 0 || text.n > 18) {
        return false;
    }
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9') {
            return false;
        }
        number = number * 10 + (text.p[i] - '0');
    }
    *out_number = number;
    return true;
}

/* ------------------------------------------------------------------------------------------- sums */

#define SUMS(X)                                                                                    \
    X("items", counts.items)                                                                       \
    X("done", counts.done)                                                                         \
    X("duplicate", counts.duplicate)                                                               \
    X("pruned", counts.pruned)                                                                     \
    X("failed", counts.failed)                                                                     \
    X("optional", counts.optional)                                                                 \
    X("excluded", counts.excluded)                                                                 \
    X("cut", counts.cut)                                                                           \
    X("made", made)

int sums_write(struct arena *a, const struct carto_sums *sums, qp_str *out_text)
{
    struct text t;
    QP_TRY(text_init(&t, a, 400));
#define WRITE(key, member) text_number(&t, key, sums->member);
    SUMS(WRITE)
#undef WRITE
    text_end(&t);
    *out_text = text_done(&t);
    return QP_OK;
}

int sums_read(qp_str text, struct carto_sums *out_sums)
{
    struct raw_walk w = {.rest = text};
    struct carto_sums sums = {0};
    while (text.n > 0 && raw_each(&w)) {
        bool is_known = false;
#define READ(name, member)                                                                         \
    if (str_equal(w.key, QP_STR(name))) {                                                          \
        is_known = number_read(w.value, &sums.member);                                             \
    }
        SUMS(READ)
#undef READ
        if (!is_known) {
            return QP_E_CORRUPT;
        }
    }
    *out_sums = sums;
    return QP_OK;
}

/* ------------------------------------------------------------------------------------------ names */

int address_of_item(struct arena *a, qp_str path, qp_str *out_addr)
{
    struct text t;
    QP_ASSERT(path.n > 0 && path.n <= PATH_KEY_SIZE);
    QP_TRY(text_init(&t, a, path.n + 1));
    text_byte(&t, GATE_MARK);
    text_add(&t, path);
    *out_addr = text_done(&t);
    return QP_OK;
}

qp_str path_of(qp_str addr)
{
    qp_str gate = address_gate(addr);
    return str_is_none(gate) || gate.n == addr.n ? QP_NONE : (qp_str){addr.p + 1, addr.n - 1};
}

static int name_of(struct arena *a, char mark, qp_str text, qp_str *out_name)
{
    struct text t;
    if (text.n + 2 > LIMIT_ADDRESS_SIZE) {
        return QP_E_TOO_LARGE;
    }
    QP_TRY(text_init(&t, a, text.n + 2));
    text_byte(&t, mark);
    text_byte(&t, ':');
    text_add(&t, text);
    *out_name = text_done(&t);
    return QP_OK;
}

int node_name(struct arena *a, const struct carto_package *package, qp_str *out_name)
{
    qp_str text;
    QP_TRY(package_write(a, package, &text));
    return name_of(a, 'n', text, out_name);
}

int history_name(struct arena *a, struct carto_id id, qp_str *out_name)
{
    qp_str text;
    QP_TRY(package_write(a, &(struct carto_package){.id = id}, &text));
    return name_of(a, 'h', text, out_name);
}

int pending_name(struct arena *a, char step, qp_str path, qp_str *out_name)
{
    return name_of(a, step, path, out_name);
}

int package_write(struct arena *a, const struct carto_package *package, qp_str *out_text)
{
    struct text t;
    QP_TRY(text_init(&t, a, package->id.type.n + package->id.name.n + package->version.n + 2));
    text_add(&t, package->id.type);
    text_byte(&t, ':');
    text_add(&t, package->id.name);
    if (package->version.n > 0) {
        text_byte(&t, '@');
        text_add(&t, package->version);
    }
    *out_text = text_done(&t);
    return QP_OK;
}

bool id_read(qp_str text, struct carto_id *out_id)
{
    const char *colon = text.n > 0 ? memchr(text.p, ':', text.n) : NULL;
    if (colon == NULL) {
        return false;
    }
    out_id->type = (qp_str){text.p, (size_t)(colon - text.p)};
    out_id->name = (qp_str){colon + 1, text.n - out_id->type.n - 1};
    return out_id->type.n > 0 && out_id->name.n > 0;
}

/* A name may begin with '@', and no version has one. */
bool package_read(qp_str text, struct carto_package *out_package)
{
    struct carto_package p = {0};
    const char *at;
    if (!id_read(text, &p.id)) {
        return false;
    }
    at = p.id.name.n > 0 ? memrchr(p.id.name.p, '@', p.id.name.n) : NULL;
    if (at != NULL && at > p.id.name.p) {
        size_t n = (size_t)(at - p.id.name.p);
        p.version = (qp_str){at + 1, p.id.name.n - n - 1};
        p.id.name.n = n;
    }
    *out_package = p;
    return true;
}

/* ------------------------------------------------------------------------------------------ items */

int item_write(struct arena *a, const struct carto_item *item, qp_str *out_text)
{
    struct text t;
    struct carto_package target = {.id = item->target};
    qp_str id;
    qp_str selected = QP_NONE;
    QP_TRY(package_write(a, &target, &id));
    if (item->is_selected) {
        QP_TRY(package_write(a, &item->selected, &selected));
    }
    QP_TRY(text_init(&t, a,
                     200 + ESCAPED(id) + ESCAPED(selected) + ESCAPED(item->advice) +
                         ESCAPED(item->kind) + ESCAPED(item->via) +
                         ESCAPED(item->context.exclusions)));
    text_member(&t, "target", id);
    text_member(&t, "advice", item->advice);
    text_member(&t, "kind", item->kind);
    text_member(&t, "via", item->via);
    if (item->context.scope != CARTO_RUNTIME) {
        text_member(&t, "scope", str_from(carto_scope_text(item->context.scope)));
    }
    text_member(&t, "exclusions", item->context.exclusions);
    text_member(&t, "selected", selected);
    text_true(&t, "optional", item->is_optional);
    text_end(&t);
    *out_text = text_done(&t);
    return QP_OK;
}

struct reading {
    const struct qp_env *env;
    struct arena *arena;
    struct raw_walk walk;
    bool is_bad;
};

static bool is_key(const struct reading *r, const char *key)
{
    return str_equal(r->walk.key, str_from(key));
}

static qp_str read_text(struct reading *r)
{
    qp_str text = QP_NONE;
    r->is_bad = r->is_bad || !raw_text(r->env, r->arena, r->walk.value, &text);
    return text;
}

static bool read_scope(qp_str text, enum carto_scope *out_scope)
{
    for (enum carto_scope s = CARTO_RUNTIME; s <= CARTO_EXTRA; s++) {
        if (str_equal(text, str_from(carto_scope_text(s)))) {
            *out_scope = s;
            return true;
        }
    }
    return false;
}

static void read_birth(struct reading *r, struct carto_item *item)
{
    if (is_key(r, "target")) {
        r->is_bad = !id_read(read_text(r), &item->target) || r->is_bad;
    } else if (is_key(r, "advice")) {
        item->advice = read_text(r);
    } else if (is_key(r, "kind")) {
        item->kind = read_text(r);
    } else if (is_key(r, "via")) {
        item->via = read_text(r);
    } else if (is_key(r, "scope")) {
        r->is_bad = !read_scope(read_text(r), &item->context.scope) || r->is_bad;
    } else if (is_key(r, "exclusions")) {
        item->context.exclusions = read_text(r);
    } else if (is_key(r, "selected")) {
        item->is_selected = package_read(read_text(r), &item->selected);
        r->is_bad = r->is_bad || !item->is_selected;
    } else {
        r->is_bad = r->is_bad || !is_key(r, "optional");
        item->is_optional = true;
    }
}

int relation_read(const struct qp_env *env, struct arena *a, qp_str text,
                  struct carto_item *out_item)
{
    struct reading r = {.env = env, .arena = a, .walk.rest = text};
    struct carto_item item = {0};
    while (raw_first(text) == '{' && raw_each(&r.walk)) {
        if (!is_key(&r, "ordinal")) {
            read_birth(&r, &item);
        }
    }
    if (r.is_bad || item.target.name.n == 0) {
        return QP_E_CORRUPT;
    }
    *out_item = item;
    return QP_OK;
}

int item_read(const struct qp_env *env, struct arena *a, qp_str path, qp_str text,
              struct carto_item *out_item)
{
    struct carto_item item;
    QP_TRY(relation_read(env, a, text, &item));
    item.path = path;
    if (!path_is_valid(path)) {
        return QP_E_CORRUPT;
    }
    *out_item = item;
    return QP_OK;
}

int ending_write(struct arena *a, const struct carto_item *item, const struct carto_counts *counts,
                 qp_str *out_text)
{
    struct text t;
    qp_str selected = QP_NONE;
    if (item->is_selected) {
        QP_TRY(package_write(a, &item->selected, &selected));
    }
    QP_TRY(text_init(&t, a, 400 + ESCAPED(selected) + item->duplicate_of.n + ESCAPED(item->error)));
    text_member(&t, "state", str_from(carto_state_text(item->state)));
    text_member(&t, "selected", selected);
    text_true(&t, "virtual", item->is_virtual);
    text_true(&t, "advice_ignored", item->advice_ignored);
    text_true(&t, "first", item->is_first);
    text_true(&t, "frontier", item->is_frontier);
    text_member(&t, "duplicate_of", item->duplicate_of);
    text_member(&t, "failure", str_from(carto_failure_text(item->failure)));
    text_member(&t, "message", item->error);
    if (counts != NULL) {
        text_number(&t, "excluded", counts->excluded);
        text_number(&t, "cut", counts->cut);
    }
    text_end(&t);
    *out_text = text_done(&t);
    return QP_OK;
}

int failure_write(struct arena *a, const struct carto_item *item, qp_str *out_text)
{
    struct text t;
    QP_TRY(text_init(&t, a, 100 + ESCAPED(item->error)));
    text_member(&t, "failure", str_from(carto_failure_text(item->failure)));
    text_member(&t, "message", item->error);
    text_end(&t);
    *out_text = text_done(&t);
    return QP_OK;
}

static bool read_state(qp_str text, enum carto_state *out_state)
{
    for (enum carto_state s = CARTO_OPEN; s <= CARTO_FAILED_ITEM; s++) {
        if (str_equal(text, str_from(carto_state_text(s)))) {
            *out_state = s;
            return true;
        }
    }
    return false;
}

static bool read_failure(qp_str text, enum carto_failure *out_failure)
{
    for (enum carto_failure f = CARTO_NO_FAILURE; f < CARTO_FAILURE_COUNT; f++) {
        if (str_equal(text, str_from(carto_failure_text(f)))) {
            *out_failure = f;
            return true;
        }
    }
    return false;
}

static void read_flag(struct reading *r, struct carto_item *item)
{
    if (is_key(r, "virtual")) {
        item->is_virtual = true;
    } else if (is_key(r, "advice_ignored")) {
        item->advice_ignored = true;
    } else if (is_key(r, "first")) {
        item->is_first = true;
    } else if (is_key(r, "frontier")) {
        item->is_frontier = true;
    } else {
        r->is_bad = r->is_bad || !(is_key(r, "excluded") || is_key(r, "cut"));
    }
}

static void read_ending(struct reading *r, struct carto_item *item)
{
    if (is_key(r, "state")) {
        r->is_bad = !read_state(read_text(r), &item->state) || r->is_bad;
    } else if (is_key(r, "selected")) {
        item->is_selected = package_read(read_text(r), &item->selected);
        r->is_bad = r->is_bad || !item->is_selected;
    } else if (is_key(r, "duplicate_of")) {
        item->duplicate_of = read_text(r);
    } else if (is_key(r, "failure")) {
        r->is_bad = !read_failure(read_text(r), &item->failure) || r->is_bad;
    } else if (is_key(r, "message")) {
        item->error = read_text(r);
    } else {
        read_flag(r, item);
    }
}

int ending_read(const struct qp_env *env, struct arena *a, qp_str text, struct carto_item *item)
{
    struct reading r = {.env = env, .arena = a, .walk.rest = text};
    while (text.n > 0 && raw_each(&r.walk)) {
        read_ending(&r, item);
    }
    return r.is_bad ? QP_E_CORRUPT : QP_OK;
}

/* ------------------------------------------------------------------------------------------ marks */

/* A context is "PATH SCOPE SIZE\n" and that many bytes of exclusions. */
int mark_add(struct arena *a, qp_str mark, const struct carto_item *item, qp_str *out_mark)
{
    struct text t;
    qp_str set = item->context.exclusions;
    char numbers[48];
    int n = snprintf(numbers, sizeof numbers, " %d %zu\n", (int)item->context.scope, set.n);
    QP_ASSERT(n > 0 && (size_t)n < sizeof numbers);
    QP_TRY(text_init(&t, a, mark.n + item->path.n + (size_t)n + set.n));
    text_add(&t, mark);
    text_add(&t, item->path);
    text_add(&t, (qp_str){numbers, (size_t)n});
    text_add(&t, set);
    *out_mark = text_done(&t);
    return QP_OK;
}

/* Takes the first context off a mark. */
static bool mark_take(qp_str *mark, qp_str *out_path, struct carto_context *out_context)
{
    const char *space = mark->n > 0 ? memchr(mark->p, ' ', mark->n) : NULL;
    const char *end = mark->n > 0 ? memchr(mark->p, '\n', mark->n) : NULL;
    int64_t size = 0;
    size_t head;
    if (space == NULL || end == NULL || end - space < 4 ||
        !number_read((qp_str){space + 3, (size_t)(end - space) - 3}, &size)) {
        return false;
    }
    head = (size_t)(end - mark->p) + 1;
    if ((size_t)size > mark->n - head) {
        return false;
    }
    *out_path = (qp_str){mark->p, (size_t)(space - mark->p)};
    *out_context =
        (struct carto_context){(enum carto_scope)(space[1] - '0'), {end + 1, (size_t)size}};
    head += (size_t)size;
    *mark = (qp_str){mark->p + head, mark->n - head};
    return out_context->scope <= CARTO_EXTRA;
}

qp_str mark_dominating(qp_str mark, const struct carto_item *item)
{
    struct carto_context context;
    qp_str path;
    while (mark_take(&mark, &path, &context)) {
        if (context_dominates(&context, &item->context)) {
            return path;
        }
    }
    return QP_NONE;
}

bool mark_begins(qp_str mark, qp_str path)
{
    return mark.n > path.n && memcmp(mark.p, path.p, path.n) == 0 && mark.p[path.n] == ' ';
}
