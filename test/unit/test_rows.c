/* test_rows.c - descriptors agree with the structs, keys order as values do, copies are deep */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "store/rows.h"
#include "support/storetest.h"

static struct testenv t;

/* Every table begins with ns and ends with rev, keys come first, and offsets lie inside the
 * struct. */
static void test_descriptors_are_well_formed(void **state)
{
    (void)state;
    for (int i = 0; i < TABLE_COUNT; i++) {
        const struct table *d = &tables[i];
        assert_string_equal(d->columns[0].name, "ns");
        assert_string_equal(d->columns[d->column_count - 1].name, "rev");
        assert_true(d->key_count >= 1 && d->key_count < d->column_count);
        for (size_t c = 0; c < d->column_count; c++) {
            size_t size = d->columns[c].kind == KIND_I64 ? sizeof(int64_t) : sizeof(qp_str);
            assert_true(d->columns[c].offset + size <= d->row_size);
            assert_int_equal(d->columns[c].role == ROLE_KEY, c < d->key_count);
        }
        assert_int_equal(d->keyed_by_job,
                         d->key_count > 1 && strcmp(d->columns[1].name, "job") == 0);
    }
}

/* An index has its own columns first and then the rest of the key, each once: its order is
 * total. */
static void test_index_columns_end_with_the_key(void **state)
{
    (void)state;
    for (int i = 0; i < INDEX_COUNT; i++) {
        struct index_columns c = index_columns((enum index_id)i);
        const struct table *d = &tables[indexes[i].table];
        size_t keys = 0;
        assert_true(c.own_count > 0 && c.own_count <= c.count);
        for (size_t a = 0; a < c.count; a++) {
            keys += c.column[a] < d->key_count;
            for (size_t b = 0; b < a; b++) {
                assert_int_not_equal(c.column[a], c.column[b]);
            }
        }
        assert_int_equal(keys, d->key_count);
    }
}

static qp_str encode_hook(struct buf *b, int64_t ns, qp_str topic, qp_str key)
{
    buf_reset(b);
    row_encode_key(b, TABLE_hook, &(struct hook_row){.ns = ns, .topic = topic, .hkey = key});
    assert_int_equal(buf_rc(b), QP_OK);
    return buf_slice(b);
}

/* memcmp of two encodings orders as (ns, topic, key) does: by number, then by bytes, a prefix
 * before what it begins. */
static void test_encoding_keeps_the_order(void **state)
{
    static const struct {
        int64_t ns;
        const char *topic;
        size_t topic_size;
        const char *key;
        size_t key_size;
    } sorted[] = {
        {INT64_MIN, "a", 1, "a", 1}, {-1, "z", 1, "z", 1},      {0, NULL, 0, "z", 1},
        {0, "", 0, "a", 1},          {0, "\0", 1, "", 0},       {0, "\0\0", 2, "", 0},
        {0, "\0\1", 2, "", 0},       {0, "\1", 1, "", 0},       {0, "a", 1, "", 0},
        {0, "a", 1, "b", 1},         {0, "a\0b", 3, "", 0},     {0, "ab", 2, "", 0},
        {0, "ab", 2, "\377", 1},     {0, "\377", 1, "a", 1},    {1, "", 0, "", 0},
        {256, "", 0, "", 0},         {INT64_MAX, "", 0, "", 0},
    };
    struct buf a;
    struct buf b;
    (void)state;
    testenv_init(&t, 1);
    buf_init(&a, &t.env, 0);
    buf_init(&b, &t.env, 0);
    for (size_t i = 0; i + 1 < ARRAY_COUNT(sorted); i++) {
        qp_str less = encode_hook(&a, sorted[i].ns, (qp_str){sorted[i].topic, sorted[i].topic_size},
                                  (qp_str){sorted[i].key, sorted[i].key_size});
        qp_str more = encode_hook(&b, sorted[i + 1].ns,
                                  (qp_str){sorted[i + 1].topic, sorted[i + 1].topic_size},
                                  (qp_str){sorted[i + 1].key, sorted[i + 1].key_size});
        assert_true(str_compare(less, more) < 0);
    }
    buf_done(&a);
    buf_done(&b);
    testenv_done(&t);
}

static struct data_row sample_row(char *name, char *value)
{
    return (struct data_row){.ns = 1,
                             .job = 7,
                             .name = {name, strlen(name)},
                             .value = {value, strlen(value)},
                             .updated_at = 5,
                             .rev = 3};
}

/* A clone and a copy keep every value when the original's memory changes; none stays none, empty
 * stays empty. */
static void test_copies_are_deep(void **state)
{
    char name[] = "name";
    char value[] = "value";
    struct data_row row = sample_row(name, value);
    struct data_row expected = sample_row("name", "value");
    struct arena arena;
    void *clone;
    void *copy;
    const struct data_row empty = {.ns = 1, .name = QP_STR(""), .value = QP_NONE};
    (void)state;
    testenv_init(&t, 1);
    arena_init(&arena, &t.env, 0);
    clone = row_clone(&t.env, TABLE_data, &row);
    copy = row_copy(&arena, TABLE_data, &row);
    memset(name, 'x', 4);
    memset(value, 'x', 5);
    assert_true(storetest_row_equal(TABLE_data, clone, &expected) &&
                storetest_row_equal(TABLE_data, copy, &expected));
    assert_false(storetest_row_equal(TABLE_data, clone, &row));
    mem_free(&t.env, clone);
    clone = row_clone(&t.env, TABLE_data, &empty);
    assert_non_null(((struct data_row *)clone)->name.p);
    assert_null(((struct data_row *)clone)->value.p);
    mem_free(&t.env, clone);
    arena_done(&arena);
    testenv_done(&t);
}

