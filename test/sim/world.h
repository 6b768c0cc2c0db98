/* world.h - the parts of a simulated world, for the files of this directory
 *
 *   sim.c      seed to world, the scheduler, the end
 *   faults.c   which faults strike, and where
 *   node.c     a process: store, engine, workers; its fiber and its memory
 *   client.c   requests until they are answered
 *   watch.c    what must be true after every commit, and at the end
 */
#ifndef QP_TEST_WORLD_H
#define QP_TEST_WORLD_H

#include "base/omap.h"
#include "sim/scene.h"
#include "support/fiber.h"
#include "support/model.h"

#define TOPICS_MAX 12
#define NEVER INT64_MAX
#define NAME_SIZE 96

/* -------------------------------------------------------------------------------------------- faults */

enum fault_kind {
    FAULT_CRASH,       /* the node, at its n-th call */
    FAULT_PAUSE,       /* the node, for so long */
    FAULT_SLOW,        /* a call takes so long */
    FAULT_ABORT,       /* the transaction is lost */
    FAULT_UNKNOWN,     /* the next commit of the node happens, or not, and nobody knows */
    FAULT_CLOCK,       /* the node's wall clock steps */
    FAULT_SLOW_WORKER, /* the node's n-th task takes so long */
    FAULT_RESULT_TWICE,
    FAULT_REQUEST_TWICE, /* the n-th request of the clients */
    FAULT_REQUEST_LATE,
    FAULT_ANSWER_LOST,
    FAULT_LEAVE, /* the node, at its n-th call or soon after: it closes in peace, and comes again */
    FAULT_CRASH_EDGE, /* the node whose commit has closed a job that is not completed yet, the n-th such */
    FAULT_UNKNOWN_LATE, /* the next commit of the node happens when it has given it up; PostgreSQL */
    FAULT_KINDS
};

struct fault {
    enum fault_kind kind;
    int node;
    int64_t at;     /* the n-th of what it strikes */
    int64_t amount; /* microseconds, or a choice */
    bool done;
};

extern const char *const fault_names[FAULT_KINDS];

/* ----------------------------------------------------------------------------------------- the outside */

enum act_kind {
    ACT_NUMBERS,
    ACT_ANNOUNCE,
    ACT_DEPLOY,
    ACT_ACTIVATE,
    ACT_DELETE,
    ACT_START,
    ACT_SIGNAL,
    ACT_EVENT,
    ACT_END,
    ACT_PAUSE,
    ACT_RESUME,
    ACT_UNPARK
};

/* Something that a client wants. */
struct act {
    enum act_kind kind;
    int64_t at_us; /* when it is asked for (again) */
    bool done;
    bool acknowledged; /* answered QP_OK, or that it is there already */
    bool refused;      /* answered with what no repetition changes */
    int rc;
    char jid[NAME_SIZE];
    /* of a start */
    int64_t job_kind;
    char workflow[NAME_SIZE];
    char limit_key[NAME_SIZE]; /* "": none */
    char input[SCENE_INPUT_SIZE];
    qp_ms expire_ms;
    /* of a signal, or an event: its name and input */
    char topic[NAME_SIZE];
    char key[NAME_SIZE];
    char payload[NAME_SIZE];
    int64_t code;
    unsigned char guid[LIMIT_GUID_SIZE];
    bool has_id; /* it has an id, for which the GUID stands; else it has an idempotency key */
    int repeats; /* how often it will be sent again when it is acknowledged */
    char pinned[NAME_SIZE]; /* of a fork: its version */
    bool sent;
    int events;            /* of versions that were committed when it was sent first */
    const struct app *app; /* of a deployment, activation, deletion */
    enum job_state state;  /* of an end */
};

/* A number that programs may use, by its name. */
struct reserved {
    char name[NAME_SIZE];
    int64_t number;
};

/* What is known of a job: from the commits that the world has seen. */
struct seen_job {
    char jid[NAME_SIZE];
    int64_t number;
    int64_t closed; /* how often it was */
    struct scene_end end;
};

/* A version of the application has another state: as it was committed, in order. */
struct version_event {
    char version[NAME_SIZE]; /* as on its jobs */
    int64_t state;
};

/* Raw calls of a worker, by job, address and GUID: they never end. */
struct sink_key {
    char jid[NAME_SIZE];
    int64_t calls;
    int64_t token;    /* of the last claim of its message that was committed */
    int64_t accepted; /* answered: committed */
    int64_t errors;   /* and reported as an error, which is tried again */
    int64_t lost; /* reasons for another call: a crash, a lease that was over, an answer unknown */
};

/* ---------------------------------------------------------------------------------------------- nodes */

/* A request on its way to a node. */
struct letter {
    struct act *act;
    int64_t arrives_us;
    bool answer_lost;
};

#define LETTERS_MAX 32

struct hand; /* a task in the hands of a node's worker */

