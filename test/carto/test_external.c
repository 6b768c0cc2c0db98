/* test_external.c - package types that workers serve: the registry, the same results as a built-in type, bad answers
 *
 * The graph of test_ordered.c is served by workers here. An ordered external type gives the items of the built-in one, whatever
 * is killed. Registered types are pinned: a traversal that runs sees nothing of what becomes of the registry. An answer that
 * does not fit is the error of its item, with a code and a sentence, and loses nothing.
 *
 *     r -> a (below it without x), b, c=2     a -> m=1     b -> m=2     m -> x, y     c -> m=3
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "carto/external_answer.h"
#include "carto/face.h"
#include "carto/registry.h"
#include "carto/result.h"
#include "carto/task.h"
#include "carto/traversal.h"
#include "support/graphrun.h"

#define ID "t"
#define TOPICS "carto.format carto.select.ext carto.resolve.ext own.sync own.select"
#define PURE "{\"mode\":\"pure\"}"
#define ORDERED "{\"mode\":\"ordered\"}"

static struct graphrun run;

static const struct need {
    const char *from;
    const char *to;
    const char *more;
} needs[] = {
    {"r", "a", ",\"advice\":\"1\",\"exclusions\":[\"ext:x\"]"},
    {"r", "b", ",\"advice\":\"1\""},
    {"r", "c", ",\"advice\":\"2\""},
    {"a", "m", ",\"advice\":\"1\""},
    {"b", "m", ",\"advice\":\"2\""},
    {"c", "m", ",\"advice\":\"3\",\"kind\":\"needs\",\"scope\":\"runtime\""},
    {"m", "x", ",\"advice\":\"1\""},
    {"m", "y", ",\"advice\":\"1\",\"optional\":false"},
    {"m", "z", ",\"advice\":\"1\",\"scope\":\"extra\""},
};

/* Of one package a worker answers something else. */
static struct {
    const char *step;
    const char *name;   /* NULL: of none */
    const char *answer; /* NULL: it reports an error */
    const char *large;  /* in its place */
} odd;

/* ------------------------------------------------------------------------------------------ workers */

/* What face.task adds to a task. */
static void read_more(const struct graphcall *c, struct buf *out)
{
    struct json_writer w;
    struct qp_err err = {0};
    struct arena a;
    char id[64];
    struct job_row job;
    struct sight sight = {.store = run.f.s, .arena = &a, .job = &job, .err = &err};
    (void)snprintf(id, sizeof id, "%.*s", STR_ARG(c->job));
    job = *graphrun_job(&run, id);
    arena_init(&a, &run.f.t.env, 0);
    json_writer_init(&w, out);
    json_begin_object(&w);
    assert_int_equal(carto_task(NULL, &sight, c->addr, &w), QP_OK);
    json_end_object(&w);
    assert_int_equal(json_writer_done(&w), QP_OK);
    arena_done(&a);
}

static void member_of(qp_str text, const char *member, char out[64])
{
    struct json *json = NULL;
    qp_str value = QP_STR("");
    out[0] = '\0';
    assert_int_equal(json_parse(&run.f.t.env, text, NULL, &json), QP_OK);
    if (json_as_str(json_get(json, str_from(member)), &value)) {
        (void)snprintf(out, 64, "%.*s", STR_ARG(value));
    }
    json_free(json);
}

static bool is_odd(const char *step, const char *package)
{
    char name[64];
    if (odd.name == NULL || strcmp(odd.step, step) != 0) {
        return false;
    }
    (void)snprintf(name, sizeof name, "ext:%s", odd.name);
    return strncmp(package, name, strlen(name)) == 0 &&
           (package[strlen(name)] == '\0' || package[strlen(name)] == '@');
}

static bool answer_odd(struct graphcall *c, const char *step, const char *package)
{
    if (!is_odd(step, package)) {
        return false;
    }
    if (odd.answer == NULL && odd.large == NULL) {
        c->kind = RESULT_ERROR;
        c->code = 500;
        (void)snprintf(c->output, sizeof c->output, "{\"code\":500,\"message\":\"disk on fire\"}");
    } else if (odd.large != NULL) {
        c->large = odd.large;
    } else {
        (void)snprintf(c->output, sizeof c->output, "%s", odd.answer);
    }
    return true;
}

