/* scene.h - what a simulated world plays: programs, their workers, what clients ask for, what must come of it
 *
 * This is how a layer above the kernel plugs into the simulator. A scene is a value; `create` draws a world
 * from the seed and plans what clients do (scene_start, scene_signal, ...). Everything in it is deterministic,
 * and nothing in it is lost when a node crashes: it is the outside.
 */
#ifndef QP_TEST_SCENE_H
#define QP_TEST_SCENE_H

#include "sim/sim.h"

#define SCENE_TEXT_SIZE 512
/* In some worlds pivots are as if they had been entered so many times before: then their planes are those of
 * the rounds, and so much more. The ceiling is 99,999,999. */
#define SCENE_AGE INT64_C(99999980)

/* What a worker says to a task. */
struct scene_answer {
    enum result_kind kind;
    int64_t code;
    bool fatal;
    char output[SCENE_TEXT_SIZE];
    int64_t pending; /* RESULT_PENDING first, so many times */
};

/* How a job ended, as it was committed, and what was called for it. */
struct scene_end {
    bool ended;
    enum job_state state;
    char output[SCENE_TEXT_SIZE];
    int64_t tasks; /* that a worker was called for, each once */
};

struct scene {
    const char *name;
    size_t size; /* of its world */
    void (*create)(void *world, struct sim *sim, struct sim_random *random);
    /* For every engine. NULL ends both lists. */
    const struct program *const *(*programs)(void *world);
    const char *const *topics;
    void (*execute)(void *world, const struct task *task, struct scene_answer *out_answer);
    /* When all is at rest: false, and out_text says what differs from what must be. */
    bool (*verify)(void *world, struct sim *sim, char out_text[SCENE_TEXT_SIZE]);
};

extern const struct scene scene_cast;
extern const struct scene scene_shapes;
extern const struct scene *const scenes[]; /* ended by NULL */

/* What clients do; `at_ms` after the beginning, then again until it is answered. Texts are copied. */
struct scene_job {
    const char *jid;
    int64_t kind;
    const char *workflow;
    const char *input;
    qp_ms expire_ms; /* 0: never */
};
void scene_start(struct sim *sim, qp_ms at_ms, const struct scene_job *job);
void scene_signal(struct sim *sim, qp_ms at_ms, const char *topic, const char *key,
                  const char *payload);
void scene_end_job(struct sim *sim, qp_ms at_ms, const char *jid, enum job_state state);
void scene_pause(struct sim *sim, qp_ms at_ms, qp_ms for_ms, const char *jid);

/* A number for a job that a program starts: the same one for the same name, once it is there. 0: not yet;
 * numbers are taken before any job is started. */
void scene_reserve(struct sim *sim, const char *name);
int64_t scene_number(const struct sim *sim, const char *name);

void scene_outcome(const struct sim *sim, const char *jid, struct scene_end *out_end);
/* Whether somebody asked to end the job, or one that it awaits ("<jid>.."). */
bool scene_was_ended(const struct sim *sim, const char *jid);

#endif
