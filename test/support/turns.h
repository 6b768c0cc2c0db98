/* turns.h - handles on one memory whose commits run in turns, from one call of the provider to the next
 *
 * A player is a store handle on a memory whose calls are the simulator's models (model.h). Its commit runs on a
 * fiber of its own, which stops before every call of the provider: turns_go lets it make that call, and stops it
 * at the next one. What it waits for meanwhile is a row, or a transaction, of another player.
 *
 *     turns_open(&a, &t, memory, &server);          turns_begin(&a, &commit);
 *     while (turns_is_running(&a)) {                turns_close(&a);
 *         turns_go(&a);
 *     }
 *
 * Between two turns nothing of it runs, and the commit's state and code are as they stand. A player is not moved:
 * its handle points to it.
 */
#ifndef QP_TEST_TURNS_H
#define QP_TEST_TURNS_H

#include "support/fiber.h"
#include "support/model.h"
#include "support/testenv.h"

struct turns_player {
    struct model_world world; /* the first member: the environment's context points here */
    struct testenv *t;
    struct store *s;
    struct fiber *fiber; /* NULL: no commit is running */
    struct commit *commit;
    enum model_call next; /* the call before which it has stopped */
    enum model_fate fate; /* of that call; the test may set it, and it is used once */
    bool waits;           /* the last turn ended in waiting for another player */
};

/* Fails the test when the store cannot be opened. `t` and `server` outlive the player. */
void turns_open(struct turns_player *p, struct testenv *t, struct memory *m,
                struct model_server *server);
void turns_close(struct turns_player *p);

/* Stops before the first call. */
void turns_begin(struct turns_player *p, struct commit *c);
bool turns_is_running(const struct turns_player *p);
/* One turn. False: it waits for another player, and nothing has happened. */
bool turns_go(struct turns_player *p);
/* Turns until it is about to make this call, until it waits, or until it is done. */
void turns_go_until(struct turns_player *p, enum model_call call);
/* To the end, without a wait. */
void turns_finish(struct turns_player *p);

#endif
