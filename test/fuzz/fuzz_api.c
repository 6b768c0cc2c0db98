/* fuzz_api.c - libFuzzer target: any request, at any route, is answered, and never with a
 * failure of ours
 *
 * An input is a request: "METHOD target", then headers as "Name: value", an empty line, and the
 * body. The head is judged as that of a request from the network is (head.h); what is taken goes
 * to the handlers of a server without tokens, on a store in memory. Requests that would wait are
 * left out: they answer as others do, only later.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "run/stats.h"
#include "server/api.h"
#include "server/head.h"

#define CALLS_PER_STORE 2000 /* then a new one, so that what was started does not pile up */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
    struct qp_env env;
    qp *engine;
    struct api *api;
    int calls;
} world;

static const struct head_rules rules = {
    .hosts = {"localhost"}, .host_count = 1, .body_size = LIMIT_BODY_SIZE};

static void world_close(void)
{
    if (world.api != NULL) {
        api_drain(world.api, 1000);
        api_close(world.api);
        QP_ASSERT(qp_close(world.engine, NULL) == QP_OK);
    }
    memset(&world, 0, sizeof world);
}

static void world_open(void)
{
    struct qp_options options;
    struct api_options api;
    qp_options_init(&options);
    qp_env_init(&world.env);
    options.env = &world.env;
    QP_ASSERT(qp_open(&options, &world.engine, NULL) == QP_OK);
    QP_ASSERT(qp_start_threads(world.engine, 0, NULL) == QP_OK);
    api = (struct api_options){.engine = world.engine,
                               .env = &world.env,
                               .metrics = stats_registry(world.engine),
                               .threads = 1,
                               .open = true};
    QP_ASSERT(api_open(&api, &world.api, NULL) == QP_OK);
}

/* A line off the front. */
static qp_str take_line(qp_str *rest)
{
    const char *end = rest->n == 0 ? NULL : memchr(rest->p, '\n', rest->n);
    qp_str line = {rest->p, end == NULL ? rest->n : (size_t)(end - rest->p)};
    size_t skip = end == NULL ? line.n : line.n + 1;
    rest->p += skip;
    rest->n -= skip;
    return line;
}

static bool waits(qp_str text)
{
    return memmem(text.p, text.n, "wait", 4) != NULL || memmem(text.p, text.n, "work", 4) != NULL;
}

/* The first line, the headers; false: refused. */
static bool read_head(struct api_call *c, qp_str *rest)
{
    qp_str line = take_line(rest);
    const char *space = line.n == 0 ? NULL : memchr(line.p, ' ', line.n);
    qp_str target =
        space == NULL ? QP_STR("/") : (qp_str){space + 1, line.n - (size_t)(space - line.p) - 1};
    struct head h;
    c->method = method_from((qp_str){line.p, space == NULL ? line.n : (size_t)(space - line.p)});
    head_begin(&h, &rules);
    head_line(&h, QP_STR("HTTP/1.1"), target, &c->path, &c->query);
    head_add(&h, QP_STR("Host"), QP_STR("localhost"), c);
    while ((line = take_line(rest)).n > 0) {
        const char *colon = memchr(line.p, ':', line.n);
        size_t n = colon == NULL ? line.n : (size_t)(colon - line.p);
        head_add(&h, (qp_str){line.p, n},
                 (qp_str){line.p + n + (colon != NULL), line.n - n - (colon != NULL)}, c);
    }
    return head_end(&h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    qp_str rest = {(const char *)data, size};
    struct api_call c;
    if (size > 65536 || (size > 0 && waits(rest))) {
        return 0;
    }
    if (world.api == NULL || ++world.calls > CALLS_PER_STORE) {
        world_close();
        world_open();
    }
    api_call_init(&c, world.api, NULL);
    if (read_head(&c, &rest)) {
        c.body = rest;
        c.content_type = str_is_none(c.content_type) ? QP_STR("application/json") : c.content_type;
        api_do(&c);
        QP_ASSERT(c.status >= 200 && (c.status < 500 || c.status == 501));
        api_finished(&c);
    }
    api_call_done(&c);
    return 0;
}
