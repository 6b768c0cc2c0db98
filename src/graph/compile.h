/* compile.h - the parts of the compiler among themselves
 *
 * In the order in which they work on an application:
 *
 *   compile.c            the application and its graphs; what concerns several graphs
 *   compile_activity.c   the keys of activities, by type        (compile_retry.c, compile_stats.c)
 *   compile_way.c        transitions, conditions, hook rules
 *   compile_shape.c      what leads where: circles, joins, dominators, exits
 *   compile_reading.c    who may read from whom
 *   compile_job.c        which keys the data of jobs can have
 *   compile_key.c        keys and their kinds, used by all of them
 *
 * Each goes on after an error as far as that makes sense, so that a report has everything; a part that builds on
 * another one's result is left out when that is not whole. All memory of the result is the app's arena, all other
 * memory is `scratch`.
 */
#ifndef QP_GRAPH_COMPILE_H
#define QP_GRAPH_COMPILE_H

#include "graph/graph.h"
#include "graph/schema.h"

struct compiler {
    const struct qp_env *env;
    struct arena *arena;
    struct arena scratch;
    struct report *report;
    struct app *app;
    size_t activity_count; /* of all graphs so far */
    size_t transition_count;
    size_t exit_count;
    struct ruled *ruled; /* hook rules of all graphs so far, the last one first */
    size_t ruled_count;
};

/* A hook rule, and its node. */
struct ruled {
    struct ruled *next;
    struct hook_rule rule;
    const struct node *node;
    size_t place; /* the how-manieth it is */
};

/* A mapping, and who reads by it. */
struct reading {
    struct reading *next;
    const struct mapping *mapping;
    const struct activity *reader;
};

struct edge {
    size_t from; /* indexes of activities */
    size_t to;
    const struct node *node; /* its `to` */
};

/* A graph that is being made. */
struct making {
    struct compiler *c;
    struct graph *graph;
    const struct node *node;
    const struct node **nodes; /* of its activities */
    const struct schema *output;
    struct reading *readings; /* the last one first */
    struct edge *edges;
    size_t edge_count;
    size_t *order; /* its activities, each after all that lead to it */
    bool loose;    /* a transition leads nowhere: whether something is reached cannot be said */
    bool shaped;   /* nothing is wrong with what leads where */
};

/* ---- compile_key.c */

/* Zeroed; NULL: report->no_memory is set. */
void *compile_keep(struct compiler *c, size_t count, size_t size);
void *compile_scratch(struct compiler *c, size_t count, size_t size);

/* The word that is nearest to another one, for hints. */
struct guess {
    qp_str word;
    qp_str best;
    size_t distance;
};
#define GUESS_SIZE 320
void guess_try(struct guess *g, qp_str candidate);
/* "did you mean 'x'?", or `otherwise` when nothing is near. */
const char *guess_hint(const struct guess *g, char out_hint[GUESS_SIZE], const char *otherwise);

/* Where a node is said to be: at its key, if it has one. */
int node_line(const struct node *node);
int node_column(const struct node *node);
const char *node_words(const struct node *node); /* "a list" */

/* Tells keys that a map must not have; `what` is "a graph". The list ends with NULL. */
void entries_known(struct compiler *c, const struct node *map, const char *const *keys,
                   const char *what);
/* The same where other keys do no harm: a misspelt key is wrong, any other key is a warning. */
void entries_read(struct compiler *c, const struct node *map, const char *const *keys,
                  const char *what);
/* The warning that a key is not looked at. */
void key_ignored(struct compiler *c, const struct node *entry, const char *what);
/* The entry, when it is there and of this kind; what is of another kind is told. Nothing at all (null) where a list or a map
 * should be is as if it were not there. */
const struct node *entry_get(struct compiler *c, const struct node *map, const char *key,
                             enum node_kind kind);
/* The same for what has to be there. */
const struct node *entry_need(struct compiler *c, const struct node *map, const char *key,
                              enum node_kind kind, const char *what);
/* A string that is a name; none when it is not there or wrong. `what` needs it, or is NULL. */
qp_str entry_name(struct compiler *c, const struct node *map, const char *key, const char *what);
bool name_good(struct compiler *c, const struct node *node, qp_str name);
/* The same of a topic: some are the engine's. */
bool topic_good(struct compiler *c, const struct node *node, qp_str topic);

/* What may stand where a value is computed or written down. */
enum literal {
    LITERAL_ANY,
    LITERAL_TEXT, /* a string, number or boolean */
    LITERAL_TOPIC,
    LITERAL_STATUS, /* of a signal */
    LITERAL_BOOL,
    LITERAL_SECONDS,
    LITERAL_CODE,
    LITERAL_MAP,        /* its values may be computed */
    LITERAL_THRESHOLD,  /* a whole number, 0 or more */
    LITERAL_GRANULARITY /* a text like 5m, or infinity */
};
/* The mapping under a key, checked when it is a literal; NULL when it is not there or wrong. */
const struct mapping *entry_mapping(struct making *m, const struct node *map, const char *key,
                                    enum literal literal, const struct activity *reader);
const struct mapping *node_mapping(struct making *m, const struct node *node,
                                   const struct activity *reader);
/* Whether its steps can be done in one evaluation; `merged`: its entries are evaluated one by one. */
bool mapping_good(struct compiler *c, const struct node *node, const struct mapping *mapping,
                  bool merged);
/* As LITERAL_CODE has it: a number or a string that is one. */
bool node_code(struct compiler *c, const struct node *node, int64_t *out_code);

/* ---- the other parts */
void activities_read(struct making *m);
void activities_link(struct making *m); /* once all ids are known */
void retry_read(struct making *m, const struct node *node, struct activity *a);
/* Of a worker, after its retry: startTimeout, timeout, heartbeat, behind the rest of its policy. */
void time_limits_read(struct making *m, const struct node *node, struct activity *a);
void stats_read(struct making *m, const struct node *node, struct activity *a);
void transitions_read(struct making *m);
void hooks_read(struct making *m);
/* All rules of the app, ordered by topic. Those of one topic find the key of a signal in the same way. */
void hooks_finish(struct compiler *c);
void shape_make(struct making *m);
void readings_check(struct making *m);
/* graph.job_keys. */
void job_keys_collect(struct making *m);

/* NULL: there is none. activity_unknown tells that, with a hint. */
struct activity *activity_find(const struct making *m, qp_str id);
void activity_unknown(struct making *m, int line, int column, qp_str id, const char *code);

#endif