static void select_one(struct graphcall *c, const char *target)
{
    char advice[64];
    member_of(c->input, "advice", advice);
    (void)snprintf(c->output, sizeof c->output, "{\"selected\":\"%s@%s\"}", target,
                   advice[0] == '\0' ? "0" : advice);
}

/* It knows b. */
static void sync_one(struct graphcall *c, const char *target)
{
    (void)snprintf(c->output, sizeof c->output, "%s",
                   strcmp(target, "ext:b") == 0
                       ? "{\"status\":\"DONE\",\"selected\":\"ext:b@known\"}"
                       : "{\"status\":\"UNKNOWN\"}");
}

/* chainN needs chainN+1; treeN needs two of treeN+1. */
static bool resolve_endless(struct graphcall *c, const char *package)
{
    static const char one[] = "{\"relations\":[{\"target\":\"ext:chain%ld\"}]}";
    static const char two[] =
        "{\"relations\":[{\"target\":\"ext:tree%ld\"},{\"target\":\"ext:tree%ld\"}]}";
    bool is_tree = strncmp(package, "ext:tree", 8) == 0;
    long n = 0;
    if (!is_tree && strncmp(package, "ext:chain", 9) != 0) {
        return false;
    }
    n = strtol(package + (is_tree ? 8 : 9), NULL, 10);
    (void)snprintf(c->output, sizeof c->output, is_tree ? two : one, is_tree ? 2 * n : n + 1,
                   2 * n + 1);
    return true;
}

static void resolve_one(struct graphcall *c, const char *package)
{
    size_t at = 0;
    bool is_first = true;
    if (resolve_endless(c, package)) {
        return;
    }
    at += (size_t)snprintf(c->output, sizeof c->output, "{\"relations\":[");
    for (size_t i = 0; i < ARRAY_COUNT(needs); i++) {
        if (package[4] == needs[i].from[0] && package[5] == '@') {
            at += (size_t)snprintf(c->output + at, sizeof c->output - at,
                                   "%s{\"target\":\"ext:%s\"%s}", is_first ? "" : ",", needs[i].to,
                                   needs[i].more);
            is_first = false;
        }
    }
    (void)snprintf(c->output + at, sizeof c->output - at, "]}");
}

static void serve(struct graphcall *c, qp_str more)
{
    char step[64];
    char target[64];
    char package[64];
    member_of(more, "step", step);
    member_of(more, "package", package);
    member_of(c->input, "target", target);
    if (strcmp(step, "resolve") == 0) {
        assert_true(str_equal(c->topic, QP_STR("carto.resolve.ext")));
        if (!answer_odd(c, step, package)) {
            resolve_one(c, package);
        }
    } else if (!answer_odd(c, step, target)) {
        (strcmp(step, "select") == 0 ? select_one : sync_one)(c, target);
    }
}

static void work(struct graphcall *c)
{
    struct buf more;
    if (str_equal(c->topic, CARTO_FORMAT_TOPIC)) {
        (void)snprintf(c->output, sizeof c->output, "{\"hash\":\"0\"}");
        return;
    }
    buf_init(&more, &run.f.t.env, 0);
    read_more(c, &more);
    serve(c, buf_slice(&more));
    buf_done(&more);
}

/* ---------------------------------------------------------------------------------------- the registry */

/* NULL: it is taken out. Returns the answer. */
static int change(const char *name, const char *definition)
{
    struct request_type r = {.ns = STORE_NS_DEFAULT};
    const struct carto_external *external = NULL;
    struct arena a;
    arena_init(&a, &run.f.t.env, 0);
    if (definition != NULL) {
        assert_int_equal(external_read(&a, str_from(name), str_from(definition), &external, NULL),
                         QP_OK);
    }
    do {
        r = (struct request_type){
            .ns = STORE_NS_DEFAULT, .name = str_from(name), .definition = external};
        request_type(&r);
    } while (!graphrun_ask(&run, &r.command));
    arena_done(&a);
    return run.answer;
}

static int small_limit;

static int open_face(const struct face_options *options, void **out_state)
{
    int rc = carto_face.open(options, out_state);
    if (rc == QP_OK && small_limit > 0) {
        ((struct traversals *)*out_state)->item_limit = small_limit;
    }
    return rc;
}

static struct face face;

