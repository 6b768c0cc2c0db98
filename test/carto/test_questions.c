/* test_questions.c - why a package is in a result, and what differs between two: every word of the answers, what is refused,
 * results that were saved, and those whose nodes and edges are kept
 *
 * Traversals run in the engine, from lists that are made here. What is kept of a result is compared with the result.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "carto/deb_import.h"
#include "carto/purl.h"
#include "carto/result_diff.h"
#include "carto/result_kept.h"
#include "carto/result_saved.h"
#include "run/handle.h"
#include "run/host.h"
#include "run/traversals.h"
#include "run/traversals_ask.h"
#include "run/traversals_view.h"
#include "support/runtest.h"

#define STANZA(name, version, rest)                                                                \
    "Package: " name "\nVersion: " version "\nArchitecture: amd64\n" rest "\n"

static const char small[] = STANZA("shop", "2.0", "Depends: libc (>= 2), mailer | mta\n")
    STANZA("libc", "2.36", "Depends: libgcc\n") STANZA("libgcc", "12", "Depends: libc, gone\n")
        STANZA("postman", "3", "Provides: mta\nDepends: libc\nPre-Depends: libc (>= 1)\n")
            STANZA("alone", "1", "");

/* More items than LIMIT_CARTO_READ_ITEMS: every package is a root, and has three relationships. */
#define MANY 1500
static_assert(4 * MANY > LIMIT_CARTO_READ_ITEMS, "a result whose nodes and edges are kept");

static void must(int rc, const struct qp_err *err)
{
    if (rc != QP_OK) {
        fail_msg("%s", err->text);
    }
}

static void import(qp *q, qp_str list)
{
    static struct import_fact rows[5 * MANY];
    struct traversal_page page = {.type = QP_STR("deb")};
    struct facts_table table;
    struct deb_import import;
    struct qp_err err = {0};
    deb_import_init(&import, &rt.env);
    facts_table_init(&table, &rt.env);
    must(deb_import_feed(&import, list, &err), &err);
    must(deb_import_end_list(&import, &err), &err);
    must(deb_import_finish(&import, &table, &err), &err);
    assert_true(table.fact_count <= ARRAY_COUNT(rows));
    page.universe = str_from(table.universe);
    for (size_t i = 0; i < table.fact_count; i += LIMIT_CARTO_PAGE_FACTS) {
        size_t rest = table.fact_count - i;
        page.facts = &rows[i];
        page.fact_count = rest < LIMIT_CARTO_PAGE_FACTS ? rest : LIMIT_CARTO_PAGE_FACTS;
        for (size_t n = i; n < i + page.fact_count; n++) {
            rows[n] = (struct import_fact){FACT_VALUE, table.facts[n].name, table.facts[n].value};
        }
        page.complete = i + page.fact_count == table.fact_count ? (int64_t)table.fact_count : 0;
        must(traversals_import(q, &page, &err), &err);
    }
    assert_true(page.out_current);
    facts_table_done(&table);
    deb_import_done(&import);
}

static qp *open_with(qp_str list)
{
    struct qp_err err = {0};
    qp *q = rt_open(rt_place);
    must(traversals_serve(q, NULL, &err), &err);
    must(qp_start_threads(q, 2, &err), &err);
    import(q, list);
    return q;
}

static void traverse(qp *q, const char *id, const char *body)
{
    rt_start_with(q, &(struct qp_start){
                         .topic = QP_STR("carto"), .id = str_from(id), .input = str_from(body)});
    rt_wait(q, id, "completed");
}

/* ----------------------------------------------------------------------------------------------- why */

struct answer {
    struct buf text;
    struct json_writer w;
    struct qp_err err;
    int rc;
};

static void answer_begin(struct answer *a)
{
    *a = (struct answer){.rc = QP_OK};
    buf_init(&a->text, &rt.env, LIMIT_CARTO_UNIVERSE_SIZE);
    json_writer_init(&a->w, &a->text);
}

