/* compile_job.c - which keys the data of a graph's jobs can have, those of all maps of `job`; and what they leave behind
 *
 * A key stands where the text names it first. What is written and read by name is found in a list by names.
 */
#include <stdlib.h>

#include "graph/compile.h"

static size_t keys_most(const struct graph *g)
{
    size_t most = 0;
    for (size_t i = 0; i < g->activity_count; i++) {
        most += g->activities[i].job == NULL ? 0 : mapping_count(g->activities[i].job);
    }
    return most;
}

static int key_compare(const void *a, const void *b)
{
    const struct job_key *x = a;
    const struct job_key *y = b;
    int order = str_compare(x->name, y->name);
    return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

static int name_compare(const void *a, const void *b)
{
    return str_compare(((const struct job_key *)a)->name, ((const struct job_key *)b)->name);
}

static size_t add_keys(const struct graph *g, struct job_key *keys)
{
    size_t n = 0;
    for (size_t i = 0; i < g->activity_count; i++) {
        const struct mapping *m = g->activities[i].job;
        for (size_t k = 0; m != NULL && k < mapping_count(m); k++, n++) {
            keys[n] = (struct job_key){mapping_key(m, k), n};
        }
    }
    return n;
}

/* Of each name the first. Sorted, they are next to each other. */
static size_t drop_others(struct job_key *keys, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        if (n == 0 || !str_equal(keys[n - 1].name, keys[i].name)) {
            keys[n++] = keys[i];
        }
    }
    return n;
}

/* Places among all entries become places among those that are left. */
static void close_ranks(struct job_key *keys, size_t count, size_t *ranks, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        ranks[keys[i].place] = 1;
    }
    for (size_t i = 0; i < most; i++) {
        n += ranks[i];
        ranks[i] = n - ranks[i];
    }
    for (size_t i = 0; i < count; i++) {
        keys[i].place = ranks[keys[i].place];
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

void job_keys_collect(struct making *m)
{
    struct graph *g = m->graph;
    size_t most = keys_most(g);
    struct job_key *keys = compile_keep(m->c, most, sizeof *keys);
    size_t *ranks = compile_scratch(m->c, most, sizeof *ranks);
    if (keys == NULL || ranks == NULL) {
        return;
    }
    (void)add_keys(g, keys);
    qsort(keys, most, sizeof keys[0], key_compare);
    g->job_key_count = drop_others(keys, most);
    close_ranks(keys, g->job_key_count, ranks, most);
    g->job_keys = keys;
    g->leaves_timers = leaves_timers(g);
    if (g->job_key_count > LIMIT_JSON_KEYS) {
        report_add(m->c->report, "job_keys_limit", node_line(m->node), node_column(m->node),
                   "put what belongs together into one object",
                   "all maps of job together have %zu keys, the limit is %d", g->job_key_count,
                   LIMIT_JSON_KEYS);
    }
}

size_t graph_job_key(const struct graph *g, qp_str name)
{
    const struct job_key key = {.name = name};
    const struct job_key *found =
        g->job_key_count == 0
            ? NULL
            : bsearch(&key, g->job_keys, g->job_key_count, sizeof g->job_keys[0], name_compare);
    return found == NULL ? g->job_key_count : found->place;
}

const struct hook_rule *app_hook(const struct app *app, qp_str topic)
{
    size_t i = 0;
    while (i < app->hook_count && !str_equal(app->hooks[i].topic, topic)) {
        i++;
    }
    return i < app->hook_count ? &app->hooks[i] : NULL;
}
