/* deb_version.c - the grammar and the order of Debian's versions (see deb_version.h) */
#include "carto/deb_version.h"

struct parts {
    qp_str epoch;
    qp_str upstream;
    qp_str revision;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static struct parts split(qp_str v)
{
    struct parts p = {.upstream = v};
    const char *colon = v.n > 0 ? memchr(v.p, ':', v.n) : NULL;
    const char *dash = NULL;
    if (colon != NULL) {
        p.epoch = (qp_str){v.p, (size_t)(colon - v.p)};
        p.upstream = (qp_str){colon + 1, v.n - p.epoch.n - 1};
    }
    dash = p.upstream.n > 0 ? memrchr(p.upstream.p, '-', p.upstream.n) : NULL;
    if (dash != NULL) {
        size_t before = (size_t)(dash - p.upstream.p);
        p.revision = (qp_str){dash + 1, p.upstream.n - before - 1};
        p.upstream.n = before;
    }
    return p;
}

/* ---------------------------------------------------------------------------------------- grammar */

static int bad(qp_str version, const char *where, const char *allowed, struct qp_err *err)
{
    return err_set(err, QP_E_INVALID, "bad version '%.*s' at byte %zu: %s",
                   (int)(version.n < LIMIT_LOG_ECHO_SIZE ? version.n : LIMIT_LOG_ECHO_SIZE),
                   version.p != NULL ? version.p : "", (size_t)(where - version.p), allowed);
}

static int check_epoch(qp_str version, qp_str epoch, struct qp_err *err)
{
    for (size_t i = 0; i < epoch.n; i++) {
        if (!is_digit(epoch.p[i])) {
            return bad(version, epoch.p + i, "an epoch has digits only", err);
        }
    }
    if (epoch.p != NULL && (epoch.n == 0 || epoch.n > LIMIT_DEB_EPOCH_DIGITS)) {
        return bad(version, epoch.p, "an epoch has one to nine digits", err);
    }
    return QP_OK;
}

static int check_part(qp_str version, qp_str part, const char *marks, const char *allowed,
                      struct qp_err *err)
{
    for (size_t i = 0; i < part.n; i++) {
        char c = part.p[i];
        if (!is_digit(c) && !is_letter(c) && (c == '\0' || strchr(marks, c) == NULL)) {
            return bad(version, part.p + i, allowed, err);
        }
    }
    return QP_OK;
}

int deb_version_check(qp_str version, struct qp_err *err)
{
    struct parts p = split(version);
    if (version.n == 0 || version.n > LIMIT_DEB_VERSION_SIZE) {
        return err_set(err, QP_E_INVALID, "a version has between 1 and %d bytes, got %zu",
                       LIMIT_DEB_VERSION_SIZE, version.n);
    }
    QP_TRY(check_epoch(version, p.epoch, err));
    if (p.upstream.n == 0) {
        return bad(version, p.upstream.p, "expected an upstream version", err);
    }
    QP_TRY(check_part(version, p.upstream, p.epoch.p != NULL ? ".+-~:" : ".+-~",
                      "allowed are letters, digits and . + - ~", err));
    if (p.revision.p != NULL && p.revision.n == 0) {
        return bad(version, p.revision.p, "expected a revision behind '-'", err);
    }
    return check_part(version, p.revision, ".+~", "a revision has letters, digits and . + ~ only",
                      err);
}

/* ------------------------------------------------------------------------------------------ order */

/* The weight of a character in a part without digits; the end and a digit weigh 0. */
static int weight(qp_str s, size_t at)
{
    if (at >= s.n || is_digit(s.p[at])) {
        return 0;
    }
    if (s.p[at] == '~') {
        return -1;
    }
    return is_letter(s.p[at]) ? s.p[at] : s.p[at] + 256;
}

static int compare_words(qp_str a, size_t *at_a, qp_str b, size_t *at_b)
{
    while ((*at_a < a.n && !is_digit(a.p[*at_a])) || (*at_b < b.n && !is_digit(b.p[*at_b]))) {
        int difference = weight(a, *at_a) - weight(b, *at_b);
        if (difference != 0) {
            return difference;
        }
        (*at_a)++;
        (*at_b)++;
    }
    return 0;
}

/* The digits from `at` on, without leading zeros. */
static qp_str take_number(qp_str s, size_t *at)
{
    size_t start = 0;
    while (*at < s.n && s.p[*at] == '0') {
        (*at)++;
    }
    start = *at;
    while (*at < s.n && is_digit(s.p[*at])) {
        (*at)++;
    }
    return (qp_str){start < s.n ? s.p + start : "", *at - start};
}

static int compare_numbers(qp_str a, qp_str b)
{
    if (a.n != b.n) {
        return a.n < b.n ? -1 : 1;
    }
    return a.n == 0 ? 0 : memcmp(a.p, b.p, a.n);
}

static int compare_parts(qp_str a, qp_str b)
{
    size_t at_a = 0;
    size_t at_b = 0;
    while (at_a < a.n || at_b < b.n) {
        int order = compare_words(a, &at_a, b, &at_b);
        if (order == 0) {
            qp_str x = take_number(a, &at_a);
            order = compare_numbers(x, take_number(b, &at_b));
        }
        if (order != 0) {
            return order;
        }
    }
    return 0;
}

int deb_version_compare(qp_str a, qp_str b)
{
    struct parts x = split(a);
    struct parts y = split(b);
    int order = compare_parts(x.epoch, y.epoch);
    if (order == 0) {
        order = compare_parts(x.upstream, y.upstream);
    }
    return order != 0 ? order : compare_parts(x.revision, y.revision);
}

static const char *const op_texts[DEB_OPS] = {"", "<<", "<=", "=", ">=", ">>"};

const char *deb_op_text(enum deb_op op)
{
    QP_ASSERT(op < DEB_OPS);
    return op_texts[op];
}

bool deb_version_satisfies(qp_str version, enum deb_op op, qp_str wanted)
{
    int order = 0;
    QP_ASSERT(op < DEB_OPS);
    if (op == DEB_ANY) {
        return true;
    }
    if (version.n == 0) {
        return false;
    }
    order = deb_version_compare(version, wanted);
    switch (op) {
    case DEB_EARLIER:
        return order < 0;
    case DEB_AT_MOST:
        return order <= 0;
    case DEB_EXACTLY:
        return order == 0;
    case DEB_AT_LEAST:
        return order >= 0;
    default:
        return order > 0;
    }
}
