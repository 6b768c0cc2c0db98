/* state.c - what an activity can see: its own rows, its ancestors', those that it came together with (see action.h)
 *
 * An ancestor is a dominator: the reader's address has its plane in it. Its row is found at once; which of its
 * GUIDs is meant follows from who spawned whom, and is looked for only when there is more than one. What is no ancestor
 * lies in a branch that a join has ended: it is reached from the last common ancestor down, at every generation
 * in the latest plane.
 */
#include <math.h>
#include <stdio.h>

#include "base/json.h"
#include "base/time.h"
#include "graph/action.h"
#include "graph/start.h"
#include "graph/view.h"
#include "store/error.h"

/* An activity as it ran. */
struct instance {
    const struct act_row *act; /* NULL: it did not */
    struct guid_row guid;
    bool has_guid;
};

/* ---------------------------------------------------------------------------------- finding others */

static bool is_ancestor(const struct activity *x, const struct activity *reader)
{
    const struct activity *a = reader->dominator;
    while (a != NULL && a != x && a->depth > x->depth) {
        a = a->dominator;
    }
    return a == x;
}

/* The number of one segment of an address, from 1. */
static int64_t segment(qp_str dad, int64_t which)
{
    int64_t number = 0;
    int64_t at = 0;
    for (size_t i = 0; i < dad.n && at <= which; i++) {
        if (dad.p[i] == ',') {
            at++;
        } else if (at == which) {
            number = number * 10 + (dad.p[i] - '0');
        }
    }
    return number;
}

static int act_at(struct action *s, const struct activity *x, qp_str dad, qp_str *out_addr,
                  const struct act_row **out_act)
{
    int rc =
        x->type == ACTIVITY_TRIGGER ? QP_OK : address_make(action_arena(s), x->id, dad, out_addr);
    if (x->type == ACTIVITY_TRIGGER) {
        *out_addr = TRIGGER_ADDRESS;
    }
    return rc == QP_OK ? turn_act(s->turn, *out_addr, out_act) : rc;
}

static int guid_at(struct action *s, qp_str addr, qp_str guid, struct instance *out)
{
    struct guid_row key = {
        .ns = s->turn->site.ref.ns, .job = s->turn->site.ref.job, .addr = addr, .guid = guid};
    return bundle_guid(s->turn->bundle, &key, &out->guid, &out->has_guid);
}

/* Who spawned an instance: the activity, its address, its GUID. A gate's input says who came first (advance.c). */
struct kin {
    const struct activity *activity;
    qp_str addr;
    qp_str parent_guid;
};

static int kin_parent(struct action *s, struct kin *k, const struct act_row *act)
{
    qp_str dad = address_split(k->addr).dad;
    qp_str up;
    int rc;
    if (k->activity->type == ACTIVITY_GATE) {
        QP_ASSERT(act != NULL && act->input.n > 1);
        k->addr = (qp_str){act->input.p + 1, act->input.n - 1};
        k->activity = str_equal(k->addr, TRIGGER_ADDRESS)
                          ? s->graph->trigger
                          : graph_activity(s->graph, address_split(k->addr).name);
        return k->activity == NULL ? QP_E_UNSUPPORTED : QP_OK;
    }
    k->activity = k->activity->parent;
    rc = dad_ancestor(action_arena(s), dad, k->activity->depth, &up);
    if (rc == QP_OK && k->activity->type == ACTIVITY_TRIGGER) {
        k->addr = TRIGGER_ADDRESS;
        return QP_OK;
    }
    return rc == QP_OK ? address_make(action_arena(s), k->activity->id, up, &k->addr) : rc;
}

/* From the reader up, parent by parent, to the ancestor: the GUID that it descends from. */
static int guid_of_ancestor(struct action *s, const struct activity *x, struct instance *out)
{
    struct turn *t = s->turn;
    const struct act_row *act = t->act;
    struct kin k = {s->activity, t->site.addr, act != NULL ? act->parent_guid : t->parent_guid};
    while (k.activity != x && k.activity->depth > 0) {
        qp_str guid = k.parent_guid;
        int rc = kin_parent(s, &k, act);
        if (rc == QP_OK && k.activity == x) {
            return guid_at(s, k.addr, guid, out);
        }
        rc = rc == QP_OK ? turn_act(t, k.addr, &act) : rc;
        if (rc != QP_OK || act == NULL) {
            return rc;
        }
        k.parent_guid = act->parent_guid;
    }
    return QP_OK;
}

