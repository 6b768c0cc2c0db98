/* fuzz_packument.c - any bytes are a packument, whose facts can be read again, or are refused with a sentence
 *
 * Every fact of the document can be read to its end: tags, versions, and the relations that a version names. Versions that npm would
 * pick for "*", and for each version's own number, are those of the document.
 */
#include <stdint.h>

#include "base/env.h"
#include "carto/npm_import.h"
#include "carto/npm_pick.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_relations(const struct carto_facts *facts, struct arena *a, qp_str hash)
{
    char text[NPM_HASH_TEXT_SIZE];
    qp_str name = QP_NONE;
    qp_str value = QP_NONE;
    qp_str rest = QP_NONE;
    struct npm_relation relation;
    int rc;
    QP_ASSERT(hash.n == NPM_HASH_SIZE);
    npm_hash_text((const unsigned char *)hash.p, text);
    QP_ASSERT(npm_fact_name(a, 'd', str_from(text), &name) == QP_OK);
    QP_ASSERT(facts->get(facts->context, name, &value) == QP_OK);
    QP_ASSERT(npm_relations_read(value, &rest, NULL) == QP_OK);
    while ((rc = npm_relation_next(&rest, &relation, NULL)) == QP_OK) {
        QP_ASSERT(relation.kind < NPM_KINDS);
    }
    QP_ASSERT(rc == QP_E_NOT_FOUND);
}

static void pick_each(const struct npm_document *d, struct arena *a, qp_str asked)
{
    struct npm_spec spec;
    struct npm_version found;
    qp_str version = QP_NONE;
    int rc;
    QP_ASSERT(npm_spec_read(a, asked, &spec) == QP_OK);
    if (spec.kind == NPM_SPEC_UNSUPPORTED) {
        return;
    }
    rc = npm_pick(d, a, &spec, NPM_NO_CUTOFF, &version, NULL);
    QP_ASSERT(rc == QP_OK || rc == QP_E_NOT_FOUND);
    QP_ASSERT(rc != QP_OK || npm_version_find(d, version, &found, NULL) == QP_OK ||
              !str_is_none(spec.locked));
}

static void read_document(const struct carto_facts *facts, struct arena *a)
{
    struct npm_document d;
    struct npm_version version;
    qp_str value = QP_NONE;
    qp_str tag = QP_NONE;
    qp_str of = QP_NONE;
    int rc;
    QP_ASSERT(facts->get(facts->context, QP_STR("n:x"), &value) == QP_OK);
    QP_ASSERT(npm_document_read(value, &d, NULL) == QP_OK);
    for (qp_str rest = d.tags; (rc = npm_tag_next(&rest, &tag, &of, NULL)) == QP_OK;) {
        pick_each(&d, a, tag);
    }
    QP_ASSERT(rc == QP_E_NOT_FOUND);
    for (qp_str rest = d.versions; (rc = npm_version_next(&rest, &version, NULL)) == QP_OK;) {
        if (version.relations.n > 0) {
            read_relations(facts, a, version.relations);
        }
        pick_each(&d, a, version.version);
    }
    QP_ASSERT(rc == QP_E_NOT_FOUND);
    pick_each(&d, a, QP_STR("*"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qp_env env;
    struct npm_import import;
    struct facts_table table;
    struct qp_err err = {0};
    int rc;
    qp_env_init(&env);
    env_complete(&env);
    npm_import_init(&import, &env);
    facts_table_init(&table, &env);
    rc = npm_import_packument(&import, QP_STR("x"), (qp_str){(const char *)data, size}, &err);
    QP_ASSERT(rc == QP_OK || err.text[0] != '\0');
    if (rc == QP_OK) {
        struct carto_facts facts;
        struct arena arena;
        QP_ASSERT(npm_import_finish(&import, &table) == QP_OK);
        facts = facts_table_reader(&table);
        arena_init(&arena, &env, 0);
        read_document(&facts, &arena);
        arena_done(&arena);
    }
    facts_table_done(&table);
    npm_import_done(&import);
    return 0;
}
