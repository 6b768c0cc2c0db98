/* env.c - the usual outside world: libc's allocator, the system clocks, the system's random source
 *
 * The only file below run/ that asks the operating system for memory, time or chance. Everything
 * else gets them through struct qp_env, and that is why the same core runs under virtual time and
 * failing memory in the tests.
 *
 * Clock jumps: wall_ms is CLOCK_REALTIME and may go either way; monotonic_us is CLOCK_BOOTTIME, never goes
 * back and stands for durations only, also for that in which the machine was suspended.
 */
#include "base/env.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

static void *usual_resize(void *context, void *pointer, size_t size);
static qp_ms usual_wall_ms(void *context);
static int64_t usual_monotonic_us(void *context);
static int usual_entropy(void *context, void *out_bytes, size_t size);

const char *qp_version(void)
{
    return QP_VERSION;
}

void qp_env_init(struct qp_env *env)
{
    if (env == NULL) {
        return;
    }
    *env = (struct qp_env){.size = sizeof(*env)};
    env_complete(env);
}

int size_check(size_t size, size_t expected, const char *name, struct qp_err *err)
{
    if (size == expected) {
        return QP_OK;
    }
    return size == 0
               ? err_set(err, QP_E_INVALID, "%s.size is 0: set the struct up with %s_init", name,
                         name)
               : err_set(err, QP_E_INVALID,
                         "%s.size is %zu, and that of this library, version %s, is %zu: compile "
                         "the program with the quipu.h of this version, and call %s_init",
                         name, size, QP_VERSION, expected, name);
}

void env_complete(struct qp_env *env)
{
    if (env->resize == NULL) {
        env->resize = usual_resize;
    }
    if (env->wall_ms == NULL) {
        env->wall_ms = usual_wall_ms;
    }
    if (env->monotonic_us == NULL) {
        env->monotonic_us = usual_monotonic_us;
    }
    if (env->entropy == NULL) {
        env->entropy = usual_entropy;
    }
}

/* realloc(p, 0) may or may not free, depending on the libc: so the border is drawn here. */
static void *usual_resize(void *context, void *pointer, size_t size)
{
    (void)context;
    if (size == 0) {
        free(pointer);
        return NULL;
    }
    return realloc(pointer, size);
}

static qp_ms usual_wall_ms(void *context)
{
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);

    (void)context;
    QP_ASSERT(!failed); /* it fails for an unknown clock only */
    return (qp_ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t usual_monotonic_us(void *context)
{
    struct timespec now;
    int failed = clock_gettime(CLOCK_BOOTTIME, &now);

    (void)context;
    QP_ASSERT(!failed);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* getrandom may give less than was asked for, and may be interrupted before it gives anything. */
static int usual_entropy(void *context, void *out_bytes, size_t size)
{
    unsigned char *at = out_bytes;

    (void)context;
    while (size > 0) {
        ssize_t n = getrandom(at, size, 0);

        if (n < 0 && errno != EINTR) {
            return QP_E_IO;
        }
        if (n > 0) {
            at += n;
            size -= (size_t)n;
        }
    }
    return QP_OK;
}
