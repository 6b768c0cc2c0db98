/* testenv.h - a world under control: virtual time, seeded chance, memory that counts and fails, a
 * log that is kept
 *
 * A test opens its handles with &t.env. Time stands still until the test moves it. Every block is
 * filled with rubbish before it is handed out and after it is given back, and resize always moves,
 * so that code which forgets to zero, or keeps an old pointer, fails here and not at a user's.
 *
 * The counters are atomic: several threads may use one testenv. Setting the clock or a failure
 * while others run is the test's business.
 */
#ifndef QP_TEST_TESTENV_H
#define QP_TEST_TESTENV_H

#include <quipu.h>
#include <stdatomic.h>

#define TESTENV_LOG_SIZE (256 * 1024)

struct testenv {
    struct qp_env env;
    atomic_llong now_ms;       /* set it freely, also backwards */
    atomic_llong monotonic_us; /* only forwards */
    _Atomic uint64_t random;
    atomic_int entropy_rc; /* what env.entropy answers; QP_OK gives seeded bytes */
    atomic_llong live_blocks;
    atomic_llong live_bytes;
    atomic_llong allocations;  /* tried since testenv_fail_at or the start */
    atomic_llong failures;     /* refused since then */
    atomic_llong fail_at;      /* the allocation to refuse, counted from 1; 0: none */
    atomic_bool fail_for_good; /* and all after it */
    atomic_size_t log_size;
    char log[TESTENV_LOG_SIZE]; /* lines, each ended by a newline; what does not fit is dropped */
};

/* The clock starts at a fixed moment of 2026. The struct is large: make it static. */
void testenv_init(struct testenv *t, uint64_t seed);
/* Asserts that no block is live. */
void testenv_done(struct testenv *t);

void testenv_advance_ms(struct testenv *t, int64_t ms); /* both clocks */

/* Refuses the n-th allocation from now on (0: none), once or for good. The way to use it:
 *
 *     for (int64_t n = 1;; n++) {
 *         testenv_fail_at(&t, n);
 *         rc = operation();
 *         if (!testenv_failed(&t)) { break; }          the operation came through: rc must be QP_OK
 *         assert_int_equal(rc, QP_E_NOMEM);
 *     }
 *     testenv_fail_at(&t, 0);
 */
void testenv_fail_at(struct testenv *t, int64_t n);
void testenv_fail_from(struct testenv *t, int64_t n);
bool testenv_failed(const struct testenv *t); /* whether an allocation was refused since then */

/* The captured lines so far as one C string; and forgetting them. */
const char *testenv_log(struct testenv *t);
void testenv_log_reset(struct testenv *t);

/* The seed of this run: QP_SEED when it is set, else a fresh one. Prints it, for the next run. */
uint64_t testenv_seed(void);

/* Whether this program runs with the address sanitizer: what is long then takes a sample, since its judgement is that of the
 * program without. */
bool testenv_is_sanitized(void);
/* The lane that takes all, not a sample. */
bool testenv_is_torture(void);

/* A small seeded generator for tests; *state is any number. _below: 0 <= result < n. */
uint64_t testenv_random(uint64_t *state);
uint64_t testenv_random_below(uint64_t *state, uint64_t n);

#endif