static void ask_why(qp *q, const char *id, const char *from, const char *to, size_t limit,
                    struct answer *a)
{
    struct why_question question = {
        .from = from == NULL ? QP_NONE : str_from(from), .to = str_from(to), .limit = limit};
    answer_begin(a);
    a->rc = traversals_why(q, QP_NONE, str_from(id), &question, &a->w, &a->err);
}

/* Behind id, universe and hash. */
static void assert_answer(struct answer *a, const char *expected)
{
    const char *from;
    assert_int_equal(a->rc, QP_OK);
    buf_byte(&a->text, '\0');
    from = strstr(a->text.p, "\",\"hash\":\"");
    assert_non_null(from);
    assert_string_equal(from + 10 + 64 + 1, expected);
    buf_done(&a->text);
}

#define SHOP "pkg:deb/debian/shop@2.0"
#define LIBC "pkg:deb/debian/libc@2.36"
#define LIBGCC "pkg:deb/debian/libgcc@12"
#define POSTMAN "pkg:deb/debian/postman@3"
#define EDGE(from, to, requirement, kind)                                                          \
    "{\"from\":\"" from "\",\"to\":\"" to "\",\"requirement\":\"" requirement                      \
    "\",\"scope\":\"runtime\",\"kind\":\"" kind "\"}"

static void test_why(void **state)
{
    static const char *const names[] = {"deb:libgcc", "deb:libgcc@12", "deb:libgcc=12",
                                        "pkg:deb/debian/libgcc@12?arch=amd64#x"};
    struct answer a;
    qp *q;
    (void)state;
    rt_begin_on(RT_FILE);
    q = open_with(str_from(small));
    traverse(q, "t", "{\"roots\":[\"deb:shop\"],\"deb\":{\"closure\":\"S\"}}");
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        ask_why(q, "t", NULL, names[i], 1, &a);
        assert_answer(&a, ",\"to\":[\"" LIBGCC "\"],\"paths\":[{\"nodes\":[\"" SHOP "\",\"" LIBC
                          "\",\"" LIBGCC
                          "\"],\"edges\":[" EDGE(SHOP, LIBC, "libc (>= 2)", "depends") "," EDGE(
                              LIBC, LIBGCC, "libgcc",
                              "depends") "]}],\"more\":true,\"dependents\":[" EDGE(LIBC, LIBGCC,
                                                                                   "libgcc",
                                                                                   "depends") "]}");
    }
    /* each relationship of a step; a root that is no root of the traversal */
    ask_why(q, "t", "deb:postman", "deb:libc", 100, &a);
    assert_answer(
        &a,
        ",\"from\":[\"" POSTMAN "\"],\"to\":[\"" LIBC "\"],\"paths\":[{\"nodes\":[\"" POSTMAN
        "\",\"" LIBC "\"],\"edges\":[" EDGE(POSTMAN, LIBC, "libc", "depends") "," EDGE(
            POSTMAN, LIBC, "libc (>= 1)",
            "pre-depends") "]}],\"more\":false,"
                           "\"dependents\":[" EDGE(SHOP, LIBC, "libc (>= 2)", "depends") "," EDGE(
                               LIBGCC, LIBC, "libc",
                               "depends") "," EDGE(POSTMAN, LIBC, "libc",
                                                   "depends") "," EDGE(POSTMAN, LIBC, "libc (>= 1)",
                                                                       "pre-depends") "]}");
    /* a package needs itself by a path without relationships; and there may be no path */
    ask_why(q, "t", "deb:libc", "deb:libc", 3, &a);
    assert_non_null(
        memmem(a.text.p, a.text.n, "\"paths\":[{\"nodes\":[\"" LIBC "\"],\"edges\":[]}]", 20));
    buf_done(&a.text);
    ask_why(q, "t", "deb:libc", "deb:postman", 3, &a);
    assert_non_null(memmem(a.text.p, a.text.n, "\"paths\":[],\"more\":false", 23));
    buf_done(&a.text);
    rt_close(q);
    rt_end();
}

