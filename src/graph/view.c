/* view.c - collation keys from ledgers (see view.h) */
#include "graph/view.h"

#include <stdio.h>

#include "base/uuid.h"
#include "graph/action.h"
#include "kernel/ledger.h"
#include "kernel/message.h"

/* What is known of one activity. */
struct sight {
    const struct act_row *act; /* its latest dimension; NULL: none */
    struct guid_row guid;      /* the latest of it */
    bool has_guid;
    bool called; /* an ENTER message is on its way */
    bool asked;  /* whether it is skipped was asked */
    bool skipped;
    bool live; /* of a gate: somebody arrived who brought something */
};

struct viewing {
    struct arena *arena;
    const struct graph *graph;
    const struct job_row *job;
    struct sight *sights; /* by activity.index */
};

/* ------------------------------------------------------------------------------------------- reading */

/* Segment by segment; a longer one is later. */
static int dad_compare(qp_str a, qp_str b)
{
    size_t i = 0;
    size_t j = 0;
    while (i < a.n && j < b.n) {
        int64_t x = 0;
        int64_t y = 0;
        for (i++; i < a.n && a.p[i] != ','; i++) {
            x = x * 10 + (a.p[i] - '0');
        }
        for (j++; j < b.n && b.p[j] != ','; j++) {
            y = y * 10 + (b.p[j] - '0');
        }
        if (x != y) {
            return x < y ? -1 : 1;
        }
    }
    return i < a.n ? 1 : j < b.n ? -1 : 0;
}

const struct activity *view_activity(const struct graph *g, qp_str addr)
{
    return str_equal(addr, TRIGGER_ADDRESS) ? g->trigger
                                            : graph_activity(g, address_split(addr).name);
}

static struct sight *sight_of(struct viewing *v, qp_str addr)
{
    const struct activity *x = view_activity(v->graph, addr);
    return x == NULL ? NULL : &v->sights[x->index];
}

static int see_act(void *context, const void *row)
{
    struct viewing *v = context;
    const struct act_row *act = row;
    struct sight *seen = sight_of(v, act->addr);
    if (seen == NULL ||
        (seen->act != NULL &&
         dad_compare(address_split(act->addr).dad, address_split(seen->act->addr).dad) < 0)) {
        return QP_OK;
    }
    seen->act = row_copy(v->arena, TABLE_act, act);
    if (seen->act == NULL) {
        return QP_E_NOMEM;
    }
    seen->has_guid = act_first_guid(seen->act, &seen->guid);
    return QP_OK;
}

static int see_guid(void *context, const void *row)
{
    struct viewing *v = context;
    const struct guid_row *guid = row;
    struct sight *seen = sight_of(v, guid->addr);
    if (seen == NULL || seen->act == NULL || !str_equal(seen->act->addr, guid->addr) ||
        (seen->has_guid && !guid_is_later(guid, &seen->guid))) {
        return QP_OK;
    }
    seen->guid = *guid; /* of its texts nothing is looked at */
    seen->has_guid = true;
    return QP_OK;
}

static int see_message(void *context, const void *row)
{
    struct viewing *v = context;
    const struct msg_row *m = row;
    struct sight *seen = m->kind == MESSAGE_ENTER ? sight_of(v, m->addr) : NULL;
    if (seen != NULL) {
        seen->called = true;
    }
    return QP_OK;
}

static int see_data(void *context, const void *row)
{
    struct viewing *v = context;
    const struct data_row *data = row;
    size_t prefix = sizeof ARRIVED_LIVE - 1;
    struct sight *seen = NULL;
    if (data->name.n > prefix && memcmp(data->name.p, ARRIVED_LIVE, prefix) == 0) {
        seen = sight_of(v, (qp_str){data->name.p + prefix, data->name.n - prefix});
    }
    if (seen != NULL && seen->act != NULL &&
        str_equal(seen->act->addr, (qp_str){data->name.p + prefix, data->name.n - prefix})) {
        seen->live = true;
    }
    return QP_OK;
}

