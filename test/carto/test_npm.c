/* test_npm.c - the type npm on hand-made universes: npm's picks, aliases, peers, optional failures, overrides, exclusions,
 * dates, pre-releases, cycles; packuments and locks that are none
 *
 * Traversals run in memory (support/cartorun.h). test_npm_oracle.sh compares with npm itself.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "carto/format_items.h"
#include "carto/npm.h"
#include "carto/npm_import.h"
#include "carto/npm_lock.h"
#include "carto/npm_pick.h"
#include "support/cartorun.h"
#include "support/testenv.h"

static struct testenv t;
static struct facts_table table;
static struct carto_facts facts;

/* a packument: its tags, its versions, its times */
#define PACKUMENT(name, tags, versions, times)                                                     \
    {                                                                                              \
        name, "{\"name\":\"" name "\",\"dist-tags\":{" tags "},\"versions\":{" versions "}" times  \
              "}"                                                                                  \
    }
#define TIMES(times) ",\"time\":{\"created\":\"2019-12-31T00:00:00.000Z\"," times "}"
#define DEPENDS(map) "\"dependencies\":{" map "}"

static const struct {
    const char *name;
    const char *text;
} universe[] = {
    PACKUMENT("app", "\"latest\":\"1.0.0\"",
              "\"1.0.0\":{" DEPENDS("\"lib\":\"^1\",\"tool\":\"*\"") "}", ""),
    PACKUMENT(
        "lib", "\"latest\":\"1.1.0\",\"next\":\"2.0.0-beta.1\"",
        "\"1.0.0\":{},\"1.1.0\":{" DEPENDS(
            "\"ring\":\"1\"") "},"
                              "\"1.2.0\":{\"deprecated\":\"use 1.1\"},\"2.0.0-beta.1\":{}",
        TIMES("\"1.0.0\":\"2020-01-01T00:00:00.000Z\",\"1.1.0\":\"2021-01-01T00:00:00.000Z\","
              "\"1.2.0\":\"2022-01-01T00:00:00.000Z\",\"2.0.0-beta.1\":\"2023-01-01T00:00:00Z\"")),
    PACKUMENT("tool", "\"latest\":\"3.0.0-rc.1\"", "\"2.0.0\":{},\"3.0.0-rc.1\":{}", ""),
    PACKUMENT("ring", "\"latest\":\"1.0.0\"", "\"1.0.0\":{" DEPENDS("\"back\":\"1\"") "}", ""),
    PACKUMENT("back", "\"latest\":\"1.0.0\"", "\"1.0.0\":{" DEPENDS("\"ring\":\"1\"") "}", ""),
    PACKUMENT(
        "kinds", "\"latest\":\"1.0.0\"",
        "\"1.0.0\":{" DEPENDS(
            "\"lib\":\"1.0.0\",\"both\":\"1\"") ","
                                                "\"optionalDependencies\":{\"gone\":\"1\",\"both\":\"2\"},"
                                                "\"devDependencies\":{\"tool\":\"2\"},"
                                                "\"peerDependencies\":{\"ring\":\"1\",\"back\":\"1\"},"
                                                "\"peerDependenciesMeta\":{\"back\":{\"optional\":true}}}",
        ""),
    PACKUMENT("both", "\"latest\":\"1.0.0\"", "\"1.0.0\":{},\"2.0.0\":{}", ""),
    PACKUMENT(
        "odd", "\"latest\":\"1.0.0\"",
        "\"1.0.0\":{" DEPENDS(
            "\"mine\":\"npm:lib@^1.0.0\",\"git\":\"github:a/b\",\"file\":\"file:../x\","
            "\"tar\":\"https://x/y.tgz\",\"word\":\"latest or so\",\"tagged\":\"npm:lib@next\","
            "\"none\":\"1\",\"high\":\"npm:lib@^9\",\"any\":\"\",\"number\":3") "}",
        ""),
    PACKUMENT("any", "",
              "\"0.1.0\":{},\"0.2.0\":{\"deprecated\":\"\"},\"0.3.0\":{\"deprecated\":true}", ""),
    PACKUMENT("bad", "\"latest\":\"1.0.0\"", "\"1.0.0\":{" DEPENDS("\"../x\":\"1\"") "}", ""),
    PACKUMENT("@scope/it", "\"latest\":\"1.0.0\"", "\"1.0.0\":{" DEPENDS("\"lib\":\"~1.0\"") "}",
              ""),
    PACKUMENT("empty", "", "", ""),
};

