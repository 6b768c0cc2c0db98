/* test_deb.c - the type deb and the generic stages on a small universe: closures, limits, errors, formats
 *
 * Traversals run in memory (support/cartorun.h). Sets are compared as text; the whole of Debian is compared with apt in
 * test_oracle.sh.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "carto/deb.h"
#include "carto/deb_import.h"
#include "carto/format_items.h"
#include "carto/format_own.h"
#include "carto/result_graph.h"
#include "support/cartorun.h"
#include "support/testenv.h"

static struct testenv t;
static struct facts_table table;
static struct carto_facts facts;

#define STANZA(name, version, rest)                                                                \
    "Package: " name "\nVersion: " version "\nArchitecture: amd64\n" rest "\n"

/* app needs a mail agent; libc and libgcc are a cycle; old is too old for `strict`; perl:any is allowed. */
static const char list[] =
    STANZA("app", "1", "Depends: libc (>= 2), mta-default | mta, perl:any\nRecommends: docs\n")
        STANZA("libc", "2.1", "Depends: libgcc\n") STANZA("libgcc", "12", "Depends: libc\n")
            STANZA("exim", "4", "Provides: mta\nDepends: libc\n")
                STANZA("postfix", "3", "Provides: mta (= 9)\nDepends: libc, ssl\n")
                    STANZA("ssl", "3", "")
                        STANZA("perl", "5", "Multi-Arch: allowed\nDepends: libc\n")
                            STANZA("docs", "1", "Depends: viewer | web\n") STANZA("viewer", "1", "")
                                STANZA("old", "1", "")
                                    STANZA("strict", "1", "Depends: old (>= 2), gone\n")
                                        STANZA("newer", "1", "Depends: mta (>= 8)\n");

static int setup(void **state)
{
    struct deb_import i;
    (void)state;
    testenv_init(&t, 1);
    deb_import_init(&i, &t.env);
    facts_table_init(&table, &t.env);
    assert_int_equal(deb_import_feed(&i, str_from(list), NULL), QP_OK);
    assert_int_equal(deb_import_end_list(&i, NULL), QP_OK);
    assert_int_equal(deb_import_finish(&i, &table, NULL), QP_OK);
    deb_import_done(&i);
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
    struct deb_options options;
    struct carto_use use;
    struct carto_request request;
    struct carto_run run;
};

