/* advance.c - step 2: what an activity leaves in its job, and where the job goes on (see action.h)
 *
 *   I1  all that is chosen in one step commits in one: the job's data, children, arrivals at joins, the end
 *   I2  a gate hears of every way that leads to it exactly once per round: as an arrival, or as one that can come no
 *       more. graph.h says which ways a step ends (exits)
 *   I3  an error that no transition takes ends the job, through the one path of completion
 *
 * If we crash before the commit, nothing of it happened, and the GUID's ledger says that step 2 is to be done. If we
 * crash after it, all of it stands: children are rows or messages, and gates have counted.
 */
#include <stdio.h>
#include <stdlib.h>

#include "graph/action.h"
#include "graph/program.h"

/* --------------------------------------------------------------------------------- the job's data */

/* The object that a map makes, on top of the one that is there: nested maps go into nested objects, everything else
 * replaces. What is undefined is left as it was. */
static int merge(struct action *s, const struct mapping *m, struct value *onto);

static struct value *member_of(struct value *object, qp_str key)
{
    for (size_t i = 0; i < object->count; i++) {
        if (str_equal(object->members[i].key, key)) {
            return object->members[i].value;
        }
    }
    return NULL;
}

/* Room for twice as many members, so that n of them cost n. */
static int fields_grow(struct action *s, struct value *object)
{
    size_t capacity = 2 * object->count + 8;
    struct room *room = ARENA_NEW(action_arena(s), struct room);
    struct member *members = arena_alloc(action_arena(s), capacity * sizeof *members);
    if (room == NULL || members == NULL) {
        return QP_E_NOMEM;
    }
    if (object->count > 0) {
        memcpy(members, object->members, object->count * sizeof *members);
    }
    *room = (struct room){.used = object->count, .capacity = capacity};
    object->members = members;
    object->room = room;
    return QP_OK;
}

/* One member more than there are. */
static int member_add(struct action *s, struct value *object, qp_str key, struct value **out_value)
{
    const struct room *room = object->room;
    bool fits = room != NULL && room->used == object->count && room->used < room->capacity;
    int rc = fits ? QP_OK : fields_grow(s, object);
    *out_value = ARENA_NEW(action_arena(s), struct value);
    if (rc != QP_OK || *out_value == NULL) {
        return QP_E_NOMEM;
    }
    object->members[object->count++] = (struct member){key, *out_value};
    object->room->used = object->count;
    return QP_OK;
}

static int merge_entry(struct action *s, const struct mapping *m, qp_str key, struct value *object)
{
    struct value *there = member_of(object, key);
    struct value value = {.kind = VALUE_UNDEFINED};
    int rc = QP_OK;
    if (mapping_is_map(m)) {
        value = there != NULL ? *there : value;
        rc = merge(s, m, &value);
    } else {
        rc = action_value(s, m, &value);
    }
    if (rc != QP_OK || value.kind == VALUE_UNDEFINED) {
        return rc;
    }
    rc = there == NULL ? member_add(s, object, key, &there) : QP_OK;
    if (rc == QP_OK) {
        *there = value;
    }
    return rc;
}

static int merge(struct action *s, const struct mapping *m, struct value *onto)
{
    int rc = value_open(action_arena(s), onto);
    if (rc == QP_OK && onto->kind != VALUE_OBJECT) {
        *onto = (struct value){.kind = VALUE_OBJECT};
    }
    for (size_t i = 0; i < mapping_count(m) && rc == QP_OK; i++) {
        rc = merge_entry(s, mapping_entry(m, i), mapping_key(m, i), onto);
    }
    return rc;
}

static int write_json(struct action *s, const struct value *v, size_t limit, qp_str *out_json)
{
    struct buf out;
    int rc;
    buf_init(&out, s->scope.env, limit);
    rc = value_write(&out, v);
    s->too_large = rc == QP_E_TOO_LARGE ? limit : 0;
    if (rc == QP_OK && !arena_copy(action_arena(s), buf_slice(&out), out_json)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&out);
    return rc;
}

int action_merge(struct action *s, const struct mapping *m, qp_str base, qp_str *out_json)
{
    struct value object = value_raw(str_is_none(base) ? QP_STR("{}") : base);
    int rc = merge(s, m, &object);
    return rc == QP_OK ? write_json(s, &object, LIMIT_PAYLOAD_SIZE, out_json) : rc;
}