static int find_ancestor(struct action *s, const struct activity *x, struct instance *out)
{
    qp_str dad;
    qp_str addr;
    int rc = dad_ancestor(action_arena(s), s->turn->at.dad, x->depth, &dad);
    rc = rc == QP_OK ? act_at(s, x, dad, &addr, &out->act) : rc;
    if (rc != QP_OK || out->act == NULL) {
        return rc;
    }
    out->has_guid = act_first_guid(out->act, &out->guid);
    if (out->act->guid_rows == 0 ||
        (out->has_guid && step_dimension(out->guid.ledger) == segment(s->turn->at.dad, x->depth))) {
        return QP_OK;
    }
    return guid_of_ancestor(s, x, out);
}

/* The last entry that has brought something: one that came when another had ended the wait has its number, and no
 * more. */
static void take_later(struct instance *out, const struct guid_row *g)
{
    if (step_next(g->ledger) != STEP_WORK &&
        (!out->has_guid || step_dimension(g->ledger) >= step_dimension(out->guid.ledger))) {
        out->guid = *g;
        out->has_guid = true;
    }
}

static int latest_guid(struct action *s, struct instance *out)
{
    struct guid_row prefix = {.ns = out->act->ns, .job = out->act->job, .addr = out->act->addr};
    struct guid_row first;
    struct scan scan = {.table = TABLE_guid,
                        .index = -1,
                        .prefix = &prefix,
                        .prefix_count = 3,
                        .limit = LIMIT_PAGE_ROWS};
    struct bundle_rows rows = {0};
    int rc = QP_OK;
    out->has_guid = false;
    if (act_first_guid(out->act, &first)) {
        take_later(out, &first);
    }
    if (out->act->guid_rows == 0) {
        return QP_OK;
    }
    do {
        rc = bundle_scan(s->turn->bundle, &scan, &rows);
        for (size_t i = 0; i < rows.count && rc == QP_OK; i++) {
            take_later(out, rows.rows[i]);
            scan.after = rows.rows[i];
        }
    } while (rc == QP_OK && (rows.cut || rows.count == scan.limit));
    return rc;
}

static int64_t latest_plane(const struct instance *in)
{
    return in->has_guid ? step_dimension(in->guid.ledger) : 0;
}

/* Down from the common ancestor, generation by generation; `line` are the dominators of x below it, x first. */
static int find_beside(struct action *s, const struct activity *x, struct instance *out)
{
    const struct activity *line[LIMIT_GRAPH_DEPTH];
    const struct activity *common = x;
    size_t n = 0;
    qp_str dad;
    qp_str addr;
    int rc;
    while (common != s->activity && !is_ancestor(common, s->activity)) {
        QP_ASSERT(n < LIMIT_GRAPH_DEPTH && common->dominator != NULL);
        line[n++] = common;
        common = common->dominator;
    }
    rc = dad_ancestor(
        action_arena(s), s->turn->at.dad,
        common->depth + 1 <= s->activity->depth ? common->depth + 1 : s->activity->depth, &dad);
    while (rc == QP_OK && n > 0) {
        rc = act_at(s, line[--n], dad, &addr, &out->act);
        if (rc != QP_OK || out->act == NULL) {
            return rc;
        }
        rc = latest_guid(s, out);
        rc = rc == QP_OK && n > 0 ? dad_plane(action_arena(s), dad, latest_plane(out), &dad) : rc;
        rc = rc == QP_OK && n > 0 ? dad_below(action_arena(s), dad, &dad) : rc;
    }
    return rc;
}

static int find_self(struct action *s, struct instance *out)
{
    out->act = s->turn->act;
    out->guid = s->turn->guid;
    out->has_guid = s->turn->has_guid;
    return QP_OK;
}

static int find_instance(struct action *s, const struct activity *x, struct instance *out)
{
    *out = (struct instance){0};
    if (x == s->activity) {
        return find_self(s, out);
    }
    return is_ancestor(x, s->activity) ? find_ancestor(s, x, out) : find_beside(s, x, out);
}

/* ----------------------------------------------------------------------------------------- metadata */

static struct value text_value(qp_str text)
{
    return (struct value){.kind = str_is_none(text) ? VALUE_UNDEFINED : VALUE_STRING, .text = text};
}

static struct value integer_value(int64_t number)
{
    return (struct value){.kind = VALUE_INT, .integer = number};
}

