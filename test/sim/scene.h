/* scene.h - what a simulated world plays: programs, their workers, what clients ask for, what must come of it
 *
 * This is how a layer above the kernel plugs into the simulator. A scene is a value; `create` draws a world
 * from the seed and plans what clients do (scene_start, scene_signal, ...). Everything in it is deterministic,
 * and nothing in it is lost when a node crashes: it is the outside.
 */
#ifndef QP_TEST_SCENE_H
#define QP_TEST_SCENE_H

#include "sim/sim.h"

struct app;

#define SCENE_TEXT_SIZE 4096
#define SCENE_INPUT_SIZE 2048
#define SCENE_ANSWER_SIZE 16384
/* In some worlds pivots are as if they had been entered so many times before: then their planes are those of
 * the rounds, and so much more. The ceiling is 99,999,999. */
#define SCENE_AGE INT64_C(99999980)

/* What a worker says to a task; RESULT_OTHER: `output` is the whole result, in the words of the job's kind. */
struct scene_answer {
    enum result_kind kind;
    int64_t code;
    bool fatal;
    const char *park; /* RESULT_PARK: the reason; `output` is the sentence */
    char output[SCENE_ANSWER_SIZE];
    int64_t pending; /* RESULT_PENDING first, so many times */
    qp_ms takes_ms;  /* before it is said; 0: it is said at once */
    qp_ms beats_ms;  /* meanwhile a beat, so often; 0: none */
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
    /* What the engine of a node runs beside its faces, in the node's memory or in the world's; NULL ends both lists, and
     * may stand for none. */
    const struct program *const *(*programs)(void *world, int node, const struct qp_env *env);
    const char *const *topics;
    /* These may be NULL. `turn`: between two rounds of a node, when nothing is being written. `leave`: it closes in
     * peace; when it dies, all that it had is gone, and nothing is called. */
    void (*turn)(void *world, int node, struct store *store);
    void (*leave)(void *world, int node);
    /* The kinds of jobs of this node, whose names say what a start is; NULL: a start says its kind itself. */
    struct faces *(*faces)(void *world, int node, const struct qp_env *env);
    /* What a start is at this node; false: it cannot say yet, and will be asked again. */
    bool (*start)(void *world, int node, struct arena *arena, struct op_job_create *job);
    void (*destroy)(void *world);
    bool stays_young; /* its pivots count their rounds: they cannot be as old as SCENE_AGE */
    bool
        spare_signals; /* more signals are sent to a job than it needs: one that has ended refuses them */
    void (*execute)(void *world, int node, const struct task *task,
                    struct scene_answer *out_answer);
    /* When all is at rest: false, and out_text says what differs from what must be. */
    bool (*verify)(void *world, struct sim *sim, char out_text[SCENE_TEXT_SIZE]);
    /* What a campaign of this scene alone must have met, ended by NULL; NULL: nothing is asked. */
    const char *const *needs;
};

extern const struct scene scene_cast;
extern const struct scene scene_shapes;
extern const struct scene scene_graph;
extern const struct scene scene_signals;
extern const struct scene scene_names;
extern const struct scene scene_flows;      /* not in the list: it has a campaign of its own */
extern const struct scene scene_traversals; /* likewise */
extern const struct scene scene_instances;  /* likewise */
extern const struct scene *const scenes[];  /* ended by NULL */

/* Memory that outlives nodes. */
const struct qp_env *scene_env(const struct sim *sim);
/* For people who look at the trace. */
void scene_say(struct sim *sim, const char *text);
/* Something is wrong, and the run ends: `check` names what found it. */
void scene_violate(struct sim *sim, const char *check, const char *text);
/* What is committed, to be read. */
struct store *scene_store(struct sim *sim);
/* Since the beginning. */
qp_ms scene_now_ms(const struct sim *sim);

/* What clients do; `at_ms` after the beginning, then again until it is answered. Texts are copied. */
struct scene_job {
    const char *jid;
    int64_t kind;
    const char *workflow;
    const char *input;
    qp_ms expire_ms;    /* 0: never */
    const char *pinned; /* the version of the job that it is a fork of; NULL: it is none */
};
void scene_start(struct sim *sim, qp_ms at_ms, const struct scene_job *job);
void scene_signal(struct sim *sim, qp_ms at_ms, const char *topic, const char *key,
                  const char *payload, int64_t code);
/* A signal with an id, of code 200: when it is acknowledged, the client sends it again, so many times, whatever has become
 * of it. */
void scene_signal_with_id(struct sim *sim, qp_ms at_ms, const char *topic, const char *key,
                          const char *payload, int repeats);
/* The same to one job, by a name. A job that is not there yet is asked again; one that a client has ended refuses it. */
void scene_signal_job(struct sim *sim, qp_ms at_ms, const char *jid, const char *name,
                      const char *payload, int repeats);
/* The app lives as long as the world. Deploying activates it, too; the others are of a version that was deployed, and
 * may be refused. */
void scene_deploy(struct sim *sim, qp_ms at_ms, const struct app *app);
void scene_activate(struct sim *sim, qp_ms at_ms, const struct app *app);
void scene_delete(struct sim *sim, qp_ms at_ms, const struct app *app);
/* The name is a flow's, once that is answered. */
void scene_announce(struct sim *sim, qp_ms at_ms, const char *name);
bool scene_was_announced(const struct sim *sim);
/* Whether any version was active. */
bool scene_was_activated(const struct sim *sim);
/* An event to an instance of an agent workflow: it is there already, or refused because the instance is over. Returns the number
 * by which scene_was_taken knows it. */
int scene_event(struct sim *sim, qp_ms at_ms, const char *jid, const char *name, const char *input);
/* Whether the event was acknowledged. */
bool scene_was_taken(const struct sim *sim, int event);
/* Another attempt for what has failed in a job. */
void scene_retry(struct sim *sim, qp_ms at_ms, const char *jid);
void scene_end_job(struct sim *sim, qp_ms at_ms, const char *jid, enum job_state state);
void scene_pause(struct sim *sim, qp_ms at_ms, qp_ms for_ms, const char *jid);

/* A number for a job that a program starts: the same one for the same name, once it is there. 0: not yet;
 * numbers are taken before any job is started. */
void scene_reserve(struct sim *sim, const char *name);
int64_t scene_number(const struct sim *sim, const char *name);

void scene_outcome(const struct sim *sim, const char *jid, struct scene_end *out_end);
/* Of a job that was started; 0: none was. */
int64_t scene_job_number(struct sim *sim, const char *jid);
/* The rows of a table, as they are committed. */
int64_t scene_rows(struct sim *sim, enum table_id table);
/* Whether somebody asked to end the job, or one that it awaits ("<jid>.."). */
bool scene_was_ended(const struct sim *sim, const char *jid);
/* Whether somebody ended a job that no client has started: one that could not go on, whoever called it. */
bool scene_gave_up(const struct sim *sim);

#endif
