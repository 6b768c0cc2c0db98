/* cast.h - generated programs: their plans, and what must come of them (see scene_cast.c)
 *
 * A PLAN is a program as a table of roles, drawn from the seed:
 *
 *   trigger +- block - block - ...        sequences side by side, which end on their own
 *           +- block - ...
 *
 *   block = one role (task, sleep, hook, either, pass, signal, signal-all, await, key)
 *         | fork: a pass, two or three sequences, their join
 *         | loop: a pivot, one or two sequences, the join that decides, the way back or the way out
 *
 * So trees, joins of branches of different length, cycles in cycles and joins in cycles come up.
 */
#ifndef QP_TEST_CAST_H
#define QP_TEST_CAST_H

#include "sim/scene.h"
#include "support/shapes.h"

#define ROLES_MAX 40
#define PLANS_MAX 3
#define JOBS_MAX 5
#define CHILDREN_MAX 4
#define SEGMENTS_MAX 24
#define WALK_MAX 400
#define KIND_FIRST 300
#define ALL_TOPIC "cast-all"
#define HOOK_TOPIC "cast-hook"

enum role_kind {
    CAST_TRIGGER,
    CAST_TASK,
    CAST_SLEEP,
    CAST_HOOK,   /* a signal that a client or another role sends, early or late */
    CAST_EITHER, /* a signal or a time, whatever comes first */
    CAST_PASS,
    CAST_SIGNAL,     /* to the hook of another role of its job */
    CAST_SIGNAL_ALL, /* to all that wait at a topic: nobody has to */
    CAST_AWAIT,      /* another job */
    CAST_KEY,        /* a task under a key */
    CAST_STOP,       /* ends the job itself, or another one */
    CAST_PIVOT,
    CAST_AGAIN, /* the join of a loop, which decides */
    CAST_CYCLE,
    CAST_JOIN,
    CAST_KINDS
};

struct role {
    enum role_kind kind;
    int children[CHILDREN_MAX];
    int child_count;
    int join; /* the role that it arrives at; 0: none */
    int up;   /* how many generations above it the join stands */
    int ways;
    int pivot; /* of again and cycle */
    int pivot_up;
    int out; /* of again: the way out */
    int rounds;
    int target; /* of a signal */
    bool in_loop;
    uint64_t planes; /* the segments of its address that are rounds of a pivot, a bit each */
    bool by_role;    /* a hook whose signal comes from a role */
    int64_t errors;
    int64_t pending;
    bool fatal; /* of a task: it fails; of either: the job fails when the time comes first */
    qp_ms ms;
    int64_t key;
};

struct plan {
    struct cast_world *world;
    int number;
    struct program program;
    struct role roles[ROLES_MAX];
    int count;
    bool may_stop; /* a role ends it, or a task fails */
    bool has_await;
};

/* What the interpreter finds. */
struct tally {
    int64_t sum;
    int64_t enters;
    int64_t steps;
    int64_t spawns;
    int64_t tasks;
};

struct cast_job {
    char jid[64];
    int plan;
    int64_t input;
    bool child; /* started by another job */
    bool may_stop;
    struct tally expected;
};

struct cast_world {
    struct sim *sim;
    struct plan plans[PLANS_MAX + 1]; /* the last one is that of children */
    const struct program *programs[PLANS_MAX + 2];
    int plan_count;
    struct cast_job jobs[SIM_JOBS_MAX];
    int job_count;
};

/* Draws the plan's roles. */
void plan_draw(struct plan *p, struct sim_random *random);
/* The round of a plane: those of a pivot that is old are large numbers (SCENE_AGE). */
int64_t plan_round(int64_t plane);
/* The address of a role with 0 for every plane that is no round of a pivot: how many answers came before (a key
 * that was waited for, a pending reply) makes no difference to what is compared. */
void plan_address(char out[128], const struct plan *p, int number, qp_str dad);

/* The naive interpreter: what the job's output will be; and plans the signals that clients send it. */
void plan_interpret(struct cast_world *world, struct cast_job *job, struct sim_random *random);

#endif