static void begin(int kind, bool stepwise, const char *definition)
{
    face = carto_face;
    face.open = open_face;
    run.traversals = &face;
    run.stepwise = stepwise;
    graphrun_init(&run, (enum storetest_kind)kind, TOPICS, work);
    assert_int_equal(change("ext", definition), QP_OK);
}

static void end(void)
{
    graphrun_check(&run);
    graphrun_done(&run);
    odd.name = NULL;
    odd.large = NULL;
}

/* ------------------------------------------------------------------------------------------- results */

static void print_item(struct buf *text, const struct carto_item *item)
{
    path_print(text, item->path);
    buf_printf(text, " %.*s@%.*s %s%s%s%.*s\n", STR_ARG(item->target.name),
               STR_ARG(item->selected.version), carto_state_text(item->state),
               item->advice_ignored ? " ignored" : "", item->error.n > 0 ? ": " : "",
               STR_ARG(item->error));
}

/* "path node@version STATE": a line per item. */
static void items_print(struct buf *text)
{
    struct result_source *source = NULL;
    struct carto_items items;
    struct job_row job = *graphrun_job(&run, ID);
    assert_int_equal(result_open(&run.f.t.env, run.f.s, &job, NULL, &source), QP_OK);
    items = result_items(source);
    for (uint64_t level = 0; level <= LIMIT_CARTO_LEVELS; level++) {
        const struct carto_item *item = NULL;
        for (size_t i = 0; items.get(items.context, level, i, &item) == QP_OK; i++) {
            print_item(text, item);
        }
    }
    buf_byte(text, '\0');
    result_close(source);
}

static void expect_items(const char *expected)
{
    struct buf text;
    buf_init(&text, &run.f.t.env, 0);
    items_print(&text);
    assert_string_equal(text.p, expected);
    buf_done(&text);
}

static void expect_part(const char *part)
{
    struct buf text;
    buf_init(&text, &run.f.t.env, 0);
    items_print(&text);
    if (strstr(text.p, part) == NULL) {
        fail_msg("'%s' is not in\n%s", part, text.p);
    }
    buf_done(&text);
}

/* Of the built-in type of test_ordered.c. */
static const char ordered_items[] = "0 r@0 DONE\n"
                                    "0.0 a@1 DONE\n"
                                    "0.1 b@1 DONE\n"
                                    "0.2 c@2 DONE\n"
                                    "0.0.0 m@1 DONE\n"
                                    "0.1.0 m@1 DONE ignored\n"
                                    "0.2.0 m@1 DUPLICATE ignored\n"
                                    "0.0.0.1 y@1 DONE\n"
                                    "0.1.0.0 x@1 DONE\n"
                                    "0.1.0.1 y@1 DONE\n";
static const char pure_items[] = "0 r@0 DONE\n"
                                 "0.0 a@1 DONE\n"
                                 "0.1 b@1 DONE\n"
                                 "0.2 c@2 DONE\n"
                                 "0.0.0 m@1 DONE\n"
                                 "0.1.0 m@2 DONE\n"
                                 "0.2.0 m@3 DONE\n"
                                 "0.0.0.1 y@1 DONE\n"
                                 "0.1.0.0 x@1 DONE\n"
                                 "0.1.0.1 y@1 DONE\n"
                                 "0.2.0.0 x@1 DUPLICATE\n"
                                 "0.2.0.1 y@1 DUPLICATE\n";

static void start(const char *body)
{
    assert_true(graphrun_start(&run, "carto", ID, body) == QP_OK || run.kills > 0);
    graphrun_wait(&run, 600000);
}

/* -------------------------------------------------------------------------------------------- tests */

static const char *const bodies[] = {
    "{\"roots\":[\"ext:r\"],\"page\":1}",
    "{\"roots\":[\"ext:r\"]}",
    "{\"roots\":[\"ext:r\"],\"split\":true,\"page\":2}",
};

static bool killed_run(int kind, int64_t kill_at, bool is_ordered)
{
    bool was_killed;
    begin(kind, kill_at % 2 != 0, is_ordered ? ORDERED : PURE);
    run.kill_at = run.commits + kill_at;
    start(bodies[kill_at % 3]);
    was_killed = run.kills > 0;
    graphrun_expect(&run, ID, "completed", NULL);
    expect_items(is_ordered ? ordered_items : pure_items);
    end();
    return was_killed;
}

