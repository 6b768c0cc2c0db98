/* storepair.c - see storepair.h */
#include "support/storepair.h"

#include <postgresql/libpq-fe.h>
#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

#include "support/statetext.h"

#define OPGEN_LEASE_MS 2001 /* no run of it has more */

void storepair_reopen(struct storepair *p, struct storetest *f, bool moving)
{
    struct store_options options = {.path = f->memory == NULL ? f->path : NULL,
                                    .memory = f->memory,
                                    .moving = moving,
                                    .host_clock = true,
                                    .durability = f->kind == STORETEST_POSTGRES ? DURABILITY_RELAXED
                                                                                : DURABILITY_FULL};
    struct qp_err err = {0};
    assert_int_equal(store_close(f->s, &err), QP_OK);
    if (store_open(&p->from.t.env, &options, &f->s, &err) != QP_OK) {
        fail_msg("open: %s", err.text);
    }
}

/* A store of its own world moves into that of the other. */
static void join_world(struct storepair *p, struct storetest *f)
{
    struct memory_options options = {.mode =
                                         f->kind == STORETEST_MEMORY ? MEMORY_SERIAL : MEMORY_ROWS};
    assert_int_equal(store_close(f->s, NULL), QP_OK);
    f->s = NULL;
    if (f->memory != NULL) {
        memory_destroy(f->memory);
        assert_int_equal(memory_create(&p->from.t.env, &options, &f->memory), QP_OK);
    }
    storepair_reopen(p, f, false);
}

/* Two stores of one database: the second one in a schema of its own, which is new each time. */
static void second_schema(struct storetest *f)
{
    PGconn *c = PQconnectdb(f->path);
    PGresult *r = PQexec(c, "SET client_min_messages=error; DROP SCHEMA IF EXISTS there CASCADE");
    size_t size = strlen(f->path);
    assert_int_equal(PQresultStatus(r), PGRES_COMMAND_OK);
    PQclear(r);
    PQfinish(c);
    (void)snprintf(f->path + size, sizeof f->path - size, "?schema=there");
}

void storepair_init(struct storepair *p, enum storetest_kind from, enum storetest_kind to)
{
    storetest_init(&p->from, from, 1);
    storetest_init(&p->to, to, 2);
    if (from == STORETEST_POSTGRES && to == STORETEST_POSTGRES) {
        second_schema(&p->to);
    }
    join_world(p, &p->to);
    opgen_init(&p->g, &p->from.t.env, 0);
    p->g.no_steps_back = true;
    p->err = (struct qp_err){0};
}

void storepair_done(struct storepair *p)
{
    opgen_done(&p->g);
    storetest_done(&p->to);
    storetest_done(&p->from);
}

static void commit_on(struct storepair *p, struct store *s)
{
    struct commit c;
    commit_init(&c, s);
    assert_int_equal(opgen_commit(&p->g, s, &c), QP_OK);
    commit_done(&c);
}

void storepair_fill(struct storepair *p, uint64_t seed, int commits)
{
    p->g.random = seed;
    for (int i = 0; i < commits; i++) {
        opgen_next(&p->g, p->from.s);
        testenv_advance_ms(&p->from.t, p->g.advance_ms);
        commit_on(p, p->from.s);
    }
    testenv_advance_ms(&p->from.t, OPGEN_LEASE_MS); /* else some run is at work */
}

void storepair_commit_both(struct storepair *p)
{
    opgen_next(&p->g, p->from.s);
    testenv_advance_ms(&p->from.t, p->g.advance_ms);
    commit_on(p, p->from.s);
    commit_on(p, p->to.s);
}

/* A copy has a shared store for itself, as a file is had. */
static void have_alone(struct storepair *p, struct storetest *f)
{
    if (f->kind == STORETEST_POSTGRES) {
        storepair_reopen(p, f, true);
    }
}

int storepair_copy(struct storepair *p, bool keep_source)
{
    have_alone(p, &p->from);
    have_alone(p, &p->to);
    return storepair_copy_open(p, keep_source);
}

int storepair_copy_open(struct storepair *p, bool keep_source)
{
    struct copy_options options = {
        .from = p->from.s, .to = p->to.s, .to_name = "there", .keep_source = keep_source};
    return store_copy(&options, &p->progress, &p->err);
}

void storepair_assert_equal(struct storepair *p, int without)
{
    struct buf a;
    struct buf b;
    bool equal;
    buf_init(&a, &p->from.t.env, 0);
    buf_init(&b, &p->from.t.env, 0);
    statetext_print(p->from.s, STATETEXT_NO_MARK | STATETEXT_NO_CLOCK | without, &a);
    statetext_print(p->to.s, STATETEXT_NO_MARK | STATETEXT_NO_CLOCK | without, &b);
    equal = statetext_equal(&a, &b);
    if (!equal) {
        statetext_show(&a, &b);
    }
    buf_done(&a);
    buf_done(&b);
    assert_true(equal);
}

int64_t storepair_state(struct storetest *f)
{
    const struct head_row *head = storetest_row(f, TABLE_head, &(struct head_row){.ns = 0});
    assert_non_null(head);
    return head->clean;
}
