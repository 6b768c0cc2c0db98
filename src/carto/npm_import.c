/* npm_import.c - packuments into a table of facts (see npm_import.h) */
#include "carto/npm_import.h"

#include "carto/npm_spec.h"

void npm_import_init(struct npm_import *i, const struct qp_env *env)
{
    *i = (struct npm_import){.env = env};
    arena_init(&i->memory, env, LIMIT_CARTO_UNIVERSE_SIZE);
    omap_init(&i->facts, env);
}

void npm_import_done(struct npm_import *i)
{
    omap_done(&i->facts);
    arena_done(&i->memory);
}

int npm_import_fact(struct npm_import *i, char mark, qp_str name, qp_str value)
{
    qp_str *kept = ARENA_NEW(&i->memory, qp_str);
    qp_str key = QP_NONE;
    if (kept == NULL || !arena_copy(&i->memory, value, kept)) {
        return QP_E_NOMEM;
    }
    QP_TRY(npm_fact_name(&i->memory, mark, name, &key));
    return omap_put(&i->facts, key, kept, NULL);
}

/* The document stands under the name of its package here. */
static int take_fact(void *context, char mark, const char hash[NPM_HASH_TEXT_SIZE], qp_str value)
{
    struct npm_import *i = context;
    return mark == 'p' ? npm_import_fact(i, 'n', i->name, value)
                       : npm_import_fact(i, mark, str_from(hash), value);
}

int npm_import_packument(struct npm_import *i, qp_str name, qp_str text, struct qp_err *err)
{
    struct packument p;
    if (!npm_name_is_valid(name)) {
        return err_set(err, QP_E_INVALID, "'%.*s' is not a name of a package of npm",
                       STR_ARG(name));
    }
    i->name = name;
    QP_TRY(packument_read(&i->memory, text, i, take_fact, &p, err));
    if (!str_is_none(p.name) && !str_equal(p.name, name)) {
        return err_set(err, QP_E_CONFLICT, "it is the packument of '%.*s', not of '%.*s'",
                       STR_ARG(p.name), STR_ARG(name));
    }
    i->package_count++;
    i->version_count += p.versions;
    return QP_OK;
}

int npm_import_finish(struct npm_import *i, struct facts_table *out)
{
    for (struct omap_node *n = omap_seek(&i->facts, QP_STR("")); n != NULL; n = omap_next(n)) {
        QP_TRY(facts_table_add(out, omap_key(n), *(const qp_str *)omap_value(n)));
    }
    facts_table_seal(out);
    return QP_OK;
}