static void test_why_refused(void **state)
{
    static const struct {
        const char *id;
        const char *from;
        const char *to;
        int rc;
        const char *sentence;
    } cases[] = {
        {"none", NULL, "deb:libc", QP_E_NOT_FOUND, "no traversal 'none'"},
        {"t", NULL, "deb:lib", QP_E_NOT_FOUND,
         "the result has no package 'deb:lib'; the nearest names are libc"},
        {"t", NULL, "deb:libc@9", QP_E_NOT_FOUND, "the result has no package 'deb:libc@9'"},
        {"t", "deb:alone", "deb:libc", QP_E_NOT_FOUND, "the result has no package 'deb:alone'"},
        {"t", NULL, "libc", QP_E_INVALID,
         "'libc' names no package: it must be of the form type:name, type:name@version, or a package URL"},
        {"t", NULL, "pkg:", QP_E_INVALID, "'pkg:' is no package URL: its type is missing"},
        {"t", NULL, "pkg:deb", QP_E_INVALID, "its type is missing"},
        {"t", NULL, "pkg:deb/libc", QP_E_INVALID, "its name is missing, or an escape in it is bad"},
        {"t", NULL, "pkg:deb/debian/", QP_E_INVALID, "its name is missing"},
        {"t", NULL, "pkg:npm/a%2", QP_E_INVALID, "an escape in it is bad"},
        {"t", NULL, "pkg:npm/a%zz", QP_E_INVALID, "an escape in it is bad"},
        {"t", NULL, "pkg:npm/a%00", QP_E_INVALID, "an escape in it is bad"},
        {"t", NULL, "pkg:npm/a@", QP_E_INVALID, "its version is empty"},
    };
    qp *q;
    (void)state;
    rt_begin_on(RT_MEMORY);
    q = open_with(str_from(small));
    traverse(q, "t", "{\"roots\":[\"deb:shop\"]}");
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct answer a;
        ask_why(q, cases[i].id, cases[i].from, cases[i].to, 3, &a);
        assert_int_equal(a.rc, cases[i].rc);
        if (strstr(a.err.text, cases[i].sentence) == NULL) {
            fail_msg("%s: %s", cases[i].to, a.err.text);
        }
        buf_done(&a.text);
    }
    rt_close(q);
    rt_end();
}

/* What is written as a package URL is read as the same package. */
static void test_purls(void **state)
{
    static const struct {
        const char *text;
        const char *type;
        const char *name;
        const char *version;
    } cases[] = {
        {"pkg:npm/%40scope/name@1.0.0-rc.1", "npm", "@scope/name", "1.0.0-rc.1"},
        {"pkg:npm/express", "npm", "express", ""},
        {"pkg:deb/debian/libstdc%2B%2B6@1:12.2.0-14", "deb", "libstdc++6", "1:12.2.0-14"},
    };
    (void)state;
    rt_begin(RT_VIRTUAL);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct carto_package p = {0};
        struct arena arena;
        struct buf text;
        arena_init(&arena, &rt.env, 0);
        buf_init(&text, &rt.env, 0);
        assert_int_equal(purl_read(&arena, str_from(cases[i].text), &p, NULL), QP_OK);
        assert_true(str_equal(p.id.type, str_from(cases[i].type)));
        assert_true(str_equal(p.id.name, str_from(cases[i].name)));
        assert_int_equal(p.version.n, strlen(cases[i].version));
        result_purl(&text, &p);
        assert_true(str_equal(buf_slice(&text), str_from(cases[i].text)));
        buf_done(&text);
        arena_done(&arena);
    }
    rt_end();
}

/* ---------------------------------------------------------------------------------------------- diff */

static void ask_diff(qp *q, const char *from, const char *to, struct answer *a)
{
    answer_begin(a);
    a->rc = traversals_diff(q, QP_NONE, str_from(from), str_from(to), &a->w, &a->err);
}

static void assert_diff(struct answer *a, const char *expected)
{
    const char *from;
    assert_int_equal(a->rc, QP_OK);
    buf_byte(&a->text, '\0');
    from = strstr(a->text.p, "\"added\":");
    assert_non_null(from);
    assert_string_equal(from, expected);
    buf_done(&a->text);
}