/* An ordered type gives what the built-in one gives, a pure one what every relationship asks for; killed after any commit. */
static void test_same_items(void **state)
{
    int64_t kills = 0;
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        static const int64_t strides[2][3] = {{5, 11, 61}, {1, 3, 13}};
        int64_t stride = strides[testenv_is_torture()][kind == STORETEST_MEMORY     ? 0
                                                       : kind == STORETEST_POSTGRES ? 2
                                                                                    : 1];
        for (int64_t at = 1; killed_run(kind, at, true); at += stride) {
            kills++;
        }
        for (int64_t at = 1; killed_run(kind, at, false); at += stride) {
            kills++;
        }
    }
    print_message("%lld kills\n", (long long)kills);
    assert_true(kills > 20);
}

/* Topics of one's own; SELECT-SYNC that knows a version, and then SELECT is not asked. */
static void test_select_sync(void **state)
{
    static const char definition[] =
        "{\"mode\":\"pure\",\"select-sync\":\"own.sync\",\"select\":\"own.select\"}";
    (void)state;
    for (int stepwise = 0; stepwise < 2; stepwise++) {
        begin(STORETEST_MEMORY, stepwise != 0, definition);
        start("{\"roots\":[\"ext:r\"],\"depth\":1}");
        expect_items(
            "0 r@0 DONE\n0.0 a@1 DEPTH_PRUNED\n0.1 b@known DEPTH_PRUNED\n0.2 c@2 DEPTH_PRUNED\n");
        assert_int_equal(graphrun_calls(&run, "own.sync"), 4);
        assert_int_equal(graphrun_calls(&run, "own.select"), 3);
        end();
    }
}

/* Overrides and versions that roots have are not asked for; what an ordered type has selected on a level above neither. */
static void test_not_asked(void **state)
{
    (void)state;
    begin(STORETEST_MEMORY, false, PURE);
    start("{\"roots\":[\"ext:c@7\"],\"versions\":{\"ext:m\":\"9\"},\"depth\":1}");
    expect_items("0 c@7 DONE\n0.0 m@9 DEPTH_PRUNED ignored\n");
    assert_int_equal(graphrun_calls(&run, "carto.select.ext"), 0);
    end();
    begin(STORETEST_MEMORY, false, ORDERED);
    start("{\"roots\":[\"ext:m\",\"ext:c\"],\"depth\":1}");
    expect_items("0 m@0 DONE\n1 c@0 DONE\n0.0 x@1 DONE\n0.1 y@1 DONE\n1.0 m@0 DUPLICATE ignored\n");
    assert_int_equal(graphrun_calls(&run, "carto.select.ext"), 4);
    end();
}

/* A traversal goes on with what it began with: the type is defined in another way, or taken out. */
static void test_pinned(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        begin(kind, false, ORDERED);
        assert_int_equal(graphrun_start(&run, "carto", ID, "{\"roots\":[\"ext:r\"],\"page\":1}"),
                         QP_OK);
        assert_int_equal(
            change("ext", kind % 2 == 0 ? "{\"mode\":\"pure\",\"select\":\"none\"}" : NULL), QP_OK);
        graphrun_restart(&run);
        graphrun_wait(&run, 600000);
        expect_items(ordered_items);
        end();
    }
}

static int refused_start(const char *body, char text[QP_ERR_TEXT_SIZE])
{
    struct qp_err err = {0};
    struct carto_plan plan;
    struct plan_types types;
    struct arena a;
    static const struct plan_types none = {NULL, 0};
    struct registry r = {.arena = &a, .ns = STORE_NS_DEFAULT, .store = run.f.s};
    int rc;
    arena_init(&a, &run.f.t.env, 0);
    assert_int_equal(registry_types(&r, &none, QP_NONE, &types, NULL), QP_OK);
    rc = plan_read(&run.f.t.env, &a, &types, str_from(body), &plan, &err);
    (void)snprintf(text, QP_ERR_TEXT_SIZE, "%s", err.text);
    arena_done(&a);
    return rc;
}

