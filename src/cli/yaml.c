/* yaml.c - a JSON tree as YAML: blocks, and scalars as JSON has them
 *
 * Every string is in double quotes, whose escapes are those of JSON: nothing can be read as
 * something else. The depth of a tree is bounded by the reader of JSON.
 */
#include "cli/output.h"

static void put_scalar(FILE *out, const struct json *json)
{
    struct qp_env env;
    struct buf b;
    struct json_writer w;
    qp_env_init(&env);
    buf_init(&b, &env, 0);
    json_writer_init(&w, &b);
    json_write_tree(&w, json);
    print_json(out, buf_slice(&b));
    (void)fputc('\n', out);
    buf_done(&b);
}

static bool is_block(const struct json *json)
{
    return (json_is(json, JSON_KIND_OBJECT) || json_is(json, JSON_KIND_ARRAY)) &&
           json_count(json) > 0;
}

static bool is_plain(qp_str key)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_";
    for (size_t i = 0; i < key.n; i++) {
        if (memchr(letters, key.p[i], sizeof letters - 1) == NULL) {
            return false;
        }
    }
    return key.n > 1 && !str_equal(key, QP_STR("true")) && !str_equal(key, QP_STR("false")) &&
           !str_equal(key, QP_STR("null")) && !str_equal(key, QP_STR("yes")) &&
           !str_equal(key, QP_STR("no")) && !str_equal(key, QP_STR("on")) &&
           !str_equal(key, QP_STR("off"));
}

static void put_key(FILE *out, qp_str key)
{
    struct qp_env env;
    struct buf b;
    struct json_writer w;
    if (is_plain(key)) {
        (void)fprintf(out, "%.*s:", STR_ARG(key));
        return;
    }
    qp_env_init(&env);
    buf_init(&b, &env, 0);
    json_writer_init(&w, &b);
    json_put_str(&w, key);
    print_json(out, buf_slice(&b));
    (void)fputc(':', out);
    buf_done(&b);
}

static void put_node(FILE *out, const struct json *json, int depth);

/* Behind "key:" or "-": a scalar on the same line, or a block below. */
static void put_below(FILE *out, const struct json *json, int depth)
{
    if (is_block(json)) {
        (void)fputc('\n', out);
        put_node(out, json, depth + 1);
    } else {
        (void)fputc(' ', out);
        put_scalar(out, json);
    }
}

static void put_node(FILE *out, const struct json *json, int depth)
{
    struct json_walk w = {0};
    if (!is_block(json)) {
        put_scalar(out, json);
        return;
    }
    while (json_is(json, JSON_KIND_OBJECT) && json_each(json, &w)) {
        (void)fprintf(out, "%*s", 2 * depth, "");
        put_key(out, w.key);
        put_below(out, w.value, depth);
    }
    for (size_t i = 0; json_is(json, JSON_KIND_ARRAY) && i < json_count(json); i++) {
        (void)fprintf(out, "%*s-", 2 * depth, "");
        put_below(out, json_at(json, i), depth);
    }
}

void print_yaml_item(FILE *out, const struct json *json)
{
    (void)fputs("  -", out);
    put_below(out, json, 1);
}

void print_yaml(FILE *out, const struct json *json)
{
    put_node(out, json, 0);
}