#define LINK(from, to, requirement)                                                                \
    "{\"from\":\"deb:" from "\",\"to\":\"deb:" to "\",\"requirement\":\"" requirement              \
    "\",\"scope\":\"runtime\",\"kind\":\"depends\"}"

static void test_diff(void **state)
{
    static const char newer[] = STANZA("shop", "2.1", "Depends: libc (>= 3), extra\n")
        STANZA("libc", "3", "Depends: libgcc\n") STANZA("libgcc", "12", "Depends: libc\n")
            STANZA("extra", "1", "");
    struct answer a;
    qp *q;
    (void)state;
    rt_begin_on(RT_FILE);
    q = open_with(str_from(small));
    traverse(q, "old", "{\"roots\":[\"deb:libc\",\"deb:shop\"],\"exclusions\":[\"deb:gone\"]}");
    traverse(q, "again",
             "{\"roots\":[\"deb:libc\",\"deb:shop\"],\"exclusions\":[\"deb:gone\"],\"page\":1}");
    import(q, str_from(newer));
    traverse(q, "new", "{\"roots\":[\"deb:libc\",\"deb:shop\"]}");
    ask_diff(q, "old", "new", &a);
    assert_diff(
        &a,
        "\"added\":[\"pkg:deb/debian/extra@1\"],\"removed\":[\"" POSTMAN "\"],"
        "\"changed\":[{\"name\":\"deb:libc\",\"from\":[\"2.36\"],\"to\":[\"3\"]},"
        "{\"name\":\"deb:shop\",\"from\":[\"2.0\"],\"to\":[\"2.1\"]}],"
        "\"edges\":{\"added\":[" LINK("shop", "extra", "extra") "," LINK("shop", "libc", "libc (>= 3)") "],\"removed\":[" LINK(
            "postman", "libc",
            "libc") ","
                    "{\"from\":\"deb:postman\",\"to\":\"deb:libc\",\"requirement\":\"libc (>= 1)\","
                    "\"scope\":\"runtime\",\"kind\":\"pre-depends\"}," LINK(
                        "shop", "libc",
                        "libc (>= 2)") "," LINK("shop", "postman",
                                                "mailer | mta") "]},\"same\":false}");
    ask_diff(q, "old", "again", &a);
    assert_diff(
        &a,
        "\"added\":[],\"removed\":[],\"changed\":[],\"edges\":{\"added\":[],\"removed\":[]},\"same\":true}");
    ask_diff(q, "old", "none", &a);
    assert_int_equal(a.rc, QP_E_NOT_FOUND);
    assert_string_equal(a.err.text, "no traversal 'none'");
    buf_done(&a.text);
    rt_close(q);
    rt_end();
}

/* ------------------------------------------------------------------------------------- saved and kept */

static int keep_piece(void *context, const char *bytes, size_t size)
{
    buf_add(context, bytes, size);
    return buf_rc(context);
}

static void save(qp *q, const char *id, struct buf *out)
{
    struct qp_err err = {0};
    buf_init(out, &rt.env, LIMIT_CARTO_UNIVERSE_SIZE);
    must(traversals_result(q, QP_NONE, str_from(id), CARTO_JSON, out, keep_piece, &err), &err);
}

/* A graph as the bytes that would be kept of it: all that it says, in one text. */
static void bytes_of(const struct result_graph *g, struct buf *out)
{
    buf_init(out, &rt.env, LIMIT_CARTO_UNIVERSE_SIZE);
    assert_int_equal(kept_write(g, out), QP_OK);
}

static int look_kept(struct viewing *v, struct qp_err *err)
{
    struct result_graph g;
    int rc = kept_open(&g, v->store, v->job, err);
    if (rc == QP_OK) {
        bytes_of(&g, v->context);
    }
    result_graph_close(&g);
    return rc;
}

static int look_job(struct viewing *v, struct qp_err *err)
{
    (void)err;
    *(struct job_ref *)v->context = (struct job_ref){v->job->ns, v->job->job};
    return QP_OK;
}

static int read_kept(qp *q, const char *id, struct buf *out)
{
    struct qp_err err = {0};
    struct viewing v = {.q = q, .id = str_from(id), .context = out, .body = look_kept};
    must(space_number(q, QP_NONE, &v.ns, &err), &err);
    return traversal_view(&v, &err);
}

