/* wire.h - libpq behind a small door: connect, prepare, send, and read the answers
 *
 * All that knows libpq is here, but for the connection that a host callback is lent. Statements are
 * sent without waiting (pipeline mode) and their answers are read later, in order, by wire_wait: so a
 * whole batch is one round trip. Values and answers are binary.
 *
 *   wire_send .. wire_send -> wire_wait            in pipeline mode
 *   wire_leave -> wire_exec, the host -> wire_enter   outside of it
 *
 * A statement that fails spoils those behind it, up to the wire_wait; what is told is the first
 * failure. A server that says nothing for answer_ms while an answer is due is taken for gone. Codes: QP_E_CONFLICT (a row is not what was read, or is there already), QP_E_BUSY (a
 * deadlock, a serialization failure, a lock that took too long), QP_E_IO with `lost` (the connection
 * is gone; the wire is of no use until wire_open), and those of provider.h. A password never gets into
 * a message.
 *
 * Not thread-safe.
 */
#ifndef QP_STORE_POSTGRES_WIRE_H
#define QP_STORE_POSTGRES_WIRE_H

#include <postgresql/libpq-fe.h>

#include "base/mem.h"

#define WIRE_PARAMS_MAX 80

/* A text, and which connection has it prepared. */
struct wire_statement {
    char *text; /* NULL: not written yet */
    unsigned number;
    unsigned connection;
};

/* Values to be sent, in order. */
struct wire_params {
    struct buf bytes;
    int count;
    size_t offsets[WIRE_PARAMS_MAX];
    int sizes[WIRE_PARAMS_MAX];
    bool nulls[WIRE_PARAMS_MAX];
    size_t open; /* where the array that is being written begins */
};

/* Takes what a statement answered. */
typedef int (*wire_take)(void *context, const PGresult *result, struct qp_err *err);

struct wire_answer {
    wire_take take; /* NULL: that it went well is enough */
    void *context;
    bool plain; /* of preparing: nobody asked for it */
};

struct wire {
    const struct qp_env *env;
    PGconn *conn;
    bool lost;           /* the connection broke */
    bool silent;         /* since the server said nothing for too long */
    int answer_ms;       /* how long it may; 0: as long as it likes, while a store is opened */
    unsigned connection; /* counts them */
    unsigned statements; /* numbers given to texts */
    struct buf answers;  /* of struct wire_answer: sent, and not answered yet */
    int backend;         /* the server's process */
    char sqlstate[6];    /* of the last failure */
};

void wire_init(struct wire *w, const struct qp_env *env);
void wire_done(struct wire *w);

/* Connects, and leaves pipeline mode off. A connection that was there goes. */
int wire_open(struct wire *w, const char *url, struct qp_err *err) QP_MUST_USE;
/* A connection that is begun as wire_open's are, and not waited for; NULL: out of memory. */
PGconn *wire_dial(const char *url);
/* Waits; there is nothing else to do between two tries. */
void wire_pause(int ms);

/* Outside of pipeline mode: statements without parameters, several if need be. `take` gets the last
 * answer, in text; NULL is fine. */
int wire_exec(struct wire *w, const char *sql, void *context, wire_take take,
              struct qp_err *err) QP_MUST_USE;
int wire_enter(struct wire *w, struct qp_err *err) QP_MUST_USE;
int wire_leave(struct wire *w, struct qp_err *err) QP_MUST_USE;

void wire_params_init(struct wire_params *p, const struct qp_env *env);
void wire_params_done(struct wire_params *p);
void wire_params_reset(struct wire_params *p);
void wire_param_i64(struct wire_params *p, int64_t value);
void wire_param_str(struct wire_params *p, qp_str value); /* none is NULL */
/* An array of bigint or of bytea: begin, as many elements as it was begun with, end. */
void wire_array_begin(struct wire_params *p, bool bytes, size_t count);
void wire_array_i64(struct wire_params *p, int64_t value);
void wire_array_str(struct wire_params *p, qp_str value);
void wire_array_null(struct wire_params *p);
void wire_array_end(struct wire_params *p);

/* In pipeline mode. The parameters may be NULL, and are free again on return. */
int wire_send(struct wire *w, struct wire_statement *s, const struct wire_params *p,
              struct wire_answer answer, struct qp_err *err) QP_MUST_USE;
/* Reads all answers. Whatever is asked of the connection next, it is in order again, or lost. */
int wire_wait(struct wire *w, struct qp_err *err) QP_MUST_USE;
bool wire_is_waiting(const struct wire *w);

/* A field of a binary answer. */
int64_t wire_i64(const PGresult *result, int row, int field);
qp_str wire_str(const PGresult *result, int row, int field); /* it lives as long as the answer */

#endif
