/* json_raw.c - walks over the text of JSON that was checked (see json.h): values stay as they came */
#include "base/json.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip(qp_str *rest, size_t n)
{
    rest->p += n;
    rest->n -= n;
}

static void skip_space(qp_str *rest)
{
    while (rest->n > 0 && is_space(rest->p[0])) {
        skip(rest, 1);
    }
}

/* Past the string that begins here; it ends, since it was checked. */
static size_t string_size(qp_str text)
{
    size_t i = 1;
    while (i < text.n && text.p[i] != '"') {
        i += text.p[i] == '\\' ? 2 : 1;
    }
    return i + 1 < text.n ? i + 1 : text.n;
}

/* Of an object or array, without recursion: only brackets outside of strings count. */
static size_t nested_size(qp_str text)
{
    size_t depth = 0;
    size_t i = 0;
    do {
        char c = text.p[i];
        if (c == '"') {
            i += string_size((qp_str){text.p + i, text.n - i});
            continue;
        }
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        i++;
    } while (depth > 0 && i < text.n);
    return i;
}

static size_t plain_size(qp_str text)
{
    size_t i = 0;
    while (i < text.n && !is_space(text.p[i]) && text.p[i] != ',' && text.p[i] != '}' &&
           text.p[i] != ']') {
        i++;
    }
    return i;
}

static qp_str take_value(qp_str *rest)
{
    qp_str value;
    skip_space(rest);
    value = *rest;
    if (rest->n == 0) {
        return value;
    }
    value.n = rest->p[0] == '"'                        ? string_size(*rest)
              : rest->p[0] == '{' || rest->p[0] == '[' ? nested_size(*rest)
                                                       : plain_size(*rest);
    skip(rest, value.n);
    return value;
}

char raw_first(qp_str text)
{
    skip_space(&text);
    return text.n > 0 ? text.p[0] : 0;
}

bool raw_each(struct raw_walk *w)
{
    skip_space(&w->rest);
    if (!w->begun) {
        QP_ASSERT(w->rest.n > 0 && (w->rest.p[0] == '{' || w->rest.p[0] == '['));
        w->object = w->rest.p[0] == '{';
    } else if (w->rest.n == 0 || w->rest.p[0] != ',') {
        return false;
    }
    skip(&w->rest, 1); /* the bracket, or the comma */
    skip_space(&w->rest);
    if (w->rest.n == 0 || w->rest.p[0] == '}' || w->rest.p[0] == ']') {
        return false;
    }
    if (w->object) {
        qp_str key = take_value(&w->rest);
        w->key = (qp_str){key.p + 1, key.n - 2};
        skip_space(&w->rest);
        skip(&w->rest, 1); /* the colon */
    }
    w->value = take_value(&w->rest);
    w->index = w->begun ? w->index + 1 : 0;
    w->begun = true;
    return true;
}

bool raw_has(qp_str object, const char *name)
{
    struct raw_walk w = {.rest = object};
    while (raw_each(&w)) {
        if (str_equal(w.key, str_from(name)) && !str_equal(w.value, QP_STR("null"))) {
            return true;
        }
    }
    return false;
}

bool raw_text(const struct qp_env *env, struct arena *arena, qp_str value, qp_str *out_text)
{
    struct json *tree = NULL;
    bool good;
    if (value.n < 2 || value.p[0] != '"') {
        return false;
    }
    if (memchr(value.p, '\\', value.n) == NULL) {
        *out_text = (qp_str){value.p + 1, value.n - 2};
        return true;
    }
    good = json_parse(env, value, NULL, &tree) == QP_OK && json_as_str(tree, out_text) &&
           arena_copy(arena, *out_text, out_text);
    json_free(tree);
    return good;
}
