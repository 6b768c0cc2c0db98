/* npm_pick.c - npm's choice among the versions of a document (see npm_pick.h) */
#include "carto/npm_pick.h"

int npm_version_find(const struct npm_document *d, qp_str version, struct npm_version *out,
                     struct qp_err *err)
{
    qp_str rest = d->versions;
    for (;;) {
        QP_TRY(npm_version_next(&rest, out, err));
        if (str_equal(out->version, version)) {
            return QP_OK;
        }
    }
}

int npm_tag_find(const struct npm_document *d, qp_str tag, qp_str *out_version, struct qp_err *err)
{
    qp_str rest = d->tags;
    qp_str name = QP_NONE;
    for (;;) {
        int rc = npm_tag_next(&rest, &name, out_version, err);
        if (rc == QP_E_NOT_FOUND) {
            *out_version = QP_NONE;
            return QP_OK;
        }
        QP_TRY(rc);
        if (str_equal(name, tag)) {
            return QP_OK;
        }
    }
}

static bool is_before(const struct npm_version *v, qp_ms cutoff)
{
    return v->time == NPM_TIME_NONE || v->time <= cutoff;
}

static int find_exactly(const struct npm_document *d, qp_str version, qp_ms cutoff,
                        qp_str *out_version, struct qp_err *err)
{
    struct npm_version v;
    QP_TRY(npm_version_find(d, version, &v, err));
    if (!is_before(&v, cutoff)) {
        return QP_E_NOT_FOUND;
    }
    *out_version = v.version;
    return QP_OK;
}

static int find_highest(const struct npm_document *d, const struct semver_range *range,
                        qp_ms cutoff, qp_str *out_version, struct qp_err *err)
{
    qp_str rest = d->versions;
    struct npm_version v;
    struct semver number;
    struct semver best = {0};
    bool best_is_deprecated = false;
    int rc;
    *out_version = QP_NONE;
    while ((rc = npm_version_next(&rest, &v, err)) == QP_OK) {
        bool is_better = str_is_none(*out_version) || (best_is_deprecated && !v.is_deprecated);
        if (!is_before(&v, cutoff) || !semver_read(v.version, &number) ||
            !semver_range_admits(range, &number)) {
            continue;
        }
        if (is_better ||
            (best_is_deprecated == v.is_deprecated && semver_compare(&number, &best) > 0)) {
            best = number;
            best_is_deprecated = v.is_deprecated;
            *out_version = v.version;
        }
    }
    if (rc != QP_E_NOT_FOUND) {
        return rc;
    }
    return str_is_none(*out_version) ? QP_E_NOT_FOUND : QP_OK;
}

/* Whether `latest` is taken for the range. */
static int try_latest(const struct npm_document *d, const struct npm_spec *spec, qp_ms cutoff,
                      bool *out_taken, qp_str *out_version, struct qp_err *err)
{
    struct npm_version v = {0};
    qp_str latest = QP_NONE;
    int rc;
    *out_taken = false;
    QP_TRY(npm_tag_find(d, QP_STR("latest"), &latest, err));
    if (str_is_none(latest) || !npm_spec_admits(spec, latest)) {
        return QP_OK;
    }
    rc = npm_version_find(d, latest, &v, err);
    if (rc == QP_E_NOT_FOUND) {
        return QP_OK;
    }
    QP_TRY(rc);
    *out_taken = is_before(&v, cutoff) && !v.is_deprecated;
    *out_version = v.version;
    return QP_OK;
}

static int pick_range(const struct npm_document *d, const struct npm_spec *spec, qp_ms cutoff,
                      qp_str *out_version, struct qp_err *err)
{
    bool is_taken = false;
    QP_TRY(try_latest(d, spec, cutoff, &is_taken, out_version, err));
    return is_taken ? QP_OK : find_highest(d, &spec->range, cutoff, out_version, err);
}

/* What is not above the version of a tag that is later than the date. */
static int pick_below(const struct npm_document *d, struct arena *a, qp_str version, qp_ms cutoff,
                      qp_str *out_version, struct qp_err *err)
{
    struct npm_spec below = {.kind = NPM_SPEC_RANGE};
    char *text = arena_bytes(a, version.n + 2);
    if (text == NULL) {
        return QP_E_NOMEM;
    }
    memcpy(text, "<=", 2);
    memcpy(text + 2, version.p, version.n);
    below.text = (qp_str){text, version.n + 2};
    if (semver_range_read(a, below.text, &below.range) != QP_OK) {
        return QP_E_NOT_FOUND;
    }
    return pick_range(d, &below, cutoff, out_version, err);
}

static int pick_tag(const struct npm_document *d, struct arena *a, const struct npm_spec *spec,
                    qp_ms cutoff, qp_str *out_version, struct qp_err *err)
{
    struct npm_version v;
    qp_str version = QP_NONE;
    QP_TRY(npm_tag_find(d, spec->text, &version, err));
    if (str_is_none(version)) {
        return QP_E_NOT_FOUND;
    }
    QP_TRY(npm_version_find(d, version, &v, err));
    if (!is_before(&v, cutoff)) {
        return pick_below(d, a, version, cutoff, out_version, err);
    }
    *out_version = v.version;
    return QP_OK;
}

static int pick_version(const struct npm_document *d, struct arena *a, const struct npm_spec *spec,
                        qp_ms cutoff, qp_str *out_version, struct qp_err *err)
{
    struct buf canonical;
    qp_str text = QP_NONE;
    bool is_copied;
    buf_init(&canonical, a->env, 0);
    semver_write(&canonical, &spec->version);
    is_copied = buf_rc(&canonical) == QP_OK && arena_copy(a, buf_slice(&canonical), &text);
    buf_done(&canonical);
    return is_copied ? find_exactly(d, text, cutoff, out_version, err) : QP_E_NOMEM;
}

int npm_pick(const struct npm_document *d, struct arena *a, const struct npm_spec *spec,
             qp_ms cutoff, qp_str *out_version, struct qp_err *err)
{
    if (!str_is_none(spec->locked)) {
        return find_exactly(d, spec->locked, NPM_NO_CUTOFF, out_version, err);
    }
    switch (spec->kind) {
    case NPM_SPEC_VERSION:
        return pick_version(d, a, spec, cutoff, out_version, err);
    case NPM_SPEC_RANGE:
        return pick_range(d, spec, cutoff, out_version, err);
    case NPM_SPEC_TAG:
        return pick_tag(d, a, spec, cutoff, out_version, err);
    case NPM_SPEC_UNSUPPORTED:
        break;
    }
    return QP_E_NOT_FOUND;
}
