/* test_cost.c - what a sequential step of a flow costs: commits, and rows per commit
 *
 * Rows are counted by comparing all tables before and after each commit, in memory. Not counted are rows that hold numbers
 * of the store itself: the feed, the counts of lanes and of statuses, the head, the runs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/env.h"
#include "flowcases.h"

#define STEPS 10
#define COMMITS_PER_STEP 2
#define ROWS_PER_COMMIT 6
#define STEADY 4   /* commits at the beginning: the start, the first decision */
#define COMMITS 64 /* of the flow */

static struct qp_env env;
static struct buf now;
static struct buf was;
static int64_t rows_of[COMMITS];
static size_t commit_count;

static bool is_counted(const char *line)
{
    static const char *const others[] = {"feed{", "lane{", "head{", "node{", "counter{", "space{"};
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        if (strncmp(line, others[i], strlen(others[i])) == 0) {
            return false;
        }
    }
    return true;
}

static const struct table *table_of(const char *line)
{
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        size_t n = strlen(tables[i].name);
        if (strncmp(line, tables[i].name, n) == 0 && line[n] == '{') {
            return &tables[i];
        }
    }
    fail_msg("no table: %.40s", line);
    return NULL;
}

/* The part of a line that has the table and the key. */
static size_t key_size(const char *line)
{
    size_t columns = table_of(line)->key_count;
    size_t n = 0;
    while (columns > 0 && line[n] != '\n') {
        columns -= line[n++] == ' ';
    }
    return n;
}

/* Rows of `a` that `b` does not have, as lines; by their keys alone: those that are gone. */
static int64_t only_in(const char *a, const char *b, bool by_key)
{
    int64_t count = 0;
    while (*a != '\0') {
        size_t n = strcspn(a, "\n") + 1;
        if (is_counted(a) && memmem(b, strlen(b), a, by_key ? key_size(a) : n) == NULL) {
            count++;
        }
        a += n;
    }
    return count;
}

/* A row is written when it is new, changed or deleted. */
static void count_rows(struct graphrun *r)
{
    struct qp_err err = {0};
    struct buf last = was;
    buf_reset(&now);
    assert_int_equal(store_dump(r->f.s, &now, &err), QP_OK);
    buf_byte(&now, '\0');
    if (was.n > 0 && strcmp(now.p, was.p) != 0) {
        assert_true(commit_count < COMMITS);
        rows_of[commit_count++] = only_in(now.p, was.p, false) + only_in(was.p, now.p, true);
    }
    was = now;
    now = last;
}

/* The goal: at most two commits per step, and at most six rows per commit. */
static void test_sequential_step(void **state)
{
    struct flow_way way = {.kind = STORETEST_MEMORY, .watch = count_rows};
    (void)state;
    int64_t most = 0;
    int64_t all = 0;
    (void)flow_run(&flow_cases[0], &way);
    assert_true(commit_count > STEADY + 2);
    for (size_t i = STEADY; i + 2 < commit_count; i++) { /* the last two end the flow */
        most = rows_of[i] > most ? rows_of[i] : most;
        all += rows_of[i];
    }
    print_message("%zu commits of %d steps; between start and end %lld rows per commit at most, "
                  "%.1f per step\n",
                  commit_count, STEPS, (long long)most,
                  2.0 * (double)all / (double)(commit_count - STEADY - 2));
    assert_true(commit_count <= COMMITS_PER_STEP * STEPS + STEADY);
    assert_true(most <= ROWS_PER_COMMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sequential_step)};
    env_complete(&env);
    buf_init(&now, &env, 0);
    buf_init(&was, &env, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
