/* test_ordered.c - an ordered type: history, dominated and dominating contexts in one level, a type that is not known
 *
 * The type `syn` has its graph here. Its selection depends on the order of items: the first item of a target decides for all of
 * them. Relationships may carry exclusions, so that one node is reached in several contexts.
 *
 *     r -> a (below it without x), b, c=2     a -> m=1     b -> m=2     m -> x, y     c -> m=3
 *
 * m is met first below a, where x is left out; then below b and c, where it is not: it has to be expanded again, once. Its
 * version is the one that a asked for.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "carto/face.h"
#include "carto/result.h"
#include "carto/traversal.h"
#include "support/graphrun.h"

#define ID "t"

static struct graphrun run;

/* -------------------------------------------------------------------------------------------- the type */

static const struct need {
    const char *from;
    const char *type;
    const char *to;
    const char *advice;
    const char *exclusions;
} needs[] = {
    {"r", "syn", "a", "1", "syn:x\n"}, {"r", "syn", "b", "1", ""}, {"r", "syn", "c", "2", ""},
    {"a", "syn", "m", "1", ""},        {"b", "syn", "m", "2", ""}, {"c", "syn", "m", "3", ""},
    {"m", "syn", "x", "1", ""},        {"m", "syn", "y", "1", ""}, {"bad", "syn", "a", "1", ""},
    {"bad", "zzz", "q", "1", ""},
};

static int options(struct arena *a, const struct json *given, enum carto_scope scope,
                   const void **out_options, struct qp_err *err)
{
    (void)a;
    (void)given;
    (void)scope;
    (void)err;
    *out_options = NULL;
    return QP_OK;
}

static int check_name(qp_str name, bool is_pattern, struct qp_err *err)
{
    (void)name;
    (void)is_pattern;
    (void)err;
    return QP_OK;
}

static int root(const struct carto_request *r, struct arena *a, qp_str text, struct carto_item *out,
                struct qp_err *err)
{
    (void)r;
    (void)a;
    (void)err;
    out->target.name = text;
    return QP_OK;
}

static int check_override(const struct carto_request *r, struct arena *a,
                          const struct carto_override *override, struct qp_err *err)
{
    (void)r;
    (void)a;
    (void) override;
    (void)err;
    return QP_OK;
}

static int choose(const struct carto_request *r, struct arena *a, const struct carto_item *item,
                  struct carto_selection *out, struct carto_outcome *outcome, struct qp_err *err)
{
    bool is_chosen = false;
    (void)a;
    (void)err;
    *out = (struct carto_selection){.package = {item->target, item->advice}};
    QP_TRY(carto_chosen(r, item->target, &is_chosen, &out->package));
    if (is_chosen) {
        outcome->result = CARTO_AVOIDED;
        out->advice_ignored = item->advice.n > 0 && !str_equal(out->package.version, item->advice);
    } else if (item->advice.n == 0) {
        out->package.version = QP_STR("0");
    }
    return QP_OK;
}

static int resolve(const struct carto_request *r, struct arena *a, const struct carto_item *item,
                   struct carto_relations *out, struct carto_outcome *outcome, struct qp_err *err)
{
    (void)r;
    (void)err;
    outcome->result = CARTO_DONE;
    out->rows = arena_alloc(a, ARRAY_COUNT(needs) * sizeof *out->rows);
    assert_non_null(out->rows);
    for (size_t i = 0; i < ARRAY_COUNT(needs); i++) {
        if (str_equal(str_from(needs[i].from), item->selected.id.name)) {
            out->rows[out->count] =
                (struct carto_relation){.ordinal = out->count,
                                        .target = {str_from(needs[i].type), str_from(needs[i].to)},
                                        .advice = str_from(needs[i].advice),
                                        .kind = QP_STR("needs"),
                                        .exclusions = str_from(needs[i].exclusions)};
            out->count++;
        }
    }
    return QP_OK;
}

static const struct carto_type syn = {.name = "syn",
                                      .mode = CARTO_ORDERED,
                                      .options = options,
                                      .check_name = check_name,
                                      .root = root,
                                      .check_override = check_override,
                                      .select = choose,
                                      .resolve = resolve};
static const struct carto_type *const types[] = {&syn};
static const struct plan_types known = {types, 1};

static int open_syn(const struct face_options *face_options, void **out_state)
{
    struct traversals *s = NULL;
    QP_TRY(traversals_open(face_options->env, &known, &s));
    *out_state = s;
    return QP_OK;
}

