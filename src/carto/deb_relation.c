/* deb_relation.c - reading relationship fields, one atom at a time (see deb_relation.h) */
#include "carto/deb_relation.h"

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_name_char(char c)
{
    return is_alnum(c) || c == '+' || c == '.' || c == '-' || c == '_';
}

static bool is_arch_char(char c)
{
    return is_alnum(c) || c == '-';
}

bool deb_name_is_valid(qp_str name)
{
    if (name.n == 0 || name.n > LIMIT_DEB_NAME_SIZE || !is_alnum(name.p[0])) {
        return false;
    }
    for (size_t i = 0; i < name.n; i++) {
        if (!is_name_char(name.p[i])) {
            return false;
        }
    }
    return true;
}

bool deb_arch_is_valid(qp_str arch)
{
    for (size_t i = 0; i < arch.n; i++) {
        if (!is_arch_char(arch.p[i])) {
            return false;
        }
    }
    return arch.n > 0 && arch.n <= LIMIT_DEB_ARCH_SIZE;
}

/* ---------------------------------------------------------------------------------------- reading */

static int bad(const struct deb_reader *r, const char *expected, struct qp_err *err)
{
    return err_set(err, QP_E_INVALID, "bad relationship at byte %zu of the field: expected %s",
                   r->at, expected);
}

static char peek(const struct deb_reader *r)
{
    return r->at < r->field.n ? r->field.p[r->at] : '\0';
}

static void skip_space(struct deb_reader *r)
{
    while (peek(r) == ' ' || peek(r) == '\t' || peek(r) == '\n' || peek(r) == '\r') {
        r->at++;
    }
}

static bool take(struct deb_reader *r, char c)
{
    skip_space(r);
    if (peek(r) != c || r->at == r->field.n) {
        return false;
    }
    r->at++;
    return true;
}

static qp_str take_while(struct deb_reader *r, bool (*is_part)(char))
{
    size_t start = r->at;
    while (r->at < r->field.n && is_part(r->field.p[r->at])) {
        r->at++;
    }
    return (qp_str){r->field.p + start, r->at - start};
}

static bool is_version_char(char c)
{
    return is_alnum(c) || c == '.' || c == '+' || c == '-' || c == '~' || c == ':';
}

static enum deb_op take_op(struct deb_reader *r)
{
    static const struct {
        const char text[3];
        enum deb_op op;
    } ops[] = {{"<<", DEB_EARLIER}, {"<=", DEB_AT_MOST}, {">=", DEB_AT_LEAST}, {">>", DEB_LATER},
               {"=", DEB_EXACTLY},  {"<", DEB_AT_MOST},  {">", DEB_AT_LEAST}};
    skip_space(r);
    for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
        size_t size = strlen(ops[i].text);
        if (r->field.n - r->at >= size && memcmp(r->field.p + r->at, ops[i].text, size) == 0) {
            r->at += size;
            return ops[i].op;
        }
    }
    return DEB_ANY;
}

static int take_constraint(struct deb_reader *r, struct deb_atom *atom, struct qp_err *err)
{
    struct qp_err inner = {0};
    atom->op = take_op(r);
    if (atom->op == DEB_ANY) {
        return bad(r, "one of << <= = >= >>", err);
    }
    skip_space(r);
    atom->version = take_while(r, is_version_char);
    if (deb_version_check(atom->version, &inner) != QP_OK) {
        r->at -= atom->version.n;
        return bad(r, inner.text, err);
    }
    return take(r, ')') ? QP_OK : bad(r, "')' behind the version", err);
}

/* `pattern` is amd64, any, linux-any or any-amd64; Debian's own systems are linux-*. */
static bool arch_matches(qp_str pattern, qp_str arch)
{
    static const char linux_prefix[] = "linux-";
    static const char any_prefix[] = "any-";
    if (str_equal(pattern, QP_STR("any")) || str_equal(pattern, QP_STR("linux-any"))) {
        return true;
    }
    if (pattern.n > strlen(any_prefix) && memcmp(pattern.p, any_prefix, strlen(any_prefix)) == 0) {
        pattern = (qp_str){pattern.p + strlen(any_prefix), pattern.n - strlen(any_prefix)};
    } else if (pattern.n > strlen(linux_prefix) &&
               memcmp(pattern.p, linux_prefix, strlen(linux_prefix)) == 0) {
        pattern = (qp_str){pattern.p + strlen(linux_prefix), pattern.n - strlen(linux_prefix)};
    }
    return str_equal(pattern, arch);
}

