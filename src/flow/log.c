/* log.c - a flow's rows as the history that a decision sees (see log.h)
 *
 * All rows of the scan are those of events, in the order of their locations, then flow,0,0 and trigger,0: nothing else of
 * a flow's job has an address that sorts behind '@'.
 */
#include "flow/log.h"

#include "base/json.h"
#include "flow/flow.h"
#include "store/error.h"

/* While the rows are read. */
struct reading {
    struct arena *arena;
    struct flow_log *log;
    struct history_event *events;
    size_t capacity;
    size_t loop_count;
    bool has_flow;
    bool has_trigger;
    struct job_row job;
    struct log_page *page; /* NULL: all of it */
    struct qp_err *err;
};

#define FIRST_CAPACITY 32

static int grow(struct reading *r)
{
    size_t count = r->log->history.count;
    size_t capacity = r->capacity == 0 ? FIRST_CAPACITY : 2 * r->capacity;
    struct history_event *events;
    struct log_entry *entries;
    if (count < r->capacity) {
        return QP_OK;
    }
    events = arena_alloc(r->arena, capacity * sizeof *events);
    entries = arena_alloc(r->arena, capacity * sizeof *entries);
    if (events == NULL || entries == NULL) {
        return QP_E_NOMEM;
    }
    if (count > 0) {
        memcpy(events, r->events, count * sizeof *events);
        memcpy(entries, r->log->entries, count * sizeof *entries);
    }
    r->events = events;
    r->log->entries = entries;
    r->capacity = capacity;
    return QP_OK;
}

static int keep(struct reading *r, qp_str text, qp_str *out_copy)
{
    r->log->size += text.n;
    return arena_copy(r->arena, text, out_copy) ? QP_OK : QP_E_NOMEM;
}

/* ---------------------------------------------------------------------------------------- values */

/* What a run has brought: {"ok":..} or {"error":{"code",..}}. */
static void open_run(struct log_entry *e)
{
    struct raw_walk w = {.rest = e->input};
    e->output = QP_STR("null");
    if (str_is_none(e->input) || !raw_each(&w)) {
        return;
    }
    e->output = w.value;
    if (str_equal(w.key, QP_STR("error"))) {
        struct raw_walk in = {.rest = w.value};
        e->code = 500;
        while (raw_each(&in)) {
            if (str_equal(in.key, QP_STR("code"))) {
                e->code = (int64_t)real_parse(in.value);
            }
        }
    }
}

/* An event whose row is all of it. */
static void entry_born(struct log_entry *e, const struct act_row *act)
{
    e->done = act->seq;
    e->at = act->at;
    e->code = 200;
    e->output = QP_STR("null");
    if (act->kind == HISTORY_RUN) {
        open_run(e);
        e->input = QP_NONE;
    } else if (act->kind == HISTORY_SIGNALS) {
        e->output = e->input;
        e->input = QP_NONE;
    }
}

/* An event that is answered by its own message; it counts from step 2 on, which gives it its place. */
static int entry_answered(struct reading *r, struct log_entry *e, const struct act_row *act)
{
    if (act->guid_seq == 0) {
        return QP_OK;
    }
    e->done = act->guid_seq;
    e->at = act->guid_at;
    e->code = act->code == 0 ? 200 : act->code;
    e->output = QP_STR("null");
    return str_is_none(act->output) ? QP_OK : keep(r, act->output, &e->output);
}

/* An event that the cancel has ended: its answer is the cancel, whatever has come since. */
static int entry_cancelled(struct reading *r, struct log_entry *e, const struct act_row *act)
{
    e->cancelled = true;
    e->done = r->log->cancel.done;
    e->at = r->log->cancel.at;
    e->code = ERROR_CODE_CANCELLED;
    return flow_cancel_error(r->arena, act->addr, &e->output);
}

static int entry_fill(struct reading *r, struct log_entry *e, const struct act_row *act)
{
    *e = (struct log_entry){.n = act->seq, .entered_at = act->at, .attempt = act->attempt};
    QP_TRY(keep(r, act->input, &e->input));
    if (flow_is_born_complete(act)) {
        entry_born(e, act);
        return QP_OK;
    }
    e->shielded = flow_is_shielded(act->policy);
    if (flow_cancels(&r->job, act) && (act->guid_seq == 0 || act->guid_seq > r->log->cancel.done)) {
        return entry_cancelled(r, e, act);
    }
    return entry_answered(r, e, act);
}

/* ------------------------------------------------------------------------------------------ rows */

static int bad_row(struct reading *r, const struct act_row *act)
{
    return err_set(r->err, QP_E_INVALID, "activity '%.*s' is no event of a flow: kind %lld",
                   STR_ARG(act->addr), (long long)act->kind);
}