static struct value time_value(struct arena *a, qp_ms at)
{
    char text[RFC3339_SIZE];
    qp_str copy;
    rfc3339_format(at, text);
    return arena_copy(a, str_from(text), &copy) ? text_value(copy)
                                                : (struct value){.kind = VALUE_UNDEFINED};
}

/* Hooks with an output of their own keep two things: {"hook":what came,"output":what was made of it}. */
static bool has_envelope(const struct activity *x)
{
    return x->type == ACTIVITY_HOOK && x->output != NULL;
}

/* What an answer of code >= 400 has brought: a hook that keeps two things keeps it as what came. */
static qp_str failure_of(const struct activity *x, qp_str output)
{
    qp_str hook = QP_STR("hook");
    struct value came = has_envelope(x) ? value_at(output, &hook, 1) : value_raw(output);
    return came.kind == VALUE_RAW ? came.text : has_envelope(x) ? output : QP_NONE;
}

static int error_of(struct action *s, const struct activity *x, const struct instance *in,
                    qp_str *out_error)
{
    struct error e = {.code = in->guid.code,
                      .message = QP_STR("its answer has the code of an error, and no reason"),
                      .addr = in->act->addr,
                      .activity = x->id};
    return error_shape(action_arena(s), failure_of(x, in->guid.output), &e, out_error);
}

int action_failure(struct action *s, qp_str *out_error)
{
    struct instance self;
    int rc = find_self(s, &self);
    return rc == QP_OK ? error_of(s, s->activity, &self, out_error) : rc;
}

/* How often it was tried: those that failed, and the one that did not, or is under way. */
static int64_t attempts_of(const struct instance *in)
{
    bool failed = in->has_guid && in->guid.code >= 400 && in->act->attempt > 0;
    return in->act->attempt + (failed ? 0 : 1);
}

static struct value dad_value(struct arena *a, const struct instance *in)
{
    char dad[DAD_TEXT_SIZE];
    qp_str copy;
    view_dad(in->act, in->has_guid ? &in->guid : NULL, dad);
    return arena_copy(a, str_from(dad), &copy) ? text_value(copy)
                                               : (struct value){.kind = VALUE_UNDEFINED};
}

/* {act.output.metadata.x}, which has a name (mapping.c); docs/mapping.md lists them */
static int act_metadata(struct action *s, const struct activity *x, const struct instance *in,
                        const struct reference *r, struct value *out_value)
{
    int64_t code = in->has_guid ? in->guid.code : 0;
    bool wants_error = code >= 400 && str_equal(r->path[0], QP_STR("err"));
    qp_str error = QP_NONE;
    int rc = wants_error ? error_of(s, x, in, &error) : QP_OK;
    struct {
        const char *name;
        struct value value;
    } all[] = {
        {"aid", text_value(x->id)},
        {"dad", dad_value(action_arena(s), in)},
        {"code", integer_value(code == 0 ? 200 : code)},
        {"err", value_raw(error)},
        {"jid", text_value(s->turn->job->jid)},
        {"attempt", integer_value(attempts_of(in))},
        {"ac", time_value(action_arena(s), in->act->at)},
        {"au", time_value(action_arena(s), in->has_guid ? in->guid.at : in->act->at)},
    };
    *out_value = (struct value){.kind = VALUE_UNDEFINED};
    for (size_t i = 0; i < ARRAY_COUNT(all) && rc == QP_OK; i++) {
        if (str_equal(str_from(all[i].name), r->path[0])) {
            *out_value =
                value_inside(&all[i].value, r->path + 1, r->path_count - 1, &s->scope.looked);
        }
    }
    return rc;
}

/* {$job.metadata.x} */
static struct value job_metadata(struct action *s, const struct reference *r)
{
    const struct job_row *job = s->turn->job;
    struct {
        const char *name;
        struct value value;
    } all[] = {
        {"jid", text_value(job->jid)},
        {"app", text_value(s->graph->app->id)},
        {"vrs", text_value(s->graph->app->version)},
        {"tpc", text_value(job->workflow)},
        {"js", integer_value(job->sem)},
        {"jc", time_value(action_arena(s), job->created_at)},
        {"ju", time_value(action_arena(s), job->updated_at)},
        {"gid", integer_value(job->job)},
    };
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        if (str_equal(str_from(all[i].name), r->path[0])) {
            return value_inside(&all[i].value, r->path + 1, r->path_count - 1, &s->scope.looked);
        }
    }
    return (struct value){.kind = VALUE_UNDEFINED};
}