static int read_rows(struct viewing *v, struct store *s, struct qp_err *err)
{
    struct {
        enum table_id table;
        store_visit visit;
    } reads[] = {{TABLE_act, see_act},
                 {TABLE_guid, see_guid},
                 {TABLE_msg, see_message},
                 {TABLE_data, see_data}};
    int rc = QP_OK;
    for (size_t i = 0; i < ARRAY_COUNT(reads) && rc == QP_OK; i++) {
        union {
            struct act_row act;
            struct guid_row guid;
            struct msg_row msg;
            struct data_row data;
        } key = {.act = {.ns = v->job->ns, .job = v->job->job}};
        struct scan scan = {.table = reads[i].table,
                            .index = -1,
                            .prefix = &key,
                            .prefix_count = 2,
                            .limit = SIZE_MAX,
                            .slim = reads[i].table != TABLE_act};
        rc = store_scan(s, &scan, v, reads[i].visit, err);
    }
    return rc;
}

/* -------------------------------------------------------------------------------------------- digits */

static bool has_spawned(const struct sight *seen)
{
    return seen->has_guid && guid_has_spawned(seen->guid.ledger);
}

/* It has done all that it will in this dimension, and not by an error that ended the job. */
static bool is_done(const struct sight *seen)
{
    return seen->act != NULL && has_spawned(seen) && seen->guid.code != 202 &&
           seen->guid.code < 400;
}

/* An error that a transition took is done, too: then something was spawned, or the job goes on. */
static bool took_error(const struct viewing *v, const struct sight *seen)
{
    return seen->act != NULL && has_spawned(seen) && seen->guid.code >= 400 &&
           !str_equal(v->job->closed_by, seen->guid.guid);
}

static bool gate_is_dead(const struct sight *gate)
{
    return gate->act != NULL && has_spawned(gate) && !gate->live &&
           (gate->act->input.n == 0 || gate->act->input.p[0] != 'L');
}

static bool is_skipped(struct viewing *v, const struct activity *x);

static bool find_skipped(struct viewing *v, const struct activity *x)
{
    const struct sight *seen = &v->sights[x->index];
    const struct activity *from = x->type == ACTIVITY_GATE ? x->dominator : x->parent;
    const struct sight *before = from == NULL ? NULL : &v->sights[from->index];
    if (seen->act != NULL) {
        return x->type == ACTIVITY_GATE ? gate_is_dead(seen) : seen->act->kind == ACT_SKIPPED;
    }
    if (seen->called || before == NULL) {
        return false;
    }
    if (is_skipped(v, from)) {
        return true;
    }
    return x->type != ACTIVITY_GATE && (is_done(before) || took_error(v, before));
}

/* Depth is that of the graph, which is bounded; each is asked once. */
static bool is_skipped(struct viewing *v, const struct activity *x)
{
    struct sight *seen = &v->sights[x->index];
    if (!seen->asked) {
        seen->asked = true;
        seen->skipped = find_skipped(v, x);
    }
    return seen->skipped;
}

/* Of what waits for an answer: while it waits, when it came, when it was an error. */
static char digit_of_answered(const struct sight *seen, char waits, char came)
{
    if (!seen->has_guid || !guid_work_is_done(seen->guid.ledger) || seen->guid.code == 202) {
        return waits;
    }
    return seen->guid.code >= 400 ? DIGIT_ERRORED : came;
}

static char digit_of_act(const struct activity *x, const struct sight *seen)
{
    const struct act_row *act = seen->act;
    if (act->kind == ACT_BROKEN) {
        return DIGIT_ERRORED;
    }
    if (x->type == ACTIVITY_TRIGGER) {
        return seen->has_guid && seen->guid.code >= 400 ? DIGIT_ERRORED : DIGIT_COMPLETED;
    }
    if (act->category != 'A') {
        return !ledger_leg1_is_done(act->ledger)          ? DIGIT_STARTED
               : seen->has_guid && seen->guid.code >= 400 ? DIGIT_ERRORED
                                                          : DIGIT_COMPLETED;
    }
    return x->type == ACTIVITY_HOOK ? digit_of_answered(seen, DIGIT_PAUSED, DIGIT_RELEASED)
                                    : digit_of_answered(seen, DIGIT_STARTED, DIGIT_COMPLETED);
}