static int event_fill(struct reading *r, struct history_event *e, const struct act_row *act)
{
    qp_str key = {act->addr.p + 1, act->addr.n - 1};
    *e = (struct history_event){.version = act->version, .type = (enum history_type)act->kind};
    if (act->kind <= 0 || act->kind >= HISTORY_TYPES) {
        return bad_row(r, act);
    }
    if (e->type == HISTORY_REMOVED && !history_type_of(act->policy, &e->of)) {
        return bad_row(r, act);
    }
    r->loop_count += e->type == HISTORY_LOOP;
    return arena_copy(r->arena, key, &e->key) && arena_copy(r->arena, act->topic, &e->name)
               ? QP_OK
               : QP_E_NOMEM;
}

static int take_event(struct reading *r, const struct act_row *act)
{
    size_t at = r->log->history.count;
    if (at == LIMIT_FLOW_EVENTS) {
        return err_set(r->err, QP_E_LIMIT, "the history has more than %d events",
                       LIMIT_FLOW_EVENTS);
    }
    QP_TRY(grow(r));
    QP_TRY(event_fill(r, &r->events[at], act));
    QP_TRY(entry_fill(r, &r->log->entries[at], act));
    r->log->history.count++;
    return QP_OK;
}

/* QP_E_DONE ends the scan in front of an event for which the page has no room. */
static int page_has_room(const struct reading *r)
{
    if (r->page != NULL && (r->log->history.count == r->page->event_count ||
                            (r->log->history.count > 0 && r->log->size >= r->page->size))) {
        r->page->more = true;
        return QP_E_DONE;
    }
    return QP_OK;
}

/* A fork began when the first of its line did. */
static void copied_start(struct flow_log *log, qp_str flow_input)
{
    qp_str started = flow_member(flow_input, "started_at");
    log->started_at = str_is_none(started) ? log->started_at : (qp_ms)real_parse(started);
}

static int take_row(void *context, const void *row)
{
    struct reading *r = context;
    const struct act_row *act = row;
    if (flow_is_event(act->addr)) {
        QP_TRY(page_has_room(r));
        QP_TRY(take_event(r, act));
    } else if (str_equal(act->addr, FLOW_ADDRESS)) {
        r->log->base = act->base;
        r->log->seed = flow_seed(act->input);
        copied_start(r->log, act->input);
        r->has_flow = true;
    } else if (act->category == 'D') {
        QP_TRY(keep(r, act->input, &r->log->input));
        r->has_trigger = true;
    }
    return (int64_t)r->log->size <= LIMIT_FLOW_SIZE
               ? QP_OK
               : err_set(r->err, QP_E_LIMIT, "the history has more than %lld bytes",
                         (long long)LIMIT_FLOW_SIZE);
}

/* The address of an event, by its key. */
static int event_address(struct reading *r, const struct history_event *event, qp_str *out_addr)
{
    char *addr = arena_bytes(r->arena, event->key.n + 1);
    if (addr == NULL) {
        return QP_E_NOMEM;
    }
    addr[0] = LOCATION_MARK;
    memcpy(addr + 1, event->key.p, event->key.n);
    *out_addr = (qp_str){addr, event->key.n + 1};
    return QP_OK;
}

/* ----------------------------------------------------------------------------------------- loops */

static void loop_fill(struct log_entry *e, qp_str value)
{
    struct raw_walk w = {.rest = value};
    while (raw_each(&w)) {
        if (str_equal(w.key, QP_STR("iteration"))) {
            e->iteration = (int64_t)real_parse(w.value);
        } else if (str_equal(w.key, QP_STR("seen"))) {
            e->seen = (int64_t)real_parse(w.value);
        } else if (str_equal(w.key, QP_STR("state"))) {
            e->state = w.value;
        } else if (str_equal(w.key, QP_STR("properties"))) {
            e->properties = w.value;
        } else if (str_equal(w.key, QP_STR("output"))) {
            e->output = w.value;
            e->broken = true;
        }
    }
}

/* The names of loops' data stand together: QP_E_DONE ends the scan behind them. */
static int take_loop(void *context, const void *row)
{
    struct reading *r = context;
    const struct data_row *data = row;
    qp_str key;
    qp_str value;
    size_t at;
    if (!flow_loop_key(data->name, &key)) {
        return QP_E_DONE;
    }
    at = history_seek(&r->log->history, key);
    if (at == r->log->history.count || !str_equal(r->log->history.events[at].key, key)) {
        return err_set(r->err, QP_E_INVALID, "'%.*s' is the state of no loop", STR_ARG(data->name));
    }
    QP_TRY(keep(r, data->value, &value));
    loop_fill(&r->log->entries[at], value);
    return QP_OK;
}

static int read_loops(struct store *s, struct reading *r, struct job_ref ref)
{
    struct data_row first = {.ns = ref.ns, .job = ref.job, .name = QP_STR(FLOW_LOOP)};
    struct scan scan = {.table = TABLE_data,
                        .index = -1,
                        .prefix = &first,
                        .prefix_count = 2,
                        .after = &first,
                        .limit = LIMIT_FLOW_EVENTS};
    int rc = r->loop_count == 0 ? QP_OK : store_scan(s, &scan, r, take_loop, r->err);
    return rc == QP_E_DONE ? QP_OK : rc;
}

/* ------------------------------------------------------------------------------------------- all */