static void begin(struct traversal *v, enum deb_closure closure)
{
    v->options = (struct deb_options){closure, QP_STR("amd64")};
    v->use = (struct carto_use){&deb_type, &facts, &v->options, false, false};
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

/* The nodes in canonical order; '!' behind one that failed, '~' behind one whose advice was ignored. */
static void assert_nodes(const struct carto_run *run, const char *expected)
{
    struct buf text;
    buf_init(&text, &t.env, 0);
    for (size_t level = 0; level < run->level_count; level++) {
        for (size_t i = 0; i < run->sizes[level]; i++) {
            const struct carto_item *item = &run->levels[level][i];
            if (item->is_first) {
                buf_text(&text, text.n > 0 ? " " : "");
                buf_str(&text, result_package(item).id.name);
                buf_text(&text, item->state == CARTO_FAILED_ITEM ? "!" : "");
                buf_text(&text, item->advice_ignored ? "~" : "");
            }
        }
    }
    buf_byte(&text, '\0');
    assert_string_equal(text.p, expected);
    buf_done(&text);
}

/* What each closure makes of alternatives, providers, recommendations, cycles and what cannot be satisfied. */
static void test_closures(void **state)
{
    static const struct {
        enum deb_closure closure;
        const char *root;
        const char *nodes;
    } cases[] = {
        {DEB_CLOSURE_A, "deb:app",
         "app libc mta-default mta exim postfix perl:any perl libgcc ssl"},
        {DEB_CLOSURE_F, "deb:app", "app libc mta-default perl:any perl libgcc"},
        {DEB_CLOSURE_FR, "deb:app", "app libc mta-default perl:any perl docs libgcc viewer"},
        {DEB_CLOSURE_R, "deb:app", "app libc mta-default mta perl:any libgcc"},
        {DEB_CLOSURE_S, "deb:app", "app libc exim perl libgcc"},
        {DEB_CLOSURE_S, "deb:newer", "newer postfix libc ssl libgcc"},
        {DEB_CLOSURE_A, "deb:newer", "newer mta postfix libc ssl libgcc"},
        {DEB_CLOSURE_A, "deb:mta", "mta"},
        {DEB_CLOSURE_A, "deb:strict", "strict old~ gone!"},
        {DEB_CLOSURE_S, "deb:strict", "strict old! gone!"},
        {DEB_CLOSURE_S, "deb:libc=2.1", "libc libgcc"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct traversal v;
        begin(&v, cases[i].closure);
        traverse(&v, cases[i].root);
        assert_nodes(&v.run, cases[i].nodes);
        assert_string_equal(stage_end(&v.run.counts), "TRAVERSE_COMPLETE");
        cartorun_done(&v.run);
    }
}

/* Depth 0 gives the roots; items at the limit are selected, their relationships are counted as cut. */
static void test_depth(void **state)
{
    static const struct {
        const char *root;
        int64_t depth;
        int64_t cut;
        const char *nodes;
        const char *reason;
    } cases[] = {
        {"deb:app", 0, 3, "app", "MAX_DEPTH_REACHED"},
        {"deb:ssl", 0, 0, "ssl", "TRAVERSE_COMPLETE"},
        {"deb:newer", 1, 2, "newer postfix", "MAX_DEPTH_REACHED"},
        {"deb:newer", 2, 1, "newer postfix libc ssl", "MAX_DEPTH_REACHED"},
        {"deb:newer", 9, 0, "newer postfix libc ssl libgcc", "TRAVERSE_COMPLETE"},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct traversal v;
        begin(&v, DEB_CLOSURE_S);
        v.request.depth = cases[i].depth;
        traverse(&v, cases[i].root);
        assert_nodes(&v.run, cases[i].nodes);
        assert_int_equal(v.run.counts.cut, cases[i].cut);
        assert_string_equal(stage_end(&v.run.counts), cases[i].reason);
        cartorun_done(&v.run);
    }
}

/* An excluded target has no item, nor do providers of an excluded name; a root may be excluded. */
static void test_exclusions(void **state)
{
    static const struct {
        const char *pattern;
        const char *nodes;
    } cases[] = {{"deb:libc", "newer mta postfix ssl"},
                 {"deb:lib*", "newer mta postfix ssl"},
                 {"deb:mta", "newer"},
                 {"deb:newer", "newer mta postfix libc ssl libgcc"},
                 {"npm:*", "newer mta postfix libc ssl libgcc"},
                 {"*:*", "newer"},
                 {"deb:*s*l*", "newer mta postfix libc libgcc"}};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct traversal v;
        qp_str pattern = str_from(cases[i].pattern);
        begin(&v, DEB_CLOSURE_A);
        assert_int_equal(exclusions_make(&v.run.memory, &pattern, 1, &v.request.context.exclusions),
                         QP_OK);
        traverse(&v, "deb:newer");
        assert_nodes(&v.run, cases[i].nodes);
        cartorun_done(&v.run);
    }
}

/* An override chooses before the type does, also another package, and advice against it is recorded as ignored. */
static void test_overrides(void **state)
{
    const struct carto_override override = {{QP_STR("deb"), QP_STR("mta")},
                                            {{QP_STR("deb"), QP_STR("exim")}, QP_NONE}};
    const struct carto_override missing = {{QP_STR("deb"), QP_STR("ssl")},
                                           {{QP_STR("deb"), QP_STR("ssl")}, QP_STR("4")}};
    struct traversal v;
    struct qp_err err = {0};
    (void)state;
    begin(&v, DEB_CLOSURE_S);
    v.request.overrides = &override;
    v.request.override_count = 1;
    assert_int_equal(deb_type.check_override(&v.request, &v.run.memory, &override, &err), QP_OK);
    assert_int_equal(deb_type.check_override(&v.request, &v.run.memory, &missing, &err),
                     QP_E_NOT_FOUND);
    assert_non_null(
        strstr(err.text, "no version '4' of 'deb:ssl' in the imported lists; they have 3"));
    traverse(&v, "deb:newer");
    assert_nodes(&v.run, "newer exim~ libc libgcc");
    cartorun_done(&v.run);
}

/* What REGISTER refuses, with code and sentence. */
static void test_refused(void **state)
{
    static const struct {
        const char *root;
        int rc;
        const char *sentence;
    } cases[] = {{"postfx", QP_E_INVALID, "has no type"},
                 {"rpm:bash", QP_E_SHAPE, "unknown package type 'rpm'; known types: deb"},
                 {"deb:postfx", QP_E_NOT_FOUND, "the nearest names are postfix"},
                 {"deb:zzzzzzzzzzzz", QP_E_NOT_FOUND, "no package 'deb:zzzzzzzzzzzz'"},
                 {"deb:gone", QP_E_NOT_FOUND, "no package 'deb:gone'"},
                 {"deb:a b", QP_E_INVALID, "not a name of a package"},
                 {"deb:ssl=4", QP_E_NOT_FOUND, "they have 3"},
                 {"deb:ssl=", QP_E_INVALID, "a version has"}};
    struct traversal v;
    struct qp_err err = {0};
    const void *options = NULL;
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        qp_str root = str_from(cases[i].root);
        begin(&v, DEB_CLOSURE_A);
        assert_int_equal(cartorun_traverse(&v.run, &root, 1, &err), cases[i].rc);
        if (strstr(err.text, cases[i].sentence) == NULL) {
            fail_msg("%s: %s", cases[i].root, err.text);
        }
        cartorun_done(&v.run);
    }
    begin(&v, DEB_CLOSURE_A);
    assert_int_equal(deb_type.options(&v.run.memory, NULL, CARTO_BUILD_TIME, &options, &err),
                     QP_E_SHAPE);
    assert_non_null(strstr(err.text, "source packages"));
    assert_int_equal(deb_type.check_name(QP_STR("li?b"), true, &err), QP_E_INVALID);
    cartorun_done(&v.run);
}