/* Printing names every column, shows none as "-" and bytes as hex. */
static void test_printing(void **state)
{
    struct buf out;
    (void)state;
    testenv_init(&t, 1);
    buf_init(&out, &t.env, 0);
    row_print(
        &out, TABLE_data,
        &(struct data_row){.ns = 1, .job = 2, .name = QP_STR("n"), .value = QP_STR("\x01\xff")});
    buf_byte(&out, ' ');
    row_print(&out, TABLE_data, &(struct data_row){.name = QP_STR("")});
    buf_byte(&out, '\0');
    assert_string_equal(out.p, "data{ns=1 job=2 name=\"n\" value=01ff updated_at=0 rev=0} "
                               "data{ns=0 job=0 name=\"\" value=- updated_at=0 rev=0}");
    buf_done(&out);
    testenv_done(&t);
}

/* Out of memory is NULL, not a crash. */
static void test_copies_without_memory(void **state)
{
    struct data_row row = sample_row("name", "value");
    struct arena arena;
    (void)state;
    testenv_init(&t, 1);
    testenv_fail_from(&t, 1);
    arena_init(&arena, &t.env, 0);
    assert_null(row_clone(&t.env, TABLE_data, &row));
    assert_null(row_copy(&arena, TABLE_data, &row));
    testenv_fail_at(&t, 0);
    arena_done(&arena);
    testenv_done(&t);
}

/* An access token is whole or the file is damaged. */
static void test_access_is_sound(void **state)
{
    static const char hash[LIMIT_ACCESS_HASH_SIZE] = "h";
    struct access_row good = {
        .id = QP_STR("t"), .hash = {hash, sizeof hash}, .role = QP_STR("r"), .rev = 1};
    struct access_row bad[5];
    (void)state;
    assert_true(row_is_sound(TABLE_access, &good));
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        bad[i] = good;
    }
    bad[0].id = QP_NONE;
    bad[1].hash.n--;
    bad[2].role = QP_NONE;
    bad[3].expire_at = -1;
    bad[4].revoked_at = -1;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_false(row_is_sound(TABLE_access, &bad[i]));
    }
}

/* So are a universe and a fact. */
static void test_facts_are_sound(void **state)
{
    struct universe_row universe = {.type = QP_STR("deb"), .name = QP_STR("h"), .rev = 1};
    struct fact_row fact = {.name = QP_STR("curl"), .rev = 1};
    struct universe_row universes[4] = {universe, universe, universe, universe};
    struct fact_row facts[3] = {fact, fact, fact};
    (void)state;
    assert_true(row_is_sound(TABLE_universe, &universe));
    assert_true(row_is_sound(TABLE_fact, &fact));
    universes[0].type = QP_NONE;
    universes[1].name = QP_STR("");
    universes[2].facts = -1;
    universes[3].state = UNIVERSE_STATES;
    for (size_t i = 0; i < ARRAY_COUNT(universes); i++) {
        assert_false(row_is_sound(TABLE_universe, &universes[i]));
    }
    facts[0].name = QP_STR("");
    facts[1].kind = FACT_KINDS;
    facts[2].expire_at = -1;
    for (size_t i = 0; i < ARRAY_COUNT(facts); i++) {
        assert_false(row_is_sound(TABLE_fact, &facts[i]));
    }
}

/* So are a version and a topic. */
static void test_definitions_are_sound(void **state)
{
    struct app_row app = {
        .app = QP_STR("a"), .version = QP_STR("1"), .hash = QP_STR("h"), .rev = 1};
    struct app_topic_row topic = {
        .topic = QP_STR("t"), .app = QP_STR("a"), .version = QP_STR("1"), .rev = 1};
    struct app_row apps[6] = {app, app, app, app, app, app};
    struct app_topic_row topics[5] = {topic, topic, topic, topic, topic};
    (void)state;
    assert_true(row_is_sound(TABLE_app, &app));
    assert_true(row_is_sound(TABLE_app_topic, &topic));
    apps[0].app = QP_STR("");
    apps[1].version = QP_NONE;
    apps[2].hash = QP_NONE;
    apps[3].state = APP_DELETED + 1;
    apps[4].state = -1;
    apps[5].activated_at = -1;
    for (size_t i = 0; i < ARRAY_COUNT(apps); i++) {
        assert_false(row_is_sound(TABLE_app, &apps[i]));
    }
    topics[0].topic = QP_STR("");
    topics[1].app = QP_NONE;
    topics[2].version = QP_NONE;
    topics[3].kind = APP_TOPIC_KINDS;
    topics[4].kind = -1;
    for (size_t i = 0; i < ARRAY_COUNT(topics); i++) {
        assert_false(row_is_sound(TABLE_app_topic, &topics[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptors_are_well_formed),
        cmocka_unit_test(test_index_columns_end_with_the_key),
        cmocka_unit_test(test_encoding_keeps_the_order),
        cmocka_unit_test(test_copies_are_deep),
        cmocka_unit_test(test_printing),
        cmocka_unit_test(test_copies_without_memory),
        cmocka_unit_test(test_access_is_sound),
        cmocka_unit_test(test_definitions_are_sound),
        cmocka_unit_test(test_facts_are_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
