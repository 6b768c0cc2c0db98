/* compile_job.c - which keys the data of a graph's jobs can have, those of all maps of `job`; and what they leave behind */
#include "graph/compile.h"

static size_t keys_most(const struct graph *g)
{
    size_t most = 0;
    for (size_t i = 0; i < g->activity_count; i++) {
        most += g->activities[i].job == NULL ? 0 : mapping_count(g->activities[i].job);
    }
    return most;
}

static bool has_key(const qp_str *keys, size_t count, qp_str key)
{
    for (size_t i = 0; i < count; i++) {
        if (str_equal(keys[i], key)) {
            return true;
        }
    }
    return false;
}

static void add_keys(const struct mapping *m, qp_str *keys, size_t *count)
{
    for (size_t i = 0; m != NULL && i < mapping_count(m); i++) {
        if (!has_key(keys, *count, mapping_key(m, i))) {
            keys[(*count)++] = mapping_key(m, i);
        }
    }
}

/* A hook that waits for a time and a signal leaves its timer behind when the signal wins. */
static bool leaves_timers(const struct graph *g)
{
    for (size_t i = 0; i < g->activity_count; i++) {
        if (g->activities[i].sleep != NULL && g->activities[i].hook != NULL) {
            return true;
        }
    }
    return false;
}

int job_keys_collect(struct arena *a, struct graph *g)
{
    qp_str *keys = arena_alloc(a, (keys_most(g) + 1) * sizeof *keys);
    if (keys == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < g->activity_count; i++) {
        add_keys(g->activities[i].job, keys, &g->job_key_count);
    }
    g->job_keys = keys;
    g->leaves_timers = leaves_timers(g);
    return QP_OK;
}

const struct hook_rule *app_hook(const struct app *app, qp_str topic)
{
    size_t i = 0;
    while (i < app->hook_count && !str_equal(app->hooks[i].topic, topic)) {
        i++;
    }
    return i < app->hook_count ? &app->hooks[i] : NULL;
}
