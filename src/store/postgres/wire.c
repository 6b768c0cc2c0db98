/* wire.c - libpq behind a small door (see wire.h) */
#include "store/postgres/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#define OID_INT8 20
#define OID_BYTEA 17
#define ARRAY_HEADER 20
#define NAME_SIZE 32

void wire_init(struct wire *w, const struct qp_env *env)
{
    *w = (struct wire){.env = env};
    buf_init(&w->answers, env, 0);
}

void wire_done(struct wire *w)
{
    PQfinish(w->conn);
    w->conn = NULL;
    buf_done(&w->answers);
}

void wire_pause(int ms)
{
    (void)poll(NULL, 0, ms); /* a signal makes it shorter, which does no harm */
}

/* ------------------------------------------------------------------------------------- failures */

/* The server's code as ours. */
static int code_of(const char *state)
{
    static const struct {
        const char *prefix;
        int code;
    } codes[] = {
        {"QP001", QP_E_CONFLICT}, /* schema function expect: a row is not what was read */
        {"23505", QP_E_CONFLICT}, /* a row appeared since it was looked for */
        {"23514", QP_E_CONFLICT}, /* a sum would fall below zero: what was taken off is stale */
        {"40", QP_E_BUSY},        /* serialization failure, deadlock */
        {"55P03", QP_E_BUSY},     /* lock_timeout */
        {"57014", QP_E_BUSY},     /* statement_timeout */
        {"25P03", QP_E_BUSY},     /* idle in transaction for too long */
        {"57P", QP_E_BUSY},       /* the server ends, or begins */
        {"08", QP_E_BUSY},        /* the connection */
        {"53100", QP_E_FULL},     /* disk full */
        {"53", QP_E_BUSY},        /* out of connections, memory */
        {"25006", QP_E_READONLY}, /* a standby, or a transaction that only reads */
        {"42501", QP_E_READONLY}, /* no right to do it */
        {"22P", QP_E_INTERNAL},   /* what we sent is not what it takes */
        {"23", QP_E_CORRUPT},     /* a check of the schema does not hold */
        {"42P01", QP_E_CORRUPT},  /* a table is missing */
        {"XX001", QP_E_CORRUPT},  /* data_corrupted */
        {"XX002", QP_E_CORRUPT},  /* index_corrupted */
        {"58030", QP_E_IO},       /* io_error */
    };
    for (size_t i = 0; i < ARRAY_COUNT(codes); i++) {
        if (strncmp(state, codes[i].prefix, strlen(codes[i].prefix)) == 0) {
            return codes[i].code;
        }
    }
    return QP_E_INTERNAL;
}

static size_t line_size(const char *text)
{
    return strcspn(text, "\n");
}

static int fail_lost(struct wire *w, struct qp_err *err)
{
    const char *text = w->conn == NULL ? "not connected"
                       : w->silent     ? "the server has said nothing for too long"
                                       : PQerrorMessage(w->conn);
    w->lost = true;
    return err_set(err, QP_E_IO, "PostgreSQL: the connection is lost: %.*s", (int)line_size(text),
                   text);
}

/* A sum that would fall below zero: what was to be taken from it was read before another took it. A scan
 * has the sums written before the rows that are compared, so this is the first to be heard. */
static bool is_stale_sum(const PGresult *r, const char *state)
{
    const char *table = PQresultErrorField(r, PG_DIAG_TABLE_NAME);
    return strcmp(state, "23514") == 0 && table != NULL && strcmp(table, "lane") == 0;
}

static int fail_result(struct wire *w, const PGresult *r, struct qp_err *err)
{
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
    if (state == NULL) { /* libpq's own failure: it has no connection any more */
        return fail_lost(w, err);
    }
    (void)snprintf(w->sqlstate, sizeof w->sqlstate, "%s", state);
    /* The server says that it goes, and then it is gone. */
    w->lost = w->lost || strncmp(state, "57P", 3) == 0 || strcmp(state, "25P03") == 0;
    return err_set(err, is_stale_sum(r, state) ? QP_E_CONFLICT : code_of(state),
                   "PostgreSQL: %s (%s)", text != NULL ? text : "failed", state);
}

/* ---------------------------------------------------------------------------------- connections */

