/* random.h - xoshiro256**: numbers that follow from a seed; several streams that do not disturb each other */
#ifndef QP_TEST_RANDOM_H
#define QP_TEST_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct sim_random {
    uint64_t s[4];
};

static inline uint64_t random_split(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static inline void random_init(struct sim_random *r, uint64_t seed, uint64_t stream)
{
    uint64_t state = seed * UINT64_C(0xD1342543DE82EF95) + stream;
    for (int i = 0; i < 4; i++) {
        r->s[i] = random_split(&state);
    }
}

static inline uint64_t random_next(struct sim_random *r)
{
    uint64_t x = r->s[1] * 5;
    uint64_t result = ((x << 7) | (x >> 57)) * 9;
    uint64_t t = r->s[1] << 17;
    r->s[2] ^= r->s[0];
    r->s[3] ^= r->s[1];
    r->s[1] ^= r->s[2];
    r->s[0] ^= r->s[3];
    r->s[2] ^= t;
    r->s[3] = (r->s[3] << 45) | (r->s[3] >> 19);
    return result;
}

/* 0 <= result < n */
static inline int64_t random_below(struct sim_random *r, int64_t n)
{
    return n <= 0 ? 0 : (int64_t)(random_next(r) % (uint64_t)n);
}

static inline bool random_chance(struct sim_random *r, int percent)
{
    return random_below(r, 100) < percent;
}

#endif
