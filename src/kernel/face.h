/* face.h - what one kind of job adds to the system beside its program
 *
 * The kernel runs a PROGRAM (program.h): how a job of one kind moves. What everything else must know about the kind is
 * its FACE: one const table of functions, in the kind's own layer, with a state that `open` makes. The faces of a
 * handle are a small array, struct faces; run/kinds.c is the one list of them. Nothing above the kinds branches on a
 * kind: it looks up the face of the job's kind, or of the name, and calls it.
 *
 *   a start, a call, a fork --> faces_start --> names_find --> resolve_start of the one face that the name has
 *   a signal without a key  --> faces_signal_key --> names_find --> signal_key of the one face that the hook has
 *
 * Faces are never asked in turn. A name that is not in the table (names.h) is a plain topic, and belongs to the face
 * whose name_kind is NAMES_PLAIN.
 *
 * Who calls a function, on which thread, and in what, stands over each group below. NULL has a meaning in each case:
 * the kernel's own way, which stands behind "NULL:". Texts that a function returns live in the arena of the commit
 * (bundle) or of the sight. A function that decides may be called again for the same decision, and changes nothing but
 * its bundle.
 *
 * Owner: the handle owns struct faces, and closes it after the engine. Threads: the array never changes; `turn`,
 * `look_at` and `stale` are the engine's thread's; a state guards itself where it is read by other threads, too.
 */
#ifndef QP_KERNEL_FACE_H
#define QP_KERNEL_FACE_H

#include "base/json.h"
#include "base/limits.h"
#include "kernel/names.h"
#include "kernel/program.h"

/* What a start means: the question, then the answer. */
struct naming {
    int64_t ns;
    qp_str name;
    qp_str input;  /* checked JSON */
    qp_str policy; /* of retries, that the start gives; none */
    /* Its start asks for a workflow: a name that is not in the table is announced with it (face.announce). */
    bool announces;
    /* The version of the job that this one is a fork of, and that job's kind; none: what the name means now. */
    qp_str pinned;
    int64_t pinned_kind;
    qp_str
        wanted; /* of a fork: the version that was asked for, in the kind's words; none: `pinned`, as long as it is there */
    /* The version of the job that calls this one, and its kind; none: no job does. A name that is not in the table may
     * be known to the caller's own version. */
    qp_str caller;
    int64_t caller_kind;
    /* The answer. */
    int64_t kind;
    qp_str version; /* none: the kind has no versions */
    qp_str jid;     /* the id that the definition gives the job; none: the caller's choice */
    bool announced; /* the name is in the table since this commit */
};

/* Tasks of a name that workers announce (face.announce) wait at the topic '@' + name, which no topic of users is. */
#define ANNOUNCED_MARK '@'

/* A job that is made from another one. */
struct fork {
    const struct job_row *from;
    qp_str at; /* where it begins, as people name it; none: `retries` says */
    /* It is the retry of a job that has ended: what has finished keeps its results, what failed or was open runs again.
     * False without `at`: it begins at its first step. */
    bool retries;
};

enum result_kind {
    RESULT_DONE,    /* output */
    RESULT_PENDING, /* output, and the task stays ours: another result will come */
    RESULT_ERROR,   /* code, error: tried again as the policy says, else the activity has failed */
    /* reason, error: a person must help. The task becomes a dead letter and its job is parked, in one commit; nothing else
     * is written: no entry, no digit. request_unpark gives the same task again, request_end ends the job. */
    RESULT_PARK,
    /* The task goes back into its stream with a note (msg_row.error): no attempt, no entry. */
    RESULT_BACK,
    RESULT_OTHER /* a status of the kind's own, in `told`: the kind makes one of the above of it */
};

