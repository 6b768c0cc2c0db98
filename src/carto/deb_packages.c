/* deb_packages.c - stanzas out of pieces of a list (see deb_packages.h) */
#include "carto/deb_packages.h"

#include <strings.h>

#include "carto/deb_relation.h"

static const char *const field_names[DEB_FIELDS] = {
    "Pre-Depends", "Depends",  "Recommends", "Suggests", "Enhances",     "Conflicts",  "Breaks",
    "Replaces",    "Provides", "Package",    "Version",  "Architecture", "Multi-Arch", "Status",
};

const char *deb_field_name(enum deb_field field)
{
    QP_ASSERT(field < DEB_FIELDS);
    return field_names[field];
}

void deb_packages_init(struct deb_packages *p, const struct qp_env *env, void *context,
                       deb_stanza_sink sink)
{
    *p = (struct deb_packages){.line = 1, .first = 1, .context = context, .sink = sink};
    buf_init(&p->stanza, env, LIMIT_DEB_STANZA_SIZE);
}

void deb_packages_done(struct deb_packages *p)
{
    buf_done(&p->stanza);
}

/* ---------------------------------------------------------------------------------- of one stanza */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static qp_str trimmed(const char *start, const char *end)
{
    while (start < end && (is_space(*start) || *start == '\n')) {
        start++;
    }
    while (end > start && (is_space(end[-1]) || end[-1] == '\n')) {
        end--;
    }
    return (qp_str){start, (size_t)(end - start)};
}

/* DEB_FIELDS: one that is not needed here. */
static enum deb_field field_of(const char *name, size_t size)
{
    for (size_t i = 0; i < DEB_FIELDS; i++) {
        if (strlen(field_names[i]) == size && strncasecmp(field_names[i], name, size) == 0) {
            return (enum deb_field)i;
        }
    }
    return DEB_FIELDS;
}

/* The end of the field that begins at `line`: behind the newline of its last line. Counts its lines. */
static const char *field_end(const char *line, const char *end, int64_t *number)
{
    do {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        QP_ASSERT(newline != NULL); /* a stanza is made of complete lines */
        line = newline + 1;
        (*number)++;
    } while (line < end && is_space(*line));
    return line;
}

static int take_field(struct deb_stanza *s, const char *line, const char *end, int64_t number,
                      struct qp_err *err)
{
    const char *colon = memchr(line, ':', (size_t)(end - line));
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    enum deb_field field = DEB_FIELDS;
    if (colon == NULL || colon == line || colon > newline || is_space(*line)) {
        return err_set(err, QP_E_MALFORMED, "line %lld: expected 'Field: value'",
                       (long long)number);
    }
    field = field_of(line, (size_t)(colon - line));
    if (field == DEB_FIELDS) {
        return QP_OK;
    }
    if (s->fields[field].p != NULL) {
        return err_set(err, QP_E_MALFORMED, "line %lld: %s stands twice in the stanza of line %lld",
                       (long long)number, field_names[field], (long long)s->line);
    }
    s->fields[field] = trimmed(colon + 1, end);
    s->lines[field] = number;
    return QP_OK;
}

static int check_required(const struct deb_stanza *s, struct qp_err *err)
{
    static const enum deb_field required[] = {DEB_PACKAGE, DEB_VERSION, DEB_ARCHITECTURE};
    for (size_t i = 0; i < ARRAY_COUNT(required); i++) {
        if (s->fields[required[i]].n == 0) {
            return err_set(err, QP_E_MALFORMED, "line %lld: the stanza has no %s",
                           (long long)s->line, field_names[required[i]]);
        }
    }
    return QP_OK;
}

static int check_values(const struct deb_stanza *s, struct qp_err *err)
{
    struct qp_err inner = {0};
    if (!deb_name_is_valid(s->fields[DEB_PACKAGE])) {
        return err_set(err, QP_E_MALFORMED, "line %lld: Package is not a name of a package",
                       (long long)s->lines[DEB_PACKAGE]);
    }
    if (deb_version_check(s->fields[DEB_VERSION], &inner) != QP_OK) {
        return err_set(err, QP_E_MALFORMED, "line %lld: %s", (long long)s->lines[DEB_VERSION],
                       inner.text);
    }
    if (!deb_arch_is_valid(s->fields[DEB_ARCHITECTURE])) {
        return err_set(err, QP_E_MALFORMED, "line %lld: Architecture is not an architecture",
                       (long long)s->lines[DEB_ARCHITECTURE]);
    }
    return QP_OK;
}

static int take_stanza(struct deb_packages *p, struct qp_err *err)
{
    struct deb_stanza s = {.line = p->first};
    const char *line = p->stanza.p;
    const char *end = p->stanza.p + p->stanza.n;
    int64_t number = p->first;
    while (line < end) {
        int64_t at = number;
        const char *next = field_end(line, end, &number);
        QP_TRY(take_field(&s, line, next, at, err));
        line = next;
    }
    QP_TRY(check_required(&s, err));
    QP_TRY(check_values(&s, err));
    return p->sink(p->context, &s, err);
}

/* ------------------------------------------------------------------------------------ of the list */

static bool is_blank(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (!is_space(line[i])) {
            return false;
        }
    }
    return true;
}

/* The line from line_start on is complete. */
static int take_line(struct deb_packages *p, struct qp_err *err)
{
    size_t start = p->line_start;
    p->line++;
    if (!is_blank(p->stanza.p + start, p->stanza.n - start - 1)) {
        p->line_start = p->stanza.n;
        return QP_OK;
    }
    p->stanza.n = start;
    if (start > 0) {
        QP_TRY(take_stanza(p, err));
    }
    buf_reset(&p->stanza);
    p->line_start = 0;
    p->first = p->line;
    return QP_OK;
}

static int add(struct deb_packages *p, const char *bytes, size_t size, struct qp_err *err)
{
    buf_add(&p->stanza, bytes, size);
    if (buf_rc(&p->stanza) == QP_E_TOO_LARGE) {
        return err_set(err, QP_E_TOO_LARGE,
                       "line %lld: a stanza has more than %d bytes: is this a list of packages?",
                       (long long)p->first, LIMIT_DEB_STANZA_SIZE);
    }
    return buf_rc(&p->stanza) == QP_OK ? QP_OK : err_set(err, QP_E_NOMEM, "out of memory");
}

int deb_packages_feed(struct deb_packages *p, qp_str bytes, struct qp_err *err)
{
    const char *at = bytes.p;
    const char *end = bytes.p + bytes.n;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t size = newline != NULL ? (size_t)(newline - at) + 1 : (size_t)(end - at);
        QP_TRY(add(p, at, size, err));
        at += size;
        if (newline != NULL) {
            QP_TRY(take_line(p, err));
        }
    }
    return QP_OK;
}

int deb_packages_end(struct deb_packages *p, struct qp_err *err)
{
    if (p->stanza.n == 0) {
        return QP_OK;
    }
    return err_set(err, QP_E_MALFORMED,
                   "line %lld: the list is truncated: it ends inside the stanza of line %lld "
                   "(a whole list ends with an empty line)",
                   (long long)p->line, (long long)p->first);
}
