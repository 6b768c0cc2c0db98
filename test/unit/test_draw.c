/* test_draw.c - a graph as dot, mermaid, text and JSON: what is drawn, how states look, what is escaped */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "graph/draw.h"
#include "support/testenv.h"

static struct testenv t;
static struct arena arena;
static struct app *app;
static struct buf out;

static const char source[] =
    "app:\n"
    "  id: mill\n"
    "  version: '3'\n"
    "  graphs:\n"
    "    - subscribes: corn.brought\n"
    "      publishes: flour.ready\n"
    "      activities:\n"
    "        corn: { type: trigger, title: 'A \"sack\" <of> #1 \\ [corn]' }\n"
    "        turn: { type: hook, cycle: true }\n"
    "        grind: { type: worker, topic: corn.grind }\n"
    "        sieve: { type: worker, topic: corn.sieve }\n"
    "        end: { type: hook, join: any }\n"
    "        again: { type: cycle, ancestor: turn }\n"
    "      transitions:\n"
    "        corn:\n"
    "          - to: turn\n"
    "        turn:\n"
    "          - to: grind\n"
    "          - to: sieve\n"
    "        grind:\n"
    "          - to: end\n"
    "            conditions: { code: [200, 202] }\n"
    "          - to: again\n"
    "            conditions: { match: [{ expected: 1, actual: '{grind.output.data.again}' }] }\n"
    "        sieve:\n"
    "          - to: end\n"
    "      hooks:\n"
    "        flour.fetched:\n"
    "          - to: end\n"
    "            conditions:\n"
    "              match:\n"
    "                - expected: '{$job.metadata.jid}'\n"
    "                  actual: '{$self.hook.data.id}'\n"
    "    - subscribes: mill.closed\n"
    "      activities:\n"
    "        closed: { type: trigger }\n";

static int setup(void **state)
{
    struct report report;
    (void)state;
    testenv_init(&t, 1);
    arena_init(&arena, &t.env, 0);
    report_init(&report, &arena);
    buf_init(&out, &t.env, 0);
    return app_compile(&t.env, str_from(source), &report, &app);
}

static int teardown(void **state)
{
    (void)state;
    app_free(app);
    buf_done(&out);
    arena_done(&arena);
    testenv_done(&t);
    return 0;
}

static void assert_drawn(const char *expected)
{
    assert_int_equal(buf_rc(&out), QP_OK);
    buf_byte(&out, '\0');
    assert_string_equal(out.p, expected);
    buf_reset(&out);
}

static void dot(void **state)
{
    (void)state;
    draw_app(&out, app, DRAW_DOT);
    assert_drawn("digraph quipu {\n"
                 "    node [shape=box];\n"
                 "    subgraph cluster_0 {\n"
                 "        label=\"corn.brought\";\n"
                 "        g0a0 [label=\"corn\\ntrigger\\nA \\\"sack\\\" <of> #1 \\\\ [corn]\"];\n"
                 "        g0a1 [label=\"turn\\nhook\"];\n"
                 "        g0a2 [label=\"grind\\nworker\"];\n"
                 "        g0a3 [label=\"sieve\\nworker\"];\n"
                 "        g0a4 [label=\"end\\nhook\"];\n"
                 "        g0a5 [label=\"again\\ncycle\"];\n"
                 "        g0a6 [shape=diamond, label=\"any\"];\n"
                 "    }\n"
                 "    g0a0 -> g0a1;\n"
                 "    g0a1 -> g0a2;\n"
                 "    g0a1 -> g0a3;\n"
                 "    g0a2 -> g0a6 [label=\"200, 202\"];\n"
                 "    g0a2 -> g0a5 [label=\"200 if\"];\n"
                 "    g0a3 -> g0a6;\n"
                 "    g0a5 -> g0a1 [style=dashed];\n"
                 "    g0a6 -> g0a4;\n"
                 "    subgraph cluster_1 {\n"
                 "        label=\"mill.closed\";\n"
                 "        g1a0 [label=\"closed\\ntrigger\"];\n"
                 "    }\n"
                 "}\n");
}

/* What a terminal acts on, or what turns the direction of a line, is drawn as a blank; other letters stay. */
static void titles(void **state)
{
    static const char text[] =
        "app: {id: a, version: '1', graphs: [{subscribes: a, activities: {"
        "t: {type: trigger, title: \"\\e[1m\\x9b2J\\x7f\\u202Eé\\u2066\\n€\"}}}]}\n";
    static const enum draw_form forms[] = {DRAW_TEXT, DRAW_DOT, DRAW_MERMAID};
    static const char *const shown[] = {"t (trigger)  [1m 2J  é  €\n", "\\n [1m 2J  é  €\"",
                                        "<br/> #91;1m 2J  é  €\""};
    struct report report;
    struct app *other = NULL;
    (void)state;
    report_init(&report, &arena);
    assert_int_equal(app_compile(&t.env, str_from(text), &report, &other), QP_OK);
    for (size_t i = 0; i < ARRAY_COUNT(forms); i++) {
        draw_app(&out, other, forms[i]);
        buf_byte(&out, '\0');
        assert_non_null(strstr(out.p, shown[i]));
        buf_reset(&out);
    }
    app_free(other);
}

