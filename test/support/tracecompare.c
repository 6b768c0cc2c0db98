/* tracecompare.c - JSON trees of traces, compared (see tracecompare.h) */
#include "support/tracecompare.h"

#include <stdio.h>

static void tell(struct tracecompare *c, const char *path, const struct json *expected,
                 const struct json *got)
{
    struct json_writer w;
    if (++c->differences > DIFFERENCES_MAX) {
        return;
    }
    buf_printf(c->out, "step %zu: %s: expected ", c->number, path);
    json_writer_init(&w, c->out);
    json_write_tree(&w, expected);
    buf_text(c->out, ", got ");
    if (got == NULL) {
        buf_text(c->out, "nothing");
    } else {
        json_writer_init(&w, c->out);
        json_write_tree(&w, got);
    }
    buf_byte(c->out, '\n');
}

static bool same_scalar(const struct json *a, const struct json *b)
{
    qp_str x = QP_NONE;
    qp_str y = QP_NONE;
    double i = 0;
    double j = 0;
    bool u = false;
    bool v = false;
    if (json_as_real(a, &i) && json_as_real(b, &j)) {
        return !(i < j) && !(i > j);
    }
    if (b == NULL || json_kind(a) != json_kind(b)) {
        return false;
    }
    if (json_as_bool(a, &u) && json_as_bool(b, &v)) {
        return u == v;
    }
    if (json_as_str(a, &x) && json_as_str(b, &y)) {
        return str_equal(x, y);
    }
    return json_is(a, JSON_KIND_NULL);
}

static bool is_aside(const struct tracecompare *c, qp_str key)
{
    for (size_t i = 0; c->aside != NULL && c->aside[i] != NULL; i++) {
        if (str_equal(key, str_from(c->aside[i]))) {
            return true;
        }
    }
    return false;
}

static void compare_member(struct tracecompare *c, const char *path, qp_str key,
                           struct tracepair pair, bool whole)
{
    char longer[512];
    (void)snprintf(longer, sizeof(longer), "%s/%.*s", path, STR_ARG(key));
    if (!is_aside(c, key)) {
        tracecompare(c, longer, pair, whole);
    }
}

static void compare_objects(struct tracecompare *c, const char *path, struct tracepair pair,
                            bool whole)
{
    struct json_walk walk = {0};
    if (whole && json_count(pair.expected) != json_count(pair.got)) {
        tell(c, path, pair.expected, pair.got);
        return;
    }
    while (json_each(pair.expected, &walk)) {
        const struct json *got = json_get(pair.got, walk.key);
        compare_member(c, path, walk.key, (struct tracepair){walk.value, got}, whole);
    }
}

static void compare_arrays(struct tracecompare *c, const char *path, struct tracepair pair,
                           bool whole)
{
    if (json_count(pair.expected) != json_count(pair.got)) {
        tell(c, path, pair.expected, pair.got);
        return;
    }
    for (size_t i = 0; i < json_count(pair.expected); i++) {
        char index[24];
        int n = snprintf(index, sizeof(index), "%zu", i);
        compare_member(c, path, (qp_str){index, (size_t)n},
                       (struct tracepair){json_at(pair.expected, i), json_at(pair.got, i)}, whole);
    }
}

/* The nesting is that of a state, which json_parse bounds. */
void tracecompare(struct tracecompare *c, const char *path, struct tracepair pair, bool whole)
{
    if (json_is(pair.expected, JSON_KIND_OBJECT) && json_is(pair.got, JSON_KIND_OBJECT)) {
        compare_objects(c, path, pair, whole);
    } else if (json_is(pair.expected, JSON_KIND_ARRAY) && json_is(pair.got, JSON_KIND_ARRAY)) {
        compare_arrays(c, path, pair, whole);
    } else if (!same_scalar(pair.expected, pair.got)) {
        tell(c, path, pair.expected, pair.got);
    }
}

void tracecompare_tell(struct tracecompare *c, const char *path, const char *expected,
                       const char *got)
{
    c->differences++;
    buf_printf(c->out, "step %zu: %s: expected %s, got %s\n", c->number, path, expected, got);
}