static int setup(void **state)
{
    struct npm_import i;
    struct qp_err err = {0};
    (void)state;
    testenv_init(&t, 1);
    npm_import_init(&i, &t.env);
    facts_table_init(&table, &t.env);
    for (size_t at = 0; at < ARRAY_COUNT(universe); at++) {
        if (npm_import_packument(&i, str_from(universe[at].name), str_from(universe[at].text),
                                 &err) != QP_OK) {
            fail_msg("%s: %s", universe[at].name, err.text);
        }
    }
    assert_int_equal(npm_import_finish(&i, &table), QP_OK);
    npm_import_done(&i);
    facts = facts_table_reader(&table);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    facts_table_done(&table);
    testenv_done(&t);
    return 0;
}

struct traversal {
    struct npm_options options;
    struct carto_use use;
    struct carto_request request;
    struct carto_run run;
};

static void begin(struct traversal *v, const struct carto_facts *of)
{
    v->options = (struct npm_options){0};
    v->use = (struct carto_use){.type = &npm_type, .facts = of, .options = &v->options};
    v->request = (struct carto_request){.uses = &v->use, .use_count = 1, .depth = CARTO_NO_DEPTH};
    cartorun_init(&v->run, &t.env, &v->request);
}

static void traverse(struct traversal *v, const char *root)
{
    qp_str roots[] = {str_from(root)};
    struct qp_err err = {0};
    if (cartorun_traverse(&v->run, roots, 1, &err) != QP_OK) {
        fail_msg("%s: %s", root, err.text);
    }
}

/* The nodes in canonical order; '!' behind one that failed, '?' if it may, '~' behind one whose advice was ignored. */
static void assert_nodes(const struct carto_run *run, const char *expected)
{
    struct buf text;
    buf_init(&text, &t.env, 0);
    for (size_t level = 0; level < run->level_count; level++) {
        for (size_t i = 0; i < run->sizes[level]; i++) {
            const struct carto_item *item = &run->levels[level][i];
            if (!item->is_first && item->state != CARTO_FAILED_ITEM) {
                continue;
            }
            buf_text(&text, text.n > 0 ? " " : "");
            buf_str(&text, item->is_selected ? item->selected.id.name : item->target.name);
            if (item->is_selected) {
                buf_printf(&text, "@%.*s", STR_ARG(item->selected.version));
            }
            buf_text(&text, item->state != CARTO_FAILED_ITEM ? "" : item->is_optional ? "?" : "!");
            buf_text(&text, item->advice_ignored ? "~" : "");
        }
    }
    buf_byte(&text, '\0');
    assert_string_equal(text.p, expected);
    buf_done(&text);
}

