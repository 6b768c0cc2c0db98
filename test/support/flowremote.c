/* flowremote.c - functions of C as flows that a worker elsewhere serves (see flowremote.h) */
#include "support/flowremote.h"

#include <stdlib.h>

#include "flow/flow.h"

#define FIRST_CAPACITY 32

void flowremote_init(struct flowremote *r, const struct qp_env *env, struct arena *arena)
{
    *r = (struct flowremote){.env = env, .arena = arena};
}

static int64_t number(qp_str object, const char *name)
{
    qp_str value = flow_member(object, name);
    return str_is_none(value) ? 0 : (int64_t)real_parse(value);
}

static qp_str text(const struct flowremote *r, qp_str object, const char *name)
{
    qp_str value = flow_member(object, name);
    qp_str out = QP_NONE;
    QP_ASSERT(str_is_none(value) || raw_text(r->env, r->arena, value, &out));
    return out;
}

static struct location place(const struct flowremote *r, qp_str object, const char *name)
{
    struct location at = {0};
    qp_str loc = text(r, object, name);
    QP_ASSERT(str_is_none(loc) || location_parse(loc, &at, NULL) == QP_OK);
    return at;
}

/* ---------------------------------------------------------------------------------------- history */

static void *grown(const struct flowremote *r, const void *items, size_t size)
{
    char *bigger = arena_alloc(r->arena, 2 * r->capacity * size);
    QP_ASSERT(bigger != NULL);
    if (r->log.history.count > 0) {
        memcpy(bigger, items, r->log.history.count * size);
    }
    return bigger;
}

static void make_room(struct flowremote *r)
{
    if (r->log.history.count < r->capacity) {
        return;
    }
    r->capacity = r->capacity == 0 ? FIRST_CAPACITY : r->capacity;
    r->events = grown(r, r->events, sizeof *r->events);
    r->log.entries = grown(r, r->log.entries, sizeof *r->log.entries);
    r->capacity *= 2;
}

static void read_event(const struct flowremote *r, qp_str json, struct history_event *out_event)
{
    char key[LOCATION_KEY_SIZE];
    struct location at = place(r, json, "loc");
    qp_str of = text(r, json, "of");
    *out_event =
        (struct history_event){.version = number(json, "v"), .name = text(r, json, "name")};
    QP_ASSERT(history_type_of(text(r, json, "op"), &out_event->type));
    QP_ASSERT(str_is_none(of) || history_type_of(of, &out_event->of));
    QP_ASSERT(arena_copy(r->arena, (qp_str){key, location_key(&at, key)}, &out_event->key));
}

static struct log_entry read_entry(const struct flowremote *r, qp_str json)
{
    qp_str error = flow_member(json, "error");
    qp_str ok = flow_member(json, "ok");
    struct log_entry e = {.n = number(json, "n"),
                          .done = number(json, "done"),
                          .shielded = str_equal(flow_member(json, "shield"), QP_STR("true")),
                          .iteration = number(json, "iteration"),
                          .state = flow_member(json, "state"),
                          .broken = !str_is_none(flow_member(json, "broken")),
                          .seen = number(json, "broken"),
                          .properties = flow_member(json, "properties")};
    if (e.done > 0) {
        e.at = number(json, "at");
        e.code = str_is_none(error) ? 200 : number(error, "code");
        e.code = e.code == 0 ? 500 : e.code;
        e.output = str_is_none(error) ? ok : error;
        e.output = str_is_none(e.output) ? QP_STR("null") : e.output;
        e.cancelled = e.done == r->log.cancel.done;
    }
    return e;
}

static void read_cancel(struct flowremote *r, qp_str json)
{
    r->log.cancel = (struct log_cancel){.done = number(json, "done"),
                                        .at = number(json, "at"),
                                        .reason = flow_member(json, "reason"),
                                        .thrown = place(r, json, "thrown")};
}

static void read_log(struct flowremote *r, qp_str log)
{
    struct raw_walk w = {.rest = log};
    while (raw_each(&w)) {
        if (str_equal(flow_member(w.value, "op"), QP_STR("\"cancel\""))) {
            read_cancel(r, w.value);
            continue;
        }
        make_room(r);
        read_event(r, w.value, &r->events[r->log.history.count]);
        r->log.entries[r->log.history.count++] = read_entry(r, w.value);
    }
}

static void read_head(struct flowremote *r, qp_str task)
{
    char seed[17] = "";
    qp_str digits = text(r, task, "seed");
    QP_ASSERT(digits.n == sizeof seed - 1);
    memcpy(seed, digits.p, digits.n);
    r->log.job = text(r, task, "job");
    r->log.workflow = text(r, task, "workflow");
    r->log.input = flow_member(task, "input");
    r->log.seed = strtoull(seed, NULL, 16);
    r->log.started_at = number(task, "started_at");
    r->log.base = number(task, "base");
}

void flowremote_read(struct flowremote *r, qp_str json)
{
    qp_str own;
    QP_ASSERT(arena_copy(r->arena, json, &own));
    if (!str_is_none(flow_member(own, "token"))) {
        read_head(r, own);
    }
    read_log(r, flow_member(own, "log"));
    r->more = flow_member(own, "more");
}

void flowremote_decide(struct flowremote *r, qp_flow_function function, qp_ms now,
                       struct script_result *out_result)
{
    struct script_input input = {.env = r->env,
                                 .arena = r->arena,
                                 .log = &r->log,
                                 .now = now,
                                 .function = function,
                                 .context = &r->log};
    QP_ASSERT(history_init(&r->log.history, r->events, r->log.history.count, NULL) == QP_OK);
    QP_ASSERT(script_run(&input, out_result) == QP_OK);
}