static void ignore_notice(void *context, const PGresult *result)
{
    (void)context;
    (void)result;
}

#define CONNECT_S "3" /* a server that does not answer a greeting by then is away */

/* What the URL says about the first of these beats what is said here. */
static const char *const names[] = {
    "fallback_application_name", "connect_timeout",  "keepalives_idle",
    "keepalives_interval",       "keepalives_count", "tcp_user_timeout",
    "client_encoding",           "dbname",           NULL};
#define VALUES(url)                                                                                \
    {                                                                                              \
        "quipu", CONNECT_S, "10", "5", "3", "30000", "UTF8", url, NULL                             \
    }

PGconn *wire_dial(const char *url)
{
    const char *const values[] = VALUES(url);
    PGconn *conn = PQconnectStartParams(names, values, 1);
    if (conn != NULL) {
        (void)PQsetNoticeReceiver(conn, ignore_notice, NULL); /* returns the former one */
    }
    return conn;
}

int wire_open(struct wire *w, const char *url, struct qp_err *err)
{
    const char *const values[] = VALUES(url);
    PQfinish(w->conn);
    buf_reset(&w->answers);
    w->lost = w->silent = false;
    w->connection++;
    w->conn = PQconnectdbParams(names, values, 1);
    if (w->conn == NULL) {
        return err_set(err, QP_E_NOMEM, "open store: out of memory");
    }
    if (PQstatus(w->conn) != CONNECTION_OK) {
        const char *text = PQerrorMessage(w->conn);
        w->lost = true;
        return err_set(err, QP_E_IO, "cannot connect: %.*s", (int)line_size(text), text);
    }
    (void)PQsetNoticeReceiver(w->conn, ignore_notice, NULL); /* returns the former one */
    w->backend = PQbackendPID(w->conn);
    return QP_OK;
}

/* Until the next answer is there as a whole, so that PQgetResult does not wait. What is still to be sent goes
 * meanwhile. False: the connection is broken, or the server said nothing for too long. */
static bool await_answer(struct wire *w)
{
    while (PQisBusy(w->conn) != 0) {
        struct pollfd line = {.fd = PQsocket(w->conn), .events = POLLIN};
        int left = PQflush(w->conn);
        int ready;
        line.events = left > 0 ? POLLIN | POLLOUT : POLLIN;
        ready = left < 0 ? -1 : poll(&line, 1, w->answer_ms > 0 ? w->answer_ms : -1);
        if (left < 0 || (ready < 0 && errno != EINTR)) {
            return false;
        }
        w->silent = ready == 0;
        if (w->silent || (ready > 0 && PQconsumeInput(w->conn) != 1)) {
            return false;
        }
    }
    return true;
}

/* The next answer. NULL: the end of it, or the connection is lost, which `lost` says then. */
static PGresult *next_answer(struct wire *w)
{
    if (!await_answer(w)) {
        w->lost = true;
        return NULL;
    }
    return PQgetResult(w->conn);
}

/* The last answer of all statements in a text, as PQexec has it. */
static PGresult *exec_last(struct wire *w, const char *sql)
{
    PGresult *last = NULL;
    PGresult *r;
    if (PQsendQuery(w->conn, sql) != 1) {
        return NULL;
    }
    while ((r = next_answer(w)) != NULL) {
        PQclear(last);
        last = r;
    }
    return last;
}

int wire_exec(struct wire *w, const char *sql, void *context, wire_take take, struct qp_err *err)
{
    PGresult *r = w->lost ? NULL : exec_last(w, sql);
    ExecStatusType status = PQresultStatus(r);
    int rc = QP_OK;
    if (r == NULL || w->lost || PQstatus(w->conn) != CONNECTION_OK) {
        rc = fail_lost(w, err);
    } else if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK &&
               status != PGRES_EMPTY_QUERY) {
        rc = fail_result(w, r, err);
    } else if (take != NULL) {
        rc = take(context, r, err);
    }
    PQclear(r);
    return rc;
}

int wire_enter(struct wire *w, struct qp_err *err)
{
    /* What is sent there does not wait for the server to read it: await_answer sees to that. */
    return PQenterPipelineMode(w->conn) == 1 && PQsetnonblocking(w->conn, 1) == 0
               ? QP_OK
               : fail_lost(w, err);
}