static void write_many(struct buf *out)
{
    buf_init(out, &rt.env, 0);
    for (int i = 0; i < MANY; i++) {
        buf_printf(
            out,
            "Package: p%d\nVersion: 1.%d\nArchitecture: amd64\nDepends: p%d, p%d (>= 1), %s\n\n", i,
            i, (i + 1) % MANY, (i * 7 + 3) % MANY, i % 100 == 0 ? "gone" : "p0");
    }
}

static void put_page(qp *q, qp_str value)
{
    struct qp_err err = {0};
    struct op op = {.kind = OP_data_put, .data_put = {.name = QP_STR("g:000000"), .value = value}};
    struct viewing v = {
        .q = q, .id = QP_STR("large"), .context = &op.data_put.ref, .body = look_job};
    must(space_number(q, QP_NONE, &v.ns, &err), &err);
    must(traversal_view(&v, &err), &err);
    must(op_do(q, &op, "damage", &err), &err);
}

/* What is kept and cannot be read is no answer, and the error says what to do. */
static void ask_damaged(qp *q, qp_str kept)
{
    struct answer a;
    put_page(q, QP_STR("00000009x"));
    ask_why(q, "large", NULL, "deb:p1", 1, &a);
    assert_int_equal(a.rc, QP_E_CORRUPT);
    assert_non_null(strstr(a.err.text, "kept of 'large' cannot be read: run quipu fsck"));
    buf_done(&a.text);
    put_page(q, kept_page(kept, 0));
}

/* A result that is larger than its answer may be says so. */
static void read_too_large(qp *q)
{
    struct qp_err err = {0};
    struct buf out;
    buf_init(&out, &rt.env, 1000);
    assert_int_equal(
        traversals_result(q, QP_NONE, QP_STR("large"), CARTO_JSON, &out, keep_piece, &err),
        QP_E_TOO_LARGE);
    assert_non_null(strstr(err.text, "the result of 'large' in this format is larger"));
    buf_done(&out);
}

/* Of a large result nodes and edges are kept: they are those of the saved result, and questions are answered as of that. */
static void test_kept(void **state)
{
    (void)state;
    for (int kind = RT_FILE; kind < rt_kinds(); kind++) {
        struct buf list;
        struct buf text;
        struct buf kept;
        struct buf bytes;
        struct result_graph g;
        struct result_saved saved;
        struct answer a;
        struct answer own;
        struct qp_err err = {0};
        qp *q;
        rt_begin_on(kind);
        write_many(&list);
        q = open_with(buf_slice(&list));
        traverse(q, "large", "{\"roots\":[\"deb:*\"]}");
        traverse(q, "small", "{\"roots\":[\"deb:p1\"],\"depth\":2}");
        assert_int_equal(read_kept(q, "small", &kept), QP_E_NOT_FOUND);
        assert_int_equal(read_kept(q, "large", &kept), QP_OK);
        assert_true(kept.n > KEPT_PAGE_SIZE);
        save(q, "large", &text);
        must(saved_open(&g, &rt.env, buf_slice(&text), &saved, &err), &err);
        bytes_of(&g, &bytes);
        assert_int_equal(bytes.n, kept.n);
        assert_memory_equal(bytes.p, kept.p, kept.n);
        ask_why(q, "large", "deb:p1", "deb:p1000", 20, &a);
        assert_int_equal(a.rc, QP_OK);
        answer_begin(&own);
        json_begin_object(&own.w);
        assert_int_equal(why_write(&g,
                                   &(struct why_question){.from = QP_STR("deb:p1"),
                                                          .to = QP_STR("deb:p1000"),
                                                          .limit = 20},
                                   &own.w, &err),
                         QP_OK);
        json_end_object(&own.w);
        assert_true(own.text.n > 1000 && a.text.n > own.text.n);
        assert_memory_equal(a.text.p + a.text.n - (own.text.n - 1), own.text.p + 1, own.text.n - 1);
        buf_done(&own.text);
        buf_done(&a.text);
        result_graph_close(&g);
        ask_damaged(q, buf_slice(&kept));
        read_too_large(q);
        buf_done(&bytes);
        buf_done(&kept);
        buf_done(&text);
        buf_done(&list);
        rt_close(q);
        rt_check(rt_place, 2);
        rt_end();
    }
}

