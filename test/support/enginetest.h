/* enginetest.h - an engine under test: programs from a table, workers that wait for the test, and
 * the digits after every commit
 *
 * A CAST is a program whose activities are rows of a table: what each is, what it waits for or
 * does, who comes after it. So a test says what runs in a few lines:
 *
 *     static const struct actor cast[] = {
 *         {.name = "trigger", .category = 'D', .next = "pay"},
 *         {.name = "pay", .category = 'A', .deed = DEED_TASK, .topic = "t"},
 *         {0}};
 *     enginetest_init(&x, kind, cast);
 *     x.options.stepwise = true;
 *     enginetest_open(&x);
 *     enginetest_watch(&x, "pay,0,0");
 *     enginetest_start(&x, "a");
 *     enginetest_work(&x);
 *     assert_string_equal(x.watches[0].text, "001000000000000\n...");
 *
 * Stepwise, every step of every turn is a commit of its own, that of the trigger and of results
 * too: a start is asked for again until it is done, a result comes as from a second delivery.
 *
 * The struct is large: make it static.
 */
#ifndef QP_TEST_ENGINETEST_H
#define QP_TEST_ENGINETEST_H

#include "kernel/request.h"
#include "support/storetest.h"

enum deed {
    DEED_NOTHING,
    DEED_TASK,       /* Leg1: a task of `topic` */
    DEED_SLEEP,      /* Leg1: a timer of `ms` */
    DEED_HOOK,       /* Leg1: waits at (topic, key) */
    DEED_BOTH,       /* Leg1: a timer of `ms`, and waits at (topic, key) */
    DEED_AWAIT,      /* Leg1: starts the job `key` of kind CAST_SECOND, and waits for its end */
    DEED_CYCLE,      /* Leg1: enters the ancestor `key` at `depth` again */
    DEED_LISTEN,     /* Leg1: listens for signals named `topic` and `key`, up to `depth` of them */
    DEED_KEY,        /* Leg1: waits for one unit of the key `key` */
    DEED_SIGNAL,     /* step 1: a signal to (topic, key) */
    DEED_SIGNALS,    /* step 1: two of them, to topic and to "other", with the same key */
    DEED_SIGNAL_ALL, /* step 1: a signal to all that wait at topic; `key`: "attribute=value" */
    DEED_SIGNAL_JOB, /* step 2: a signal named `topic` to the job `key` */
    DEED_INTERRUPT,  /* step 1: the job `key` ends */
    DEED_END,        /* step 2: this job ends as interrupted */
};

struct actor {
    const char *name;
    char category;
    enum cyclic cyclic;
    enum deed deed;
    const char *topic;
    const char *key; /* "@": the job's id */
    qp_ms ms;
    int64_t depth;
    int64_t rounds;   /* of a pivot: it spawns in so many planes only; 0: in all */
    const char *next; /* names of children, by blanks */
    const char *policy;
    bool keep;
    bool closes;  /* DEED_BOTH: the timer ends the waiting at the hook, too */
    int64_t code; /* of a signal; 0: 200 */
};

/* Called first in every function of the program; another code than QP_OK is what it returns. */
typedef int (*cast_trouble)(void *context, struct turn *t, const char *function);

struct cast {
    struct program program;
    const struct actor *actors; /* ended by one without a name */
    void *context;
    cast_trouble trouble;
    int64_t calls;
};
/* Kinds of jobs: those of enginetest's own cast, and of one that a test adds (programs[1]). */
#define CAST_KIND 7
#define CAST_SECOND 8
void cast_init(struct cast *c, int64_t kind, const struct actor *actors);

#define ENGINETEST_WATCHES 4

struct watch {
    const char *addr;
    char line[1024];
    char text[4096]; /* a line per commit that changed it: activity, then its GUIDs in order */
};

struct enginetest {
    struct storetest f;
    struct cast cast;
    const struct program *programs[2];
    struct engine_options options;
    struct engine *e;
    struct service service; /* of topic "t" */
    struct task *tasks;     /* in hand, the oldest first */
    int64_t job;            /* the one that was started last */
    struct watch watches[ENGINETEST_WATCHES];
    size_t watch_count;
    int64_t ended; /* jobs, as the engine said */
    int64_t rounds;
};

/* The store is open, the engine not yet: options, service and cast may be changed. */
void enginetest_init(struct enginetest *x, enum storetest_kind kind, const struct actor *actors);
void enginetest_open(struct enginetest *x);
/* As if the process had died and come again. */
void enginetest_crash(struct enginetest *x);
/* Asserts that the store is sound, that is, that a check finds nothing. */
void enginetest_check(struct enginetest *x);
void enginetest_done(struct enginetest *x);
/* On every provider; stepwise and fused. */
void enginetest_each(struct enginetest *x, const struct actor *actors, bool stepwise,
                     void (*test)(void));

/* Rounds until nothing is left to do now; what is watched is read after every commit. */
void enginetest_settle(struct enginetest *x);
int enginetest_round(struct enginetest *x, bool *out_busy, struct qp_err *err);
/* Moves the clock, and settles. */
void enginetest_wait(struct enginetest *x, qp_ms ms);
/* Submits, settles, and returns what was answered. */
int enginetest_ask(struct enginetest *x, struct command *c);

void enginetest_fill_start(struct enginetest *x, struct request_start *r, const char *jid,
                           const char *input);
/* A job of the cast with this id. Returns the answer to the first try. */
int enginetest_start(struct enginetest *x, const char *jid);
/* The first task in hand of this job and address; NULL: any. It stays in the list. */
struct task *enginetest_task(struct enginetest *x, const char *jid, const char *addr);
/* The task goes, and its place is free. */
void enginetest_forget(struct enginetest *x, struct task *task);
int enginetest_result(struct enginetest *x, const struct task *task, enum result_kind kind,
                      const char *output);
/* Completes every task that comes, with the output "ok". Returns how many. */
int64_t enginetest_work(struct enginetest *x);
int enginetest_signal(struct enginetest *x, const char *topic, const char *key, unsigned guid,
                      qp_ms ttl_ms);
/* The same with an id, whose GUID is made as the API does. */
int enginetest_signal_by_id(struct enginetest *x, const char *topic, const char *key,
                            const char *id);
/* A signal to one job. `id` NULL: it has none. out_request has what became of it. */
int enginetest_signal_job(struct enginetest *x, const struct signal_job *to, const char *name,
                          const char *id, struct request_signal *out_request);
int enginetest_end(struct enginetest *x, const char *jid, enum job_state state);

void enginetest_watch(struct enginetest *x, const char *addr);
/* The digits of an activity and of its GUIDs now; "" when it is not there. Lives until the next
 * call. */
const char *enginetest_digits(struct enginetest *x, const char *addr);
const char *enginetest_digits_of(struct storetest *f, int64_t job, const char *addr);

const struct job_row *enginetest_job(struct enginetest *x, int64_t job);
const struct act_row *enginetest_act(struct enginetest *x, int64_t job, const char *addr);
/* The only message of a job, or NULL; fails when there are several. */
const struct msg_row *enginetest_message(struct enginetest *x, int64_t job);
size_t enginetest_rows(struct enginetest *x, enum table_id table, int64_t job);

/* What a store must be at rest. */
void enginetest_check_store(struct store *s);
/* Also what the faces have rules for; NULL: none. */
void enginetest_check_faces(struct store *s, const struct faces *faces);
/* The answer's code of a command that is no request of enginetest's own. */
void enginetest_answered(struct engine *e, struct command *c, int rc, const char *why);
extern int enginetest_answer;
extern int64_t enginetest_answers;

#endif