static void mermaid(void **state)
{
    (void)state;
    draw_app(&out, app, DRAW_MERMAID);
    assert_drawn("flowchart TD\n"
                 "    subgraph g0[\"corn.brought\"]\n"
                 "        g0a0[\"corn<br/>trigger<br/>A #34;sack#34; #60;of#62; #35;1 #92; "
                 "#91;corn#93;\"]\n"
                 "        g0a1[\"turn<br/>hook\"]\n"
                 "        g0a2[\"grind<br/>worker\"]\n"
                 "        g0a3[\"sieve<br/>worker\"]\n"
                 "        g0a4[\"end<br/>hook\"]\n"
                 "        g0a5[\"again<br/>cycle\"]\n"
                 "        g0a6{\"any\"}\n"
                 "    end\n"
                 "    g0a0 --> g0a1\n"
                 "    g0a1 --> g0a2\n"
                 "    g0a1 --> g0a3\n"
                 "    g0a2 -->|\"200, 202\"| g0a6\n"
                 "    g0a2 -->|\"200 if\"| g0a5\n"
                 "    g0a3 --> g0a6\n"
                 "    g0a5 -.-> g0a1\n"
                 "    g0a6 --> g0a4\n"
                 "    subgraph g1[\"mill.closed\"]\n"
                 "        g1a0[\"closed<br/>trigger\"]\n"
                 "    end\n");
}

static void plain(void **state)
{
    (void)state;
    draw_app(&out, app, DRAW_TEXT);
    assert_drawn("corn.brought => flour.ready\n"
                 "  corn (trigger) A \"sack\" <of> #1 \\ [corn]\n"
                 "    -> turn\n"
                 "  turn (hook)\n"
                 "    -> grind\n"
                 "    -> sieve\n"
                 "  grind (worker)\n"
                 "    -> end on 200, 202\n"
                 "    -> again on 200 if\n"
                 "  sieve (worker)\n"
                 "    -> end\n"
                 "  end (hook, joins any of 2, waits for flour.fetched)\n"
                 "  again (cycle, back to turn)\n"
                 "\n"
                 "mill.closed\n"
                 "  closed (trigger)\n");
}

static void assert_has(const char *piece)
{
    buf_byte(&out, '\0');
    assert_non_null(strstr(out.p, piece));
    out.n--;
}

/* Digits are in the order of ids: again, corn, end, grind, sieve, turn. */
static void states(void **state)
{
    (void)state;
    draw_graph(&out, &app->graphs[0], DRAW_TEXT, "968736");
    assert_has("\n  6 corn (");
    assert_has("\n  7 grind (");
    assert_has("\n  3 sieve (");
    buf_reset(&out);
    draw_graph(&out, &app->graphs[0], DRAW_DOT, "968736");
    assert_has("g0a2 [label=\"grind\\nworker\", style=filled, fillcolor=\"#ff9999\"];");
    buf_reset(&out);
    draw_graph(&out, &app->graphs[0], DRAW_MERMAID, "968736");
    assert_has("g0a2[\"grind<br/>worker\"]:::state7\n");
    assert_has("    classDef state7 fill:#ff9999\n");
    buf_reset(&out);
}

static void as_json(void **state)
{
    struct json *json = NULL;
    const struct json *activity;
    int64_t number = 0;
    qp_str text = QP_NONE;
    (void)state;
    draw_json(&out, app);
    assert_int_equal(json_parse(&t.env, buf_slice(&out), NULL, &json), QP_OK);
    assert_true(json_as_str(json_get(json, QP_STR("version")), &text) && text.p[0] == '3');
    assert_int_equal(json_count(json_get(json, QP_STR("graphs"))), 2);
    activity =
        json_at(json_get(json_at(json_get(json, QP_STR("graphs")), 0), QP_STR("activities")), 4);
    assert_true(json_as_str(json_get(activity, QP_STR("join")), &text) && text.n == 3);
    assert_true(json_as_i64(json_get(activity, QP_STR("ways")), &number) && number == 2);
    assert_true(json_as_i64(json_get(activity, QP_STR("line")), &number) && number == 12);
    json_free(json);
    buf_reset(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dot),   cmocka_unit_test(mermaid), cmocka_unit_test(titles),
        cmocka_unit_test(plain), cmocka_unit_test(states),  cmocka_unit_test(as_json),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