/* What npm picks: latest if it fits, else the highest; deprecated ones last; tags; dates; a cycle ends. */
static void test_picks(void **state)
{
    static const struct {
        const char *root;
        const char *before;
        const char *nodes;
    } cases[] = {
        {"npm:app", NULL, "app@1.0.0 lib@1.1.0 tool@3.0.0-rc.1 ring@1.0.0 back@1.0.0"},
        {"npm:lib", NULL, "lib@1.1.0 ring@1.0.0 back@1.0.0"},
        {"npm:lib@next", NULL, "lib@2.0.0-beta.1"},
        {"npm:lib@1.2", NULL, "lib@1.2.0"},
        {"npm:lib@>1.1 || >=2.0.0-alpha", NULL, "lib@2.0.0-beta.1"},
        {"npm:lib@v1.0.0", NULL, "lib@1.0.0"},
        {"npm:lib@<1.1.0", NULL, "lib@1.0.0"},
        {"npm:lib", "2020-06-01", "lib@1.0.0"},
        {"npm:lib@next", "2022-06-01", "lib@1.1.0 ring!"},
        {"npm:lib@~1.2", "2022-01-01T00:00:00Z", "lib@1.2.0"},
        {"npm:tool@2 - 3", NULL, "tool@2.0.0"},
        {"npm:any", NULL, "any@0.2.0"},
        {"npm:@scope/it", NULL, "@scope/it@1.0.0 lib@1.0.0"},
        {"npm:mine@npm:lib@1.0.0", NULL, "lib@1.0.0"},
        {"npm:odd", NULL,
         "odd@1.0.0 lib@1.1.0 git! file! tar! word! lib@2.0.0-beta.1 none! lib! any@0.2.0 ring@1.0.0 "
         "back@1.0.0"},
        {"npm:kinds", NULL, "kinds@1.0.0 lib@1.0.0 gone? both@2.0.0"},
        {"npm:bad", NULL, "bad@1.0.0!"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct traversal v;
        begin(&v, &facts);
        if (cases[i].before != NULL) {
            v.options.has_before = true;
            assert_true(npm_date_read(str_from(cases[i].before), &v.options.before));
        }
        traverse(&v, cases[i].root);
        assert_nodes(&v.run, cases[i].nodes);
        cartorun_done(&v.run);
    }
}

/* What is failed of, with a sentence that says it. */
static void test_failures(void **state)
{
    static const struct {
        const char *root;
        enum carto_failure failure;
        const char *sentence;
    } cases[] = {
        {"npm:none", CARTO_METADATA_MISSING, "no packument was imported of 'none'"},
        {"npm:lib@9", CARTO_OVERCONSTRAINED_VERSION,
         "no version of 'npm:lib' is '9'; the latest is 1.1.0"},
        {"npm:lib@nightly", CARTO_OVERCONSTRAINED_VERSION, "'nightly'"},
        {"npm:empty", CARTO_OVERCONSTRAINED_VERSION, "the latest is not known"},
        {"npm:bad", CARTO_METADATA_ERROR, "it depends on '../x', which is not a name of a package"},
    };
    struct traversal v;
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const struct carto_item *item;
        begin(&v, &facts);
        traverse(&v, cases[i].root);
        item = &v.run.levels[0][0];
        assert_int_equal(item->failure, cases[i].failure);
        if (strstr(item->error.p, cases[i].sentence) == NULL) {
            fail_msg("%s: %s", cases[i].root, item->error.p);
        }
        cartorun_done(&v.run);
    }
    begin(&v, &facts); /* a date needs times, and says when nothing was there */
    v.options.has_before = true;
    v.options.before = 0;
    traverse(&v, "npm:tool");
    assert_non_null(strstr(v.run.levels[0][0].error.p, "has no times of its versions"));
    cartorun_done(&v.run);
    begin(&v, &facts);
    v.options.has_before = true;
    traverse(&v, "npm:lib");
    assert_non_null(strstr(v.run.levels[0][0].error.p, "not later than 1970-01-01T00:00:00.000Z"));
    cartorun_done(&v.run);
}

/* Dev dependencies of roots alone, peers if they are asked for, optional peers never. */
static void test_kinds(void **state)
{
    struct traversal v;
    (void)state;
    begin(&v, &facts);
    v.request.context.scope = CARTO_BUILD_TIME;
    traverse(&v, "npm:kinds");
    assert_nodes(&v.run, "kinds@1.0.0 lib@1.0.0 gone? both@2.0.0 tool@2.0.0");
    cartorun_done(&v.run);
    begin(&v, &facts);
    v.options.with_peers = true;
    traverse(&v, "npm:kinds");
    assert_nodes(&v.run, "kinds@1.0.0 lib@1.0.0 gone? both@2.0.0 ring@1.0.0 back@1.0.0");
    assert_int_equal(v.run.counts.optional, 1);
    cartorun_done(&v.run);
}

/* An override takes a version, a range or another package; a root that says its version keeps it. Exclusions are of
 * packages, so an alias is left out by what it stands for. */
