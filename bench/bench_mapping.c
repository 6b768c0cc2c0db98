/* bench_mapping.c - what a mapping adds to an activity: a worker's input from a payload of 1 KiB
 *
 * Eight values: six references, one pipe that concatenates, one with a ternary. What is measured is all that mapping
 * adds to a step: finding the references in the payload's text, evaluating, and writing the result. Beside it, what each
 * part costs by itself. Of many short rounds the fastest counts: that is the one which nobody else has disturbed.
 *
 * BENCH_SMOKE=1 only shows that it runs.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/env.h"
#include "mapping/mapping.h"
#include "place.h"

#define TARGET_US 10.0

static const char text[] =
    "customer: '{order.output.data.customer}'\n"
    "city: '{order.output.data.address.city}'\n"
    "zip: '{order.output.data.address.zip}'\n"
    "lines: '{order.output.data.lines}'\n"
    "total: '{order.output.data.total}'\n"
    "last: '{order.output.data.last}'\n"
    "name:\n"
    "  '@pipe':\n"
    "    - ['{order.output.data.first}', ' ', '{order.output.data.second}']\n"
    "    - ['{@string.concat}']\n"
    "rate:\n"
    "  '@pipe':\n"
    "    - ['{order.output.data.total}', 100]\n"
    "    - ['{@conditional.greater_than}', high, low]\n"
    "    - ['{@conditional.ternary}']\n";

static struct qp_env env;
static char payload[2048];
static size_t payload_size;

/* 1 KiB with what is asked for among other fields. */
static void payload_make(void)
{
    int n = snprintf(payload, sizeof(payload),
                     "{\"customer\":\"c-10017\",\"first\":\"Ada\",\"second\":\"Lovelace\","
                     "\"address\":{\"street\":\"St James's Square 12\",\"city\":\"London\","
                     "\"zip\":\"SW1Y 4JH\"},\"lines\":[");

    for (int i = 0; i < 10; i++) {
        n += snprintf(payload + n, sizeof(payload) - (size_t)n,
                      "%s{\"sku\":\"SKU-%04d\",\"count\":%d,\"price\":\"12.50\"}", i > 0 ? "," : "",
                      i, i + 1);
    }
    n += snprintf(payload + n, sizeof(payload) - (size_t)n, "],\"total\":687.5");
    for (int i = 0; n < 1000; i++) {
        n +=
            snprintf(payload + n, sizeof(payload) - (size_t)n, ",\"field%02d\":\"value %d\"", i, i);
    }
    n += snprintf(payload + n, sizeof(payload) - (size_t)n, ",\"last\":true}");
    payload_size = (size_t)n;
}

static int find(void *context, const struct reference *r, struct value *out_value)
{
    (void)context;
    *out_value = value_at((qp_str){payload, payload_size}, r->path, r->path_count);
    return QP_OK;
}

static struct mapping *compiled(struct arena *a, const char *yaml)
{
    struct report report;
    struct node *node;
    struct mapping *m = NULL;

    report_init(&report, a);
    if (tree_read(a, str_from(yaml), &report, &node) == QP_OK) {
        m = mapping_compile(a, node, &report);
    }
    if (m == NULL) {
        die("mapping", "does not compile");
    }
    return m;
}

/* Microseconds of one evaluation and its writing, the fastest of the rounds. */
static double measure(const struct mapping *m, int rounds, int count)
{
    struct arena arena;
    struct buf out;
    double best = 1e9;

    arena_init(&arena, &env, 0);
    buf_init(&out, &env, 0);
    for (int round = 0; round < rounds; round++) {
        double began = now_s();
        double took;

        for (int i = 0; i < count; i++) {
            struct scope scope = {.find = find, .arena = &arena, .env = &env};
            struct value v;

            arena_reset(&arena);
            buf_reset(&out);
            if (mapping_evaluate(m, &scope, &v) != QP_OK || value_write(&out, &v) != QP_OK) {
                die("mapping", "cannot be evaluated");
            }
        }
        took = (now_s() - began) * 1e6 / count;
        best = took < best ? took : best;
    }
    buf_done(&out);
    arena_done(&arena);
    return best;
}

int main(void)
{
    bool smoke = getenv("BENCH_SMOKE") != NULL;
    static const struct {
        const char *what;
        const char *yaml;
    } parts[] = {
        {"all eight values", text},
        {"one reference to the first field", "'{order.output.data.customer}'"},
        {"one reference to the last field", "'{order.output.data.last}'"},
        {"a pipe of literals with concat", "'@pipe': [[a, b], ['{@string.concat}']]"},
    };
    struct arena arena;
    double whole = 0;

    qp_env_init(&env);
    env_complete(&env);
    arena_init(&arena, &env, 0);
    payload_make();
    printf("mapping of a payload of %zu bytes\n%-36s %12s\n", payload_size, "", "microseconds");
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        double us = measure(compiled(&arena, parts[i].yaml), smoke ? 1 : 2000, smoke ? 10 : 100);

        printf("%-36s %12.2f\n", parts[i].what, us);
        whole = i == 0 ? us : whole;
    }
    printf("target: under %.0f microseconds for all: %s\n", TARGET_US,
           whole < TARGET_US ? "held" : "missed");
    arena_done(&arena);
    return 0;
}