/* What a worker has brought, before it counts: the question, then the answer of the job's kind. */
struct bringing {
    /* The whole JSON object, when a worker elsewhere has sent members that not every result has; else none. */
    qp_str told;
    qp_str build; /* of the worker's program; none: it did not say */
    qp_str note;  /* of an earlier RESULT_BACK of the same task; none */
    /* As the worker said it; the answer may be another. */
    enum result_kind kind;
    qp_str output;
    qp_str error;
    qp_str reason; /* RESULT_PARK: a word */
    /* The answer. */
    bool
        behind; /* its commands were not applied, or its task has ended: the worker forgets the flow */
    bool counts; /* RESULT_BACK: it was a delivery without an answer */
    /* RESULT_ERROR: as of request_result. */
    bool again;
    qp_ms again_ms;
    /* Of a result that is refused. */
    const char *word; /* why, for programs; NULL: the word of the code */
    const char *
        parks; /* after LIMIT_RESULT_REFUSALS of them the job is parked, for this reason; NULL: never */
};

/* Something that only its kind understands, asked of one open job (request_ask): an event, another attempt. What the members
 * mean is up to the kind; `more` outlives the command. */
struct kind_question {
    int what;
    qp_str name;
    qp_str text;
    const void *more;
};

/* A job that is looked at, in the snapshot of one read. */
struct sight {
    struct store *store;
    struct arena *arena;
    const struct job_row *job;
    struct qp_err *err;
};

/* One rule of fsck about jobs of one kind. */
struct face_rule {
    const char *name; /* for people and --rules; no rule of check_rules.def has it */
    enum qp_severity severity;
    const char *next; /* what to do about it */
    /* A sentence about what is wrong, in the sight's arena; none: the job is in order. */
    int (*ask)(void *state, const struct sight *sight, qp_str *out_wrong);
};

/* A number for the metrics: a gauge, in the order in which it is told. */
typedef void (*face_number)(void *context, const char *name, const char *help, int64_t value);

/* face.name_kind, where it is no kind of rows. */
#define NAMES_PLAIN (-1) /* every name that is not in the table */
#define NAMES_NONE (-2)  /* no name of the table */

struct face_options {
    const struct qp_env *env;
    bool read_only; /* there is no engine, and `turn` is never called */
};

struct face {
    int64_t kind;           /* of its jobs: job_row.kind */
    const char *name;       /* as people see it: "single", "graph" */
    int name_kind;          /* which rows of app_topic start its jobs: app_topic_row.kind */
    int hook_kind;          /* which rows of app_topic are topics of its hooks, or NAMES_NONE */
    const char *start_name; /* a name that starts its jobs in every namespace; NULL: none */

    /* Its share of the handle's life, in this order: faces_open, ..., faces_close. `open` runs before there is a store,
     * `close` after the store was closed. NULL: there is no state. */
    int (*open)(const struct face_options *options, void **out_state);
    void (*close)(void *state);
    /* How its jobs move; asked once, after `open`. What it points to outlives the engine. */
    struct program (*program)(void *state);
    /* Definitions may have changed, in a commit or between two: what is kept of those that are gone is dropped. On the
     * thread of names_find. NULL: nothing is kept. */
    int (*refresh)(void *state, const struct look *at);
    /* On the engine's thread between two rounds, when nothing is being written. NULL: nothing is to be done. */
    void (*turn)(void *state);

    /* In the deciding commit, on the engine's thread. */