static void test_overrides(void **state)
{
    static const struct {
        const char *root;
        const char *of;
        const char *name;
        const char *version;
        const char *nodes;
    } cases[] = {
        {"npm:app", "lib", "lib", "1.0.0", "app@1.0.0 lib@1.0.0 tool@3.0.0-rc.1"},
        {"npm:app", "lib", "lib", "next", "app@1.0.0 lib@2.0.0-beta.1~ tool@3.0.0-rc.1"},
        {"npm:app", "lib", "any", "<0.2", "app@1.0.0 any@0.1.0~ tool@3.0.0-rc.1"},
        {"npm:app", "lib", "any", "", "app@1.0.0 any@0.2.0~ tool@3.0.0-rc.1"},
        {"npm:app", "lib", "none", "1", "app@1.0.0 lib! tool@3.0.0-rc.1"},
        {"npm:lib", "lib", "lib", "1.0.0", "lib@1.0.0"},
        {"npm:lib@1.2.0", "lib", "lib", "1.0.0", "lib@1.2.0"},
    };
    const qp_str pattern = QP_STR("npm:li*");
    struct traversal v;
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct carto_override o = {
            {QP_STR("npm"), str_from(cases[i].of)},
            {{QP_STR("npm"), str_from(cases[i].name)}, str_from(cases[i].version)}};
        begin(&v, &facts);
        v.request.overrides = &o;
        v.request.override_count = 1;
        traverse(&v, cases[i].root);
        assert_nodes(&v.run, cases[i].nodes);
        cartorun_done(&v.run);
    }
    begin(&v, &facts);
    assert_int_equal(exclusions_make(&v.run.memory, &pattern, 1, &v.request.context.exclusions),
                     QP_OK);
    traverse(&v, "npm:odd");
    assert_nodes(&v.run, "odd@1.0.0 git! file! tar! word! none! any@0.2.0");
    cartorun_done(&v.run);
}

/* What REGISTER refuses, with a sentence. */
static void test_refused(void **state)
{
    static const struct {
        const char *root;
        const char *sentence;
    } cases[] = {
        {"npm:../x", "'../x' is not a name of a package of npm"},
        {"npm:@a/..", "not a name"},
        {"npm:@a", "not a name"},
        {"npm:_x", "not a name"},
        {"npm:", "not a name"},
        {"npm:a b", "not a name"},
        {"npm:node_modules", "not a name"},
        {"npm:a@>>1", "'>>1' for 'npm:a' is neither a version, nor a range, nor a dist-tag"},
        {"npm:a@git+ssh://x/y", "neither a version"},
        {"npm:a@^1 (1.0.0)", "neither a version"},
        {"npm:.", "needs the option manifest"}};
    static const struct {
        const char *options;
        const char *sentence;
        const char *pointer;
    } bad[] = {
        {"{\"before\":\"tomorrow\"}", "before must be a date such as", "/npm/before"},
        {"{\"before\":\"2024-13-01\"}", "before must be a date", "/npm/before"},
        {"{\"before\":3}", "before must be a date", "/npm/before"},
        {"{\"peers\":1}", "peers must be true or false", "/npm/peers"},
        {"{\"universe\":\"x\"}", "universe must be the 64 digits", "/npm/universe"},
        {"{\"manifest\":[]}", "manifest must be the object", "/npm/manifest"},
        {"{\"manifest\":{\"name\":\"..\"}}", "with a name", "/npm/manifest"},
        {"{\"manifest\":{\"name\":\"a\",\"version\":1}}", "version of manifest", "/npm/manifest"},
        {"{\"tag\":\"x\"}", "npm has no option 'tag'", ""}};
    struct traversal v;
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        qp_str root = str_from(cases[i].root);
        struct qp_err err = {0};
        begin(&v, &facts);
        assert_int_equal(cartorun_traverse(&v.run, &root, 1, &err), QP_E_INVALID);
        if (strstr(err.text, cases[i].sentence) == NULL) {
            fail_msg("%s: %s", cases[i].root, err.text);
        }
        cartorun_done(&v.run);
    }
    begin(&v, &facts);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct qp_err err = {0};
        struct json *json = NULL;
        const void *options = NULL;
        assert_int_equal(json_parse(&t.env, str_from(bad[i].options), NULL, &json), QP_OK);
        assert_int_equal(npm_type.options(&v.run.memory, json, CARTO_RUNTIME, &options, &err),
                         QP_E_SHAPE);
        assert_string_equal(err.pointer, bad[i].pointer);
        if (strstr(err.text, bad[i].sentence) == NULL) {
            fail_msg("%s: %s", bad[i].options, err.text);
        }
        json_free(json);
    }
    cartorun_done(&v.run);
}

/* --------------------------------------------------------------------------------------------- files */