static struct face face;

/* ---------------------------------------------------------------------------------------------- running */

static void work(struct graphcall *c)
{
    (void)snprintf(c->output, sizeof c->output, "{\"hash\":\"0\"}");
}

static void begin(int kind, bool stepwise)
{
    face = carto_face;
    face.open = open_syn;
    run.stepwise = stepwise;
    run.traversals = &face;
    graphrun_init(&run, (enum storetest_kind)kind, "carto.format", work);
}

/* "path node@version STATE": a line per item. */
static void expect_items(const char *expected)
{
    struct result_source *source = NULL;
    struct carto_items items;
    struct buf text;
    struct job_row job = *graphrun_job(&run, ID);
    buf_init(&text, &run.f.t.env, 0);
    assert_int_equal(result_open(&run.f.t.env, run.f.s, &job, NULL, &source), QP_OK);
    items = result_items(source);
    for (uint64_t level = 0; level < 5; level++) {
        const struct carto_item *item = NULL;
        for (size_t i = 0; items.get(items.context, level, i, &item) == QP_OK; i++) {
            path_print(&text, item->path);
            buf_printf(&text, " %.*s@%.*s %s%s\n", STR_ARG(item->target.name),
                       STR_ARG(item->selected.version), carto_state_text(item->state),
                       item->advice_ignored ? " ignored" : "");
        }
    }
    buf_byte(&text, '\0');
    assert_string_equal(text.p, expected);
    buf_done(&text);
    result_close(source);
}

static const char all_items[] = "0 r@0 DONE\n"
                                "0.0 a@1 DONE\n"
                                "0.1 b@1 DONE\n"
                                "0.2 c@2 DONE\n"
                                "0.0.0 m@1 DONE\n"
                                "0.1.0 m@1 DONE ignored\n"
                                "0.2.0 m@1 DUPLICATE ignored\n"
                                "0.0.0.1 y@1 DONE\n"
                                "0.1.0.0 x@1 DONE\n"
                                "0.1.0.1 y@1 DONE\n";

/* Of one level the first item of a target decides the version; an item whose context is not dominated is expanded again, one
 * whose context is dominated is a duplicate. Killed after every commit it is the same. */
static void test_ordered(void **state)
{
    (void)state;
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        for (int64_t kill_at = 0; kill_at < (kind == STORETEST_POSTGRES ? 4 : 40); kill_at++) {
            begin(kind, kill_at % 2 != 0);
            run.kill_at = kill_at;
            assert_true(graphrun_start(&run, "carto", ID,
                                       kill_at % 3 == 0
                                           ? "{\"roots\":[\"syn:r\"],\"page\":1}"
                                           : "{\"roots\":[\"syn:r\"],\"split\":false}") == QP_OK ||
                        run.kills > 0);
            graphrun_wait(&run, 600000);
            graphrun_expect(&run, ID, "completed", NULL);
            expect_items(all_items);
            graphrun_check(&run);
            graphrun_done(&run);
        }
    }
}

/* An override is there before the first selection. */
static void test_override(void **state)
{
    (void)state;
    begin(STORETEST_MEMORY, false);
    assert_int_equal(
        graphrun_start(&run, "carto", ID,
                       "{\"roots\":[\"syn:c\"],\"versions\":{\"syn:m\":\"9\"},\"depth\":1}"),
        QP_OK);
    graphrun_wait(&run, 60000);
    expect_items("0 c@0 DONE\n0.0 m@9 DEPTH_PRUNED ignored\n");
    graphrun_check(&run);
    graphrun_done(&run);
}

/* A type that is not known, met in mid-traverse, ends the request; nothing is left open. */
static void test_unknown_type(void **state)
{
    (void)state;
    for (int stepwise = 0; stepwise < 2; stepwise++) {
        begin(STORETEST_MEMORY, stepwise != 0);
        assert_int_equal(graphrun_start(&run, "carto", ID, "{\"roots\":[\"syn:bad\"]}"), QP_OK);
        graphrun_wait(&run, 60000);
        graphrun_expect(&run, ID, "failed",
                        "UNKNOWN_TYPE: item 0.1 (zzz:q): unknown package type 'zzz'; known types: "
                        "syn");
        graphrun_check(&run);
        graphrun_done(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ordered),
        cmocka_unit_test(test_override),
        cmocka_unit_test(test_unknown_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