int wire_leave(struct wire *w, struct qp_err *err)
{
    return PQexitPipelineMode(w->conn) == 1 && PQsetnonblocking(w->conn, 0) == 0
               ? QP_OK
               : fail_lost(w, err);
}

/* ------------------------------------------------------------------------------------ parameters */

void wire_params_init(struct wire_params *p, const struct qp_env *env)
{
    p->count = 0;
    p->open = 0;
    buf_init(&p->bytes, env, LIMIT_ARENA_SIZE);
}

void wire_params_done(struct wire_params *p)
{
    buf_done(&p->bytes);
}

void wire_params_reset(struct wire_params *p)
{
    buf_reset(&p->bytes);
    p->count = 0;
}

static void put_i32(struct buf *b, int32_t value)
{
    uint32_t bits = __builtin_bswap32((uint32_t)value);
    buf_add(b, &bits, sizeof bits);
}

static void put_i64(struct buf *b, int64_t value)
{
    uint64_t bits = __builtin_bswap64((uint64_t)value);
    buf_add(b, &bits, sizeof bits);
}

static void param_begin(struct wire_params *p)
{
    QP_ASSERT(p->count < WIRE_PARAMS_MAX);
    p->open = p->bytes.n;
}

static void param_end(struct wire_params *p, bool is_null)
{
    p->offsets[p->count] = p->open;
    p->sizes[p->count] = (int)(p->bytes.n - p->open);
    p->nulls[p->count++] = is_null;
}

void wire_param_i64(struct wire_params *p, int64_t value)
{
    param_begin(p);
    put_i64(&p->bytes, value);
    param_end(p, false);
}

void wire_param_str(struct wire_params *p, qp_str value)
{
    param_begin(p);
    buf_str(&p->bytes, value);
    param_end(p, str_is_none(value));
}

/* One dimension that counts from 1; elements may be NULL. */
void wire_array_begin(struct wire_params *p, bool bytes, size_t count)
{
    param_begin(p);
    put_i32(&p->bytes, 1);
    put_i32(&p->bytes, 1);
    put_i32(&p->bytes, bytes ? OID_BYTEA : OID_INT8);
    put_i32(&p->bytes, (int32_t)count);
    put_i32(&p->bytes, 1);
}

void wire_array_i64(struct wire_params *p, int64_t value)
{
    put_i32(&p->bytes, (int32_t)sizeof value);
    put_i64(&p->bytes, value);
}

void wire_array_null(struct wire_params *p)
{
    put_i32(&p->bytes, -1);
}

void wire_array_str(struct wire_params *p, qp_str value)
{
    if (str_is_none(value)) {
        wire_array_null(p);
        return;
    }
    put_i32(&p->bytes, (int32_t)value.n);
    buf_str(&p->bytes, value);
}

void wire_array_end(struct wire_params *p)
{
    param_end(p, false);
}

/* -------------------------------------------------------------------------------------- pipeline */

static int queue(struct wire *w, struct wire_answer answer, struct qp_err *err)
{
    buf_add(&w->answers, &answer, sizeof answer);
    return buf_rc(&w->answers) == QP_OK ? QP_OK
                                        : err_set(err, buf_rc(&w->answers), "send: out of memory");
}

/* A connection learns a statement when it is first used there. */
static int prepare(struct wire *w, struct wire_statement *s, const char *name, struct qp_err *err)
{
    if (s->connection == w->connection) {
        return QP_OK;
    }
    if (PQsendPrepare(w->conn, name, s->text, 0, NULL) != 1) {
        return fail_lost(w, err);
    }
    s->connection = w->connection;
    return queue(w, (struct wire_answer){.plain = true}, err);
}

