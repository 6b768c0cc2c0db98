/* fuzz_lock.c - any bytes are a package-lock.json, whose root can be traversed, or are refused with a sentence
 *
 * The root of a lock that is read is a package of it; every fact is one that readers take.
 */
#include <stdint.h>

#include "base/env.h"
#include "carto/npm_lock.h"
#include "carto/npm_spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_fact(const struct fact *f)
{
    struct npm_document d;
    struct npm_version version;
    struct npm_relation relation;
    qp_str rest = QP_NONE;
    int rc;
    QP_ASSERT(f->name.n > 2 && f->name.p[1] == ':');
    if (f->name.p[0] == 'd') {
        QP_ASSERT(npm_relations_read(f->value, &rest, NULL) == QP_OK);
        while ((rc = npm_relation_next(&rest, &relation, NULL)) == QP_OK) {}
    } else {
        QP_ASSERT(npm_document_read(f->value, &d, NULL) == QP_OK);
        rest = d.versions;
        while ((rc = npm_version_next(&rest, &version, NULL)) == QP_OK) {}
    }
    QP_ASSERT(rc == QP_E_NOT_FOUND);
}

static void check_root(const struct carto_facts *facts, struct arena *a, qp_str root)
{
    qp_str name;
    qp_str version;
    qp_str fact = QP_NONE;
    qp_str value;
    npm_split(root, &name, &version);
    QP_ASSERT(npm_name_is_valid(name) && version.n > 0);
    QP_ASSERT(npm_fact_name(a, 'n', name, &fact) == QP_OK);
    QP_ASSERT(facts->get(facts->context, fact, &value) == QP_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qp_env env;
    struct npm_import import;
    struct facts_table table;
    struct qp_err err = {0};
    qp_str root = QP_NONE;
    int rc;
    qp_env_init(&env);
    env_complete(&env);
    npm_import_init(&import, &env);
    facts_table_init(&table, &env);
    rc = npm_lock_read(&import, (qp_str){(const char *)data, size}, QP_STR("root"), &root, &err);
    QP_ASSERT(rc == QP_OK || err.text[0] != '\0');
    if (rc == QP_OK) {
        struct carto_facts facts;
        struct arena arena;
        QP_ASSERT(npm_import_finish(&import, &table) == QP_OK);
        facts = facts_table_reader(&table);
        arena_init(&arena, &env, 0);
        check_root(&facts, &arena, root);
        arena_done(&arena);
        for (size_t i = 0; i < table.fact_count; i++) {
            read_fact(&table.facts[i]);
        }
    }
    facts_table_done(&table);
    npm_import_done(&import);
    return 0;
}