/* A type that is not known is refused at the start, with those that are; so are names and versions that cannot be. */
static void test_refused(void **state)
{
    char text[QP_ERR_TEXT_SIZE];
    (void)state;
    begin(STORETEST_MEMORY, false, PURE);
    assert_int_equal(change("other", PURE), QP_OK);
    assert_int_equal(graphrun_start(&run, "carto", ID, "{\"roots\":[\"none:x\"]}"), QP_E_SHAPE);
    assert_int_equal(refused_start("{\"roots\":[\"none:x\"]}", text), QP_E_SHAPE);
    assert_string_equal(text, "unknown package type 'none'; known types: ext, other");
    assert_int_equal(graphrun_start(&run, "carto", ID, "{\"roots\":[\"ext:a b\"]}"), QP_E_SHAPE);
    assert_int_equal(graphrun_start(&run, "carto", ID, "{\"roots\":[\"ext:a@\"]}"), QP_E_SHAPE);
    assert_int_equal(graphrun_start(&run, "carto", ID, "{\"roots\":[\"ext:*\"]}"), QP_E_SHAPE);
    assert_int_equal(graphrun_start(&run, "carto", ID,
                                    "{\"roots\":[\"ext:a\"],\"versions\":{\"ext:b\":\"ext:c\"}}"),
                     QP_E_SHAPE); /* which version of it? */
    assert_int_equal(change("ext", NULL), QP_OK);
    assert_int_equal(change("ext", NULL), QP_E_NOT_FOUND);
    assert_int_equal(graphrun_start(&run, "carto", "u", "{\"roots\":[\"ext:a\"]}"), QP_E_SHAPE);
    assert_int_equal(change("ext", PURE), QP_OK);
    assert_int_equal(graphrun_start(&run, "carto", "u", "{\"roots\":[\"ext:a\"]}"), QP_OK);
    graphrun_wait(&run, 60000);
    end();
}

/* Definitions that are refused, and how many there may be. */
static void test_definitions(void **state)
{
    static const struct {
        const char *definition;
        const char *sentence;
    } cases[] = {
        {"{}", "mode must be pure or ordered, got ''"},
        {"{\"mode\":\"both\"}", "mode must be pure or ordered, got 'both'"},
        {"{\"mode\":\"pure\",\"resolve\":\"carto.format\"}",
         "resolve must be the name of a topic; of those that begin with 'carto.' only its own, got "
         "'carto.format'"},
        {"{\"mode\":\"pure\",\"select\":\"a b\"}",
         "select must be the name of a topic; of those that begin with 'carto.' only its own, got 'a b'"},
        {"{\"mode\":\"pure\",\"sort\":1}",
         "the definition has mode, select-sync, select and resolve, got 'sort'"},
    };
    const struct carto_external *external = NULL;
    struct qp_err err = {0};
    struct arena a;
    char name[16];
    (void)state;
    begin(STORETEST_MEMORY, false, PURE);
    arena_init(&a, &run.f.t.env, 0);
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        assert_int_equal(
            external_read(&a, QP_STR("ext"), str_from(cases[i].definition), &external, &err),
            QP_E_SHAPE);
        assert_string_equal(err.text, cases[i].sentence);
    }
    assert_int_equal(external_check_name(QP_STR("a+b.c-9"), NULL), QP_OK);
    assert_int_equal(external_check_name(QP_STR("9a"), NULL), QP_E_INVALID);
    assert_int_equal(external_check_name(QP_STR("a:b"), NULL), QP_E_INVALID);
    assert_int_equal(external_check_name(QP_STR("abcdefghijklmnopqrstuvwxyz012345"), NULL), QP_OK);
    assert_int_equal(external_check_name(QP_STR("abcdefghijklmnopqrstuvwxyz0123456"), NULL),
                     QP_E_INVALID);
    arena_done(&a);
    for (int i = 1; i < LIMIT_CARTO_TYPES; i++) {
        (void)snprintf(name, sizeof name, "t%d", i);
        assert_int_equal(change(name, PURE), QP_OK);
    }
    assert_int_equal(change("more", PURE), QP_E_LIMIT);
    assert_int_equal(change("t1", ORDERED), QP_OK); /* in place of itself */
    assert_int_equal(change("t2", NULL), QP_OK);
    assert_int_equal(change("more", PURE), QP_OK);
    end();
}

