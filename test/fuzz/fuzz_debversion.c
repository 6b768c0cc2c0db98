/* fuzz_debversion.c - any two texts are versions with one order between them, or are refused; relationships likewise
 *
 * Up to the first newline is one text, what follows another. The order is antisymmetric and agrees with the operators. A
 * relationship field that is taken has a canonical text which reads as the same atoms.
 */
#include <stdint.h>

#include "base/env.h"
#include "carto/deb_relation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int sign(int order)
{
    return (order > 0) - (order < 0);
}

static void check_order(qp_str a, qp_str b)
{
    int order = sign(deb_version_compare(a, b));
    QP_ASSERT(sign(deb_version_compare(b, a)) == -order);
    QP_ASSERT(deb_version_compare(a, a) == 0);
    QP_ASSERT(deb_version_satisfies(a, DEB_EARLIER, b) == (order < 0));
    QP_ASSERT(deb_version_satisfies(a, DEB_AT_MOST, b) == (order <= 0));
    QP_ASSERT(deb_version_satisfies(a, DEB_EXACTLY, b) == (order == 0));
    QP_ASSERT(deb_version_satisfies(a, DEB_AT_LEAST, b) == (order >= 0));
    QP_ASSERT(deb_version_satisfies(a, DEB_LATER, b) == (order > 0));
}

/* The canonical text of a field; false when it is refused. */
static bool rewrite(qp_str field, struct buf *out)
{
    struct deb_reader r = {.field = field, .arch = QP_STR("amd64")};
    struct deb_atom atom = {0};
    struct qp_err err = {0};
    bool is_found = true;
    for (bool is_first = true;; is_first = false) {
        bool was_more = atom.more;
        if (deb_reader_next(&r, &is_found, &atom, &err) != QP_OK) {
            QP_ASSERT(strstr(err.text, "at byte ") != NULL);
            return false;
        }
        if (!is_found) {
            return true;
        }
        buf_text(out, is_first ? "" : was_more ? " | " : ", ");
        deb_atom_write(out, &atom);
    }
}

static void check_field(qp_str field)
{
    struct qp_env env;
    struct buf first;
    struct buf second;
    qp_env_init(&env);
    env_complete(&env);
    buf_init(&first, &env, 0);
    buf_init(&second, &env, 0);
    if (rewrite(field, &first)) {
        QP_ASSERT(rewrite(buf_slice(&first), &second));
        QP_ASSERT(first.n == second.n && (first.n == 0 || memcmp(first.p, second.p, first.n) == 0));
    }
    buf_done(&first);
    buf_done(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    qp_str all = {(const char *)data, size};
    const char *newline = size > 0 ? memchr(all.p, '\n', size) : NULL;
    qp_str a = {all.p, newline != NULL ? (size_t)(newline - all.p) : size};
    qp_str b = newline != NULL ? (qp_str){newline + 1, size - a.n - 1} : a;
    if (deb_version_check(a, NULL) == QP_OK && deb_version_check(b, NULL) == QP_OK) {
        check_order(a, b);
    }
    check_field(all);
    return 0;
}
