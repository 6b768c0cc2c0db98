/* external.c - definitions of external types, and what the engine does of them itself (see external.h) */
#include "carto/external.h"

#include <stdio.h>

/* ------------------------------------------------------------------------------------------ names */

int external_check_name(qp_str name, struct qp_err *err)
{
    bool is_good =
        name.n > 0 && name.n <= LIMIT_CARTO_TYPE_SIZE && name.p[0] >= 'a' && name.p[0] <= 'z';
    for (size_t i = 1; is_good && i < name.n; i++) {
        char c = name.p[i];
        is_good =
            (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '+' || c == '-';
    }
    return is_good
               ? QP_OK
               : err_set(
                     err, QP_E_INVALID,
                     "a package type must be 1 to 32 of a-z, 0-9, '.', '+' and '-' (LIMIT_CARTO_TYPE_SIZE), "
                     "beginning with a letter, got '%.*s'",
                     STR_ARG(name));
}

bool external_word_is_good(qp_str word, bool is_pattern)
{
    bool is_good = word.n > 0 && word.n <= LIMIT_CARTO_NAME_SIZE;
    for (size_t i = 0; is_good && i < word.n; i++) {
        unsigned char c = (unsigned char)word.p[i];
        is_good = c > ' ' && c != 0x7f && (c != '@' || i == 0) && (c != '*' || is_pattern);
    }
    return is_good;
}

static int check_name(qp_str name, bool is_pattern, struct qp_err *err)
{
    return external_word_is_good(name, is_pattern)
               ? QP_OK
               : err_set(
                     err, QP_E_INVALID,
                     "a package name must be 1 to 255 bytes (LIMIT_CARTO_NAME_SIZE) without spaces, '*' "
                     "and control characters, and with '@' at most in front, got '%.*s'",
                     STR_ARG(name));
}

static int check_version(qp_str version, struct qp_err *err)
{
    return external_word_is_good(version, false) && version.p[0] != '@'
               ? QP_OK
               : err_set(
                     err, QP_E_INVALID,
                     "a version must be 1 to 255 bytes without spaces, '@', '*' and control characters, got '%.*s'",
                     STR_ARG(version));
}

/* ---------------------------------------------------------------------------------- type of a request */

static int options(struct arena *a, const struct json *given, enum carto_scope scope,
                   const void **out_options, struct qp_err *err)
{
    qp_str *kept = ARENA_NEW(a, qp_str);
    struct buf text;
    struct json_writer w;
    bool is_copied;
    (void)scope;
    (void)err;
    if (kept == NULL) {
        return QP_E_NOMEM;
    }
    *out_options = kept;
    *kept = QP_NONE;
    if (given == NULL) {
        return QP_OK;
    }
    buf_init(&text, a->env, 0);
    json_writer_init(&w, &text);
    json_write_tree(&w, given);
    is_copied = json_writer_done(&w) == QP_OK && arena_copy(a, buf_slice(&text), kept);
    buf_done(&text);
    return is_copied ? QP_OK : QP_E_NOMEM;
}

qp_str external_options(const struct carto_use *use)
{
    return use->options == NULL ? QP_NONE : *(const qp_str *)use->options;
}

/* NAME or NAME@VERSION */
static int root(const struct carto_request *r, struct arena *a, qp_str text, struct carto_item *out,
                struct qp_err *err)
{
    const char *at = text.n > 1 ? memrchr(text.p + 1, '@', text.n - 1) : NULL;
    qp_str name = {text.p, at == NULL ? text.n : (size_t)(at - text.p)};
    (void)r;
    (void)a;
    QP_TRY(check_name(name, false, err));
    out->target.name = name;
    if (at != NULL) {
        out->advice = (qp_str){at + 1, text.n - name.n - 1};
        QP_TRY(check_version(out->advice, err));
        out->is_selected = true;
        out->selected = (struct carto_package){out->target, out->advice};
    }
    return QP_OK;
}

static int check_override(const struct carto_request *r, struct arena *a,
                          const struct carto_override *override, struct qp_err *err)
{
    (void)r;
    (void)a;
    QP_TRY(check_name(override->package.id.name, false, err));
    return check_version(override->package.version, err);
}

/* What was chosen before; all else is asked of a worker. */
static int choose(const struct carto_request *r, struct arena *a, const struct carto_item *item,
                  struct carto_selection *out, struct carto_outcome *outcome, struct qp_err *err)
{
    struct carto_selection chosen = {0};
    bool is_chosen = false;
    (void)a;
    (void)err;
    QP_TRY(carto_chosen(r, item->target, &is_chosen, &chosen.package));
    outcome->result = is_chosen ? CARTO_AVOIDED : CARTO_WANTS;
    if (is_chosen) {
        chosen.is_virtual = chosen.package.version.n == 0;
        chosen.advice_ignored =
            item->advice.n > 0 && !str_equal(chosen.package.version, item->advice);
        *out = chosen;
    }
    return QP_OK;
}

static int resolve(const struct carto_request *r, struct arena *a, const struct carto_item *item,
                   struct carto_relations *out, struct carto_outcome *outcome, struct qp_err *err)
{
    (void)r;
    (void)a;
    (void)item;
    (void)out;
    (void)err;
    outcome->result = CARTO_WANTS;
    return QP_OK;
}

static const struct carto_type pattern = {.options = options,
                                          .check_name = check_name,
                                          .root = root,
                                          .check_override = check_override,
                                          .select = choose,
                                          .resolve = resolve};

/* ------------------------------------------------------------------------------------- definitions */

struct defining {
    struct arena *arena;
    const struct json *text;
    struct carto_external *e;
    struct qp_err *err;
};

static int refuse(const struct defining *d, const char *member, const char *sentence, qp_str value)
{
    (void)err_set(d->err, QP_E_SHAPE, "%s %s, got '%.*s'", member, sentence, STR_ARG(value));
    return err_point(d->err, QP_E_SHAPE, "/%s", member);
}

static int refuse_definition(const struct defining *d, const char *sentence, qp_str value)
{
    return err_set(d->err, QP_E_SHAPE, "the definition %s, got '%.*s'", sentence, STR_ARG(value));
}

static int read_mode(struct defining *d)
{
    qp_str text = QP_NONE;
    if (!json_as_str(json_get(d->text, QP_STR("mode")), &text) ||
        (!str_equal(text, QP_STR("pure")) && !str_equal(text, QP_STR("ordered")))) {
        return refuse(d, "mode", "must be pure or ordered", text);
    }
    d->e->type.mode = str_equal(text, QP_STR("ordered")) ? CARTO_ORDERED : CARTO_PURE;
    return QP_OK;
}

static bool is_own(qp_str topic, const char *step, qp_str name)
{
    char text[LIMIT_CARTO_TYPE_SIZE + 32];
    int n = snprintf(text, sizeof text, "carto.%s.%.*s", step, STR_ARG(name));
    QP_ASSERT(n > 0 && (size_t)n < sizeof text);
    return str_equal(topic, (qp_str){text, (size_t)n});
}

static int read_topic(struct defining *d, const char *step, bool has_default, qp_str *out_topic)
{
    const struct json *given = json_get(d->text, str_from(step));
    qp_str text = QP_NONE;
    if (given == NULL) {
        return has_default
                   ? carto_print(d->arena, out_topic, "carto.%s.%.*s", step, STR_ARG(d->e->name))
                   : QP_OK;
    }
    if (!json_as_str(given, &text) || topic_check(text, NULL) != QP_OK ||
        (text.n >= 6 && memcmp(text.p, "carto.", 6) == 0 && !is_own(text, step, d->e->name))) {
        return refuse(d, step,
                      "must be the name of a topic; of those that begin with 'carto.' only its own",
                      text);
    }
    return arena_copy(d->arena, text, out_topic) ? QP_OK : QP_E_NOMEM;
}

static int read_members(struct defining *d)
{
    static const char *const members[] = {"type", "mode", "select-sync", "select", "resolve"};
    struct json_walk w = {0};
    if (!json_is(d->text, JSON_KIND_OBJECT)) {
        return refuse_definition(d, "must be an object with the member mode", QP_NONE);
    }
    while (json_each(d->text, &w)) {
        size_t i = 0;
        while (i < ARRAY_COUNT(members) && !str_equal(w.key, str_from(members[i]))) {
            i++;
        }
        if (i == ARRAY_COUNT(members)) {
            return refuse_definition(d, "has mode, select-sync, select and resolve", w.key);
        }
    }
    QP_TRY(read_mode(d));
    QP_TRY(read_topic(d, "select-sync", false, &d->e->select_sync));
    QP_TRY(read_topic(d, "select", true, &d->e->select));
    return read_topic(d, "resolve", true, &d->e->resolve);
}

/* A digest of all that it says. */
static int name_universe(struct arena *a, struct carto_external *e)
{
    struct hash_stream h;
    char hash[HASH_TEXT_SIZE];
    qp_str text;
    QP_TRY(external_write(a, e, &text));
    hash_stream_init(&h);
    hash_stream_add(&h, text.p, text.n);
    hash_stream_end(&h, hash);
    return arena_copy(a, (qp_str){hash, 16}, &e->universe) ? QP_OK : QP_E_NOMEM;
}

static int make(struct defining *d, qp_str name)
{
    struct carto_external *e = d->e;
    char *text = arena_bytes(d->arena, name.n + 1);
    if (text == NULL) {
        return QP_E_NOMEM;
    }
    memcpy(text, name.p, name.n);
    text[name.n] = '\0';
    e->name = (qp_str){text, name.n};
    e->type = pattern;
    e->type.name = text;
    e->type.external = e;
    QP_TRY(read_members(d));
    return name_universe(d->arena, e);
}

int external_read(struct arena *a, qp_str name, qp_str definition,
                  const struct carto_external **out_external, struct qp_err *err)
{
    struct defining d = {.arena = a, .e = ARENA_NEW(a, struct carto_external), .err = err};
    struct json *text = NULL;
    int rc;
    if (d.e == NULL) {
        return QP_E_NOMEM;
    }
    QP_TRY(external_check_name(name, err));
    QP_TRY(json_parse(a->env, definition, err, &text));
    d.text = text;
    rc = make(&d, name);
    json_free(text);
    QP_TRY(rc);
    *out_external = d.e;
    return QP_OK;
}

int external_write(struct arena *a, const struct carto_external *e, qp_str *out_text)
{
    const char *mode = e->type.mode == CARTO_ORDERED ? "ordered" : "pure";
    qp_str sync = QP_STR("");
    if (!str_is_none(e->select_sync)) {
        QP_TRY(carto_print(a, &sync, ",\"select-sync\":\"%.*s\"", STR_ARG(e->select_sync)));
    }
    return carto_print(
        a, out_text,
        "{\"type\":\"%.*s\",\"mode\":\"%s\"%.*s,\"select\":\"%.*s\",\"resolve\":\"%.*s\"}",
        STR_ARG(e->name), mode, STR_ARG(sync), STR_ARG(e->select), STR_ARG(e->resolve));
}
