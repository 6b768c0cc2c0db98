/* test_hash.c - the hash for tables, and the one that names things for good */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/hash.h"
#include "support/testenv.h"

static int compare_words(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Counters, runs of zeros of every length, and one text under many seeds do not collide. */
static void similar_inputs_do_not_collide(void **state)
{
    enum { COUNT = 100000 };
    static uint64_t hashes[3 * COUNT];
    static const unsigned char zeros[COUNT / 100];
    size_t n = 0;

    (void)state;
    for (uint32_t i = 0; i < COUNT; i++) {
        hashes[n++] = hash_bytes(1, &i, sizeof(i));
        hashes[n++] = hash_bytes(i + 2, "a text of some words, longer than sixteen", 41);
        if (i < sizeof(zeros)) {
            hashes[n++] = hash_bytes(0, zeros, i);
        }
    }
    qsort(hashes, n, sizeof(hashes[0]), compare_words);
    for (size_t i = 1; i < n; i++) {
        assert_true(hashes[i] != hashes[i - 1]);
    }
}

/* Flipping any input bit flips each output bit about every second time, for all sizes to 40. */
static void avalanche(void **state)
{
    uint64_t random = testenv_seed();

    (void)state;
    for (size_t size = 1; size <= 40; size++) {
        for (size_t bit = 0; bit < 8 * size; bit++) {
            int flipped = 0;

            for (int trial = 0; trial < 64; trial++) {
                unsigned char bytes[40];
                uint64_t before;

                for (size_t i = 0; i < size; i++) {
                    bytes[i] = (unsigned char)testenv_random(&random);
                }
                before = hash_bytes(7, bytes, size);
                bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
                flipped += __builtin_popcountll(before ^ hash_bytes(7, bytes, size));
            }
            /* 64 trials of 64 bits: 2048 expected, deviation 32; eight deviations either way */
            assert_in_range(flipped, 2048 - 256, 2048 + 256);
        }
    }
}

/* The hash looks at its bytes and at nothing beside them, whatever their alignment. */
static void alignment_does_not_matter(void **state)
{
    unsigned char room[64];

    (void)state;
    for (size_t size = 0; size <= 40; size++) {
        uint64_t expected = 0;

        for (size_t shift = 0; shift < 8; shift++) {
            uint64_t hash;

            memset(room, (int)shift, sizeof(room));
            memset(room + shift, 0x5A, size);
            hash = hash_bytes(3, room + shift, size);
            assert_true(shift == 0 || hash == expected);
            expected = hash;
        }
    }
}

/* GUIDs are SHA-256 of size, a and b, cut to 16 bytes; the values were computed elsewhere. */
static void guids_are_sha256(void **state)
{
    static const struct {
        const char *a;
        const char *b;
        const char *hex;
    } cases[] = {
        {"", "", "af5570f5a1810b7af78caf4bc70a660f"},
        {"ab", "c", "6d38234db36d6dcc6ff6702b434e13bc"},
        {"a", "bc", "22a5c7045bc36a32e64f063ff4e7946d"},
        {"job 1", "activity 2,0,0", "985f1812f06c5c5469c3dbee456eef0d"},
        {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
         "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy"
         "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
         "ae42df9fa6dd5fa13cf6093501ef77d7"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        unsigned char guid[LIMIT_GUID_SIZE];

        hash_guid(cases[i].a, strlen(cases[i].a), cases[i].b, strlen(cases[i].b), guid);
        for (size_t k = 0; k < sizeof(guid); k++) {
            char pair[3] = {cases[i].hex[2 * k], cases[i].hex[2 * k + 1], 0};

            assert_int_equal(guid[k], strtol(pair, NULL, 16));
        }
    }
    hash_guid(NULL, 0, NULL, 0, (unsigned char[LIMIT_GUID_SIZE]){0});
}

/* The keyed hash is HMAC-SHA256, cut to 16 bytes: the cases 1, 2, 6 and 7 of RFC 4231. */
static void keyed_is_hmac(void **state)
{
    static const char twenty[] = "\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b"
                                 "\x0b\x0b\x0b\x0b";
    char large[131];
    struct {
        qp_str key;
        const char *text;
        const char *hex;
    } cases[] = {
        {{twenty, 20}, "Hi There", "b0344c61d8db38535ca8afceaf0bf12b"},
        {QP_STR("Jefe"), "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c7"},
        {{large, sizeof large},
         "Test Using Larger Than Block-Size Key - Hash Key First",
         "60e431591ee0b67f0d8a26aacbf5b77f"},
        {{large, sizeof large},
         "This is a test using a larger than block-size key and a larger than block-size data. The "
         "key needs to be hashed before being used by the HMAC algorithm.",
         "9b09ffa71b942fcb27635fbcd5b0e944"},
    };
    unsigned char none[HASH_KEYED_SIZE];
    unsigned char some[HASH_KEYED_SIZE];
    (void)state;
    memset(large, 0xaa, sizeof large);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        hash_keyed(cases[i].key.p, cases[i].key.n, cases[i].text, strlen(cases[i].text), some);
        for (size_t k = 0; k < sizeof some; k++) {
            char pair[3] = {cases[i].hex[2 * k], cases[i].hex[2 * k + 1], 0};
            assert_int_equal(some[k], strtol(pair, NULL, 16));
        }
    }
    hash_keyed(NULL, 0, "x", 1, none);
    hash_keyed("k", 1, "x", 1, some);
    assert_false(hash_equal(none, some, sizeof some));
    assert_true(hash_equal(some, some, sizeof some));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(similar_inputs_do_not_collide),
        cmocka_unit_test(avalanche),
        cmocka_unit_test(alignment_does_not_matter),
        cmocka_unit_test(guids_are_sha256),
        cmocka_unit_test(keyed_is_hmac),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