/* The same universe whatever the order in which packuments come, and whatever else they say. */
static void test_same_universe(void **state)
{
    struct facts_table other;
    struct npm_import i;
    (void)state;
    npm_import_init(&i, &t.env);
    facts_table_init(&other, &t.env);
    for (size_t at = ARRAY_COUNT(universe); at-- > 0;) {
        struct buf text; /* what nobody reads may look as it likes, below the first level */
        buf_init(&text, &t.env, 0);
        buf_printf(&text, "{\"x\":{\"readme\":\"\\ud800 {\"},%s", universe[at].text + 1);
        assert_int_equal(
            npm_import_packument(&i, str_from(universe[at].name), buf_slice(&text), NULL), QP_OK);
        buf_done(&text);
    }
    assert_int_equal(npm_import_finish(&i, &other), QP_OK);
    assert_string_equal(other.universe, table.universe);
    facts_table_done(&other);
    npm_import_done(&i);
}

/* What is no packument. */
static void test_no_packuments(void **state)
{
    static const struct {
        const char *text;
        int rc;
        const char *sentence;
    } cases[] = {
        {"<html>", QP_E_MALFORMED, ""},
        {"", QP_E_MALFORMED, ""},
        {"[]", QP_E_SHAPE, "no JSON object"},
        {"{\"versions\":[]}", QP_E_SHAPE, "no object 'versions'"},
        {"{\"name\":\"b\",\"versions\":{}}", QP_E_CONFLICT, "packument of 'b', not of 'a'"},
        {"{\"versions\":{\"1.0.0\":{\"dependencies\":{\"x\":\"\\ud800\"}}}}", QP_E_MALFORMED,
         "version 1.0.0"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct npm_import import;
        struct qp_err err = {0};
        npm_import_init(&import, &t.env);
        assert_int_equal(npm_import_packument(&import, QP_STR("a"), str_from(cases[i].text), &err),
                         cases[i].rc);
        if (strstr(err.text, cases[i].sentence) == NULL) {
            fail_msg("%s: %s", cases[i].text, err.text);
        }
        npm_import_done(&import);
    }
}

/* The root is no link whatever it says, and a link that leads to a link leads nowhere. */
static void test_lock_links(void **state)
{
    static const char lock[] =
        "{\"lockfileVersion\":3,\"packages\":{\"\":{\"link\":true,\"dependencies\":{\"a\":\"1\"}},"
        "\"node_modules/a\":{\"resolved\":\"node_modules/b\",\"link\":true},"
        "\"node_modules/b\":{\"resolved\":\"node_modules/a\",\"link\":true}}}";
    struct facts_table locked;
    struct carto_facts read;
    struct npm_import i;
    struct traversal v;
    qp_str root = QP_NONE;
    (void)state;
    npm_import_init(&i, &t.env);
    facts_table_init(&locked, &t.env);
    assert_int_equal(npm_lock_read(&i, str_from(lock), QP_STR("dir"), &root, NULL), QP_OK);
    assert_true(str_equal(root, QP_STR("dir@0.0.0")));
    assert_int_equal(npm_import_finish(&i, &locked), QP_OK);
    read = facts_table_reader(&locked);
    begin(&v, &read);
    traverse(&v, "npm:dir@0.0.0");
    assert_nodes(&v.run, "dir@0.0.0 a!");
    cartorun_done(&v.run);
    facts_table_done(&locked);
    npm_import_done(&i);
}

/* A lock is traversed as it stands: places, links, aliases, what is missing. */
static void test_lock(void **state)
{
    static const char lock[] =
        "{\"name\":\"top\",\"lockfileVersion\":3,\"packages\":{"
        "\"\":{\"dependencies\":{\"a\":\"^1\",\"mine\":\"npm:real@^2\",\"g\":\"github:x/g\"},"
        "\"optionalDependencies\":{\"absent\":\"1\"},\"devDependencies\":{\"d\":\"1\"}},"
        "\"node_modules/a\":{\"version\":\"1.5.0\",\"dependencies\":{\"b\":\"*\",\"missing\":\"3\"},"
        "\"peerDependencies\":{\"d\":\"1\"}},"
        "\"node_modules/a/node_modules/b\":{\"version\":\"2.0.0\",\"dependencies\":{\"a\":\"1\"}},"
        "\"node_modules/b\":{\"version\":\"1.0.0\"},"
        "\"node_modules/d\":{\"version\":\"1.0.0\",\"dependencies\":{\"b\":\"1\"}},"
        "\"node_modules/g\":{\"version\":\"0.0.1\",\"resolved\":\"git+ssh://x\"},"
        "\"node_modules/mine\":{\"name\":\"real\",\"version\":\"2.2.0\"},"
        "\"node_modules/w\":{\"resolved\":\"packages/w\",\"link\":true},"
        "\"packages/w\":{\"version\":\"0.1.0\",\"dependencies\":{\"b\":\"1\"}}}}";
    static const struct {
        const char *text;
        const char *sentence;
    } bad[] = {
        {"{}", "lockfileVersion 2 or 3"},
        {"{\"lockfileVersion\":1,\"dependencies\":{}}", "lockfileVersion 2 or 3"},
        {"{\"lockfileVersion\":3,\"packages\":{}}", "no root"},
        {"{\"lockfileVersion\":3,\"packages\":{\"\":{},\"node_modules/..\":{\"version\":\"1\"}}}",
         "at 'node_modules/..' no name of a package"},
        {"{\"lockfileVersion\":3,\"packages\":{\"\":{},\"node_modules/a\":{\"version\":\"\"}}}",
         "no version"},
        {"{\"lockfileVersion\":3,\"packages\":{\"\":3}}", "a place that is none"}};
    struct facts_table locked;
    struct carto_facts read;
    struct npm_import i;
    struct traversal v;
    qp_str root = QP_NONE;
    (void)state;
    npm_import_init(&i, &t.env);
    facts_table_init(&locked, &t.env);
    assert_int_equal(npm_lock_read(&i, str_from(lock), QP_STR("dir"), &root, NULL), QP_OK);
    assert_true(str_equal(root, QP_STR("top@0.0.0")));
    assert_int_equal(npm_import_finish(&i, &locked), QP_OK);
    read = facts_table_reader(&locked);
    begin(&v, &read);
    traverse(&v, "npm:top@0.0.0");
    assert_nodes(&v.run, "top@0.0.0 a@1.5.0 real@2.2.0 g@0.0.1 w@0.1.0 b@2.0.0 missing! b@1.0.0");
    cartorun_done(&v.run);
    begin(&v, &read);
    v.options.with_peers = true;
    v.request.context.scope = CARTO_BUILD_TIME;
    traverse(&v, "npm:top@0.0.0");
    assert_nodes(&v.run,
                 "top@0.0.0 a@1.5.0 real@2.2.0 g@0.0.1 d@1.0.0 w@0.1.0 b@2.0.0 missing! b@1.0.0");
    cartorun_done(&v.run);
    facts_table_done(&locked);
    npm_import_done(&i);
    for (size_t at = 0; at < ARRAY_COUNT(bad); at++) {
        struct qp_err err = {0};
        npm_import_init(&i, &t.env);
        assert_int_equal(npm_lock_read(&i, str_from(bad[at].text), QP_STR("dir"), &root, &err),
                         QP_E_SHAPE);
        if (strstr(err.text, bad[at].sentence) == NULL) {
            fail_msg("%s: %s", bad[at].text, err.text);
        }
        npm_import_done(&i);
    }
}

/* A package.json that comes with the request is a root, whatever the registry has under its name. */
static void test_manifest(void **state)
{
    struct traversal v;
    struct json *json = NULL;
    const void *options = NULL;
    (void)state;
    begin(&v, &facts);
    assert_int_equal(json_parse(&t.env,
                                QP_STR("{\"manifest\":{\"name\":\"app\",\"version\":\"9.0.0\","
                                       "\"dependencies\":{\"lib\":\"1.0.0\",\"app\":\"1\"}}}"),
                                NULL, &json),
                     QP_OK);
    assert_int_equal(npm_type.options(&v.run.memory, json, CARTO_RUNTIME, &options, NULL), QP_OK);
    json_free(json);
    v.use.options = options;
    traverse(&v, "npm:.");
    assert_nodes(&v.run,
                 "app@9.0.0 lib@1.0.0 app@1.0.0 lib@1.1.0 tool@3.0.0-rc.1 ring@1.0.0 back@1.0.0");
    cartorun_done(&v.run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_picks),         cmocka_unit_test(test_failures),
        cmocka_unit_test(test_kinds),         cmocka_unit_test(test_overrides),
        cmocka_unit_test(test_refused),       cmocka_unit_test(test_same_universe),
        cmocka_unit_test(test_no_packuments), cmocka_unit_test(test_lock),
        cmocka_unit_test(test_lock_links),    cmocka_unit_test(test_manifest),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