/* ------------------------------------------------------------------------------------------ formats */

static int keep(void *context, const char *bytes, size_t size)
{
    buf_add(context, bytes, size);
    return buf_rc(context);
}

/* A format that a request could bring. */
static const char own_format[] =
    "{\"node\":{\"n\":\"{$index}\",\"id\":\"{$item.purl}\",\"at\":\"{$item.depth}\",\"asked\":\"{$item.requirement}\","
    "\"scopes\":\"{$item.scopes}\",\"errors\":\"{$item.errors}\"}}";

static const struct format_own *read_own(struct arena *a, const char *format)
{
    const struct format_own *own = NULL;
    struct json *json = NULL;
    assert_int_equal(json_parse(a->env, str_from(format), NULL, &json), QP_OK);
    assert_int_equal(format_own_read(a, json, &own, NULL), QP_OK);
    json_free(json);
    return own;
}

/* All formats of a traversal, one behind the other. */
static int write_formats(struct traversal *v, struct buf *out)
{
    struct carto_items items = cartorun_items(&v->run);
    struct carto_result_head head = {QP_STR("u"), stage_end(&v->run.counts), v->run.counts};
    struct format_digest digest;
    struct arena a;
    arena_init(&a, &t.env, 0);
    assert_int_equal(format_hash(&t.env, &items, &head, &digest), QP_OK);
    for (enum carto_format f = CARTO_JSON; f < CARTO_FORMATS; f++) {
        struct format_of of = {
            &t.env, items, head, str_from(digest.hash), f, read_own(&a, own_format)};
        assert_int_equal(format_write(&of, out, keep), QP_OK);
    }
    arena_done(&a);
    return QP_OK;
}

static void write_own(struct traversal *v, const char *format, struct buf *out)
{
    struct carto_items items = cartorun_items(&v->run);
    struct carto_result_head head = {QP_STR("u"), stage_end(&v->run.counts), v->run.counts};
    struct format_digest digest;
    struct arena a;
    arena_init(&a, &t.env, 0);
    buf_reset(out);
    assert_int_equal(format_hash(&t.env, &items, &head, &digest), QP_OK);
    struct format_of of = {
        &t.env, items, head, str_from(digest.hash), CARTO_OWN, read_own(&a, format)};
    assert_int_equal(format_write(&of, out, keep), QP_OK);
    buf_byte(out, '\0');
    arena_done(&a);
}