/* ---------------------------------------------------------------------------------------- references */

static struct value at_path(qp_str json, const struct reference *r, const char *before)
{
    qp_str path[LIMIT_JSON_DEPTH + 1];
    size_t n = 0;
    if (before != NULL) {
        path[n++] = str_from(before);
    }
    for (size_t i = 0; i < r->path_count && n < ARRAY_COUNT(path); i++) {
        path[n++] = r->path[i];
    }
    return value_at(json, path, n);
}

static qp_str output_of(const struct activity *x, const struct instance *in)
{
    if (x->type == ACTIVITY_TRIGGER && (!in->has_guid || str_is_none(in->guid.output))) {
        return in->act->input;
    }
    return in->has_guid ? in->guid.output : QP_NONE;
}

static int find_part(struct action *s, const struct reference *r, const struct activity *x,
                     struct value *out_value)
{
    struct instance in;
    int rc = find_instance(s, x, &in);
    bool self = x == s->activity && s->has_self;
    qp_str output;
    *out_value = (struct value){.kind = VALUE_UNDEFINED};
    if (rc != QP_OK || in.act == NULL) {
        return rc;
    }
    output = self ? s->self_output : output_of(x, &in);
    switch (r->part) {
    case PART_INPUT_DATA:
        *out_value = at_path(in.act->input, r, NULL);
        break;
    case PART_OUTPUT_METADATA:
        return act_metadata(s, x, &in, r, out_value);
    case PART_HOOK_DATA:
        *out_value = at_path(output, r, has_envelope(x) && !self ? "hook" : NULL);
        break;
    default:
        *out_value = at_path(output, r, has_envelope(x) && !self ? "output" : NULL);
        break;
    }
    return QP_OK;
}

static int find_job_data(struct action *s, const struct reference *r, struct value *out_value)
{
    const struct data_row *row = NULL;
    qp_str text = QP_NONE;
    size_t index;
    int rc;
    *out_value = (struct value){.kind = VALUE_UNDEFINED};
    if (r->path_count == 0) {
        rc = action_job_data(s->turn, s->graph, &text);
        *out_value = value_raw(text);
        return rc;
    }
    index = graph_job_key(s->graph, r->path[0]);
    if (index == s->graph->job_key_count) {
        return QP_OK;
    }
    rc = job_shelf(s->turn, index / JOB_SHELF_KEYS, &text, &row);
    if (rc == QP_OK && row != NULL) {
        *out_value = value_at(row->value, r->path, r->path_count);
    }
    return rc;
}

static int find(void *context, const struct reference *r, struct value *out_value)
{
    struct action *s = context;
    if (r->root == ROOT_JOB) {
        if (r->part == PART_JOB_DATA) {
            return find_job_data(s, r, out_value);
        }
        *out_value = job_metadata(s, r);
        return QP_OK;
    }
    return find_part(s, r, r->root == ROOT_SELF ? s->activity : r->target, out_value);
}

int action_init(struct action *s, struct turn *t)
{
    struct row_reader reader;
    const struct app *app = NULL;
    int rc;
    *s = (struct action){.turn = t, .library = t->program->context};
    action_reader(t, &reader);
    rc = library_app(s->library, &reader, t->job->ns, t->job->version, &app);
    if (rc != QP_OK) {
        return rc == QP_E_NOT_FOUND || rc == QP_E_INVALID ? QP_E_UNSUPPORTED : rc;
    }
    s->graph = app_graph(app, t->job->workflow);
    if (s->graph != NULL) {
        s->activity = str_equal(t->site.addr, TRIGGER_ADDRESS)
                          ? s->graph->trigger
                          : graph_activity(s->graph, t->at.name);
    }
    s->scope = (struct scope){.context = s,
                              .find = find,
                              .arena = turn_arena(t),
                              .env = store_env(t->bundle->commit->store),
                              .now = bundle_now(t->bundle)};
    return s->activity == NULL ? QP_E_UNSUPPORTED : QP_OK;
}

struct arena *action_arena(struct action *s)
{
    return turn_arena(s->turn);
}

void action_reader(struct turn *t, struct row_reader *out_reader)
{
    *out_reader = reader_in(t->bundle);
}

/* -------------------------------------------------------------------------------------------- values */

bool is_broken(int rc)
{
    return rc == QP_E_LIMIT || rc == QP_E_TOO_LARGE || rc == QP_E_INVALID;
}