static int read_cancel(struct store *s, struct reading *r)
{
    struct data_row key = {.ns = r->job.ns, .job = r->job.job, .name = FLOW_CANCEL};
    struct log_cancel *cancel = &r->log->cancel;
    const void *row = NULL;
    qp_str value;
    qp_str loc;
    QP_TRY(store_get(s, r->arena, TABLE_data, &key, &row, r->err));
    value = ((const struct data_row *)row)->value;
    loc = flow_member(value, "thrown");
    *cancel = (struct log_cancel){.done = r->job.cancelled,
                                  .at = (qp_ms)real_parse(flow_member(value, "at")),
                                  .reason = flow_member(value, "reason")};
    return str_is_none(loc)
               ? QP_OK
               : location_parse((qp_str){loc.p + 1, loc.n - 2}, &cancel->thrown, r->err);
}

static int read_job(struct store *s, struct reading *r, struct job_ref ref)
{
    const void *row = NULL;
    const struct job_row *job;
    QP_TRY(store_get(s, r->arena, TABLE_job, &(struct job_row){.ns = ref.ns, .job = ref.job}, &row,
                     r->err));
    job = row;
    r->log->job = job->jid;
    r->log->workflow = job->workflow;
    r->log->started_at = job->created_at;
    r->job = *job;
    return job->cancelled == 0 ? QP_OK : read_cancel(s, r);
}

static int read_events(struct store *s, struct reading *r, struct job_ref ref)
{
    struct act_row first = {.ns = ref.ns, .job = ref.job, .addr = LOCATION_FIRST};
    struct scan scan = {.table = TABLE_act,
                        .index = -1,
                        .prefix = &first,
                        .prefix_count = 2,
                        .after = &first,
                        .limit = LIMIT_FLOW_EVENTS + 3};
    QP_TRY(store_scan(s, &scan, r, take_row, r->err));
    if (!r->has_flow || !r->has_trigger) {
        return err_set(r->err, QP_E_NOT_FOUND, "the flow has not begun");
    }
    return history_init(&r->log->history, r->events, r->log->history.count, r->err);
}

int log_read(struct store *s, struct arena *arena, struct job_ref ref, struct flow_log *out_log,
             struct qp_err *err)
{
    struct flow_log log = {0};
    struct reading r = {.arena = arena, .log = &log, .err = err};
    QP_TRY(read_job(s, &r, ref));
    QP_TRY(read_events(s, &r, ref));
    QP_TRY(read_loops(s, &r, ref));
    *out_log = log;
    return QP_OK;
}

/* ------------------------------------------------------------------------------------------ pages */

/* The rows that stand behind all events. */
static int read_row(struct store *s, struct reading *r, struct job_ref ref, qp_str addr)
{
    struct act_row key = {.ns = ref.ns, .job = ref.job, .addr = addr};
    const void *row = NULL;
    QP_TRY(store_get(s, r->arena, TABLE_act, &key, &row, r->err));
    return take_row(r, row);
}

static int read_page_events(struct store *s, struct reading *r, struct job_ref ref)
{
    struct act_row first = {.ns = ref.ns, .job = ref.job, .addr = r->page->after};
    struct scan scan = {.table = TABLE_act,
                        .index = -1,
                        .prefix = &first,
                        .prefix_count = 2,
                        .after = &first,
                        .limit = r->page->event_count + 1};
    int rc = store_scan(s, &scan, r, take_row, r->err);
    QP_TRY(rc == QP_E_DONE ? QP_OK : rc);
    return history_init(&r->log->history, r->events, r->log->history.count, r->err);
}

static int read_page_loops(struct store *s, struct reading *r, struct job_ref ref)
{
    for (size_t i = 0; i < r->log->history.count; i++) {
        struct data_row key = {.ns = ref.ns, .job = ref.job};
        const void *row = NULL;
        qp_str addr;
        if (r->events[i].type != HISTORY_LOOP) {
            continue;
        }
        QP_TRY(event_address(r, &r->events[i], &addr));
        QP_TRY(flow_loop_name(r->arena, addr, &key.name));
        QP_TRY(store_get(s, r->arena, TABLE_data, &key, &row, r->err));
        loop_fill(&r->log->entries[i], ((const struct data_row *)row)->value);
    }
    return QP_OK;
}

int log_read_page(struct store *s, struct arena *arena, struct job_ref ref, struct log_page *page,
                  struct flow_log *out_log, struct qp_err *err)
{
    struct flow_log log = {0};
    struct reading r = {.arena = arena, .log = &log, .page = page, .err = err};
    page->more = false;
    page->last = QP_NONE;
    QP_TRY(read_job(s, &r, ref));
    QP_TRY(read_page_events(s, &r, ref));
    QP_TRY(read_page_loops(s, &r, ref));
    QP_TRY(read_row(s, &r, ref, QP_STR("flow,0,0")));
    QP_TRY(read_row(s, &r, ref, QP_STR("trigger,0")));
    if (log.history.count > 0) {
        QP_TRY(event_address(&r, &r.events[log.history.count - 1], &page->last));
    }
    *out_log = log;
    return QP_OK;
}