int wire_send(struct wire *w, struct wire_statement *s, const struct wire_params *p,
              struct wire_answer answer, struct qp_err *err)
{
    int binary[WIRE_PARAMS_MAX];
    const char *values[WIRE_PARAMS_MAX];
    char name[NAME_SIZE];
    int count = p == NULL ? 0 : p->count;
    int rc = w->lost ? fail_lost(w, err) : QP_OK;
    if (rc == QP_OK && p != NULL && buf_rc(&p->bytes) != QP_OK) {
        return err_set(err, buf_rc(&p->bytes),
                       "send: the values are too large, or memory is short");
    }
    (void)snprintf(name, sizeof name, "qp%u_%u", w->connection, s->number);
    rc = rc == QP_OK ? prepare(w, s, name, err) : rc;
    if (rc != QP_OK) {
        return rc;
    }
    for (int i = 0; i < count; i++) {
        binary[i] = 1;
        values[i] = p->nulls[i] ? NULL : p->sizes[i] == 0 ? "" : p->bytes.p + p->offsets[i];
    }
    if (PQsendQueryPrepared(w->conn, name, count, values, p == NULL ? NULL : p->sizes, binary, 1) !=
        1) {
        return fail_lost(w, err);
    }
    return queue(w, answer, err);
}

bool wire_is_waiting(const struct wire *w)
{
    return w->answers.n > 0;
}

/* One answer, and the NULL behind it. A statement that was not prepared must not be believed to
 * be. */
static int read_answer(struct wire *w, const struct wire_answer *a, bool *out_skipped,
                       struct qp_err *err)
{
    PGresult *r = next_answer(w);
    ExecStatusType status = PQresultStatus(r);
    int rc = QP_OK;
    *out_skipped = false;
    if (r == NULL) {
        return fail_lost(w, err);
    }
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK) {
        rc = a->take != NULL ? a->take(a->context, r, err) : QP_OK;
    } else if (status == PGRES_PIPELINE_ABORTED) {
        *out_skipped = true;
    } else {
        rc = fail_result(w, r, err);
    }
    PQclear(r);
    while (!w->lost && (r = next_answer(w)) != NULL) {
        PQclear(r); /* the end of the answer is NULL; more would be libpq's word on a broken line */
        w->lost = PQstatus(w->conn) != CONNECTION_OK;
    }
    return rc;
}

/* After a failure what was to be prepared behind it was not: all is learnt anew, under new names. */
static void forget_statements(struct wire *w)
{
    w->connection += 1;
}

static int read_sync(struct wire *w, struct qp_err *err)
{
    PGresult *r = next_answer(w);
    bool is_sync = PQresultStatus(r) == PGRES_PIPELINE_SYNC;
    PQclear(r);
    return is_sync ? QP_OK : fail_lost(w, err);
}

int wire_wait(struct wire *w, struct qp_err *err)
{
    size_t count = w->answers.n / sizeof(struct wire_answer);
    bool unprepared = false;
    int rc = QP_OK;
    if (w->lost || PQpipelineSync(w->conn) != 1) {
        buf_reset(&w->answers);
        return fail_lost(w, err);
    }
    for (size_t i = 0; i < count && !w->lost; i++) {
        struct wire_answer a;
        struct qp_err own = {0};
        bool skipped;
        int one;
        memcpy(&a, w->answers.p + i * sizeof a, sizeof a);
        one = read_answer(w, &a, &skipped, &own);
        unprepared = unprepared || (a.plain && (skipped || one != QP_OK));
        if (rc == QP_OK && one != QP_OK) {
            rc = err_set(err, one, "%s", own.text);
        }
    }
    buf_reset(&w->answers);
    if (!w->lost) {
        struct qp_err own = {0};
        int end = read_sync(w, &own);
        rc = rc != QP_OK || end == QP_OK ? rc : err_set(err, end, "%s", own.text);
    }
    if (unprepared) {
        forget_statements(w);
    }
    return w->lost && rc == QP_OK ? fail_lost(w, err) : rc;
}

/* --------------------------------------------------------------------------------------- answers */

int64_t wire_i64(const PGresult *result, int row, int field)
{
    uint64_t bits = 0;
    if (PQgetisnull(result, row, field) != 0) {
        return 0;
    }
    QP_ASSERT(PQgetlength(result, row, field) == (int)sizeof bits);
    memcpy(&bits, PQgetvalue(result, row, field), sizeof bits);
    return (int64_t)__builtin_bswap64(bits);
}

qp_str wire_str(const PGresult *result, int row, int field)
{
    if (PQgetisnull(result, row, field) != 0) {
        return QP_NONE;
    }
    return (qp_str){PQgetvalue(result, row, field), (size_t)PQgetlength(result, row, field)};
}
