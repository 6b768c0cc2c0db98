/* purl.c - package URLs are read (see purl.h; result_purl writes them) */
#include "carto/purl.h"

#include "carto/rows.h"

static const char scheme[] = "pkg:";

bool purl_is(qp_str text)
{
    return text.n >= sizeof scheme - 1 && memcmp(text.p, scheme, sizeof scheme - 1) == 0;
}

static int refuse(qp_str text, const char *why, struct qp_err *err)
{
    return err_set(err, QP_E_INVALID,
                   "'%.*s' is no package URL: %s; one looks like pkg:deb/debian/curl@7.88.1-10",
                   STR_ARG(text), why);
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* QP_E_INVALID: a % without two hexadecimal digits, or a byte that no name has. */
static int unescape(struct arena *a, qp_str text, qp_str *out)
{
    char *bytes = arena_bytes(a, text.n + 1);
    size_t n = 0;
    if (bytes == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < text.n; i++) {
        int high = text.p[i] != '%' || i + 2 >= text.n ? -1 : digit_of(text.p[i + 1]);
        int low = high < 0 ? -1 : digit_of(text.p[i + 2]);
        if (text.p[i] == '%' && (low < 0 || high * 16 + low < 0x20)) {
            return QP_E_INVALID;
        }
        bytes[n++] = text.p[i] == '%' ? (char)(unsigned char)(high * 16 + low) : text.p[i];
        i += text.p[i] == '%' ? 2 : 0;
    }
    *out = (qp_str){bytes, n};
    return QP_OK;
}

static qp_str before_of(qp_str text, char mark)
{
    const char *at = text.n > 0 ? memchr(text.p, mark, text.n) : NULL;
    return at == NULL ? text : (qp_str){text.p, (size_t)(at - text.p)};
}

/* What stands between the type and the version. Of deb the first part is the distribution. */
static int read_name(struct arena *a, qp_str part, struct carto_package *out)
{
    const char *slash = part.n > 0 ? memchr(part.p, '/', part.n) : NULL;
    if (str_equal(out->id.type, QP_STR("deb"))) {
        if (slash == NULL) {
            return QP_E_INVALID;
        }
        part = (qp_str){slash + 1, part.n - (size_t)(slash + 1 - part.p)};
    }
    QP_TRY(unescape(a, part, &out->id.name));
    return out->id.name.n > 0 && out->id.name.p[0] != '/' &&
                   out->id.name.p[out->id.name.n - 1] != '/'
               ? QP_OK
               : QP_E_INVALID;
}

static int read_parts(struct arena *a, qp_str text, struct carto_package *out, const char **why)
{
    qp_str rest = {text.p + sizeof scheme - 1, text.n - (sizeof scheme - 1)};
    const char *at;
    int rc;
    rest = before_of(before_of(rest, '#'), '?');
    out->id.type = before_of(rest, '/');
    *why = "its type is missing";
    if (out->id.type.n == 0 || out->id.type.n == rest.n) {
        return QP_E_INVALID;
    }
    rest = (qp_str){rest.p + out->id.type.n + 1, rest.n - out->id.type.n - 1};
    at = rest.n > 0 ? memrchr(rest.p, '@', rest.n) : NULL;
    if (at != NULL && at > rest.p) { /* an @ at the beginning is a scope that should be %40 */
        qp_str version = {at + 1, rest.n - (size_t)(at + 1 - rest.p)};
        *why = "its version is empty, or an escape in it is bad";
        rc = unescape(a, version, &out->version);
        if (rc != QP_OK || version.n == 0) {
            return rc == QP_OK ? QP_E_INVALID : rc;
        }
        rest.n = (size_t)(at - rest.p);
    }
    *why = "its name is missing, or an escape in it is bad";
    return read_name(a, rest, out);
}

int purl_read(struct arena *a, qp_str text, struct carto_package *out, struct qp_err *err)
{
    struct carto_package package = {0};
    const char *why = "it does not begin with pkg:";
    int rc = purl_is(text) ? read_parts(a, text, &package, &why) : QP_E_INVALID;
    if (rc == QP_E_INVALID) {
        return refuse(text, why, err);
    }
    QP_TRY(rc);
    *out = package;
    return QP_OK;
}

int package_name_read(struct arena *a, qp_str text, struct carto_package *out, struct qp_err *err)
{
    struct carto_package package = {0};
    const char *equals;
    if (purl_is(text)) {
        return purl_read(a, text, out, err);
    }
    if (!package_read(text, &package)) {
        return err_set(err, QP_E_INVALID,
                       "'%.*s' names no package: it must be of the form type:name, "
                       "type:name@version, or a package URL",
                       STR_ARG(text));
    }
    equals = memchr(package.id.name.p, '=', package.id.name.n);
    if (package.version.n == 0 && equals != NULL) {
        size_t n = (size_t)(equals - package.id.name.p);
        package.version = (qp_str){equals + 1, package.id.name.n - n - 1};
        package.id.name.n = n;
    }
    *out = package;
    return QP_OK;
}
