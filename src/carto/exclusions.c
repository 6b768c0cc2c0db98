/* exclusions.c - sets of patterns as canonical text, and the dominance of contexts (see exclusions.h) */
#include "carto/exclusions.h"

#include <stdlib.h>

/* Takes the first pattern off a set. */
static bool take(qp_str *set, qp_str *out_pattern)
{
    const char *newline = set->n > 0 ? memchr(set->p, '\n', set->n) : NULL;
    if (newline == NULL) {
        return false;
    }
    *out_pattern = (qp_str){set->p, (size_t)(newline - set->p)};
    *set = (qp_str){newline + 1, set->n - out_pattern->n - 1};
    return true;
}

static int compare(const void *a, const void *b)
{
    return str_compare(*(const qp_str *)a, *(const qp_str *)b);
}

int exclusions_make(struct arena *a, const qp_str *patterns, size_t count, qp_str *out_set)
{
    qp_str *sorted = NULL;
    size_t size = 0;
    char *text = NULL;
    if (count > LIMIT_CARTO_EXCLUSIONS) {
        return QP_E_TOO_LARGE;
    }
    *out_set = QP_STR("");
    if (count == 0) {
        return QP_OK;
    }
    sorted = arena_alloc(a, count * sizeof(*sorted));
    for (size_t i = 0; i < count; i++) {
        size += patterns[i].n + 1;
    }
    text = arena_bytes(a, size);
    if (sorted == NULL || text == NULL) {
        return QP_E_NOMEM;
    }
    memcpy(sorted, patterns, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), compare);
    size = 0;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || !str_equal(sorted[i - 1], sorted[i])) {
            memcpy(text + size, sorted[i].p, sorted[i].n);
            text[size + sorted[i].n] = '\n';
            size += sorted[i].n + 1;
        }
    }
    *out_set = (qp_str){text, size};
    return QP_OK;
}

static size_t count_of(qp_str set)
{
    qp_str pattern = QP_NONE;
    size_t count = 0;
    while (take(&set, &pattern)) {
        count++;
    }
    return count;
}

static size_t list(qp_str set, qp_str *out)
{
    size_t count = 0;
    while (take(&set, &out[count])) {
        count++;
    }
    return count;
}

int exclusions_union(struct arena *a, qp_str left, qp_str right, qp_str *out_set)
{
    qp_str *patterns = NULL;
    size_t count = count_of(left) + count_of(right);
    if (left.n == 0 || right.n == 0) {
        *out_set = left.n == 0 ? right : left;
        return QP_OK;
    }
    patterns = arena_alloc(a, count * sizeof(*patterns));
    if (patterns == NULL) {
        return QP_E_NOMEM;
    }
    count = list(left, patterns);
    count += list(right, patterns + count);
    return exclusions_make(a, patterns, count, out_set);
}

bool exclusions_are_subset(qp_str set, qp_str of)
{
    qp_str pattern = QP_NONE;
    qp_str other = QP_NONE;
    while (take(&set, &pattern)) {
        bool is_there = false;
        while (!is_there && take(&of, &other)) {
            is_there = str_equal(pattern, other);
        }
        if (!is_there) {
            return false;
        }
    }
    return true;
}

bool exclusions_pattern_match(qp_str pattern, qp_str name)
{
    size_t at = 0;
    size_t in = 0;
    size_t star = SIZE_MAX; /* the last '*', and how much it has taken */
    size_t taken = 0;
    while (in < name.n) {
        if (at < pattern.n && pattern.p[at] == '*') {
            star = at++;
            taken = in;
        } else if (at < pattern.n && pattern.p[at] == name.p[in]) {
            at++;
            in++;
        } else if (star != SIZE_MAX) {
            at = star + 1;
            in = ++taken;
        } else {
            return false;
        }
    }
    while (at < pattern.n && pattern.p[at] == '*') {
        at++;
    }
    return at == pattern.n;
}

static bool covers(qp_str pattern, qp_str type, qp_str name)
{
    const char *colon = memchr(pattern.p, ':', pattern.n);
    qp_str own = QP_NONE;
    if (colon == NULL) {
        return str_equal(pattern, QP_STR("*"));
    }
    own = (qp_str){pattern.p, (size_t)(colon - pattern.p)};
    return (str_equal(own, QP_STR("*")) || str_equal(own, type)) &&
           exclusions_pattern_match((qp_str){colon + 1, pattern.n - own.n - 1}, name);
}

bool exclusions_match(qp_str set, qp_str type, qp_str name)
{
    qp_str pattern = QP_NONE;
    while (take(&set, &pattern)) {
        if (covers(pattern, type, name)) {
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------------------------------- contexts */

bool carto_scope_admits(enum carto_scope item, enum carto_scope relationship)
{
    if (relationship == CARTO_EXTRA) {
        return false;
    }
    return item == CARTO_BUILD_TIME || relationship == CARTO_RUNTIME;
}

bool context_dominates(const struct carto_context *a, const struct carto_context *b)
{
    return carto_scope_admits(a->scope, b->scope) &&
           exclusions_are_subset(a->exclusions, b->exclusions);
}

const char *carto_scope_text(enum carto_scope scope)
{
    static const char *const texts[] = {"runtime", "build_time", "extra"};
    QP_ASSERT(scope < ARRAY_COUNT(texts));
    return texts[scope];
}