int action_output(struct action *s, qp_str brought, qp_str *out_output)
{
    int rc;
    *out_output = brought;
    if (s->activity->output == NULL) {
        return QP_OK;
    }
    s->has_self = true;
    s->self_output = brought;
    rc = action_merge(s, s->activity->output, brought, out_output);
    s->has_self = false;
    return rc;
}

/* A shelf as this step leaves it. */
struct shelf {
    bool used; /* the activity's map has some of its keys */
    qp_str name;
    qp_str json; /* none: as it was */
    int64_t grown;
};

/* The keys of one shelf that this activity's map has. `places` says of all its keys where they stand. */
static int shelve(struct action *s, const size_t *places, size_t number, struct shelf *shelf)
{
    const struct mapping *m = s->activity->job;
    const struct data_row *row = NULL;
    struct value object;
    int rc = job_shelf(s->turn, number, &shelf->name, &row);
    object = value_raw(row != NULL ? row->value : QP_STR("{}"));
    rc = rc == QP_OK ? value_open(action_arena(s), &object) : rc;
    for (size_t i = 0; i < mapping_count(m) && rc == QP_OK; i++) {
        if (places[i] == number) {
            rc = merge_entry(s, mapping_entry(m, i), mapping_key(m, i), &object);
        }
    }
    if (rc != QP_OK || object.count == 0) {
        return rc;
    }
    rc = write_json(s, &object, LIMIT_JOB_DATA_SIZE, &shelf->json);
    shelf->grown = (int64_t)shelf->json.n - (row != NULL ? (int64_t)row->value.n : 0);
    return rc;
}

/* At the job's end all shelves become one text. So where there are several, their size is counted, in a row of its own:
 * whoever would make it too much hears of it while the job can still fail. */
static int count_size(struct action *s, int64_t grown)
{
    const struct data_row *row = NULL;
    char text[24] = {0};
    qp_str json;
    int64_t size;
    int rc = turn_data(s->turn, JOB_SIZE, &row);
    if (rc != QP_OK || grown == 0) {
        return rc;
    }
    if (row != NULL && row->value.n < sizeof text) {
        memcpy(text, row->value.p, row->value.n);
    }
    size = strtoll(text, NULL, 10) + grown;
    if (size > LIMIT_JOB_DATA_SIZE) {
        s->too_large = LIMIT_JOB_DATA_SIZE;
        return QP_E_TOO_LARGE;
    }
    (void)snprintf(text, sizeof text, "%lld", (long long)size);
    return arena_copy(action_arena(s), str_from(text), &json)
               ? turn_data_put(s->turn, JOB_SIZE, json)
               : QP_E_NOMEM;
}

/* All that the map reads is read before anything of it is written: entries do not see each other. */
static int put_shelves(struct action *s, const size_t *places, struct shelf *shelves, size_t count)
{
    int64_t grown = 0;
    int rc = QP_OK;
    for (size_t i = 0; i < count && rc == QP_OK; i++) {
        rc = shelves[i].used ? shelve(s, places, i, &shelves[i]) : QP_OK;
        grown += shelves[i].grown;
    }
    rc = rc == QP_OK && count > 1 ? count_size(s, grown) : rc;
    for (size_t i = 0; i < count && rc == QP_OK; i++) {
        rc = str_is_none(shelves[i].json)
                 ? QP_OK
                 : turn_data_put(s->turn, shelves[i].name, shelves[i].json);
    }
    return rc;
}

static int put_job_data(struct action *s)
{
    const struct mapping *m = s->activity->job;
    size_t count = (s->graph->job_key_count + JOB_SHELF_KEYS - 1) / JOB_SHELF_KEYS;
    size_t *places;
    struct shelf *shelves;
    if (m == NULL || mapping_count(m) == 0) {
        return QP_OK;
    }
    places = arena_alloc(action_arena(s), mapping_count(m) * sizeof *places);
    shelves = arena_alloc(action_arena(s), count * sizeof *shelves);
    if (places == NULL || shelves == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < mapping_count(m); i++) {
        places[i] = graph_job_key(s->graph, mapping_key(m, i)) / JOB_SHELF_KEYS;
        QP_ASSERT(places[i] < count);
        shelves[places[i]].used = true;
    }
    return put_shelves(s, places, shelves, count);
}

/* ---------------------------------------------------------------------------------- joins and skips */

/* Where a gate is for whoever stands here: below its dominator's plane, which ours is or lies in. */
static int gate_address(struct action *s, const struct activity *gate, qp_str *out_addr)
{
    qp_str dad;
    int rc = turn_plane(s->turn, &dad);
    rc = rc == QP_OK ? dad_below(action_arena(s), dad, &dad) : rc;
    rc = rc == QP_OK ? dad_ancestor(action_arena(s), dad, gate->depth, &dad) : rc;
    return rc == QP_OK ? address_make(action_arena(s), gate->id, dad, out_addr) : rc;
}