/* The order of work and repeated stages change no byte. */
static void test_same_bytes(void **state)
{
    struct buf first;
    struct buf other;
    uint64_t seed = testenv_seed();
    (void)state;
    buf_init(&first, &t.env, 0);
    buf_init(&other, &t.env, 0);
    for (uint64_t i = 0; i < 20; i++) {
        struct traversal v;
        begin(&v, DEB_CLOSURE_A);
        v.run.shuffle = i == 0 ? 0 : seed + i;
        v.run.again = i % 2 == 1;
        traverse(&v, "deb:app");
        buf_reset(&other);
        assert_int_equal(write_formats(&v, i == 0 ? &first : &other), QP_OK);
        if (i > 0) {
            assert_int_equal(first.n, other.n);
            assert_memory_equal(first.p, other.p, first.n);
        }
        cartorun_done(&v.run);
    }
    buf_done(&first);
    buf_done(&other);
}

/* The hash is that of the text without its member, and a result that has changed is found. */
static void test_hash(void **state)
{
    struct traversal v;
    struct buf text;
    struct hash_stream h;
    struct format_digest digest;
    char own[HASH_TEXT_SIZE];
    const char *member = NULL;
    const size_t member_size = strlen("\"hash\":\"\",") + HASH_TEXT_SIZE - 1;
    (void)state;
    begin(&v, DEB_CLOSURE_A);
    traverse(&v, "deb:app");
    buf_init(&text, &t.env, 0);
    struct carto_items items = cartorun_items(&v.run);
    struct carto_result_head head = {QP_STR("u"), stage_end(&v.run.counts), v.run.counts};
    assert_int_equal(format_hash(&t.env, &items, &head, &digest), QP_OK);
    struct format_of of = {&t.env, items, head, str_from(digest.hash), CARTO_JSON, NULL};
    assert_int_equal(format_write(&of, &text, keep), QP_OK);
    member = memmem(text.p, text.n, "\"hash\":", 7);
    assert_non_null(member);
    hash_stream_init(&h);
    hash_stream_add(&h, text.p, (size_t)(member - text.p));
    hash_stream_add(&h, member + member_size, text.n - (size_t)(member - text.p) - member_size);
    hash_stream_end(&h, own);
    assert_string_equal(own, digest.hash);
    of.head.counts.excluded++;
    for (of.format = CARTO_JSON; of.format < CARTO_FORMATS; of.format++) {
        bool is_checked = of.format != CARTO_JSONL && of.format != CARTO_TREE;
        assert_int_equal(format_write(&of, &text, keep), is_checked ? QP_E_CORRUPT : QP_OK);
    }
    buf_done(&text);
    cartorun_done(&v.run);
}

/* A mapping of every node; what it does not give is null. A node that takes too much has its own error, and the clock and chance are
 * always the same. */
static void test_own_format(void **state)
{
    static const struct {
        const char *format;
        const char *part;
    } cases[] = {
        {"{\"node\":\"{$item.name}\"}", "\"newer\"\n\"libc\"\n"},
        {"{\"node\":{\"v\":\"{$item.version}\",\"n\":\"{$index}\"}}", "{\"v\":\"1\",\"n\":0}\n"},
        {"{\"node\":\"{$item.requirement}\"}", "\n[\"mta (>= 8)\"]\n"},
        {"{\"node\":\"{$item.scopes}\"}", "[\"runtime\"]\n"},
        {"{\"node\":\"{$item.nothing}\"}", "null\nnull\n"},
        {"{\"node\":\"{$key}\"}", "null\n"},
        {"{\"node\":{\"@pipe\":[[\"{$item.name}\"],[\"{@string.toUpperCase}\"]]}}", "\"NEWER\"\n"},
        {"{\"node\":{\"@pipe\":[[\"{@date.now}\"]]}}", "0\n"},
        {"{\"node\":{\"@pipe\":[[\"{@math.random}\"]]}}", "0\n0\n"},
        {"{\"node\":{\"@pipe\":[[\"{$item.name}\",1000000000],[\"{@string.repeat}\"]]}}",
         ",\"purl\":\"pkg:deb/debian/newer@1\"}\n"},
    };
    struct traversal v;
    struct buf text;
    (void)state;
    begin(&v, DEB_CLOSURE_A);
    traverse(&v, "deb:newer");
    buf_init(&text, &t.env, 0);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        write_own(&v, cases[i].format, &text);
        if (strstr(text.p, cases[i].part) == NULL) {
            fail_msg("%s: '%s' is not in\n%s", cases[i].format, cases[i].part, text.p);
        }
    }
    buf_done(&text);
    cartorun_done(&v.run);
}

