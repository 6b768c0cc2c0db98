/* faults.c - the list of faults of a seed: drawn before anything runs, so that one can be left out and the
 * others stay what they are */
#include "sim/world.h"

#include <stdio.h>

#define LEAVES_MAX 3

const char *const fault_names[FAULT_KINDS] = {
    "crash",       "pause",       "slow",         "abort",         "unknown",
    "clock",       "slow-worker", "result-twice", "request-twice", "request-late",
    "answer-lost", "leave",       "crash-edge",   "unknown-late"};

static int64_t within(struct sim_random *r, int64_t least, int64_t most)
{
    return least + random_below(r, most - least + 1);
}

static struct fault draw(struct sim *s, struct sim_random *r)
{
    struct fault f = {.kind = (enum fault_kind)random_below(r, FAULT_LEAVE),
                      .node = (int)random_below(r, s->node_count)};
    int64_t lease_us = (s->lease_ms > 0 ? s->lease_ms : 100) * 1000;
    f.at = random_chance(r, 70) ? within(r, 1, 400) : within(r, 1, 3000);
    switch (f.kind) {
    case FAULT_PAUSE:
    case FAULT_SLOW:
        f.amount =
            random_chance(r, 50) ? within(r, 1, lease_us) : within(r, lease_us, 4 * lease_us);
        break;
    case FAULT_CLOCK:
        f.amount = within(r, -5000000, 5000000);
        break;
    case FAULT_UNKNOWN:
        f.amount = random_below(r, 2);
        break;
    case FAULT_SLOW_WORKER:
        f.at = within(r, 1, 12);
        f.amount = within(r, 1000, 4 * lease_us + 4000);
        break;
    case FAULT_RESULT_TWICE:
        f.at = within(r, 1, 12);
        break;
    case FAULT_REQUEST_TWICE:
    case FAULT_REQUEST_LATE:
    case FAULT_ANSWER_LOST:
        f.at = within(r, 1, 24);
        f.amount = within(r, 1000, 300000);
        break;
    case FAULT_CRASH:
    case FAULT_ABORT:
    case FAULT_LEAVE:
    case FAULT_CRASH_EDGE:
    case FAULT_UNKNOWN_LATE:
    case FAULT_KINDS:
        break;
    }
    return f;
}

void faults_plan(struct sim *s, struct sim_random *r)
{
    int64_t most = random_chance(r, 10) ? 0 : random_chance(r, 50) ? 6 : 24;
    s->fault_count = (int)random_below(r, most + 1);
    for (int i = 0; i < s->fault_count; i++) {
        s->faults[i] = draw(s, r);
    }
    for (int i = 0; i < LEAVES_MAX && random_chance(r, 30);
         i++) { /* last: the others stay what they are */
        s->faults[s->fault_count++] = (struct fault){.kind = FAULT_LEAVE,
                                                     .node = (int)random_below(r, s->node_count),
                                                     .at = within(r, 20, 600)};
    }
    if (s->stepwise && random_chance(r, 50)) {
        s->faults[s->fault_count++] =
            (struct fault){.kind = FAULT_CRASH_EDGE, .at = within(r, 1, 3)};
    }
    if (s->model == MODEL_ROWS && random_chance(r, 40)) {
        s->faults[s->fault_count++] = (struct fault){.kind = FAULT_UNKNOWN_LATE,
                                                     .node = (int)random_below(r, s->node_count),
                                                     .at = within(r, 20, 600)};
    }
    for (int i = 0; i < s->fault_count; i++) {
        s->faults[i].done = (s->options.without >> i & 1) != 0;
    }
}

const struct fault *fault_at(struct sim *s, enum fault_kind kind, int node, int64_t n)
{
    for (int i = 0; i < s->fault_count && !s->healed; i++) {
        struct fault *f = &s->faults[i];
        if (!f->done && f->kind == kind && (node < 0 || f->node == node) && f->at == n) {
            char text[64];
            char name[64];
            f->done = true;
            fault_print(f, text, sizeof text);
            sim_trace(s, "fault %d: %s", i, text);
            (void)snprintf(name, sizeof name, "fault.%s", fault_names[kind]);
            sim_cover(name);
            return f;
        }
    }
    return NULL;
}

void fault_print(const struct fault *f, char *out_text, size_t size)
{
    if (f->kind == FAULT_CRASH_EDGE) {
        (void)snprintf(out_text, size, "crash at edge %lld", (long long)f->at);
    } else if (f->kind >= FAULT_REQUEST_TWICE && f->kind <= FAULT_ANSWER_LOST) {
        (void)snprintf(out_text, size, "%s at request %lld, %lld us", fault_names[f->kind],
                       (long long)f->at, (long long)f->amount);
    } else {
        (void)snprintf(
            out_text, size, "%s of node %d at %s %lld, %lld us", fault_names[f->kind], f->node,
            f->kind == FAULT_SLOW_WORKER || f->kind == FAULT_RESULT_TWICE ? "task" : "call",
            (long long)f->at, (long long)f->amount);
    }
}