int action_value(struct action *s, const struct mapping *m, struct value *out_value)
{
    *out_value = (struct value){.kind = VALUE_UNDEFINED};
    if (m == NULL) {
        return QP_OK;
    }
    s->scope.steps = 0;
    return mapping_evaluate(m, &s->scope, out_value);
}

/* In the turn's memory. */
static int keep(struct action *s, const struct value *v, qp_str *out_json)
{
    struct buf out;
    int rc;
    buf_init(&out, s->scope.env, LIMIT_PAYLOAD_SIZE);
    rc = value_write(&out, v);
    s->too_large = rc == QP_E_TOO_LARGE ? LIMIT_PAYLOAD_SIZE : 0;
    if (rc == QP_OK && !arena_copy(action_arena(s), buf_slice(&out), out_json)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&out);
    return rc;
}

int action_json(struct action *s, const struct mapping *m, qp_str *out_json)
{
    struct value v;
    int rc = action_value(s, m, &v);
    *out_json = QP_NONE;
    if (rc != QP_OK || v.kind == VALUE_UNDEFINED) {
        return rc;
    }
    return keep(s, &v, out_json);
}

int action_text(struct action *s, const struct mapping *m, qp_str *out_text)
{
    struct value v;
    int rc = action_value(s, m, &v);
    rc = rc == QP_OK ? value_open(action_arena(s), &v) : rc;
    if (rc != QP_OK || !value_as_text(action_arena(s), &v, out_text)) {
        *out_text = QP_NONE;
    }
    return rc;
}

int action_topic(struct action *s, const struct mapping *m, qp_str *out_topic)
{
    int rc = action_text(s, m, out_topic);
    return rc == QP_OK ? topic_check(*out_topic, NULL) : rc;
}

int action_truth(struct action *s, const struct mapping *m, bool otherwise, bool *out_truth)
{
    struct value v;
    int rc = action_value(s, m, &v);
    rc = rc == QP_OK ? value_open(action_arena(s), &v) : rc;
    *out_truth = rc == QP_OK && v.kind == VALUE_BOOL ? v.truth : otherwise;
    return rc;
}

int action_number(struct action *s, const struct mapping *m, double *out_number)
{
    struct value v;
    int rc = action_value(s, m, &v);
    rc = rc == QP_OK ? value_open(action_arena(s), &v) : rc;
    if (rc != QP_OK || !value_as_number(&v, out_number)) {
        *out_number = NAN;
    }
    return rc;
}

static int match_holds(struct action *s, const struct match *m, bool *out_holds)
{
    struct value expected;
    struct value actual;
    int rc = action_value(s, m->expected, &expected);
    rc = rc == QP_OK ? action_value(s, m->actual, &actual) : rc;
    return rc == QP_OK ? value_same(action_arena(s), &expected, &actual, out_holds) : rc;
}

int action_matches(struct action *s, const struct match *matches, size_t count, bool any,
                   bool *out_hold)
{
    bool holds = !any;
    int rc = QP_OK;
    *out_hold = count == 0 || !any;
    for (size_t i = 0; i < count && rc == QP_OK; i++) {
        rc = match_holds(s, &matches[i], &holds);
        if (rc == QP_OK && holds == any) {
            *out_hold = any;
            return QP_OK;
        }
    }
    return rc;
}

int action_error(struct action *s, int64_t code, const char *why, qp_str *out_json)
{
    struct error e = {.code = code,
                      .message = str_from(why),
                      .addr = s->turn->site.addr,
                      .activity = s->activity->id};
    return error_write(action_arena(s), &e, out_json);
}

/* ---------------------------------------------------------------------------------------------- keys */

/* The text of one value, or the JSON of all. */
static int key_text(struct arena *a, const struct qp_env *env, struct value *values, size_t count,
                    qp_str *out_key)
{
    struct value *items[LIMIT_HOOK_MATCHES];
    struct value list = {.kind = VALUE_ARRAY, .count = count, .items = items};
    struct buf out;
    int rc = QP_OK;
    *out_key = QP_NONE;
    for (size_t i = 0; i < count && rc == QP_OK; i++) {
        rc = value_open(a, &values[i]);
        if (rc == QP_OK && (values[i].kind == VALUE_UNDEFINED || values[i].kind == VALUE_NULL)) {
            return QP_OK;
        }
        items[i] = &values[i];
    }
    if (rc != QP_OK || (count == 1 && value_as_text(a, &values[0], out_key))) {
        return rc;
    }
    buf_init(&out, env, LIMIT_PAYLOAD_SIZE);
    rc = value_write(&out, &list);
    if (rc == QP_OK && !arena_copy(a, buf_slice(&out), out_key)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&out);
    return rc;
}