/* What a worker may answer wrongly: the item says what is wrong, and all others are as they were. */
static const struct {
    const char *step;
    const char *name;
    const char *answer;
    const char *item;
} bad[] = {
    {"select", "b", "[]",
     "0.1 b@ FAILED: the answer of the worker cannot be read: it must be an object"},
    {"select", "b", "{\"selected\":\"b\"}",
     "/selected must be of the form type:name@version, got 'b'"},
    {"select", "b", "{\"selected\":\"ext:b\"}",
     "/selected must have a version, or virtual must be true"},
    {"select", "b", "{\"selected\":\"ext:b@1\",\"virtual\":1}", "/virtual must be true or false"},
    {"select", "b", "{\"chosen\":\"ext:b@1\"}", "it has no member 'chosen'"},
    {"select", "b", "{\"failure\":\"GONE\"}", "/failure must be METADATA_ERROR, METADATA_MISSING"},
    {"select", "b", "{\"failure\":\"METADATA_MISSING\"}", "/message must be a sentence"},
    {"select", "b", "{\"failure\":\"METADATA_MISSING\",\"message\":\"no b\"}",
     "0.1 b@ FAILED: no b\n"},
    {"select", "b", NULL, "0.1 b@ FAILED: disk on fire"},
    {"resolve", "b", "{}",
     "0.1 b@1 FAILED: the answer of the worker cannot be read: it must be an object with the list"},
    {"resolve", "b", "{\"relations\":{}}", "with the list relations"},
    {"resolve", "b", "{\"relations\":[1]}", "/relations/0 must be an object"},
    {"resolve", "b", "{\"relations\":[{\"target\":\"ext:m\"},{\"target\":\"m\"}]}",
     "/relations/1/target must be of the form type:name, got 'm'"},
    {"resolve", "b", "{\"relations\":[{\"target\":\"ext:m\",\"scope\":\"test\"}]}",
     "/relations/0/scope must be runtime, build_time or extra, got 'test'"},
    {"resolve", "b", "{\"relations\":[{\"target\":\"ext:m\",\"optional\":\"no\"}]}",
     "/optional must be true or false"},
    {"resolve", "b", "{\"relations\":[{\"target\":\"ext:m\",\"advice\":1}]}",
     "/advice must be a text"},
    {"resolve", "b", "{\"relations\":[{\"target\":\"ext:m\",\"kind\":1}]}", "/kind must be a text"},
    {"resolve", "b", "{\"relations\":[{\"target\":\"ext:m\",\"exclusions\":[\"x\"]}]}",
     "/exclusions must be patterns of the form type:pattern, got 'x'"},
    {"resolve", "b", "{\"relations\":[{\"target\":\"ext:m\",\"version\":1}]}", "got 'version'"},
    {"resolve", "b", "{\"failure\":\"METADATA_ERROR\",\"message\":\"no such file\"}",
     "0.1 b@1 FAILED: no such file\n"},
    {"resolve", "b", NULL, "0.1 b@1 FAILED: disk on fire"},
};

static void expect_bad(const char *item)
{
    graphrun_expect(&run, ID, "completed", NULL);
    expect_part(item);
    expect_part("0.0.0 m@1 DONE\n");
    expect_part("0.2.0 m@3 DONE\n");
}

static void test_bad_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        begin(STORETEST_MEMORY, i % 2 != 0, PURE);
        odd.step = bad[i].step;
        odd.name = bad[i].name;
        odd.answer = bad[i].answer;
        start("{\"roots\":[\"ext:r\"]}");
        expect_bad(bad[i].item);
        end();
    }
}

/* 10,000 relationships are taken, 100,000 are the error of their item. */
static void test_many_relations(void **state)
{
    static const int counts[] = {LIMIT_CARTO_RELATIONS, LIMIT_CARTO_RELATIONS + 1, 100000};
    static char large[GRAPHRUN_TEXT_SIZE * 6];
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        size_t at = (size_t)snprintf(large, sizeof large, "{\"relations\":[");
        for (int n = 0; n < counts[i]; n++) {
            at += (size_t)snprintf(large + at, sizeof large - at, "%s{\"target\":\"ext:q\"}",
                                   n == 0 ? "" : ",");
        }
        (void)snprintf(large + at, sizeof large - at, "]}");
        begin(STORETEST_MEMORY, false, PURE);
        odd.step = "resolve";
        odd.name = "b";
        odd.large = large;
        start("{\"roots\":[\"ext:r\"],\"depth\":1}");
        graphrun_expect(&run, ID, "completed", NULL);
        expect_part("0.0 a@1 DEPTH_PRUNED\n");
        if (counts[i] <= LIMIT_CARTO_RELATIONS) {
            expect_part("0.1 b@1 DEPTH_PRUNED\n");
        } else {
            char sentence[128];
            (void)snprintf(
                sentence, sizeof sentence,
                "/relations has %d relationships, at most 10000 are taken (LIMIT_CARTO_RELATIONS)",
                counts[i]);
            expect_part(sentence);
        }
        end();
    }
}