/* Behind '['. A list with '!' names what is left out, one without names what is meant. */
static int take_arches(struct deb_reader *r, bool *out_meant, struct qp_err *err)
{
    bool negated = false;
    bool matched = false;
    for (size_t count = 0; !take(r, ']'); count++) {
        bool is_negated = take(r, '!');
        qp_str pattern = take_while(r, is_arch_char);
        if (!deb_arch_is_valid(pattern)) {
            return bad(r, "an architecture or ']'", err);
        }
        if (count > 0 && is_negated != negated) {
            return bad(r, "either all or no architectures with '!'", err);
        }
        negated = is_negated;
        matched = matched || arch_matches(pattern, r->arch);
    }
    *out_meant = str_is_none(r->arch) || matched != negated;
    return QP_OK;
}

static int take_atom(struct deb_reader *r, struct deb_atom *atom, bool *out_meant,
                     struct qp_err *err)
{
    *out_meant = true;
    *atom = (struct deb_atom){.name = take_while(r, is_name_char)};
    if (!deb_name_is_valid(atom->name)) {
        r->at -= atom->name.n;
        return bad(r, "the name of a package", err);
    }
    if (peek(r) == ':') {
        r->at++;
        atom->arch = take_while(r, is_arch_char);
        if (!deb_arch_is_valid(atom->arch)) {
            return bad(r, "an architecture behind ':'", err);
        }
    }
    if (take(r, '(')) {
        QP_TRY(take_constraint(r, atom, err));
    }
    return take(r, '[') ? take_arches(r, out_meant, err) : QP_OK;
}

/* Reads over what separates atoms; what stands there begins an atom, or the field ends. */
static void skip_separators(struct deb_reader *r)
{
    while (take(r, ',')) {}
    skip_space(r);
}

/* One atom with the separator behind it; *out_group_ends tells which one it was. */
static int take_next(struct deb_reader *r, struct deb_atom *atom, bool *out_meant,
                     struct qp_err *err)
{
    QP_TRY(take_atom(r, atom, out_meant, err));
    skip_space(r);
    if (r->at == r->field.n) {
        return QP_OK;
    }
    if (take(r, '|')) {
        atom->more = true;
        skip_space(r);
        return r->at < r->field.n ? QP_OK : bad(r, "an alternative behind '|'", err);
    }
    return take(r, ',') ? QP_OK : bad(r, "',', '|', '(', '[' or the end", err);
}

/* Whether an alternative that is meant follows in this group. */
static int look_for_more(const struct deb_reader *r, bool *out_more, struct qp_err *err)
{
    struct deb_reader ahead = *r;
    struct deb_atom atom = {.more = true};
    bool is_meant = false;
    while (atom.more && !is_meant) {
        QP_TRY(take_next(&ahead, &atom, &is_meant, err));
    }
    *out_more = is_meant;
    return QP_OK;
}

int deb_reader_next(struct deb_reader *r, bool *out_found, struct deb_atom *out_atom,
                    struct qp_err *err)
{
    struct deb_atom atom = {0};
    bool is_meant = false;
    while (!is_meant) {
        skip_separators(r);
        if (r->at == r->field.n) {
            *out_found = false;
            return QP_OK;
        }
        QP_TRY(take_next(r, &atom, &is_meant, err));
    }
    if (atom.more) {
        QP_TRY(look_for_more(r, &atom.more, err));
    }
    *out_atom = atom;
    *out_found = true;
    return QP_OK;
}

void deb_atom_write(struct buf *out, const struct deb_atom *atom)
{
    buf_str(out, atom->name);
    if (atom->arch.n > 0) {
        buf_byte(out, ':');
        buf_str(out, atom->arch);
    }
    if (atom->op != DEB_ANY) {
        buf_printf(out, " (%s ", deb_op_text(atom->op));
        buf_str(out, atom->version);
        buf_byte(out, ')');
    }
}
