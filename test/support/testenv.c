/* testenv.c - a world under control */
#include "support/testenv.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define TESTENV_START_MS 1767225600000 /* 2026-01-01T00:00:00Z */
#define TESTENV_FRESH 0xA5             /* what memory holds before it is written */
#define TESTENV_STALE 0xDD             /* and after it is freed */

/* Stands before every block. The second word tells a double free from a foreign pointer. */
struct block {
    size_t size;
    uint64_t magic;
    max_align_t bytes[];
};

#define BLOCK_LIVE 0x6C69766521626C6Bu
#define BLOCK_DEAD 0x6465616421626C6Bu

static void *test_resize(void *context, void *pointer, size_t size);
static qp_ms test_wall_ms(void *context);
static int64_t test_monotonic_us(void *context);
static int test_entropy(void *context, void *out_bytes, size_t size);
static void test_log(void *context, enum qp_log_level level, const char *line, size_t size);
static struct block *block_of(void *pointer);
static struct block *block_create(struct testenv *t, size_t size);
static void block_destroy(struct testenv *t, struct block *block);
static bool refuses(struct testenv *t);

void testenv_init(struct testenv *t, uint64_t seed)
{
    memset(t, 0, sizeof(*t));
    t->env.size = sizeof(t->env);
    t->env.context = t;
    t->env.resize = test_resize;
    t->env.wall_ms = test_wall_ms;
    t->env.monotonic_us = test_monotonic_us;
    t->env.entropy = test_entropy;
    t->env.log = test_log;
    t->now_ms = TESTENV_START_MS;
    t->random = seed;
}

void testenv_done(struct testenv *t)
{
    QP_ASSERT(t->live_blocks == 0);
    QP_ASSERT(t->live_bytes == 0);
}

void testenv_advance_ms(struct testenv *t, int64_t ms)
{
    QP_ASSERT(ms >= 0);
    t->now_ms += ms;
    t->monotonic_us += ms * 1000;
}

void testenv_fail_at(struct testenv *t, int64_t n)
{
    t->fail_at = n;
    t->fail_for_good = false;
    t->allocations = 0;
    t->failures = 0;
}

void testenv_fail_from(struct testenv *t, int64_t n)
{
    testenv_fail_at(t, n);
    t->fail_for_good = true;
}

bool testenv_failed(const struct testenv *t)
{
    return t->failures > 0;
}

const char *testenv_log(struct testenv *t)
{
    size_t size = t->log_size;

    t->log[size < TESTENV_LOG_SIZE ? size : TESTENV_LOG_SIZE - 1] = '\0';
    return t->log;
}

void testenv_log_reset(struct testenv *t)
{
    t->log_size = 0;
}

bool testenv_is_sanitized(void)
{
#ifdef __SANITIZE_ADDRESS__
    return true;
#else
    return false;
#endif
}

bool testenv_is_torture(void)
{
    const char *lane = getenv("QP_LANE");
    return lane != NULL && strcmp(lane, "torture") == 0;
}

uint64_t testenv_seed(void)
{
    const char *text = getenv("QP_SEED");
    uint64_t seed = 0;

    if (text != NULL) {
        seed = strtoull(text, NULL, 0);
    } else {
        struct qp_env env;

        qp_env_init(&env);
        if (env.entropy(env.context, &seed, sizeof(seed)) != QP_OK) {
            seed = (uint64_t)env.monotonic_us(env.context);
        }
    }
    printf("QP_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

uint64_t testenv_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint64_t testenv_random_below(uint64_t *state, uint64_t n)
{
    QP_ASSERT(n > 0);
    return testenv_random(state) % n;
}

/* Every call that asks for memory is one allocation, a growing one as well as a shrinking one. */
static void *test_resize(void *context, void *pointer, size_t size)
{
    struct testenv *t = context;
    struct block *old = pointer == NULL ? NULL : block_of(pointer);
    struct block *fresh = NULL;

    if (size > 0) {
        fresh = refuses(t) ? NULL : block_create(t, size);
        if (fresh == NULL) {
            return NULL; /* the old block stays as it is */
        }
    }
    if (old != NULL && fresh != NULL) {
        memcpy(fresh->bytes, old->bytes, old->size < size ? old->size : size);
    }
    if (old != NULL) {
        block_destroy(t, old);
    }
    return fresh == NULL ? NULL : fresh->bytes;
}

static bool refuses(struct testenv *t)
{
    int64_t turn = atomic_fetch_add(&t->allocations, 1) + 1;
    bool refused =
        t->fail_at > 0 && (turn == t->fail_at || (t->fail_for_good && turn > t->fail_at));

    if (refused) {
        t->failures++;
    }
    return refused;
}

static struct block *block_of(void *pointer)
{
    struct block *block = (struct block *)((char *)pointer - offsetof(struct block, bytes));

    QP_ASSERT(block->magic != BLOCK_DEAD);
    QP_ASSERT(block->magic == BLOCK_LIVE);
    return block;
}

static struct block *block_create(struct testenv *t, size_t size)
{
    struct block *block = malloc(sizeof(*block) + size);

    if (block == NULL) {
        return NULL;
    }
    block->size = size;
    block->magic = BLOCK_LIVE;
    memset(block->bytes, TESTENV_FRESH, size);
    t->live_blocks++;
    t->live_bytes += (long long)size;
    return block;
}

static void block_destroy(struct testenv *t, struct block *block)
{
    t->live_blocks--;
    t->live_bytes -= (long long)block->size;
    block->magic = BLOCK_DEAD;
    memset(block->bytes, TESTENV_STALE, block->size);
    free(block);
}

static qp_ms test_wall_ms(void *context)
{
    struct testenv *t = context;

    return t->now_ms;
}

static int64_t test_monotonic_us(void *context)
{
    struct testenv *t = context;

    return t->monotonic_us;
}

static int test_entropy(void *context, void *out_bytes, size_t size)
{
    struct testenv *t = context;
    unsigned char *out = out_bytes;

    if (t->entropy_rc != QP_OK) {
        return t->entropy_rc;
    }
    for (size_t i = 0; i < size; i++) {
        uint64_t state = atomic_fetch_add(&t->random, 1);

        out[i] = (unsigned char)(testenv_random(&state) >> 56);
    }
    return QP_OK;
}

/* A line is reserved with one step of log_size, so lines of different threads do not mix. */
static void test_log(void *context, enum qp_log_level level, const char *line, size_t size)
{
    struct testenv *t = context;
    size_t at = atomic_fetch_add(&t->log_size, size + 1);

    (void)level;
    if (at < TESTENV_LOG_SIZE - 1 && size + 1 < TESTENV_LOG_SIZE - at) {
        memcpy(t->log + at, line, size);
        t->log[at + size] = '\n';
    }
}