/* All that memory can fail of, from a saved result to its answers. */
static int question_saved(qp_str text, struct buf *out)
{
    struct result_graph g;
    struct result_saved saved;
    struct json_writer w;
    struct qp_err err = {0};
    bool is_same = false;
    int rc = saved_open(&g, &rt.env, text, &saved, &err);
    json_writer_init(&w, out);
    json_begin_object(&w);
    if (rc == QP_OK) {
        rc = result_diff(&g, &g, &w, &is_same);
    }
    if (rc == QP_OK) {
        rc =
            why_write(&g, &(struct why_question){.to = QP_STR("deb:libgcc"), .limit = 9}, &w, &err);
    }
    if (rc == QP_OK) {
        json_end_object(&w);
        rc = json_writer_done(&w);
    }
    result_graph_close(&g);
    return rc;
}

static void test_memory(void **state)
{
    struct buf text;
    qp *q;
    (void)state;
    rt_begin_on(RT_MEMORY);
    q = open_with(str_from(small));
    traverse(q, "t", "{\"roots\":[\"deb:shop\"]}");
    save(q, "t", &text);
    rt_close(q);
    for (int64_t n = 1;; n++) {
        struct buf out;
        int rc;
        buf_init(&out, &rt.env, 0);
        testenv_fail_at(&rt, n);
        rc = question_saved(buf_slice(&text), &out);
        if (!testenv_failed(&rt)) {
            assert_int_equal(rc, QP_OK);
            buf_done(&out);
            break;
        }
        assert_int_equal(rc, QP_E_NOMEM);
        testenv_fail_at(&rt, 0);
        buf_done(&out);
    }
    testenv_fail_at(&rt, 0);
    buf_done(&text);
    rt_end();
}

static void test_not_saved(void **state)
{
    static const struct {
        const char *text;
        int rc;
        const char *sentence;
    } cases[] = {
        {"", QP_E_MALFORMED, ""},
        {"{\"nodes\":[],\"edges\":[]", QP_E_MALFORMED, ""},
        {"[]", QP_E_SHAPE, "it has no members nodes and edges"},
        {"{\"nodes\":[]}", QP_E_SHAPE, "it has no members nodes and edges"},
        {"{\"nodes\":{},\"edges\":[]}", QP_E_SHAPE, "it has no members nodes and edges"},
        {"{\"nodes\":[1],\"edges\":[]}", QP_E_SHAPE, "a node has no type or no name"},
        {"{\"nodes\":[{\"type\":\"deb\"}],\"edges\":[]}", QP_E_SHAPE,
         "a node has no type or no name"},
        {"{\"nodes\":[{\"type\":\"deb\",\"name\":\"a\",\"depth\":\"x\"}],\"edges\":[]}", QP_E_SHAPE,
         "a member of a node is not what it should be"},
        {"{\"nodes\":[],\"edges\":[{\"from\":\"a\",\"to\":\"b\",\"scope\":\"runtime\"}]}",
         QP_E_SHAPE, "leads to what is no node; save one with quipu carto result ID -o json"},
    };
    (void)state;
    rt_begin(RT_VIRTUAL);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct result_graph g;
        struct result_saved saved;
        struct qp_err err = {0};
        assert_int_equal(saved_open(&g, &rt.env, str_from(cases[i].text), &saved, &err),
                         cases[i].rc);
        if (strstr(err.text, cases[i].sentence) == NULL) {
            fail_msg("%s: %s", cases[i].text, err.text);
        }
        result_graph_close(&g);
    }
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_why),       cmocka_unit_test(test_why_refused),
        cmocka_unit_test(test_purls),     cmocka_unit_test(test_diff),
        cmocka_unit_test(test_kept),      cmocka_unit_test(test_memory),
        cmocka_unit_test(test_not_saved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
