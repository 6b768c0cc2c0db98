/* test_uuid.c - UUIDs that sort by when they were made */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/uuid.h"
#include "support/testenv.h"

static struct testenv t;

static int64_t time_of(const unsigned char *uuid)
{
    int64_t ms = 0;

    for (size_t i = 0; i < 6; i++) {
        ms = ms << 8 | uuid[i];
    }
    return ms;
}

/* Version, variant and time stand where the standard puts them. */
static void layout(void **state)
{
    unsigned char uuid[UUID_SIZE];
    struct uuid_source source;

    (void)state;
    testenv_init(&t, 1);
    uuid_source_init(&source);
    for (int i = 0; i < 100; i++) {
        testenv_advance_ms(&t, 1);
        assert_int_equal(uuid_next(&source, &t.env, uuid), QP_OK);
        assert_int_equal(uuid[6] >> 4, 7);
        assert_int_equal(uuid[8] >> 6, 2);
        assert_int_equal(time_of(uuid), t.now_ms);
    }
    testenv_done(&t);
}

/* Values grow strictly: in one millisecond, over time, when the clock steps back or is absurd. */
static void values_grow_strictly(void **state)
{
    uint64_t random = testenv_seed();
    unsigned char last[UUID_SIZE] = {0};
    struct uuid_source source;

    (void)state;
    testenv_init(&t, random);
    uuid_source_init(&source);
    for (int i = 0; i < 200000; i++) {
        unsigned char uuid[UUID_SIZE];

        switch (testenv_random_below(&random, 1000)) {
        case 0:
            testenv_advance_ms(&t, (int64_t)testenv_random_below(&random, 100));
            break;
        case 1:
            t.now_ms -= (int64_t)testenv_random_below(&random, 100000);
            break;
        case 2:
            t.now_ms = testenv_random_below(&random, 2) == 0 ? INT64_MIN : INT64_MAX;
            break;
        case 3:
            t.now_ms = 1767225600000;
            break;
        default:
            break; /* the clock stands still */
        }
        assert_int_equal(uuid_next(&source, &t.env, uuid), QP_OK);
        assert_true(memcmp(uuid, last, UUID_SIZE) > 0);
        memcpy(last, uuid, UUID_SIZE);
    }
    testenv_done(&t);
}

/* A clock that stands still for more values than the counter holds carries into the time, by
 * little. */
static void full_counter_carries(void **state)
{
    unsigned char uuid[UUID_SIZE];
    struct uuid_source source;
    int64_t start;

    (void)state;
    testenv_init(&t, 1);
    uuid_source_init(&source);
    start = t.now_ms;
    for (int i = 0; i < 20000; i++) {
        assert_int_equal(uuid_next(&source, &t.env, uuid), QP_OK);
    }
    assert_in_range(time_of(uuid) - start, 4, 10); /* 2048 to 4096 values per millisecond */
    testenv_done(&t);
}

/* Without entropy there is no UUID, and the source has not moved. */
static void entropy_failure_is_an_error(void **state)
{
    unsigned char uuid[UUID_SIZE] = {1, 2, 3};
    struct uuid_source source;
    struct uuid_source before;

    (void)state;
    testenv_init(&t, 1);
    uuid_source_init(&source);
    assert_int_equal(uuid_next(&source, &t.env, uuid), QP_OK);
    before = source;
    memset(uuid, 0x11, sizeof(uuid));
    t.entropy_rc = QP_E_IO;
    assert_int_equal(uuid_next(&source, &t.env, uuid), QP_E_IO);
    assert_int_equal(uuid[0], 0x11);
    assert_true(source.last_ms == before.last_ms && source.counter == before.counter);
    testenv_done(&t);
}

/* Text and bytes are two forms of one value. */
static void text_round_trip(void **state)
{
    uint64_t random = testenv_seed();
    char text[UUID_TEXT_SIZE];

    (void)state;
    for (int i = 0; i < 10000; i++) {
        unsigned char uuid[UUID_SIZE];
        unsigned char back[UUID_SIZE];

        for (size_t k = 0; k < UUID_SIZE; k++) {
            uuid[k] = (unsigned char)testenv_random(&random);
        }
        uuid_format(uuid, text);
        assert_int_equal(uuid_parse((qp_str){text, UUID_TEXT_SIZE}, back, NULL), QP_OK);
        assert_memory_equal(uuid, back, UUID_SIZE);
    }
    uuid_format((const unsigned char[UUID_SIZE]){0x01, 0x9B, 0x76, 0xDA, 0xA0, 0, 0x7A, 0xBC, 0x80,
                                                 0, 0, 0, 0, 0, 0, 0xFF},
                text);
    assert_memory_equal(text, "019b76da-a000-7abc-8000-0000000000ff", UUID_TEXT_SIZE);
}

/* Only the one form is taken; the output is untouched otherwise. */
static void parsing_is_strict(void **state)
{
    static const char *const texts[] = {
        "",
        "019b76da-a000-7abc-8000-0000000000f",
        "019b76da-a000-7abc-8000-0000000000fff",
        "019B76DA-a000-7abc-8000-0000000000ff",
        "019b76daaa000-7abc-8000-0000000000ff",
        "019b76d--a000-7abc-8000-0000000000ff",
        "019b76da-a000-7abc-8000-0000000000fg",
        "{19b76da-a000-7abc-8000-0000000000f}",
        " 19b76da-a000-7abc-8000-0000000000ff",
        "019b76da a000 7abc 8000 0000000000ff",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        unsigned char uuid[UUID_SIZE] = {42};
        struct qp_err err = {0};

        assert_int_equal(uuid_parse(str_from(texts[i]), uuid, &err), QP_E_MALFORMED);
        assert_int_equal(uuid[0], 42);
        assert_memory_equal(err.text, "uuid: ", 6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout),
        cmocka_unit_test(values_grow_strictly),
        cmocka_unit_test(full_counter_carries),
        cmocka_unit_test(entropy_failure_is_an_error),
        cmocka_unit_test(text_round_trip),
        cmocka_unit_test(parsing_is_strict),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
