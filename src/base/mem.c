/* mem.c - the failable allocator
 *
 * A thin border around qp_env.resize. Size 0 is asked for as one byte: so NULL means "no memory"
 * and nothing else, and only mem_free ever frees.
 */
#include "base/mem.h"

void *mem_alloc(const struct qp_env *env, size_t size)
{
    void *pointer = mem_resize(env, NULL, size);

    if (pointer != NULL) {
        memset(pointer, 0, size);
    }
    return pointer;
}

/* The old memory stays valid when this fails. What is added is not zeroed. */
void *mem_resize(const struct qp_env *env, void *pointer, size_t size)
{
    QP_ASSERT(env != NULL && env->resize != NULL);
    if (size > PTRDIFF_MAX) {
        return NULL;
    }
    return env->resize(env->context, pointer, size == 0 ? 1 : size);
}

void mem_free(const struct qp_env *env, void *pointer)
{
    if (pointer != NULL) {
        (void)env->resize(env->context, pointer, 0); /* size 0 frees; NULL is its only answer */
    }
}