static int key_of(struct scope *scope, const struct hook_rule *rule, bool expected, qp_str *out_key)
{
    struct value values[LIMIT_HOOK_MATCHES];
    int rc = QP_OK;
    QP_ASSERT(rule->match_count <= LIMIT_HOOK_MATCHES);
    for (size_t i = 0; i < rule->match_count && rc == QP_OK; i++) {
        const struct match *m = &rule->matches[i];
        scope->steps = 0;
        rc = mapping_evaluate(expected ? m->expected : m->actual, scope, &values[i]);
    }
    if (rc == QP_OK && rule->match_count == 0) {
        *out_key = QP_STR("*"); /* whoever waits there */
        return QP_OK;
    }
    rc = rc == QP_OK ? key_text(scope->arena, scope->env, values, rule->match_count, out_key) : rc;
    return rc == QP_OK && out_key->n > LIMIT_ID_SIZE ? QP_E_TOO_LARGE : rc;
}

int hook_key(struct action *s, const struct hook_rule *rule, bool expected, qp_str *out_key)
{
    return key_of(&s->scope, rule, expected, out_key);
}

int signal_key(struct arena *a, const struct qp_env *env, qp_ms now, const struct hook_rule *rule,
               qp_str payload, qp_str *out_key)
{
    struct lone_text given = {.json = payload, .is_payload = true};
    struct scope scope = {
        .context = &given, .find = find_in_text, .arena = a, .env = env, .now = now};
    return key_of(&scope, rule, false, out_key);
}

/* ---------------------------------------------------------------------------------- the job's data */

static int shelf_name(struct arena *a, size_t shelf, qp_str *out_name)
{
    char name[32];
    int n = snprintf(name, sizeof name, "d:%zu", shelf);
    QP_ASSERT(n > 0 && (size_t)n < sizeof name);
    return arena_copy(a, (qp_str){name, (size_t)n}, out_name) ? QP_OK : QP_E_NOMEM;
}

int job_shelf(struct turn *t, size_t shelf, qp_str *out_name, const struct data_row **out_row)
{
    int rc = shelf_name(turn_arena(t), shelf, out_name);
    return rc == QP_OK ? turn_data(t, *out_name, out_row) : rc;
}

/* The fields of an object's text, without its braces. */
static qp_str inside(qp_str object)
{
    return (qp_str){object.p + 1, object.n - 2};
}

/* What stands on one shelf goes to what is there. */
static int shelf_add(const struct row_reader *reader, struct data_row *key, struct buf *out)
{
    const void *row = NULL;
    int rc = reader->get(reader->context, TABLE_data, key, &row);
    if (rc == QP_OK && row != NULL && ((const struct data_row *)row)->value.n > 2) {
        buf_byte(out, out->n == 0 ? '{' : ',');
        buf_str(out, inside(((const struct data_row *)row)->value));
    }
    return rc;
}

int job_data(struct arena *a, const struct row_reader *reader, const struct graph *g,
             const struct job_row *job, qp_str *out_json)
{
    struct buf out;
    struct data_row key = {.ns = job->ns, .job = job->job};
    int rc = QP_OK;
    buf_init(&out, a->env, LIMIT_JOB_DATA_SIZE);
    *out_json = QP_NONE;
    for (size_t i = 0; i * JOB_SHELF_KEYS < g->job_key_count && rc == QP_OK; i++) {
        rc = shelf_name(a, i, &key.name);
        rc = rc == QP_OK ? shelf_add(reader, &key, &out) : rc;
    }
    rc = rc == QP_OK ? buf_rc(&out) : rc; /* no memory is not: no data */
    if (rc == QP_OK && out.n > 0) {
        buf_byte(&out, '}');
        rc = buf_rc(&out);
        rc = rc == QP_OK && !arena_copy(a, buf_slice(&out), out_json) ? QP_E_NOMEM : rc;
    }
    buf_done(&out);
    return rc;
}

int action_job_data(struct turn *t, const struct graph *g, qp_str *out_json)
{
    struct row_reader reader;
    action_reader(t, &reader);
    return job_data(turn_arena(t), &reader, g, t->job, out_json);
}