static char digit_of(struct viewing *v, const struct activity *x)
{
    const struct sight *seen = &v->sights[x->index];
    if (is_skipped(v, x)) {
        return DIGIT_SKIPPED;
    }
    return seen->act == NULL ? DIGIT_PENDING : digit_of_act(x, seen);
}

char view_digit(const struct activity *x, const struct act_row *act, const struct guid_row *latest,
                bool live)
{
    struct sight seen = {.act = act, .live = live, .has_guid = latest != NULL};
    bool skipped;
    if (latest != NULL) {
        seen.guid = *latest;
    }
    skipped = x->type == ACTIVITY_GATE ? gate_is_dead(&seen) : act->kind == ACT_SKIPPED;
    return skipped ? DIGIT_SKIPPED : digit_of_act(x, &seen);
}

static int see_latest(void *context, const void *row)
{
    struct sight *seen = context;
    const struct guid_row *guid = row;
    if (!seen->has_guid || guid_is_later(guid, &seen->guid)) {
        seen->guid = *guid; /* of its texts nothing is looked at */
        seen->has_guid = true;
    }
    return QP_OK;
}

/* Whether anybody who arrived at a gate, after the first, brought something. */
static int read_live(struct arena *a, struct store *s, const struct act_row *act, bool *out_live,
                     struct qp_err *err)
{
    struct data_row key = {.ns = act->ns, .job = act->job};
    const void *row = NULL;
    int rc = address_make(a, QP_STR(ARRIVED_LIVE), act->addr, &key.name);
    rc = rc == QP_OK ? store_get(s, a, TABLE_data, &key, &row, err) : rc;
    *out_live = row != NULL;
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

void view_dad(const struct act_row *act, const struct guid_row *latest, char out_dad[DAD_TEXT_SIZE])
{
    qp_str dad = address_split(act->addr).dad;
    int64_t dimension = latest == NULL ? 0 : step_dimension(latest->ledger);
    while (dimension > 0 && dad.n > 0 && dad.p[dad.n - 1] != ',') {
        dad.n--;
    }
    (void)snprintf(out_dad, DAD_TEXT_SIZE, "%.*s", STR_ARG(dad)); /* an address has its limit */
    if (dimension > 0) {
        (void)snprintf(out_dad + dad.n, DAD_TEXT_SIZE - dad.n, "%lld", (long long)dimension);
    }
}

int view_act_read(struct arena *a, struct store *s, const struct activity *x,
                  const struct act_row *act, char *out_digit, qp_str *out_dad, struct qp_err *err)
{
    char dad[DAD_TEXT_SIZE];
    struct sight seen = {.act = act};
    struct guid_row of = {.ns = act->ns, .job = act->job, .addr = act->addr};
    struct scan guids = {.table = TABLE_guid,
                         .index = -1,
                         .prefix = &of,
                         .prefix_count = 3,
                         .limit = SIZE_MAX,
                         .slim = true};
    int rc = QP_OK;
    seen.has_guid = act_first_guid(act, &seen.guid);
    rc = act->guid_rows > 0 ? store_scan(s, &guids, &seen, see_latest, err) : QP_OK;
    rc = rc == QP_OK && x->type == ACTIVITY_GATE ? read_live(a, s, act, &seen.live, err) : rc;
    if (rc == QP_OK) {
        *out_digit = view_digit(x, act, seen.has_guid ? &seen.guid : NULL, seen.live);
        view_dad(act, seen.has_guid ? &seen.guid : NULL, dad);
        rc = arena_copy(a, str_from(dad), out_dad) ? QP_OK : QP_E_NOMEM;
    }
    return rc;
}

const char *digit_word(char digit)
{
    switch ((enum activity_digit)digit) {
    case DIGIT_SKIPPED:
        return "skipped";
    case DIGIT_RELEASED:
        return "released";
    case DIGIT_PAUSED:
        return "paused";
    case DIGIT_COMPLETED:
        return "completed";
    case DIGIT_ERRORED:
        return "errored";
    case DIGIT_STARTED:
        return "started";
    case DIGIT_PENDING:
        return "pending";
    }
    return "unknown";
}

static int look(struct viewing *v, struct arena *a, struct store *s, const struct graph *g,
                const struct job_row *job, struct qp_err *err)
{
    *v = (struct viewing){.arena = a, .graph = g, .job = job};
    v->sights = arena_alloc(a, g->activity_count * sizeof *v->sights);
    return v->sights == NULL ? QP_E_NOMEM : read_rows(v, s, err);
}

static int put_digits(struct viewing *v, qp_str *out_digits)
{
    const struct graph *g = v->graph;
    char *digits = arena_bytes(v->arena, g->digit_count + 1);
    if (digits == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < g->activity_count; i++) {
        const struct activity *x = &g->activities[i];
        if (x->type != ACTIVITY_GATE) {
            digits[x->digit] = digit_of(v, x);
        }
    }
    *out_digits = (qp_str){digits, g->digit_count};
    return QP_OK;
}

int view_digits(struct arena *a, struct store *s, const struct graph *g, const struct job_row *job,
                qp_str *out_digits, struct qp_err *err)
{
    struct viewing v;
    int rc = look(&v, a, s, g, job, err);
    return rc == QP_OK ? put_digits(&v, out_digits) : rc;
}

int view_key(struct arena *a, qp_str digits, qp_str *out_key)
{
    size_t n = digits.n < COLLATION_DIGITS ? COLLATION_DIGITS : digits.n;
    char *key = arena_bytes(a, n);
    if (key == NULL) {
        return QP_E_NOMEM;
    }
    memset(key, '0', n);
    memcpy(key, digits.p, digits.n);
    *out_key = (qp_str){key, n};
    return QP_OK;
}

int view_skipped(struct arena *a, const struct graph *g, qp_str digits, qp_str *out_json)
{
    struct buf out;
    struct json_writer w;
    size_t count = 0;
    int rc;
    buf_init(&out, a->env, LIMIT_PAYLOAD_SIZE);
    json_writer_init(&w, &out);
    json_begin_array(&w);
    for (size_t i = 0; i < g->activity_count; i++) {
        const struct activity *x = &g->activities[i];
        if (x->type != ACTIVITY_GATE && digits.p[x->digit] == DIGIT_SKIPPED) {
            json_put_str(&w, x->id);
            count++;
        }
    }
    json_end_array(&w);
    rc = json_writer_done(&w);
    if (rc == QP_OK && count > 0 && !arena_copy(a, buf_slice(&out), out_json)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&out);
    return rc;
}

/* --------------------------------------------------------------------------------------- composition */

struct composing {
    struct arena *arena;
    struct store *store;
    struct library *library;
    struct buf *out;
    int64_t jobs;
    struct qp_err *err;
};

struct child_search {
    struct arena *arena;
    qp_str addr;
    const struct job_row *found;
};

/* The last one that the activity has called. */
static int see_child(void *context, const void *row)
{
    struct child_search *search = context;
    const struct job_row *job = row;
    if (str_equal(job->parent_addr, search->addr) &&
        (search->found == NULL || job->job > search->found->job)) {
        search->found = row_copy(search->arena, TABLE_job, job);
        return search->found == NULL ? QP_E_NOMEM : QP_OK;
    }
    return QP_OK;
}

static int find_child(struct arena *a, struct store *s, const struct job_row *job, qp_str addr,
                      const struct job_row **out_child, struct qp_err *err)
{
    struct child_search search = {.arena = a, .addr = addr};
    struct job_row prefix = {.ns = job->ns, .parent_job = job->job};
    struct scan scan = {.table = TABLE_job,
                        .index = INDEX_job_parent,
                        .prefix = &prefix,
                        .prefix_count = 2,
                        .limit = SIZE_MAX,
                        .slim = true};
    int rc = store_scan(s, &scan, &search, see_child, err);
    *out_child = search.found;
    return rc;
}

/* The job of the id that its first call has made, if that is one: found by key, so that of many awaits none reads all
 * called jobs. */
static int find_first_child(struct arena *a, struct store *s, const struct act_row *act,
                            const struct job_row **out_child, struct qp_err *err)
{
    char text[UUID_TEXT_SIZE];
    struct job_name_row name = {.ns = act->ns, .jid = {text, sizeof text}};
    struct job_row key = {.ns = act->ns};
    const void *row = NULL;
    const struct job_row *job;
    int rc;
    call_made_id(act, QP_STR("call"), text);
    rc = store_get(s, a, TABLE_job_name, &name, &row, err);
    if (rc != QP_OK) {
        return rc == QP_E_NOT_FOUND ? QP_OK : rc;
    }
    key.job = ((const struct job_name_row *)row)->job;
    rc = store_get(s, a, TABLE_job, &key, &row, err);
    if (rc != QP_OK) {
        return rc == QP_E_NOT_FOUND ? QP_OK : rc;
    }
    job = row;
    *out_child = job->parent_job == act->job && str_equal(job->parent_addr, act->addr) ? job : NULL;
    return QP_OK;
}

int view_child(struct arena *a, struct store *s, const struct job_row *job,
               const struct act_row *act, qp_str *out_id, struct qp_err *err)
{
    const struct job_row *child = NULL;
    if (act->attempt == 0) {
        QP_TRY(find_first_child(a, s, act, &child, err));
    }
    if (child == NULL) {
        QP_TRY(find_child(a, s, job, act->addr, &child, err));
    }
    *out_id = child == NULL ? QP_NONE : child->jid;
    return QP_OK;
}

static int compose(struct composing *c, const struct job_row *job, int depth);

static int compose_child(struct composing *c, const struct job_row *job, const struct sight *seen,
                         int depth)
{
    const struct job_row *child = NULL;
    int rc = seen->act == NULL
                 ? QP_OK
                 : find_child(c->arena, c->store, job, seen->act->addr, &child, c->err);
    if (rc != QP_OK || child == NULL || child->kind != job->kind ||
        depth == LIMIT_COMPOSITION_DEPTH || ++c->jobs > LIMIT_COMPOSITION_JOBS) {
        return rc;
    }
    buf_byte(c->out, '1');
    rc = compose(c, child, depth + 1);
    buf_byte(c->out, '2');
    return rc;
}

/* Which activity a digit is of. */
static const struct activity *at_digit(const struct graph *g, size_t digit)
{
    size_t i = 0;
    while (g->activities[i].type == ACTIVITY_GATE || g->activities[i].digit != digit) {
        i++;
    }
    return &g->activities[i];
}

static int compose(struct composing *c, const struct job_row *job, int depth)
{
    struct between between = {c->store, c->arena};
    struct row_reader reader = reader_between(&between);
    const struct app *app = NULL;
    const struct graph *g = NULL;
    struct viewing v;
    qp_str digits;
    int rc = library_pin(c->library, &reader, job->ns, job->version, &app);
    if (rc != QP_OK) {
        return rc;
    }
    g = app_graph(app, job->workflow);
    rc = g == NULL ? QP_E_UNSUPPORTED : look(&v, c->arena, c->store, g, job, c->err);
    rc = rc == QP_OK ? put_digits(&v, &digits) : rc;
    for (size_t i = 0; rc == QP_OK && i < digits.n; i++) {
        const struct activity *x = at_digit(g, i);
        buf_byte(c->out, digits.p[i]);
        if (x->type == ACTIVITY_AWAIT) {
            rc = compose_child(c, job, &v.sights[x->index], depth);
        }
    }
    library_unpin(c->library, app);
    return rc;
}

int view_composition(struct arena *a, struct store *s, struct library *l, const struct job_row *job,
                     qp_str *out_key, struct qp_err *err)
{
    struct buf out;
    struct composing c = {.arena = a, .store = s, .library = l, .out = &out, .err = err};
    int rc;
    buf_init(&out, a->env, LIMIT_PAYLOAD_SIZE);
    rc = compose(&c, job, 0);
    rc = rc == QP_OK ? buf_rc(&out) : rc;
    rc = rc == QP_OK && !arena_copy(a, buf_slice(&out), out_key) ? QP_E_NOMEM : rc;
    buf_done(&out);
    return rc;
}
