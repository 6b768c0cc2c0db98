/* storepair.h - two stores under test, one to be copied into the other, in one world
 *
 * Both have the clock, the memory and the chance of from.t. The structs are large: make the pair
 * static.
 */
#ifndef QP_TEST_STOREPAIR_H
#define QP_TEST_STOREPAIR_H

#include "store/copy.h"
#include "support/opgen.h"
#include "support/storetest.h"

struct storepair {
    struct storetest from;
    struct storetest to;
    struct opgen g;                /* of what is committed on the source */
    struct copy_progress progress; /* of the last copy that succeeded */
    struct qp_err err;             /* of the last one that did not */
};

void storepair_init(struct storepair *p, enum storetest_kind from, enum storetest_kind to);
void storepair_done(struct storepair *p);

/* So many random commits on the source, the first ones or further ones. */
void storepair_fill(struct storepair *p, uint64_t seed, int commits);
/* The next commit of these on both. */
void storepair_commit_both(struct storepair *p);

/* store_copy between the two, to the name "there"; a store on PostgreSQL is opened for it, and stays
 * open like that. The second one: as they are open. */
int storepair_copy(struct storepair *p, bool keep_source);
int storepair_copy_open(struct storepair *p, bool keep_source);
/* Fails when they differ in more than the marker and the clock, and in revisions if `without` says
 * so (statetext.h). */
void storepair_assert_equal(struct storepair *p, int without);
/* What the head row says, enum head_state. */
int64_t storepair_state(struct storetest *f);
/* Closes one of the two, if it is open, and opens it again; `moving`: as a copy does. */
void storepair_reopen(struct storepair *p, struct storetest *f, bool moving);

#endif
