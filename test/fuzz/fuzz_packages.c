/* fuzz_packages.c - any bytes are a list of packages, whose facts can be read again, or are refused with their line
 *
 * The first byte is the size of the pieces in which the list comes: the pieces change nothing.
 */
#include <stdint.h>

#include "base/env.h"
#include "carto/deb_fact.h"
#include "carto/deb_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int import(const struct qp_env *env, qp_str list, size_t piece, struct facts_table *table)
{
    struct deb_import i;
    struct qp_err err = {0};
    int rc = QP_OK;
    facts_table_init(table, env);
    deb_import_init(&i, env);
    for (size_t at = 0; rc == QP_OK && at < list.n; at += piece) {
        size_t left = list.n - at;
        rc = deb_import_feed(&i, (qp_str){list.p + at, left < piece ? left : piece}, &err);
    }
    if (rc == QP_OK) {
        rc = deb_import_end_list(&i, &err);
    }
    if (rc == QP_OK) {
        rc = deb_import_finish(&i, table, &err);
    }
    QP_ASSERT(rc == QP_OK || strncmp(err.text, "line ", 5) == 0);
    deb_import_done(&i);
    return rc;
}

static void read_package(const struct deb_package *package)
{
    qp_str rest = package->relations;
    struct deb_relation relation;
    for (uint64_t left = package->relation_count; left > 0; left--) {
        QP_ASSERT(deb_relation_next(&rest, &relation, NULL) == QP_OK);
        QP_ASSERT(deb_name_is_valid(relation.atom.name));
    }
    QP_ASSERT(rest.n == 0 && deb_version_check(package->version, NULL) == QP_OK);
}

static void read_fact(qp_str value)
{
    struct deb_fact f;
    struct deb_package package;
    struct deb_provider provider;
    bool is_found = false;
    QP_ASSERT(deb_fact_packages(&f, value, NULL) == QP_OK);
    QP_ASSERT(deb_fact_package(&f, &is_found, &package, NULL) == QP_OK);
    while (is_found) {
        read_package(&package);
        QP_ASSERT(deb_fact_package(&f, &is_found, &package, NULL) == QP_OK);
    }
    QP_ASSERT(deb_fact_providers(&f, NULL) == QP_OK);
    do {
        QP_ASSERT(deb_fact_provider(&f, &is_found, &provider, NULL) == QP_OK);
    } while (is_found);
    QP_ASSERT(f.rest.n == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qp_env env;
    struct facts_table whole;
    struct facts_table pieces;
    qp_str list = {(const char *)data, size};
    int rc = QP_OK;
    if (size < 2) {
        return 0;
    }
    qp_env_init(&env);
    env_complete(&env);
    list = (qp_str){list.p + 1, list.n - 1};
    rc = import(&env, list, list.n, &whole);
    QP_ASSERT(import(&env, list, (size_t)data[0] + 1, &pieces) == rc);
    if (rc == QP_OK) {
        QP_ASSERT(strcmp(whole.universe, pieces.universe) == 0);
        for (size_t i = 0; i < whole.fact_count; i++) {
            read_fact(whole.facts[i].value);
        }
    }
    facts_table_done(&whole);
    facts_table_done(&pieces);
    return 0;
}