    /* What the name means: `version` is set by the table, or from `pinned`; none: the table does not know the name, and
     * it is the kind's if its caller's version says so, else `version` stays none. The answer may change the version and
     * give an id. QP_E_SHAPE: the input is refused; QP_E_NOT_FOUND: the version was deleted; QP_E_INVALID: something
     * else of the start is refused. NULL: the version is what the table says, and every input is good. */
    int (*resolve_start)(void *state, struct bundle *b, struct naming *naming, struct qp_err *err);
    /* The key that a signal is for which came without one; `version` has a hook at its topic. QP_E_SHAPE: the payload
     * does not say. NULL: a signal must name its key (QP_E_NOT_FOUND). */
    int (*signal_key)(void *state, struct bundle *b, const struct op_hook_signal *signal,
                      qp_str version, qp_str *out_key, struct qp_err *err);
    /* The job is asked to end, cancelled; the turn stands at its trigger, with the GUID of the question. *out_ends true, as
     * preset: it ends at once, with *error, to which the kind may add; false: the kind has seen to it, by an answer to
     * one of its activities (turn_answer_at) or by ops. A kill is not asked about. NULL: the job ends at once. */
    int (*cancel)(void *state, struct turn *t, qp_str *error, bool *out_ends);
    /* The answer to a question that only this kind understands. The turn stands at the job's trigger, whose row is locked: no
     * other commit changes the job before this one is through. Its GUID is this question's alone. All that is written
     * commits with the answer; any code but QP_OK refuses the question, and then nothing is written. NULL: QP_E_UNSUPPORTED. */
    int (*ask)(void *state, struct turn *t, const struct kind_question *question,
               struct qp_err *err);
    /* A person asks that what has failed is tried again: the job is open, and the turn as of `ask`. `part` names a part of the
     * job, none: all of it. The kind also sees to dead letters and to the job being parked. QP_E_CONFLICT: nothing of it
     * has failed; QP_E_NOT_FOUND: no such part. NULL: a parked job is parked no more, its dead letters are live again, and
     * it has no parts. */
    int (*retry)(void *state, struct turn *t, qp_str part, struct qp_err *err);
    /* A pause is of tasks alone: answers, timers and what is asked are taken in while the job is paused (op_job_pause.tasks), and
     * `resume` does with them what is due. The job is paused no more; the turn as of `ask`, and all in that commit. NULL: all of
     * the job's messages are set aside until it is resumed. */
    int (*resume)(void *state, struct turn *t);
    /* A job that is made from another one, after its inception and before its first step, in the same commit: what it
     * takes over is written down here. Any code refuses the fork, with a pointer where a member is at fault. NULL: it
     * begins at its first step, and `at` is refused. */
    int (*fork)(void *state, struct turn *t, const struct fork *fork, struct qp_err *err);
    /* What a worker has brought, but for an error, before it counts. QP_E_SHAPE refuses it, with a pointer into it: then
     * nothing was written, and the task is still the worker's. NULL: every output is good, and nothing else is. */
    int (*result)(void *state, struct turn *t, struct bringing *brought, struct qp_err *err);
    /* Whether a task with a note (RESULT_BACK) goes to a worker of this build now. NULL: it does. */
    bool (*takes)(void *state, qp_str note, qp_str build, qp_ms now);
    /* The name is one of this kind from now on, a row of app_topic. QP_OK with *out_changed false: it was before.
     * QP_E_CONFLICT, QP_E_LIMIT, QP_E_INVALID, QP_E_TOO_LARGE: refused, and the error says why. NULL: names of this kind come otherwise. At
     * most one kind has it. */
    int (*announce)(void *state, const struct faces *faces, struct bundle *b, int64_t ns,
                    qp_str name, bool *out_changed, struct qp_err *err);

    /* On any thread that has a row of a job. */

    /* Whether the job still needs the version. NULL: one that is open needs the version on its row. */
    bool (*needs)(void *state, const struct job_row *job, qp_str version);
    /* Its numbers, when metrics are read. NULL: none. */
    void (*stats)(void *state, void *context, face_number number);

    /* In the snapshot of a read, on the reader's thread, with no scan open. Texts live in the sight's arena. */

