/* fuzz_semver.c - any two texts are versions with one order between them, or are refused; any text is a range or none
 *
 * Up to the first newline is one text, what follows another. The canonical text of a version reads as the same version;
 * the exact range of it admits it. A range that is read admits the same whenever it is asked.
 */
#include <stdint.h>

#include "base/env.h"
#include "carto/semver_range.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int sign(int order)
{
    return (order > 0) - (order < 0);
}

static void check_version(struct arena *a, const struct qp_env *env, qp_str text,
                          const struct semver *v)
{
    struct buf canonical;
    struct semver again;
    struct semver_range exact;
    buf_init(&canonical, env, 0);
    semver_write(&canonical, v);
    QP_ASSERT(semver_read(buf_slice(&canonical), &again));
    QP_ASSERT(semver_compare(v, &again) == 0 && semver_compare(v, v) == 0);
    QP_ASSERT(semver_range_read(a, buf_slice(&canonical), &exact) == QP_OK);
    QP_ASSERT(semver_range_admits(&exact, v));
    QP_ASSERT(text.n > 0);
    buf_done(&canonical);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    qp_str all = {(const char *)data, size};
    const char *newline = size > 0 ? memchr(all.p, '\n', size) : NULL;
    qp_str left = {all.p, newline != NULL ? (size_t)(newline - all.p) : size};
    qp_str right = newline != NULL ? (qp_str){newline + 1, size - left.n - 1} : left;
    struct qp_env env;
    struct arena arena;
    struct semver a;
    struct semver b;
    struct semver_range range;
    bool is_a = semver_read(left, &a);
    bool is_b = semver_read(right, &b);
    int rc;
    qp_env_init(&env);
    env_complete(&env);
    arena_init(&arena, &env, 0);
    rc = semver_range_read(&arena, left, &range);
    QP_ASSERT(rc == QP_OK || rc == QP_E_INVALID);
    if (is_a) {
        check_version(&arena, &env, left, &a);
    }
    if (is_a && is_b) {
        QP_ASSERT(sign(semver_compare(&a, &b)) == -sign(semver_compare(&b, &a)));
    }
    if (rc == QP_OK && is_b) {
        bool admits = semver_range_admits(&range, &b);
        QP_ASSERT(semver_range_admits(&range, &b) == admits);
    }
    arena_done(&arena);
    return 0;
}
