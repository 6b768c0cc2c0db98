/* mem.h - memory: the failable allocator, arenas, growing buffers
 *
 * Three lifetimes exist: an owned object (mem_alloc .. mem_free), an arena that is reset at the end
 * of a request, a step, a bundle or a commit, and fixed pools. All of it goes through
 * qp_env.resize, so a test can count and fail the n-th allocation. Nothing here aborts for want of
 * memory: NULL (or QP_E_NOMEM) goes up as an error. Not thread-safe: an arena or a buffer belongs
 * to one thread at a time.
 */
#ifndef QP_BASE_MEM_H
#define QP_BASE_MEM_H

#include "base/base.h"

/* Zeroed memory, or NULL. mem_free(env, NULL) does nothing. */
void *mem_alloc(const struct qp_env *env, size_t size) QP_MUST_USE;
void *mem_resize(const struct qp_env *env, void *pointer, size_t size) QP_MUST_USE;
void mem_free(const struct qp_env *env, void *pointer);

struct arena_block;

struct arena {
    const struct qp_env *env;
    struct arena_block *block; /* the one being filled; older ones hang behind it */
    struct arena_block *spare; /* of the last round, for the next */
    size_t spare_count;
    size_t used;  /* bytes used in `block` */
    size_t total; /* bytes in all blocks */
    size_t limit; /* total may not pass this */
    size_t first; /* wished size of the first block; 0: the usual one */
};

/* limit 0 means LIMIT_ARENA_SIZE. Init allocates nothing and cannot fail. */
void arena_init(struct arena *a, const struct qp_env *env, size_t limit);
void arena_done(struct arena *a);
/* Everything handed out becomes invalid; the largest block and some of the others are kept for the
 * next round. */
void arena_reset(struct arena *a);
/* Zeroed, aligned for any type; NULL when memory or the limit is exhausted. arena_bytes is neither
 * zeroed nor aligned. */
void *arena_alloc(struct arena *a, size_t size) QP_MUST_USE;
char *arena_bytes(struct arena *a, size_t size) QP_MUST_USE;
/* Aligned, but not zeroed. */
void *arena_room(struct arena *a, size_t size) QP_MUST_USE;
/* A copy of s in the arena; false on failure. None stays none, empty stays empty. */
bool arena_copy(struct arena *a, qp_str s, qp_str *out_copy) QP_MUST_USE;

#define ARENA_NEW(a, type) ((type *)arena_alloc((a), sizeof(type)))

/* A growing byte buffer with a limit. Errors stick: after the first failure appends do nothing, and
 * buf_rc tells. So a writer appends freely and asks once, at the end. */
struct buf {
    const struct qp_env *env;
    char *p;
    size_t n;
    size_t capacity;
    size_t limit;
    int rc; /* QP_OK, QP_E_NOMEM or QP_E_TOO_LARGE */
};

void buf_init(struct buf *b, const struct qp_env *env,
              size_t limit); /* 0 means LIMIT_BUFFER_SIZE */
void buf_done(struct buf *b);
void buf_reset(struct buf *b); /* empty, error cleared, memory kept */
void buf_add(struct buf *b, const void *bytes, size_t size);
void buf_str(struct buf *b, qp_str s);
void buf_text(struct buf *b, const char *text);
void buf_byte(struct buf *b, char byte);
/* In decimal; quicker than buf_printf. */
void buf_i64(struct buf *b, int64_t number);
void buf_printf(struct buf *b, const char *format, ...) QP_PRINTF(2, 3);
/* Room for `size` bytes at the end, to be written directly and then counted with buf_took; NULL
 * when it failed. */
char *buf_room(struct buf *b, size_t size);
void buf_took(struct buf *b, size_t size);
int buf_rc(const struct buf *b);
static inline qp_str buf_slice(const struct buf *b)
{
    return (qp_str){b->p, b->n};
}

#endif