    /* What people see of a job, beside what its rows say. NULL: nothing is added. */
    int (*describe_job)(void *state, const struct sight *sight, struct qp_job_info *info);
    int (*describe_activity)(void *state, const struct sight *sight, const struct act_row *act,
                             struct qp_activity *told);
    /* A journal entry, complete but for what only the kind knows: `kind` is from KERNEL_EVENTS on where it is one
     * of the kind's own (turn_event), less where it is the kernel's, and EVENT_NONE where an activity was entered or
     * answered. */
    int (*describe_history)(void *state, const struct sight *sight, int64_t kind,
                            struct qp_event *event);
    /* What became of a job, beside what its row says: *out_output holds the row's; *out_ledger is that of its one
     * activity, else 0. NULL: nothing is added. */
    int (*outcome)(void *state, const struct sight *sight, qp_str *out_output, int64_t *out_ledger);
    /* What the job itself keeps, as members of a JSON object that is begun: `,"data":{..}`. NULL, or *out_done false: its
     * rows of data, each by its name, follow as `data`. */
    int (*export_data)(void *state, const struct sight *sight, struct buf *out, bool *out_done);
    /* What a worker elsewhere gets with a task of this activity beside its input, as members of a JSON object that is
     * begun. NULL: nothing. */
    int (*task)(void *state, const struct sight *sight, qp_str address, struct json_writer *w);
    /* The word of a task that is no activity: it has no input but what `task` writes. NULL, or NULL of it: "activity". */
    const char *(*task_kind)(void *state, qp_str address);
    /* A view of the job that only this kind has, by its name ("decisions"): one JSON value. QP_E_NOT_FOUND: it has no such
     * view, or nothing to show yet. NULL: it has none. */
    int (*view)(void *state, const struct sight *sight, const char *name, struct json_writer *w);
    /* A part of what `task` writes, behind `cursor`, as members of a JSON object that is begun. QP_E_INVALID: no such
     * cursor. NULL: there is none. */
    int (*log)(void *state, const struct sight *sight, qp_str cursor, struct json_writer *w);
    /* What the note on a task of the job (RESULT_BACK) tells people; none: nothing. NULL likewise. */
    qp_str (*describe_note)(void *state, qp_str note);
    /* Its part of fsck, ended by a rule without a name. NULL: none. */
    const struct face_rule *rules;
    /* Tries its rules: each finds what is seeded for it, and nothing else (kernel/check_world.h). QP_E_INTERNAL says which
     * does not. NULL: it has none. */
    int (*selftest)(const struct qp_env *env, struct qp_err *err);
};

/* A face with its state. */
struct faced {
    const struct face *face;
    void *state;
    struct program program;
};

struct faces {
    struct qp_env env;
    struct faced all[LIMIT_PROGRAMS];
    size_t count;
    struct names *names;
    /* the engine's thread's: when names are read again for readers, where other processes change them */
    qp_ms look_at;
    bool stale; /* or at once: a look has failed, or a start has announced a name */
};

/* Opens all faces of a list; exactly one of them is NAMES_PLAIN. QP_E_NOMEM. */
int faces_open(const struct face_options *options, const struct face *const *list, size_t count,
               struct faces **out_faces) QP_MUST_USE;
void faces_close(struct faces *f);

/* The face of a kind; NULL: there is none. */
const struct faced *faces_of(const struct faces *f, int64_t kind);
/* The kind whose names workers announce; NULL: there is none. */
const struct faced *faces_announcing(const struct faces *f);
/* The state of a face that is in the set. */
void *faces_state(const struct faces *f, const struct face *face);

/* Whether the job still needs the version; one whose kind has no face here as by default. */
bool faces_need(const struct faces *f, const struct job_row *job, qp_str version);
/* The numbers of all faces. */
void faces_stats(const struct faces *f, void *context, face_number number);

/* On the engine's thread before a round, when nothing is being written: names are read again for readers, at once after
 * a look that failed, and now and then where others write (`shared`); each face has its turn. */
void faces_turn(struct faces *f, struct store *s, qp_ms now, bool shared);
/* A commit has changed definitions: readers get the new ones, at the latest in the next turn. */
void faces_changed(struct faces *f, struct store *s);

/* In the deciding commit: what a start means. Codes of resolve_start, and QP_E_UNSUPPORTED: the kind has no face
 * here. */
int faces_start(struct faces *f, struct bundle *b, struct naming *naming,
                struct qp_err *err) QP_MUST_USE;
/* Likewise the key of a signal that came without one. QP_E_NOT_FOUND: there is no hook at its topic. */
int faces_signal_key(struct faces *f, struct bundle *b, const struct op_hook_signal *signal,
                     qp_str *out_key, struct qp_err *err) QP_MUST_USE;

#endif
