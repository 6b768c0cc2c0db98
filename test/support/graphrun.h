/* graphrun.h - graphs under test: a store, an engine, workers that are functions, virtual time, kills
 *
 *     graphrun_init(&r, kind, work);
 *     graphrun_deploy(&r, yaml);
 *     graphrun_start(&r, "demo.start", "j", "{\"a\":\"hello\"}");
 *     graphrun_settle(&r);
 *     graphrun_expect(&r, "j", "completed", "{\"b\":\"hello world\"}");
 *     graphrun_done(&r);
 *
 * Deterministic. `kill_at` drops the engine after that many commits, as a dying process would, opens the store again
 * and goes on: what was asked and not answered is asked again, as clients do. With `faults` a round may fail, as
 * failpoints make it: the engine goes on if it can, or dies if `dies`; clients ask again. The struct is large: make it static.
 */
#ifndef QP_TEST_GRAPHRUN_H
#define QP_TEST_GRAPHRUN_H

#include "agent/face.h"
#include "base/omap.h"
#include "graph/face.h"
#include "graph/program.h"
#include "kernel/request.h"
#include "support/storetest.h"

#define GRAPHRUN_TEXT_SIZE (512 * 1024)
#define GRAPHRUN_TOPICS 8

/* A task in the hands of the test's worker, and what it answers. */
struct graphcall {
    qp_str topic;
    qp_str job;
    qp_str addr;
    qp_str input;
    const unsigned char *guid; /* of the task: its idempotency key */
    int64_t failures;          /* errors that were reported before */
    int64_t index;             /* of this reply: 0, and after a pending one 1, ... */
    enum result_kind kind;
    int64_t code;
    bool silent;                     /* it says nothing, and its lease runs out */
    const char *park;                /* RESULT_PARK: the reason; its text is `output` */
    char output[GRAPHRUN_TEXT_SIZE]; /* JSON; empty: {} */
    const char *large;               /* a longer one in its place; NULL: none */
};
typedef void (*graphrun_work)(struct graphcall *c);

struct graphrun {
    struct storetest f;
    struct faces *faces;     /* single tasks and graphs */
    struct library *library; /* the state of the latter */
    struct engine *e;
    bool stepwise;
    const struct face *traversals; /* NULL: those of carto_face; kept by graphrun_init */
    const char *at;                /* as of storetest; kept by graphrun_init */
    const int64_t *lead_ms;        /* as of agents_lead; kept likewise */
    graphrun_work work;
    const char *topics[GRAPHRUN_TOPICS]; /* that the worker serves; NULL: no more */
    struct service services[GRAPHRUN_TOPICS];
    struct task *first; /* in hand */
    struct task *last;
    int64_t commits;
    int64_t kill_at; /* 0: never; may be set anew */
    int64_t kills;
    bool faults;                /* rounds may fail */
    int64_t (*committed)(void); /* with them: how many commits stand, however they ended */
    bool too_late;              /* results may come when their job is over */
    bool dies;                  /* and then the engine dies */
    int64_t failed;             /* rounds */
    void (*after_round)(struct graphrun *r); /* NULL: nobody looks */
    unsigned signals;                        /* sent so far: their GUIDs */
    struct omap calls;                       /* "topic addr" -> how often it was executed */
    int answer;
    bool answered;
    char refused[QP_ERR_TEXT_SIZE]; /* of the last fork: why */
};

/* `topics` are the worker's, by blanks. */
void graphrun_init(struct graphrun *r, enum storetest_kind kind, const char *topics,
                   graphrun_work work);
void graphrun_done(struct graphrun *r);
/* Asserts that it compiles; activates it. */
void graphrun_deploy(struct graphrun *r, const char *yaml);
/* test/graph/vectors/<name>.yaml */
void graphrun_deploy_vector(struct graphrun *r, const char *name);

/* Facts of a universe, all in one page; the universe is current then. */
struct request_import;
int graphrun_import(struct graphrun *r, const struct request_import *import);

/* The name is a flow's. */
int graphrun_announce(struct graphrun *r, const char *name);

/* Returns the answer: QP_OK, QP_E_EXISTS, QP_E_CONFLICT, QP_E_SHAPE, ... */
int graphrun_start(struct graphrun *r, const char *topic, const char *id, const char *input);
/* A new job from one that is there, as qp_job_act makes it. Returns the answer; r->refused is why it was refused. */
struct graphrun_fork {
    const char *from;
    const char *id;
    const char *at;      /* NULL: none */
    const char *version; /* likewise */
    const char *input;   /* NULL: that of `from` */
    bool retries;
};
int graphrun_fork(struct graphrun *r, const struct graphrun_fork *fork);
/* The start's first step alone: the job is there, and nobody goes on with it until it is asked for again. */
int graphrun_incept(struct graphrun *r, const char *topic, const char *id, const char *input);
/* By the rule of the topic's hooks; the code is 200, 202 or an error's. */
int graphrun_signal(struct graphrun *r, const char *topic, const char *payload, int64_t code);
/* To a job, by its id; the signal has an id, too. */
int graphrun_signal_job(struct graphrun *r, const char *id, const char *name, const char *payload);
/* A parked job goes on. */
int graphrun_unpark(struct graphrun *r, const char *id);
int graphrun_end(struct graphrun *r, const char *id, enum job_state state);

/* A command that the caller has filled in, in its own memory. False: the engine died, or the store failed, before it was
 * answered; else r->answer is the answer. */
bool graphrun_ask(struct graphrun *r, struct command *c);
/* The first task in hand of this job and address, which stays in the list; NULL: there is none. */
const struct task *graphrun_find(struct graphrun *r, const char *id, qp_str addr);
/* A task that is in hand was answered. */
void graphrun_drop(struct graphrun *r, const struct task *task);

/* Everything that is to be done now but workers' tasks. */
void graphrun_rest(struct graphrun *r);
/* Rounds until an activity has these digits, and its GUIDs theirs. */
void graphrun_until(struct graphrun *r, const char *id, const char *addr, const char *digits);
/* The task in hand of this address is the caller's, over kills, too; the answer to its result. */
struct task *graphrun_take(struct graphrun *r, const char *addr);
int graphrun_result(struct graphrun *r, const struct task *task, const char *output);
void graphrun_forget(struct graphrun *r, struct task *task);
/* Everything that is to be done now is done, workers' tasks included. */
void graphrun_settle(struct graphrun *r);
/* Time goes on, and all that becomes due on the way is done at its time. */
void graphrun_wait(struct graphrun *r, qp_ms ms);
void graphrun_kill(struct graphrun *r);
/* The engine closes in peace, and another one begins. */
void graphrun_restart(struct graphrun *r);
void graphrun_restart_after(struct graphrun *r, void (*change)(struct storetest *f));

/* Rows live until the next call. NULL: there is none. */
const struct job_row *graphrun_job(struct graphrun *r, const char *id);
const struct act_row *graphrun_act(struct graphrun *r, const char *id, const char *addr);
/* The digits of an activity and of its GUIDs; "" when it is not there. */
const char *graphrun_digits(struct graphrun *r, const char *id, const char *addr);
/* The compiled version of a job. */
const struct app *graphrun_app(struct graphrun *r, const struct job_row *job);
/* Fails unless the job has this status word, and this output (JSON, keys in any order) or error code and message
 * (part of them); NULL: any. */
void graphrun_expect(struct graphrun *r, const char *id, const char *status, const char *output);
/* How often the worker was called for a topic. */
int64_t graphrun_calls(struct graphrun *r, const char *topic);
/* fsck finds nothing. */
void graphrun_check(struct graphrun *r);

#endif
