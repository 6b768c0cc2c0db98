/* npm_spec.c - names and requirements of npm (see npm_spec.h) */
#include "carto/npm_spec.h"

static qp_str trimmed(qp_str text)
{
    while (text.n > 0 && memchr(" \t\n\r\v\f", text.p[0], 6) != NULL) {
        text = (qp_str){text.p + 1, text.n - 1};
    }
    while (text.n > 0 && memchr(" \t\n\r\v\f", text.p[text.n - 1], 6) != NULL) {
        text.n--;
    }
    return text;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool begins_with(qp_str text, const char *what)
{
    size_t n = strlen(what);
    for (size_t i = 0; i < n; i++) {
        if (i >= text.n || lower(text.p[i]) != what[i]) {
            return false;
        }
    }
    return true;
}

static bool ends_with(qp_str text, const char *what)
{
    size_t n = strlen(what);
    return text.n >= n && begins_with((qp_str){text.p + text.n - n, n}, what);
}

/* ------------------------------------------------------------------------------------------- names */

/* What stands in a URL as it is. */
static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-_.!~'()", c) != NULL);
}

static bool part_is_valid(qp_str part)
{
    if (part.n == 0 || part.p[0] == '.') {
        return false;
    }
    for (size_t i = 0; i < part.n; i++) {
        if (!is_plain(part.p[i])) {
            return false;
        }
    }
    return true;
}

bool npm_name_is_valid(qp_str name)
{
    const char *slash;
    if (name.n == 0 || name.n > LIMIT_NPM_NAME_SIZE) {
        return false;
    }
    if (name.p[0] != '@') {
        return name.p[0] != '_' && part_is_valid(name) &&
               !str_equal(name, QP_STR("node_modules")) && !str_equal(name, QP_STR("favicon.ico"));
    }
    slash = memchr(name.p, '/', name.n);
    if (slash == NULL) {
        return false;
    }
    return part_is_valid((qp_str){name.p + 1, (size_t)(slash - name.p) - 1}) &&
           part_is_valid((qp_str){slash + 1, name.n - (size_t)(slash - name.p) - 1});
}

void npm_split(qp_str text, qp_str *out_name, qp_str *out_spec)
{
    const char *at = text.n > 1 ? memchr(text.p + 1, '@', text.n - 1) : NULL;
    *out_name = at == NULL ? text : (qp_str){text.p, (size_t)(at - text.p)};
    *out_spec = at == NULL ? QP_NONE : (qp_str){at + 1, text.n - out_name->n - 1};
}

/* ------------------------------------------------------------------------------------ requirements */

/* What npm takes for a place: a path, a URL, a repository, a file. */
static bool is_place(qp_str text)
{
    return text.n > 0 && (text.p[0] == '.' || memchr(text.p, '/', text.n) != NULL ||
                          memchr(text.p, ':', text.n) != NULL || ends_with(text, ".tgz") ||
                          ends_with(text, ".tar.gz") || ends_with(text, ".tar"));
}

static bool is_tag(qp_str text)
{
    for (size_t i = 0; i < text.n; i++) {
        if (!is_plain(text.p[i]) && text.p[i] != '*') {
            return false;
        }
    }
    return text.n > 0;
}

/* Text that is no alias and has no lock behind it. */
static int read_plain(struct arena *a, qp_str text, struct npm_spec *out)
{
    int rc;
    text = trimmed(text);
    out->text = text.n == 0 ? QP_STR("*") : text;
    out->kind = NPM_SPEC_UNSUPPORTED;
    if (out->text.n > LIMIT_NPM_SPEC_SIZE || is_place(out->text)) {
        return QP_OK;
    }
    if (semver_read(out->text, &out->version)) {
        out->kind = NPM_SPEC_VERSION;
        return QP_OK;
    }
    rc = semver_range_read(a, out->text, &out->range);
    if (rc == QP_OK) {
        out->kind = NPM_SPEC_RANGE;
    } else if (rc == QP_E_INVALID && is_tag(out->text)) {
        out->kind = NPM_SPEC_TAG;
    }
    return rc == QP_E_INVALID ? QP_OK : rc;
}

/* " (1.2.3)" at the end. */
static qp_str take_locked(qp_str *text)
{
    qp_str locked;
    size_t open;
    if (text->n < 4 || text->p[text->n - 1] != ')') {
        return QP_NONE;
    }
    for (open = text->n - 1; open > 0 && text->p[open] != '('; open--) {}
    if (open == 0 || text->p[open - 1] != ' ' || open + 2 == text->n) {
        return QP_NONE;
    }
    locked = (qp_str){text->p + open + 1, text->n - open - 2};
    text->n = open - 1;
    return locked;
}

/* Cuts the local name off: "local@npm:name@^1". */
static qp_str without_local(qp_str text)
{
    for (size_t i = 1; i + 5 <= text.n; i++) {
        if (text.p[i] == '@' && begins_with((qp_str){text.p + i + 1, text.n - i - 1}, "npm:")) {
            return (qp_str){text.p + i + 1, text.n - i - 1};
        }
    }
    return text;
}

int npm_spec_read(struct arena *a, qp_str text, struct npm_spec *out)
{
    struct npm_spec spec = {0};
    qp_str rest = QP_NONE;
    spec.locked = take_locked(&text);
    text = without_local(trimmed(text));
    if (!begins_with(text, "npm:")) {
        QP_TRY(read_plain(a, text, &spec));
        *out = spec;
        return QP_OK;
    }
    npm_split((qp_str){text.p + 4, text.n - 4}, &spec.name, &rest);
    QP_TRY(read_plain(a, str_is_none(rest) ? QP_STR("") : rest, &spec));
    if (!npm_name_is_valid(spec.name)) {
        spec.kind = NPM_SPEC_UNSUPPORTED;
        spec.name = QP_NONE;
        spec.text = text;
    }
    *out = spec;
    return QP_OK;
}

bool npm_spec_admits(const struct npm_spec *spec, qp_str version)
{
    struct semver v;
    if (!str_is_none(spec->locked)) {
        return str_equal(spec->locked, version);
    }
    switch (spec->kind) {
    case NPM_SPEC_VERSION:
        return semver_read(version, &v) && semver_compare(&v, &spec->version) == 0;
    case NPM_SPEC_RANGE:
        return str_equal(spec->text, QP_STR("*")) ||
               (semver_read(version, &v) && semver_range_admits(&spec->range, &v));
    case NPM_SPEC_TAG:
        return true;
    case NPM_SPEC_UNSUPPORTED:
        break;
    }
    return false;
}