/* The gate's input is whether who opens it brings something, and who that is: from there the way leads on up
 * (state.c). */
static int gate_input(struct action *s, bool live, qp_str *out_input)
{
    qp_str addr = s->turn->site.addr;
    char *p = arena_bytes(action_arena(s), addr.n + 1);
    if (p == NULL) {
        return QP_E_NOMEM;
    }
    p[0] = live ? 'L' : 'D';
    memcpy(p + 1, addr.p, addr.n);
    *out_input = (qp_str){p, addr.n + 1};
    return QP_OK;
}

static int arrive(struct action *s, const struct activity *gate, int64_t delta, bool live)
{
    struct arrival a = {.ways = gate->ways, .delta = delta, .live = live, .any = gate->any};
    int rc = gate_address(s, gate, &a.addr);
    rc = rc == QP_OK ? gate_input(s, live, &a.input) : rc;
    return rc == QP_OK ? turn_arrive(s->turn, &a) : rc;
}

/* Of every way out of what x dominates, one more is to come (+1), or none will (-1). */
static int exits_move(struct action *s, const struct activity *x, int sign)
{
    int rc = QP_OK;
    for (size_t i = 0; i < x->exit_count && rc == QP_OK; i++) {
        rc = arrive(s, x->exits[i].gate, sign * x->exits[i].ways, false);
    }
    return rc;
}

/* ------------------------------------------------------------------------------------- transitions */

static int take_way(struct action *s, const struct activity *to)
{
    int rc = QP_OK;
    if (to->gate != NULL) {
        return arrive(s, to->gate, -1, true);
    }
    if (to->type == ACTIVITY_CYCLE) {
        rc = exits_move(s, to->ancestor, +1);
    }
    return rc == QP_OK ? turn_child(s->turn, to->id, QP_NONE) : rc;
}

static int leave_way(struct action *s, const struct activity *to)
{
    return to->gate != NULL ? arrive(s, to->gate, -1, false) : exits_move(s, to, -1);
}

static bool has_code(const struct transition *way, int64_t code)
{
    bool found = way->always;
    for (size_t i = 0; i < way->code_count; i++) {
        found = found || way->codes[i] == code;
    }
    return found;
}

static int is_taken(struct action *s, const struct transition *way, int64_t code, bool *out_taken)
{
    *out_taken = has_code(way, code);
    return *out_taken ? action_matches(s, way->matches, way->match_count, way->any, out_taken)
                      : QP_OK;
}

/* What an answer means: a timer and a passthrough bring no code of their own. */
static int64_t code_of(const struct action *s)
{
    return s->turn->guid.code == 0 ? 200 : s->turn->guid.code;
}

/* Chosen before anything is done, since an error that nobody takes ends the job instead. */
static int choose(struct action *s, bool *out_taken, bool *out_any)
{
    const struct activity *x = s->activity;
    int rc = QP_OK;
    *out_any = false;
    for (size_t i = 0; i < x->transition_count && rc == QP_OK; i++) {
        rc = is_taken(s, &x->transitions[i], code_of(s), &out_taken[i]);
        *out_any = *out_any || out_taken[i];
    }
    return rc;
}

static int go(struct action *s, const bool *taken)
{
    const struct activity *x = s->activity;
    int rc = s->turn->guid.code == 202 ? exits_move(s, x, +1) : QP_OK;
    for (size_t i = 0; i < x->transition_count && rc == QP_OK; i++) {
        const struct activity *to = x->transitions[i].to;
        rc = taken[i] ? take_way(s, to) : leave_way(s, to);
    }
    return rc;
}

int advance_nowhere(struct action *s)
{
    const struct activity *x = s->activity;
    int rc = x->type == ACTIVITY_CYCLE ? exits_move(s, x->ancestor, -1) : QP_OK;
    for (size_t i = 0; i < x->transition_count && rc == QP_OK; i++) {
        rc = leave_way(s, x->transitions[i].to);
    }
    return rc;
}

int advance_gate(struct action *s, bool live)
{
    const struct activity *join = s->activity->joins;
    return live ? turn_child(s->turn, join->id, QP_NONE) : exits_move(s, join, -1);
}

/* ------------------------------------------------------------------------------------ emit, persist */

