/* arena.c - memory that is given back all at once
 *
 * An arena is a chain of blocks, the newest first. Handing out is moving `used` forward in the
 * newest one. When that is full, a block of twice its size is added, up to ARENA_BLOCK_SIZE, so
 * that n bytes cost O(log n) allocations and at most half of the memory is idle. A request too
 * large to share a block gets one of its own, which is hung *behind* the newest: the room that is
 * left there is not lost.
 *
 *   I1  total = sum of the sizes of all blocks <= limit
 *   I2  used <= size of the newest block; used = 0 when there is none
 *   I3  spare blocks are of ARENA_BLOCK_SIZE, at most ARENA_SPARE of them, and count for no total:
 *       a round that needs as much as the one before asks nobody for memory
 */
#include <stdalign.h>

#include "base/mem.h"

#define ARENA_FIRST_SIZE ((size_t)4 * 1024)
#define ARENA_BLOCK_SIZE ((size_t)1024 * 1024)
#define ARENA_SPARE 16
#define ARENA_SHARED_SIZE (ARENA_BLOCK_SIZE / 4) /* larger requests get a block of their own */

struct arena_block {
    struct arena_block *older;
    size_t size; /* of bytes[] */
    alignas(max_align_t) unsigned char bytes[];
};

static unsigned char *take(struct arena *a, size_t start, size_t size);
static struct arena_block *take_spare(struct arena *a);
static unsigned char *take_slowly(struct arena *a, size_t size);
static struct arena_block *block_create(struct arena *a, size_t need, size_t wish);
static size_t next_block_size(const struct arena *a);
static struct arena_block *largest_block(const struct arena *a);

void arena_init(struct arena *a, const struct qp_env *env, size_t limit)
{
    *a = (struct arena){.env = env, .limit = limit == 0 ? LIMIT_ARENA_SIZE : limit};
}

static void free_chain(struct arena *a, struct arena_block *block)
{
    while (block != NULL) {
        struct arena_block *older = block->older;

        mem_free(a->env, block);
        block = older;
    }
}

void arena_done(struct arena *a)
{
    free_chain(a, a->block);
    free_chain(a, a->spare);
    a->block = NULL;
    a->spare = NULL;
    a->spare_count = 0;
    a->used = 0;
    a->total = 0;
}

/* A block that is no longer needed: spare, or gone. */
static void give_up(struct arena *a, struct arena_block *block)
{
    if (block->size != ARENA_BLOCK_SIZE || a->spare_count == ARENA_SPARE) {
        mem_free(a->env, block);
        return;
    }
    block->older = a->spare;
    a->spare = block;
    a->spare_count++;
}

void arena_reset(struct arena *a)
{
    struct arena_block *kept = largest_block(a);
    struct arena_block *block = a->block;

    while (block != NULL) {
        struct arena_block *older = block->older;

        if (block != kept) {
            give_up(a, block);
        }
        block = older;
    }
    a->block = kept;
    a->used = 0;
    a->total = 0;
    if (kept != NULL) {
        kept->older = NULL;
        a->total = kept->size;
    }
}

void *arena_room(struct arena *a, size_t size)
{
    const size_t mask = alignof(max_align_t) - 1;

    return take(a, (a->used + mask) & ~mask, size);
}

void *arena_alloc(struct arena *a, size_t size)
{
    void *bytes = arena_room(a, size);

    if (bytes != NULL) {
        memset(bytes, 0, size);
    }
    return bytes;
}

char *arena_bytes(struct arena *a, size_t size)
{
    return (char *)take(a, a->used, size);
}

bool arena_copy(struct arena *a, qp_str s, qp_str *out_copy)
{
    char *bytes;

    if (s.n == 0) {
        *out_copy = str_is_none(s) ? QP_NONE : QP_STR("");
        return true;
    }
    bytes = arena_bytes(a, s.n);
    if (bytes == NULL) {
        return false;
    }
    memcpy(bytes, s.p, s.n);
    *out_copy = (qp_str){bytes, s.n};
    return true;
}

/* The fast path: `start` is where the bytes would begin in the newest block. */
static inline unsigned char *take(struct arena *a, size_t start, size_t size)
{
    struct arena_block *block = a->block;

    if (block == NULL || start > block->size || size > block->size - start) {
        return take_slowly(a, size);
    }
    a->used = start + size;
    return block->bytes + start;
}

static unsigned char *take_slowly(struct arena *a, size_t size)
{
    bool own = size > ARENA_SHARED_SIZE;
    struct arena_block *block = block_create(a, size, own ? size : next_block_size(a));

    if (block == NULL) {
        return NULL;
    }
    if (own && a->block != NULL) {
        block->older = a->block->older;
        a->block->older = block;
        return block->bytes;
    }
    block->older = a->block;
    a->block = block;
    a->used = size;
    return block->bytes;
}

static struct arena_block *take_spare(struct arena *a)
{
    struct arena_block *block = a->spare;

    a->spare = block->older;
    a->spare_count--;
    return block;
}

/* A block of `wish` bytes, or of what the limit leaves, but never of less than `need`. */
static struct arena_block *block_create(struct arena *a, size_t need, size_t wish)
{
    size_t left = a->limit - a->total;
    size_t size = wish > left ? left : wish;
    struct arena_block *block;
    size_t whole;

    QP_ASSERT(a->total <= a->limit);
    if (size < need) {
        size = need;
    }
    if (size > left || !size_add(sizeof(*block), size, &whole)) {
        return NULL;
    }
    block = size == ARENA_BLOCK_SIZE && a->spare != NULL ? take_spare(a)
                                                         : mem_resize(a->env, NULL, whole);
    if (block == NULL) {
        return NULL;
    }
    block->older = NULL;
    block->size = size;
    a->total += size;
    return block;
}

static size_t next_block_size(const struct arena *a)
{
    if (a->block == NULL) {
        return a->first > 0 ? a->first : ARENA_FIRST_SIZE;
    }
    return a->block->size >= ARENA_BLOCK_SIZE / 2 ? ARENA_BLOCK_SIZE : a->block->size * 2;
}

static struct arena_block *largest_block(const struct arena *a)
{
    struct arena_block *largest = a->block;

    for (struct arena_block *block = a->block; block != NULL; block = block->older) {
        if (block->size > largest->size) {
            largest = block;
        }
    }
    return largest;
}