/* Advice of 4,096 bytes is taken, and none that is longer. */
static void test_long_advice(void **state)
{
    static char text[LIMIT_CARTO_ADVICE_SIZE + 64];
    (void)state;
    for (int more = 0; more < 2; more++) {
        struct carto_relations relations = {0};
        struct carto_outcome outcome;
        struct testenv env;
        struct arena a;
        (void)snprintf(text, sizeof text,
                       "{\"relations\":[{\"target\":\"ext:a\",\"advice\":\"%0*d\"}]}",
                       LIMIT_CARTO_ADVICE_SIZE + more, 1);
        testenv_init(&env, 1);
        arena_init(&a, &env.env, 0);
        assert_int_equal(external_relations(&a, str_from(text), &relations, &outcome), QP_OK);
        assert_int_equal(outcome.result, more == 0 ? CARTO_DONE : CARTO_FAILED);
        if (more == 0) {
            assert_int_equal(relations.rows[0].advice.n, LIMIT_CARTO_ADVICE_SIZE);
        } else {
            assert_non_null(memmem(outcome.text.p, outcome.text.n, "at most 4096 bytes", 18));
        }
        arena_done(&a);
        testenv_done(&env);
    }
}

/* A type without an end: with two relationships per node the traversal ends at the limit of items, with a single one its last
 * item says that the levels are used up. */
static void test_endless(void **state)
{
    (void)state;
    small_limit = 1000;
    begin(STORETEST_MEMORY, false, PURE);
    run.too_late = true;
    start("{\"roots\":[\"ext:tree1\"]}");
    graphrun_expect(
        &run, ID, "failed",
        "ITEM_LIMIT: the traversal has more than 1000 items (LIMIT_CARTO_ITEMS): set a depth or "
        "exclusions");
    end();
    begin(STORETEST_MEMORY, false, PURE);
    start("{\"roots\":[\"ext:chain0\"]}");
    graphrun_expect(&run, ID, "completed", NULL);
    expect_part(" chain199@0 DONE\n");
    expect_part(
        " chain200@0 FAILED: relationships are nested too deeply: the traversal stops here");
    end();
    small_limit = 0;
}

/* A package leads to another type: one that is built in and has no lists here is the item's error, one that is not known ends the
 * request. */
static void test_other_types(void **state)
{
    static const char *const steps[] = {"select", "resolve"};
    static const char *const known[] = {
        "{\"selected\":\"deb:b@1\"}",
        "{\"relations\":[{\"target\":\"deb:b\"},{\"target\":\"npm:b\"}]}"};
    static const char *const unknown[] = {"{\"selected\":\"none:b@1\"}",
                                          "{\"relations\":[{\"target\":\"none:b\"}]}"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        const char *body =
            i < 2 ? "{\"roots\":[\"ext:r\"]}" : "{\"roots\":[\"ext:r\"],\"split\":true}";
        begin(STORETEST_MEMORY, i == 3, PURE);
        odd.step = steps[i % 2];
        odd.name = "b";
        odd.answer = known[i % 2];
        if (i < 2) { /* split sends steps of deb to workers, which are not here */
            start(body);
            graphrun_expect(&run, ID, "completed", NULL);
            expect_part("FAILED: this traversal has no lists of 'deb'");
            expect_part("0.2.0 m@3 DONE\n");
        }
        end();
        begin(STORETEST_MEMORY, i == 3, PURE);
        run.too_late = true;
        odd.name = "b";
        odd.answer = unknown[i % 2];
        start(body);
        graphrun_expect(&run, ID, "failed", "UNKNOWN_TYPE: item 0.1");
        end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_items),  cmocka_unit_test(test_select_sync),
        cmocka_unit_test(test_not_asked),   cmocka_unit_test(test_pinned),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_definitions),
        cmocka_unit_test(test_bad_answers), cmocka_unit_test(test_many_relations),
        cmocka_unit_test(test_long_advice), cmocka_unit_test(test_endless),
        cmocka_unit_test(test_other_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