/* What is no format is refused with its place and the next step. */
static void test_own_format_refused(void **state)
{
    static const struct {
        const char *format;
        const char *sentence;
    } cases[] = {
        {"1", "format must be an object with mappings as its members node, path or both"},
        {"{}", "format must be an object with mappings as its members node, path or both"},
        {"{\"node\":1,\"edge\":1}",
         "format must be an object with mappings as its members node, path or both"},
        {"{\"path\":\"{a.output.data.x}\"}", "there is nothing but the item to refer to"},
        {"{\"node\":\"{a.output.data.x}\"}",
         "there is nothing but the item to refer to. Write {$item...} or {$index}."},
        {"{\"node\":{\"@pipe\":[[\"{@none.such}\"]]}}", "none"},
    };
    const struct format_own *own = NULL;
    struct qp_err err = {0};
    struct arena a;
    (void)state;
    arena_init(&a, &t.env, 0);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct json *json = NULL;
        assert_int_equal(json_parse(&t.env, str_from(cases[i].format), NULL, &json), QP_OK);
        assert_int_equal(format_own_read(&a, json, &own, &err), QP_E_SHAPE);
        assert_non_null(strstr(err.text, cases[i].sentence));
        json_free(json);
    }
    arena_done(&a);
}

/* The marks of the tree, and an edge from a name to its provider. */
static void test_texts(void **state)
{
    static const char tree[] = "deb:newer@1\n"
                               "  deb:mta (virtual)\n"
                               "  deb:postfix@3 (provides mta)\n"
                               "    deb:libc@2.1\n"
                               "      deb:libgcc@12\n"
                               "        deb:libc@2.1 (circular)\n"
                               "    deb:ssl@3\n";
    static const char edge[] =
        "{\"from\":\"pkg:deb/debian/mta\",\"to\":\"pkg:deb/debian/postfix@3\","
        "\"requirement\":\"mta (>= 8)\",\"scope\":\"runtime\",\"kind\":\"provides\"}";
    struct traversal v;
    struct buf text;
    (void)state;
    begin(&v, DEB_CLOSURE_A);
    traverse(&v, "deb:newer");
    buf_init(&text, &t.env, 0);
    assert_int_equal(write_formats(&v, &text), QP_OK);
    buf_byte(&text, '\0');
    assert_non_null(strstr(text.p, edge));
    assert_non_null(strstr(text.p, tree));
    buf_done(&text);
    cartorun_done(&v.run);
}

/* Reverse dependencies by literal name, by field. */
static void test_dependents(void **state)
{
    const struct deb_options options = {.arch = QP_STR("amd64")};
    qp_str name = QP_NONE;
    (void)state;
    assert_int_equal(
        deb_dependent(&facts, &options, QP_STR("mta"), DEB_FIELDS_NEEDED, name, &name, NULL),
        QP_OK);
    assert_true(str_equal(name, QP_STR("app")));
    assert_int_equal(
        deb_dependent(&facts, &options, QP_STR("mta"), DEB_FIELDS_NEEDED, name, &name, NULL),
        QP_OK);
    assert_true(str_equal(name, QP_STR("newer")));
    assert_int_equal(
        deb_dependent(&facts, &options, QP_STR("mta"), DEB_FIELDS_NEEDED, name, &name, NULL),
        QP_E_NOT_FOUND);
    name = QP_NONE;
    assert_int_equal(
        deb_dependent(&facts, &options, QP_STR("docs"), DEB_FIELDS_NEEDED, name, &name, NULL),
        QP_E_NOT_FOUND);
    assert_int_equal(
        deb_dependent(&facts, &options, QP_STR("docs"), DEB_FIELDS_ALL, name, &name, NULL), QP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_closures, setup, teardown),
        cmocka_unit_test_setup_teardown(test_depth, setup, teardown),
        cmocka_unit_test_setup_teardown(test_exclusions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_overrides, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_same_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hash, setup, teardown),
        cmocka_unit_test_setup_teardown(test_own_format, setup, teardown),
        cmocka_unit_test_setup_teardown(test_own_format_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_texts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dependents, setup, teardown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