/* Asked before anything is written: what cannot be computed leaves nothing behind. */
struct tells {
    bool emit;
    bool persist;
};

static int what_to_tell(struct action *s, struct tells *out_tells)
{
    const struct activity *x = s->activity;
    QP_TRY(action_truth(s, x->emit, false, &out_tells->emit));
    return action_truth(s, x->persist, false, &out_tells->persist);
}

/* The activity of another graph that awaits this job; NULL: there is none. */
static int awaiting(struct action *s, const struct activity **out_activity)
{
    const struct job_row *job = s->turn->job;
    struct job_row key = {.ns = job->ns, .job = job->parent_job};
    const struct app *app = NULL;
    const struct graph *g;
    struct row_reader reader;
    const void *row = NULL;
    *out_activity = NULL;
    if (str_is_none(job->parent_guid)) {
        return QP_OK;
    }
    QP_TRY(bundle_get(s->turn->bundle, TABLE_job, &key, &row));
    if (row == NULL || ((const struct job_row *)row)->kind != GRAPH_KIND) {
        return QP_OK;
    }
    action_reader(s->turn, &reader);
    QP_TRY(library_app(s->library, &reader, job->ns, ((const struct job_row *)row)->version, &app));
    g = app_graph(app, ((const struct job_row *)row)->workflow);
    *out_activity = g == NULL ? NULL : graph_activity(g, address_split(job->parent_addr).name);
    return QP_OK;
}

/* Whether a transition takes an answer after which others will come: by its code, or because it takes every code. */
static bool takes_pending(const struct activity *x, bool by_name)
{
    for (size_t i = 0; x != NULL && i < x->transition_count; i++) {
        const struct transition *way = &x->transitions[i];
        if (by_name && way->always) {
            continue;
        }
        if (has_code(way, CODE_PENDING)) {
            return true;
        }
    }
    return false;
}

/* The activity that awaits this job gets an answer in between, code 202, and waits on. What persists is the whole answer when
 * no transition there asks for 202. */
static int tell_parent(struct action *s, const struct tells *tells, qp_str data)
{
    const struct activity *parent = NULL;
    QP_TRY(awaiting(s, &parent));
    if (takes_pending(parent, tells->persist)) {
        return turn_answer_parent_between(s->turn, data);
    }
    return tells->persist ? turn_answer_parent(s->turn, 200, data) : QP_OK;
}

static int publish(struct action *s, const struct tells *tells)
{
    qp_str data = QP_NONE;
    bool was_told = s->turn->act->kind == ACT_KEPT;
    if (was_told || (!tells->emit && !tells->persist)) {
        return QP_OK;
    }
    QP_TRY(bundle_run(s->turn->bundle)); /* the data with what this step has put there */
    QP_TRY(action_job_data(s->turn, s->graph, &data));
    QP_TRY(str_is_none(s->graph->publishes)
               ? turn_event(s->turn, EVENT_EMITTED, data)
               : turn_publish(s->turn, &(struct publication){.topic = s->graph->publishes,
                                                             .code = CODE_PENDING,
                                                             .data = data}));
    return tell_parent(s, tells, data);
}

static int advance_usual(struct action *s, const bool *taken)
{
    struct tells tells = {0};
    QP_TRY(what_to_tell(s, &tells));
    QP_TRY(put_job_data(s));
    QP_TRY(publish(s, &tells));
    return go(s, taken);
}

/* An error that no transition takes ends the job. */
static int fail(struct action *s)
{
    qp_str error;
    QP_TRY(action_failure(s, &error));
    turn_fail(s->turn, JOB_FAILED, error);
    return QP_OK;
}

int advance_broken(struct action *s)
{
    bool *taken = arena_alloc(action_arena(s), s->activity->transition_count + 1);
    bool any = false;
    int rc = taken == NULL ? QP_E_NOMEM : choose(s, taken, &any);
    if (is_broken(rc)) {
        return fail(s); /* a condition of 422 cannot be computed either */
    }
    QP_TRY(rc);
    return any ? go(s, taken) : fail(s);
}

int advance(struct action *s, struct spawn *spawn)
{
    const struct activity *x = s->activity;
    bool *taken = arena_alloc(action_arena(s), x->transition_count + 1);
    bool any = false;
    int rc = taken == NULL ? QP_E_NOMEM : choose(s, taken, &any);
    (void)spawn;
    if (rc == QP_OK && code_of(s) >= 400 && !any) {
        return fail(s);
    }
    return rc == QP_OK ? advance_usual(s, taken) : rc;
}
