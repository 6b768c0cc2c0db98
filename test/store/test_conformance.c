/* test_conformance.c - every provider keeps every contract of store.h: the same tests, once per
 * provider
 *
 * usage: test_conformance [PATTERN [PROVIDER]]     (only the tests whose names match, as in test_host_*)
 */
#include <sqlite3.h>

#include "store/conform.h"
#include "support/faultvfs.h"

static const struct conform_topic *const topics[] = {
    &conform_commit, &conform_decided, &conform_host,     &conform_jobs,   &conform_sweep,
    &conform_ledger, &conform_sem,     &conform_messages, &conform_beside, &conform_lanes,
    &conform_wake,   &conform_signals, &conform_listen,   &conform_keys,   &conform_misc,
    &conform_apps,   &conform_facts,   &conform_journal,  &conform_reads,
};

enum { TESTS_MAX = 512 };

static size_t gather(struct CMUnitTest *out)
{
    size_t count = 0;
    for (size_t i = 0; i < ARRAY_COUNT(topics); i++) {
        QP_ASSERT(count + topics[i]->count <= TESTS_MAX);
        memcpy(out + count, topics[i]->tests, topics[i]->count * sizeof *out);
        count += topics[i]->count;
    }
    return count;
}

/* A disk whose syncs take no time: nothing that is proved here depends on them, and there are
 * thousands. */
static void use_quick_disk(void)
{
    faultvfs_init(FAULTVFS_SYNC_PLAYED, false);
    QP_ASSERT(sqlite3_vfs_register(sqlite3_vfs_find(FAULTVFS_NAME), 1) == SQLITE_OK);
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[TESTS_MAX];
    size_t count = gather(tests);
    int failed = 0;
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    use_quick_disk();
    for (int kind = 0; kind < STORETEST_ALL; kind++) {
        if (argc > 2 && strcmp(argv[2], storetest_name((enum storetest_kind)kind)) != 0) {
            continue;
        }
        conform_use((enum storetest_kind)kind);
        failed += _cmocka_run_group_tests(storetest_name((enum storetest_kind)kind), tests, count,
                                          NULL, NULL);
    }
    return failed;
}
