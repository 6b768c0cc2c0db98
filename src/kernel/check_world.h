/* check_world.h - a small healthy store in memory, damaged on purpose: what selftests of rules are made of
 *
 *   world_open -> world_start, world_claim, world_answer, world_ops -> world_edit -> world_expect -> world_close
 *
 * Jobs are made by turns and ops, so that they are healthy by construction. Edits go to the provider directly, since no op
 * would write them. No worker is here: every task goes into its stream. All of it lives in memory. One thread.
 */
#ifndef QP_KERNEL_CHECK_WORLD_H
#define QP_KERNEL_CHECK_WORLD_H

#include "kernel/check.h"
#include "kernel/turn.h"
#include "store/memory.h"

#define EDITS_MAX 5

enum edit_kind { EDIT_NONE, EDIT_SET, EDIT_PUT, EDIT_ADD, EDIT_DEL };

struct edit {
    enum edit_kind kind;
    enum table_id table;
    int64_t job; /* 0: any */
    const char *addr;
    const char *column;
    int64_t number;
    qp_str text;
    const void *row;
};

/* A rule, and what it must find; "": nothing. */
struct seed {
    const char *rule;
    struct edit edits[EDITS_MAX];
};

/* Edits of the first row of a table that has this job (0: any) and address, of data its name (NULL: any). */
#define SET(t, j, a, c, v)                                                                         \
    {                                                                                              \
        .kind = EDIT_SET, .table = TABLE_##t, .job = (j), .addr = (a), .column = #c, .number = (v) \
    }
#define PUT(t, j, a, c, v)                                                                         \
    {                                                                                              \
        .kind = EDIT_PUT, .table = TABLE_##t, .job = (j), .addr = (a), .column = #c, .text = v     \
    }
#define ADD(t, j, ...)                                                                             \
    {                                                                                              \
        .kind = EDIT_ADD, .table = TABLE_##t, .row = &(const struct t##_row)                       \
        {                                                                                          \
            .ns = STORE_NS_DEFAULT, .job = (j), .rev = 1, __VA_ARGS__                              \
        }                                                                                          \
    }
#define ADD_ROW(t, ...)                                                                            \
    {                                                                                              \
        .kind = EDIT_ADD, .table = TABLE_##t, .row = &(const struct t##_row)                       \
        {                                                                                          \
            .ns = STORE_NS_DEFAULT, .rev = 1, __VA_ARGS__                                          \
        }                                                                                          \
    }
#define DEL(t, j)                                                                                  \
    {                                                                                              \
        .kind = EDIT_DEL, .table = TABLE_##t, .job = (j)                                           \
    }
#define SEED(rule, ...) {rule, {__VA_ARGS__}},

struct world {
    const struct qp_env *env;
    const struct program *program;
    const struct faces *faces; /* whose rules are asked, too; NULL: none */
    struct memory *memory;
    struct store *store;
    struct arena arena;
    struct qp_err *err;
    qp_str input; /* of its starts; none: {} */
    int64_t jobs; /* started so far */
};

/* The caller has set env, program, faces and err. world_close takes one that could not be opened, too. */
int world_open(struct world *w) QP_MUST_USE;
void world_close(struct world *w);

/* A job that begins; its number, id, topic and GUIDs are given. */
int world_start(struct world *w, const struct op_job_create *job) QP_MUST_USE;
/* Claims the task of a topic; its GUID is kept in the world's arena. */
int world_claim(struct world *w, qp_str topic, struct msg_ref *out_task) QP_MUST_USE;
/* The result of a task that was claimed, at its activity. */
int world_answer(struct world *w, const struct msg_ref *task, qp_str addr,
                 qp_str output) QP_MUST_USE;
int world_ops(struct world *w, const struct op *ops, size_t count) QP_MUST_USE;
int world_edit(struct world *w, const struct edit *edits) QP_MUST_USE;
/* Only this rule finds something; "": none does. */
int world_expect(struct world *w, const char *rule) QP_MUST_USE;

/* Rules, and what is seeded for them. */
struct world_selftest {
    const struct face *face; /* whose rules; NULL: the kernel's */
    const struct program *program;
    qp_str input;                  /* of starts; none: {} */
    int (*build)(struct world *w); /* the jobs of a world that is open */
    const struct seed *seeds;
    size_t seed_count;
};

/* Every seed gets a world of its own. QP_E_INTERNAL: a rule has no seed, so that a new one cannot be forgotten, or does not
 * find it, or another one finds something; the error says which. */
int world_selftest(const struct qp_env *env, const struct world_selftest *test,
                   struct qp_err *err) QP_MUST_USE;

#endif