struct node {
    struct model_world world; /* env.context points here */
    struct sim *sim;
    int index;
    struct qp_env env;
    struct sim_random entropy;
    struct block *blocks; /* all its memory */
    qp_ms skew_ms;
    struct fiber *fiber;
    struct fiber *writer;  /* MODEL_ALONE */
    struct fiber *running; /* of the two */
    bool waits_for_writer;
    struct store_writer lent;
    void (*work)(void *argument); /* of the writer */
    void *argument;
    struct store *store;
    struct engine *engine;
    struct service services[TOPICS_MAX];
    struct hand *hands;
    struct letter letters[LETTERS_MAX];
    int letter_count;
    int64_t wake_us;    /* it sleeps until then */
    int64_t pause_us;   /* it stands still until then */
    int64_t restart_us; /* when it is down */
    int64_t
        waits_since; /* how many transactions had ended when it began to wait; -1: it does not */
    int64_t calls;
    int64_t tasks;
    int64_t lives;
    bool up;
    bool crashed; /* it asked to be taken away */
    bool closing; /* it is to leave in peace */
    bool leaving; /* the same, and it comes again */
    bool closed;
    bool has_hint;
    bool no_yield;
    enum model_fate commit_fate;
};

/* ---------------------------------------------------------------------------------------------- world */

#define SIM_LATE_MAX 8

struct late {
    struct model_late *commit;
    int64_t at_us;
};

struct sim {
    struct sim_options options;
    const struct scene *scene;
    void *stage; /* the scene's own world */
    enum sim_model model;
    struct sim_random choice;  /* who runs, how long things take */
    struct sim_random network; /* of clients */
    struct qp_env env;         /* of what outlives nodes */
    struct node outside;       /* reads the feed; never fails */
    struct node nodes[SIM_NODES_MAX];
    int node_count;
    struct memory *memory;
    struct model_server server;
    int64_t now_us;
    struct late late[SIM_LATE_MAX];
    int late_count;
    int64_t transactions; /* that have ended */
    bool healed;
    /* sizes */
    qp_ms lease_ms;
    qp_ms task_lease_ms;
    qp_ms keep_ms;
    int64_t room;
    int64_t limit_max; /* tasks of one limit key at once; 0: jobs have no keys */
    bool stepwise;
    bool has_writer;
    struct ceilings ceilings;
    int64_t max_deliveries;
    int64_t batch;
    bool sliced; /* whatever may come later does */
    int switch_percent;
    struct fault faults[SIM_FAULTS_MAX];
    int fault_count;
    struct act acts[SIM_ACTS_MAX];
    int act_count;
    int64_t requests;
    struct reserved reserved[SIM_JOBS_MAX];
    int reserved_count;
    bool has_edge; /* the last commit closed a job, and did not complete it */
    int64_t edges; /* how often that was */
    struct seen_job jobs[SIM_JOBS_MAX];
    int job_count;
    struct version_event events[SIM_EVENTS_MAX];
    int event_count;
    struct omap sink; /* of struct sink_key */
    /* watch.c */
    struct store *checker;
    int64_t touched[SIM_JOBS_MAX];
    int touched_count;
    bool aged; /* pivots are entered for the last times of many */
    bool has_new_pivot;
    struct act_row new_pivot;
    char new_pivot_addr[LIMIT_ADDRESS_SIZE];
    struct omap feed; /* entries that were committed: by job and seq */
    int64_t feed_pos; /* how far the follower has read */
    uint64_t trace;
    struct sim_result *result;
};

_Noreturn void sim_bug(const char *what); /* of the simulator itself */
/* The first violation is kept, and the run ends soon after. */
void sim_violate(struct sim *s, const char *check, const char *format, ...) QP_PRINTF(3, 4);
void sim_trace(struct sim *s, const char *format, ...) QP_PRINTF(2, 3);

/* faults.c */
void faults_plan(struct sim *s, struct sim_random *r);
/* The fault of this kind that strikes the n-th of something; it strikes once. */
const struct fault *fault_at(struct sim *s, enum fault_kind kind, int node, int64_t n);
void fault_print(const struct fault *f, char *out_text, size_t size);

/* node.c */
void node_init(struct node *n, struct sim *s, int index);
void node_start(struct node *n);
/* All that was volatile is gone. */
void node_down(struct node *n);
void node_free(struct node *n);
bool node_is_ready(const struct node *n);
bool writer_is_ready(const struct node *n);
void node_go_on(struct node *n);
void writer_go_on(struct node *n);
int64_t node_next_us(const struct node *n);
bool node_has_work(const struct node *n);

/* client.c */
/* In some worlds jobs have limit keys, and each key has a limit. */
void client_limit(struct sim *s, struct sim_random *r);
void client_go_on(struct sim *s);
int64_t client_next_us(const struct sim *s);
bool client_is_done(const struct sim *s);
/* A node takes the letters that have come. */
void node_read_letters(struct node *n);
/* At the end: a job that is parked, or was paused by a request that came late, is helped on. */
void client_help(struct sim *s, enum act_kind kind, const char *jid);

/* watch.c */
void watch_init(struct sim *s);
void watch_done(struct sim *s);
void watch_committing(struct sim *s, const struct memory_provider *p);
void watch_committed(struct sim *s);
void watch_crash(struct sim *s, const struct node *n);
/* A node goes to sleep: nothing that one of its workers has room for is ready. */
void watch_idle(struct sim *s, const struct node *n);
bool watch_is_quiet(struct sim *s);
bool watch_has_jobs(struct sim *s);
void watch_follow(struct sim *s);
void watch_end(struct sim *s);
void watch_store(struct sim *s);
void watch_print(struct sim *s);
struct seen_job *watch_job(struct sim *s, qp_str jid);
struct sink_key *watch_sink(struct sim *s, qp_str jid, qp_str addr, qp_str guid);

#endif
