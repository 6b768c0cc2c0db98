/* start.h - what a start of a topic means, a graph's job or a single task; and whom a signal is for */
#ifndef QP_GRAPH_START_H
#define QP_GRAPH_START_H

#include "graph/library.h"
#include "kernel/names.h"

struct graph_start {
    int64_t ns;
    qp_str topic;
    qp_str input; /* checked JSON */
    qp_str
        pinned; /* the version that it begins with, whatever is active; none: that of its topic */
    /* The version of the job that starts it, none: no job does. A topic that no active version has means what this
     * version says: it may have been active before. */
    qp_str caller;
    /* what it means */
    int64_t kind;
    qp_str version; /* of a graph; none: a single task */
    qp_str jid;     /* that the trigger's stats.id gives it; none: anybody's choice */
};

/* Looks the topic up, checks the input against the graph's schema, and computes the id. Texts live in scope's arena;
 * of the scope only arena, env and now are needed. QP_E_SHAPE: the input is not as the graph wants it; QP_E_INVALID:
 * the id is none; QP_E_NOT_FOUND: the version was deleted. */
int graph_start(struct library *l, const struct row_reader *reader, const struct scope *scope,
                struct graph_start *start, struct qp_err *err) QP_MUST_USE;

/* The key that a signal of this payload is for, by the rule of its topic's hooks; none: the payload has not what they are
 * matched by. */
int signal_key(struct arena *a, const struct qp_env *env, qp_ms now, const struct hook_rule *rule,
               qp_str payload, qp_str *out_key) QP_MUST_USE;

/* What names mean, for an engine (kernel/names.h): those that have a graph or a hook here, the others are plain topics. */
struct names graph_names(struct library *l);

#endif
