/* test_bitflips.c - a valid file with some bits turned: refused and left alone, or usable; never a
 * crash
 *
 * Every flip is opened with a check of all pages, read whole, and, where it opens, given one op of
 * every kind. A bit in a text or in a number that means nothing to the structure cannot be seen by
 * any check: then the content is another, and whatever it says, ops on it end in a code and not in
 * a crash.
 */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/store.h"
#include "support/faultvfs.h"
#include "support/files.h"
#include "support/opworld.h"

#define PAGE 4096

static struct testenv t;
static bool torture;
static char dir[300];
static char path[320];
static unsigned char *good; /* a valid file with rows in most tables */
static size_t good_size;
static char *good_dump;
static struct opworld world;

static bool writer_may_leave(const struct files_entry *e)
{
    return files_ends_with(e->name, "-qplock");
}

static bool reader_may_leave(const struct files_entry *e)
{
    return files_ends_with(e->name, "-wal") && e->size == 0;
}

/* One op of every kind; a damaged row may stop any of them, with any code but silence. */
static void try_ops(struct store *s)
{
    for (int kind = 0; kind < OP_COUNT; kind++) {
        struct commit c;
        struct bundle *b;
        commit_init(&c, s);
        b = commit_bundle(&c, opworld_name((enum op_kind)kind));
        opworld_fill(&world, bundle_op(b, (enum op_kind)kind));
        (void)store_commit(s, &c); /* any code will do */
        commit_done(&c);
    }
}

static void remove_all(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal", "-qplock"};
    char name[400];
    for (size_t i = 0; i < ARRAY_COUNT(suffixes); i++) {
        (void)snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        (void)unlink(name); /* most are not there */
    }
}

enum verdict { REFUSED, HARMLESS, CHANGED, VERDICTS };

/* A file with some bits turned: refused, and left alone; or the same as before; or with other
 * content, as a bit in a text can make it, that no check can see. */
static enum verdict judge(const unsigned char *bytes)
{
    struct store_options options = {
        .path = path, .full_check = true, .read_only = true, .vfs = FAULTVFS_NAME};
    struct store *s = NULL;
    struct qp_err err = {0};
    struct files_snapshot before;
    struct buf out;
    enum verdict verdict = REFUSED;
    files_put(path, bytes, good_size);
    files_snapshot(&before, dir);
    if (store_open(&t.env, &options, &s, &err) == QP_OK) {
        buf_init(&out, &t.env, 0);
        if (store_dump(s, &out, &err) == QP_OK) {
            buf_byte(&out, '\0');
            verdict = strcmp(out.p, good_dump) == 0 ? HARMLESS : CHANGED;
        }
        buf_done(&out);
        (void)store_close(s, NULL); /* a reader has nothing to say */
    }
    files_untouched(&before, "read", reader_may_leave);
    remove_all();
    files_put(path, bytes, good_size);
    options.read_only = false;
    s = NULL;
    files_snapshot(&before, dir);
    if (store_open(&t.env, &options, &s, &err) == QP_OK) {
        try_ops(s);
        (void)store_close(s, &err); /* may have found the damage */
    } else {
        files_untouched(&before, "refused to a writer", writer_may_leave);
    }
    return verdict;
}

static void flip_and_judge(const size_t *bits, size_t count, int tally[VERDICTS])
{
    unsigned char *bytes = malloc(good_size);
    assert_non_null(bytes);
    memcpy(bytes, good, good_size);
    for (size_t i = 0; i < count; i++) {
        bytes[bits[i] / 8] ^= (unsigned char)(1 << bits[i] % 8);
    }
    remove_all();
    tally[judge(bytes)]++;
    free(bytes);
}

static void report(const int tally[VERDICTS])
{
    printf("%d refused, %d harmless, %d with other content\n", tally[REFUSED], tally[HARMLESS],
           tally[CHANGED]);
}

/* Every page has a header of 8 or 12 bytes; page 1 has the file's before it. */
static void test_bits_of_page_headers(void **state)
{
    int tally[VERDICTS] = {0};
    size_t pages = good_size / PAGE;
    size_t step = torture ? 1 : pages / 12 + 1;
    (void)state;
    for (size_t page = 0; page < pages; page += step) {
        size_t from = page == 0 ? 0 : page * PAGE;
        size_t size = page == 0 ? 112 : 12;
        for (size_t i = 0; i < size; i += torture ? 1 : 3) {
            size_t bit = (from + i) * 8 + (i + page) % 8;
            flip_and_judge(&bit, 1, tally);
        }
    }
    report(tally);
    assert_true(tally[REFUSED] > 0);
    remove_all();
}

/* Most of a young file is empty, and a good part of the rest is the text of its schema. used: a bit
 * of a byte that is not 0, of any page with the same chance. */
static size_t random_bit(uint64_t *random, bool used)
{
    size_t page = (size_t)testenv_random_below(random, good_size / PAGE) * PAGE;
    size_t bit = (size_t)testenv_random_below(random, good_size * 8);
    for (int tries = 0; used && tries < 1000; tries++) {
        bit = page * 8 + (size_t)testenv_random_below(random, PAGE * 8);
        used = good[bit / 8] == 0;
    }
    return bit;
}

static void test_random_bits(void **state)
{
    uint64_t random = testenv_seed();
    int tally[VERDICTS] = {0};
    (void)state;
    for (int i = 0; i < (torture ? 2000 : 200); i++) {
        size_t bits[4];
        size_t count = 1 + (size_t)testenv_random_below(&random, 4);
        for (size_t k = 0; k < count; k++) {
            bits[k] = random_bit(&random, i % 4 != 0);
        }
        flip_and_judge(bits, count, tally);
    }
    report(tally);
    remove_all();
}

/* ------------------------------------------------------------------------------------ the frame */

static void make_good(void)
{
    struct store_options options = {.path = path};
    struct store *s;
    struct qp_err err = {0};
    struct buf out;
    assert_int_equal(store_open(&t.env, &options, &s, &err), QP_OK);
    opworld_prepare(s, &t, &world);
    assert_int_equal(store_close(s, &err), QP_OK);
    good = files_get(path, &good_size);
    options.read_only = true;
    assert_int_equal(store_open(&t.env, &options, &s, &err), QP_OK);
    buf_init(&out, &t.env, 0);
    assert_int_equal(store_dump(s, &out, &err), QP_OK);
    buf_byte(&out, '\0');
    good_dump = malloc(out.n);
    assert_non_null(good_dump);
    memcpy(good_dump, out.p, out.n);
    buf_done(&out);
    assert_int_equal(store_close(s, &err), QP_OK);
}

static int setup(void **state)
{
    const char *lane = getenv("QP_LANE");
    (void)state;
    torture = lane != NULL && strcmp(lane, "torture") == 0;
    testenv_init(&t, 1);
    faultvfs_init(FAULTVFS_SYNC_PLAYED, false);
    files_temporary(dir, sizeof dir, "bitflips");
    (void)snprintf(path, sizeof path, "%s/store.db", dir);
    make_good();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    files_remove(dir);
    free(good);
    free(good_dump);
    testenv_done(&t);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bits_of_page_headers),
        cmocka_unit_test(test_random_bits),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
