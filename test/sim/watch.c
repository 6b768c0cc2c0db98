/* watch.c - what must be true after every commit, and when all is over */
#include "sim/world.h"

#include <inttypes.h>
#include <stdio.h>

#include "agent/agent.h"
#include "agent/rules.h"
#include "carto/rows.h"
#include "flow/flow.h"
#include "flow/rules.h"
#include "kernel/check.h"
#include "kernel/face.h"
#include "kernel/step.h"
#include "store/feed.h"
#include "store/txn.h"

/* What the map of feed entries says of one. */
static char entry_written[] = "";
static char entry_read[] = "read";

/* -------------------------------------------------------------------------------------- what is known */

struct seen_job *watch_job(struct sim *s, qp_str jid)
{
    for (int i = 0; i < s->job_count; i++) {
        if (str_equal(str_from(s->jobs[i].jid), jid)) {
            return &s->jobs[i];
        }
    }
    return NULL;
}

void scene_outcome(const struct sim *s, const char *jid, struct scene_end *out_end)
{
    *out_end = (struct scene_end){0};
    for (int i = 0; i < s->job_count; i++) {
        if (strcmp(s->jobs[i].jid, jid) == 0) {
            *out_end = s->jobs[i].end;
        }
    }
    for (struct omap_node *n = omap_seek(&s->sink, QP_NONE); n != NULL; n = omap_next(n)) {
        const struct sink_key *key = omap_value(n);
        out_end->tasks += strcmp(key->jid, jid) == 0 && key->calls > 0;
    }
}

int64_t scene_job_number(struct sim *s, const char *jid)
{
    const struct seen_job *job = watch_job(s, str_from(jid));
    return job == NULL ? 0 : job->number;
}

struct sink_key *watch_sink(struct sim *s, qp_str jid, qp_str addr, qp_str guid)
{
    char name[LIMIT_ADDRESS_SIZE + 128];
    struct sink_key *key;
    int n = snprintf(name, sizeof name, "%.*s/%.*s/", STR_ARG(jid), STR_ARG(addr));
    for (size_t i = 0; i < guid.n; i++) {
        n += snprintf(name + n, sizeof name - (size_t)n, "%02x", (unsigned char)guid.p[i]);
    }
    key = omap_get(&s->sink, str_from(name));
    if (key == NULL) {
        key = mem_alloc(&s->env, sizeof *key);
        QP_ASSERT(key != NULL);
        (void)snprintf(key->jid, sizeof key->jid, "%.*s", STR_ARG(jid));
        QP_ASSERT(omap_put(&s->sink, str_from(name), key, NULL) == QP_OK);
    }
    return key;
}

static void job_written(struct sim *s, const struct job_row *before, const struct job_row *after)
{
    struct seen_job *job = watch_job(s, after->jid);
    int64_t completions = before == NULL ? 0 : before->completions;
    if (job == NULL) {
        if (s->job_count >= SIM_JOBS_MAX) {
            sim_bug("too many jobs");
        }
        job = &s->jobs[s->job_count++];
        *job = (struct seen_job){.number = after->job};
        (void)snprintf(job->jid, sizeof job->jid, "%.*s", STR_ARG(after->jid));
    }
    if (job->number != after->job) {
        sim_violate(s, "once", "%s was started twice", job->jid);
    }
    s->has_edge = s->has_edge || (after->completions == 0 && !str_is_none(after->closed_by) &&
                                  (before == NULL || str_is_none(before->closed_by)));
    if (after->completions > completions) {
        job->closed++;
        job->end.ended = true;
        job->end.state = (enum job_state)after->state;
        (void)snprintf(job->end.output, sizeof job->end.output, "%.*s", STR_ARG(after->output));
        sim_trace(s, "%s ends: %d %s", job->jid, job->end.state, job->end.output);
    }
    if (job->closed > 1 || after->completions > 1) {
        sim_violate(s, "once", "%s was completed twice", job->jid);
    }
}

static void feed_key(char out[64], const struct feed_entry *e)
{
    (void)snprintf(out, 64, "%" PRId64 "/%" PRId64, e->job, e->seq);
}

static void feed_written(struct sim *s, const struct feed_row *row)
{
    qp_str rest = row->entries;
    struct feed_entry e = {0};
    while (feed_read(&rest, &e)) {
        char key[64];
        feed_key(key, &e);
        if (omap_get(&s->feed, str_from(key)) != NULL) {
            sim_violate(s, "feed", "entry %s was written twice", key);
        }
        QP_ASSERT(omap_put(&s->feed, str_from(key), entry_written, NULL) == QP_OK);
    }
}

static void touch(struct sim *s, int64_t job)
{
    for (int i = 0; i < s->touched_count; i++) {
        if (s->touched[i] == job) {
            return;
        }
    }
    if (s->touched_count < SIM_JOBS_MAX) {
        s->touched[s->touched_count++] = job;
    }
}

/* By the clock that the commit had: the server's, or the head row's. */
static qp_ms time_of(const struct memory_provider *p)
{
    const struct model_world *w = p->base.env->context;
    qp_ms now = p->base.shared ? w->now_ms(w->context) : 0;
    for (const struct undo *u = p->undo; u != NULL; u = u->below) {
        if (u->table == TABLE_head && u->after != NULL) {
            const struct head_row *head = u->after;
            now = head->clock > now ? head->clock : now;
        }
    }
    return now;
}

static bool has_left_leg1(const struct act_row *act)
{
    return act != NULL && act->ledger / LEDGER_LEG1_DONE % 10 != 0;
}

static void act_written(struct sim *s, const struct act_row *before, const struct act_row *act)
{
    if (s->aged && act->category == 'B' && act->cyclic == CYCLIC_PIVOT && !s->has_new_pivot &&
        has_left_leg1(act) && !has_left_leg1(before)) {
        QP_ASSERT(act->addr.n <= sizeof s->new_pivot_addr);
        memcpy(s->new_pivot_addr, act->addr.p, act->addr.n);
        s->new_pivot = (struct act_row){
            .ns = act->ns, .job = act->job, .addr = {s->new_pivot_addr, act->addr.n}};
        s->has_new_pivot = true;
    }
}

static void timer_written(struct sim *s, const struct msg_row *before, const struct msg_row *after,
                          qp_ms now)
{
    if (before->state == MSG_DELAYED && after->state == MSG_READY && before->wake_at > now) {
        sim_violate(s, "time", "%.*s: a timer fired %lld ms before its time", STR_ARG(after->addr),
                    (long long)(before->wake_at - now));
    }
}

/* The token of its claim is the one that its result must show. */
static void task_written(struct sim *s, const struct msg_row *task)
{
    for (int i = 0; i < s->job_count; i++) {
        if (s->jobs[i].number == task->job) {
            watch_sink(s, str_from(s->jobs[i].jid), task->addr, task->guid)->token = task->token;
        }
    }
}

static void msg_written(struct sim *s, const struct msg_row *before, const struct msg_row *after,
                        qp_ms now)
{
    if (before != NULL) {
        timer_written(s, before, after, now);
    }
    if (after->kind == MESSAGE_TASK) {
        task_written(s, after);
    }
}

/* ------------------------------------------------------------------------------------------ versions */

static void version_written(struct sim *s, const struct app_row *before,
                            const struct app_row *after)
{
    struct version_event *e = &s->events[s->event_count];
    if (before != NULL && before->state == after->state) {
        return;
    }
    if (s->event_count >= SIM_EVENTS_MAX) {
        sim_bug("too many changes of versions");
    }
    (void)snprintf(e->version, sizeof e->version, "%.*s/%.*s", STR_ARG(after->app),
                   STR_ARG(after->version));
    e->state = after->state;
    s->event_count++;
}

/* The state of a version after so many events; DELETED: also when it is not there. */
static int64_t version_state(const struct sim *s, const char *version, int events)
{
    int64_t state = APP_DELETED;
    for (int i = 0; i < events; i++) {
        state = strcmp(s->events[i].version, version) == 0 ? s->events[i].state : state;
    }
    return state;
}

/* Whether the version was active when the start was sent first, or became so after that. */
static bool was_active_since(const struct sim *s, const char *version, int events)
{
    bool was = version_state(s, version, events) == APP_ACTIVE;
    for (int i = events; i < s->event_count; i++) {
        was =
            was || (s->events[i].state == APP_ACTIVE && strcmp(s->events[i].version, version) == 0);
    }
    return was;
}

static bool was_there_since(const struct sim *s, const char *version, int events)
{
    bool was = version_state(s, version, events) != APP_DELETED;
    for (int i = events; i < s->event_count; i++) {
        was = was ||
              (s->events[i].state != APP_DELETED && strcmp(s->events[i].version, version) == 0);
    }
    return was;
}

/* A job begins with what its name means, by what was committed before it was asked for; a fork with its own version,
 * unless that was deleted before. */
static void begun(struct sim *s, const struct job_row *job)
{
    char version[NAME_SIZE];
    if (job->kind == FLOW_KIND || job->kind == CARTO_KIND || job->kind == AGENT_KIND) {
        return; /* flows have no versions, those of traversals are imports, and an instance says its own */
    }
    (void)snprintf(version, sizeof version, "%.*s", STR_ARG(job->version));
    for (int i = 0; i < s->act_count; i++) {
        const struct act *a = &s->acts[i];
        if (a->kind != ACT_START || !str_equal(str_from(a->jid), job->jid)) {
            continue;
        }
        if (a->pinned[0] != '\0' && !was_there_since(s, version, a->events)) {
            sim_violate(s, "names", "%s began with '%s', which was deleted", a->jid, version);
        } else if (a->pinned[0] == '\0' && !was_active_since(s, version, a->events)) {
            sim_violate(s, "names", "%s began with '%s', which is not active any more", a->jid,
                        version[0] == '\0' ? "no version" : version);
        }
    }
}

/* Two runs of one seed write the same, to the last number. */
static void trace_row(struct sim *s, enum table_id table, const void *row)
{
    const struct table *t = &tables[table];
    for (size_t i = 0; row != NULL && i < t->column_count; i++) {
        const struct column *c = &t->columns[i];
        uint64_t value = c->kind == KIND_I64 ? (uint64_t)row_i64(c, row) : row_str(c, row).n;
        s->trace = (s->trace ^ value) * UINT64_C(0x100000001B3);
    }
}

static void row_written(struct sim *s, const struct undo *u, qp_ms now)
{
    const void *row = u->after != NULL ? u->after : u->before;
    s->trace = s->trace * UINT64_C(0x100000001B3) ^ (uint64_t)(u->table + 1);
    trace_row(s, u->table, u->after);
    if (row != NULL && tables[u->table].keyed_by_job) {
        touch(s, row_i64(&tables[u->table].columns[1], row));
    }
    if (u->table == TABLE_act && u->after != NULL) {
        act_written(s, u->before, u->after);
    } else if (u->table == TABLE_msg && u->after != NULL) {
        msg_written(s, u->before, u->after, now);
    } else if (u->table == TABLE_app && u->after != NULL) {
        version_written(s, u->before, u->after);
    } else if (u->table == TABLE_job && u->before == NULL && u->after != NULL &&
               s->scene->faces != NULL) {
        begun(s, u->after);
    } else if (u->table == TABLE_feed && u->before == NULL && u->after != NULL) {
        feed_written(s, u->after);
    }
}

/* In the order in which it was written; the list has the last first. */
static void rows_written(struct sim *s, const struct undo *u, qp_ms now)
{
    if (u != NULL) {
        rows_written(s, u->below, now);
        row_written(s, u, now);
    }
}

void watch_committing(struct sim *s, const struct memory_provider *p)
{
    s->touched_count = 0;
    s->has_edge = false;
    s->result->commits++;
    for (const struct undo *u = p->undo; u != NULL; u = u->below) {
        if (u->table == TABLE_job && u->after != NULL) {
            job_written(s, u->before, u->after);
        }
    }
    rows_written(s, p->undo, time_of(p));
}

/* --------------------------------------------------------------------------------- after every commit */

struct telling {
    struct sim *sim;
    const char *check;
    bool warnings;
};

static int tell(void *context, const struct qp_finding *f)
{
    const struct telling *t = context;
    if (f->severity == QP_SEVERITY_ERROR || t->warnings) {
        char name[32];
        (void)snprintf(name, sizeof name, "%s %s", t->check, f->rule);
        sim_violate(t->sim, name, "%.*s: %s (%s)", STR_ARG(f->job), f->text, f->evidence);
    }
    return QP_OK;
}

/* All that a check asks of the faces of flows and of agent workflows. */
static const struct face flows_ruled = {.kind = FLOW_KIND, .name = "flow", .rules = flow_rules};
static const struct face agents_ruled = {
    .kind = AGENT_KIND, .name = AGENT_NAME, .rules = agent_rules};

static void check(struct sim *s, qp_str jid, const char *name, bool warnings)
{
    struct faces faces = {
        .env = s->env, .count = 2, .all = {{.face = &flows_ruled}, {.face = &agents_ruled}}};
    struct check_options options = {.job = jid, .faces = &faces};
    struct telling t = {s, name, warnings};
    struct qp_check_result result;
    struct qp_err err = {0};
    int rc = check_run(s->checker, &options, &t, tell, &result, &err);
    if (rc != QP_OK && rc != QP_E_NOT_FOUND) {
        sim_violate(s, name, "it could not be checked: %s", err.text);
    }
}

static void check_job(struct sim *s, int64_t number)
{
    for (int i = 0; i < s->job_count; i++) {
        if (s->jobs[i].number == number) {
            check(s, str_from(s->jobs[i].jid), "job", false);
        }
    }
}

/* An activity that is entered again and again, as if it had been for years: its counter is near its end. */
static void age(struct sim *s, const struct act_row *young, const struct job_row *job)
{
    struct provider *p = store_provider(s->checker);
    struct act_row old = *young;
    struct job_row old_job = *job;
    struct qp_err err = {0};
    old.ledger += SCENE_AGE;
    old.folded_n += SCENE_AGE;
    old.rev++;
    old_job.seq += SCENE_AGE; /* those entries are folded */
    old_job.rev++;
    if (memory_calls.begin(p, &err) != QP_OK ||
        memory_calls.write(p, TABLE_act, young, &old, &err) != QP_OK ||
        memory_calls.write(p, TABLE_job, job, &old_job, &err) != QP_OK ||
        memory_calls.commit(p, &err) != QP_OK) {
        sim_bug(err.text);
    }
    sim_cover("rare.counter");
}

static void age_what_is_new(struct sim *s)
{
    struct arena arena;
    struct job_row key = {.ns = s->new_pivot.ns, .job = s->new_pivot.job};
    const void *row;
    const void *job;
    struct qp_err err = {0};
    if (!s->has_new_pivot) {
        return;
    }
    s->has_new_pivot = false;
    arena_init(&arena, &s->env, 0);
    if (store_get(s->checker, &arena, TABLE_act, &s->new_pivot, &row, &err) == QP_OK &&
        store_get(s->checker, &arena, TABLE_job, &key, &job, &err) == QP_OK) {
        age(s, row, job);
    }
    arena_done(&arena);
}

/* ------------------------------------------------------------------------------------------- limits */

/* Messages of a lane that the engine holds only to report that no worker took them in time. */
struct unstarted {
    const struct lane_row *lane;
    int64_t count;
};

static int count_unstarted(void *context, const void *row)
{
    struct unstarted *u = context;
    const struct msg_row *m = row;
    u->count += m->state == MSG_HELD && m->deadline == DEADLINE_UNSTARTED &&
                str_equal(m->topic, u->lane->topic) && str_equal(m->limit_key, u->lane->limit_key);
    return QP_OK;
}

static int64_t held_by_workers(struct sim *s, const struct lane_row *lane)
{
    struct unstarted u = {lane, 0};
    struct scan all = {.table = TABLE_msg, .index = -1, .limit = SIZE_MAX};
    struct qp_err err = {0};
    if (store_scan(s->checker, &all, &u, count_unstarted, &err) != QP_OK) {
        sim_bug(err.text);
    }
    return lane->held - u.count;
}

static int lane_is_within(void *context, const void *row)
{
    struct sim *s = context;
    const struct lane_row *lane = row;
    if (lane->max > 0 && lane->held > lane->max && held_by_workers(s, lane) > lane->max) {
        sim_violate(s, "limit", "%lld of %.*s '%.*s' are held, %lld may be", (long long)lane->held,
                    STR_ARG(lane->topic), STR_ARG(lane->limit_key), (long long)lane->max);
    }
    if (lane->max > 0 && lane->held == lane->max && lane->ready > 0) {
        sim_cover("limits.full");
    }
    return QP_OK;
}

static void lanes_visit(struct sim *s, void *context, store_visit visit)
{
    struct scan all = {.table = TABLE_lane, .index = -1, .limit = SIZE_MAX};
    struct qp_err err = {0};
    if (store_scan(s->checker, &all, context, visit, &err) != QP_OK) {
        sim_bug(err.text);
    }
}

static int lane_is_served(void *context, const void *row)
{
    const struct node *n = context;
    const struct lane_row *lane = row;
    for (size_t i = 0; n->sim->scene->topics[i] != NULL; i++) {
        const struct service *service = &n->services[i];
        if (str_equal(service->topic, lane->topic) && service->room > 0 && !service->held_back &&
            lane->ready > 0 && (lane->max == 0 || lane->held < lane->max)) {
            sim_violate(n->sim, "idle", "%lld of %.*s '%.*s' are ready, and a worker has room",
                        (long long)lane->ready, STR_ARG(lane->topic), STR_ARG(lane->limit_key));
        }
    }
    return QP_OK;
}

/* Where others write, it looks once in a while, and they may be at it. */
void watch_idle(struct sim *s, const struct node *n)
{
    if (s->model == MODEL_ALONE) {
        lanes_visit(s, (void *)(uintptr_t)n, lane_is_served);
    }
}

void watch_committed(struct sim *s)
{
    age_what_is_new(s);
    if (s->limit_max > 0) {
        lanes_visit(s, s, lane_is_within);
    }
    for (int i = 0; i < s->touched_count; i++) {
        check_job(s, s->touched[i]);
    }
    s->touched_count = 0;
}

/* -------------------------------------------------------------------------------------------- the feed */

static int follow_entry(void *context, const struct feed_entry *e)
{
    struct sim *s = context;
    char key[64];
    const char *state;
    feed_key(key, e);
    state = omap_get(&s->feed, str_from(key));
    if (state == NULL || *state != '\0') {
        sim_violate(s, "feed", "entry %s was read %s", key,
                    state == NULL ? "and never written" : "twice");
    } else {
        QP_ASSERT(omap_put(&s->feed, str_from(key), entry_read, NULL) == QP_OK);
    }
    if (e->pos <= s->feed_pos) {
        sim_violate(s, "feed", "entry %s stands before what was read", key);
    }
    s->feed_pos = e->pos;
    return QP_OK;
}

void watch_follow(struct sim *s)
{
    struct qp_err err = {0};
    if (store_feed(s->outside.store, s->feed_pos, 1000, s, follow_entry, &err) != QP_OK) {
        sim_violate(s, "feed", "%s", err.text);
    }
}

static void feed_is_whole(struct sim *s)
{
    watch_follow(s);
    for (struct omap_node *n = omap_seek(&s->feed, QP_NONE); n != NULL; n = omap_next(n)) {
        const char *state = omap_value(n);
        if (*state == '\0') {
            sim_violate(s, "feed", "entry %.*s was skipped", STR_ARG(omap_key(n)));
            return;
        }
    }
}

/* ------------------------------------------------------------------------------------------ coverage */

static const char *step_names[] = {"work", "spawn", "complete", "ack"};

/* An activity that the crash found unfinished, by the word that its name begins with. */
static void crash_word(const struct act_row *act)
{
    char name[64];
    size_t n = 0;
    while (n < act->addr.n &&
           ((act->addr.p[n] >= 'a' && act->addr.p[n] <= 'z') || act->addr.p[n] == ':')) {
        n++;
    }
    if (n > 1 && act->ledger / LEDGER_FINALIZED == 0) {
        (void)snprintf(name, sizeof name, "crash.%.*s", (int)n, act->addr.p);
        sim_cover(name);
    }
}

static int crash_act(void *context, const void *row)
{
    const struct act_row *act = row;
    struct guid_row guid;
    char name[64];
    (void)context;
    crash_word(act);
    if (act_first_guid(act, &guid)) {
        (void)snprintf(name, sizeof name, "crash.%c.%s", (char)act->category,
                       step_names[step_next(guid.ledger)]);
        sim_cover(name);
    } else {
        (void)snprintf(name, sizeof name, "crash.%c.leg1", (char)act->category);
        sim_cover(name);
    }
    return QP_OK;
}

void watch_crash(struct sim *s, const struct node *n)
{
    struct scan all = {.table = TABLE_act, .index = -1, .limit = 1000};
    struct qp_err err = {0};
    (void)n;
    sim_cover("crash");
    if (store_scan(s->checker, &all, NULL, crash_act, &err) != QP_OK) {
        sim_bug(err.text);
    }
}

/* -------------------------------------------------------------------------------------------- the end */

struct left {
    struct sim *sim;
    int64_t count;
};

static int count_row(void *context, const void *row)
{
    struct left *l = context;
    (void)row;
    l->count++;
    return QP_OK;
}

static bool str_find(qp_str text, const char *word)
{
    return !str_is_none(text) && memmem(text.p, text.n, word, strlen(word)) != NULL;
}

static int count_dead(void *context, const void *row)
{
    return ((const struct msg_row *)row)->state == MSG_DEAD ? count_row(context, row) : QP_OK;
}

/* A job that is closed is not parked: what completes it may be a dead letter all the same. */
static bool closer_is_dead(struct sim *s, const struct job_row *job)
{
    struct left left = {s, 0};
    struct msg_row prefix = {.ns = job->ns, .job = job->job};
    struct scan all = {
        .table = TABLE_msg, .index = -1, .prefix = &prefix, .prefix_count = 2, .limit = SIZE_MAX};
    struct qp_err err = {0};
    if (!str_is_none(job->closed_by) &&
        store_scan(s->checker, &all, &left, count_dead, &err) != QP_OK) {
        sim_bug(err.text);
    }
    return left.count > 0;
}

static int open_job(void *context, const void *row)
{
    struct left *l = context;
    const struct job_row *job = row;
    char jid[NAME_SIZE];
    if (job->completions > 0) {
        return QP_OK;
    }
    l->count++;
    (void)snprintf(jid, sizeof jid, "%.*s", STR_ARG(job->jid));
    if (str_find(job->parked, "ceiling")) {
        sim_cover("ceiling");
        client_help(l->sim, ACT_END, jid); /* no repetition helps: somebody gives it up */
    } else if (!str_is_none(job->parked) || closer_is_dead(l->sim, job)) {
        sim_cover("parked");
        client_help(l->sim, ACT_UNPARK, jid);
    } else if (job->paused != 0) {
        client_help(l->sim, ACT_RESUME, jid);
    }
    return QP_OK;
}

static int64_t count_rows(struct sim *s, enum table_id table, store_visit visit)
{
    struct left left = {s, 0};
    struct scan all = {.table = table, .index = -1, .limit = SIZE_MAX};
    struct qp_err err = {0};
    if (store_scan(s->checker, &all, &left, visit, &err) != QP_OK) {
        sim_bug(err.text);
    }
    return left.count;
}

int64_t scene_rows(struct sim *s, enum table_id table)
{
    return count_rows(s, table, count_row);
}

/* What waits for an hour before a text is collected is not under way. */
static int count_message(void *context, const void *row)
{
    return ((const struct msg_row *)row)->kind == MESSAGE_COLLECT ? QP_OK : count_row(context, row);
}

/* Nothing is under way: no job is open, no message is left. */
bool watch_is_quiet(struct sim *s)
{
    int64_t jobs = count_rows(s, TABLE_job, open_job);
    return jobs + count_rows(s, TABLE_msg, count_message) == 0;
}

bool watch_has_jobs(struct sim *s)
{
    struct left left = {s, 0};
    struct scan one = {.table = TABLE_job, .index = -1, .limit = 1};
    struct qp_err err = {0};
    if (store_scan(s->checker, &one, &left, count_row, &err) != QP_OK) {
        sim_bug(err.text);
    }
    return left.count > 0;
}

static void sink_is_right(struct sim *s)
{
    for (struct omap_node *n = omap_seek(&s->sink, QP_NONE); n != NULL; n = omap_next(n)) {
        const struct sink_key *key = omap_value(n);
        if (key->calls > 1 + key->lost + key->errors) {
            sim_violate(s, "calls", "%.*s was called %lld times, with %lld reasons and %lld errors",
                        STR_ARG(omap_key(n)), (long long)key->calls, (long long)key->lost,
                        (long long)key->errors);
        }
    }
}

static void acts_are_kept(struct sim *s)
{
    for (int i = 0; i < s->act_count; i++) {
        const struct act *a = &s->acts[i];
        if (a->kind == ACT_START && a->acknowledged && watch_job(s, str_from(a->jid)) == NULL) {
            sim_violate(s, "acknowledged", "the start of %s was acknowledged, and is not there",
                        a->jid);
        }
    }
}

void watch_end(struct sim *s)
{
    char text[SCENE_TEXT_SIZE] = "";
    acts_are_kept(s);
    sink_is_right(s);
    if (!s->scene->verify(s->stage, s, text)) {
        sim_violate(s, "interpreter", "%s", text);
    }
}

/* The whole store, when the trace is printed. */
void watch_print(struct sim *s)
{
    struct buf dump;
    struct qp_err err = {0};
    if (!s->options.print) {
        return;
    }
    buf_init(&dump, &s->env, 0);
    if (store_dump(s->checker, &dump, &err) == QP_OK) {
        (void)fwrite(dump.p, 1, dump.n, stderr);
    }
    buf_done(&dump);
}

/* After the nodes have left. */
void watch_store(struct sim *s)
{
    feed_is_whole(s); /* no transaction is open that could hold it up */
    check(s, QP_NONE, "fsck", true);
}

void watch_init(struct sim *s)
{
    struct qp_err err = {0};
    struct store_options reads = {.memory = s->memory, .read_only = true};
    /* Where many write, how far the feed can be read is the model's to say. */
    struct store_options follows = {.memory = s->memory, .read_only = s->model != MODEL_ROWS};
    omap_init(&s->sink, &s->env);
    omap_init(&s->feed, &s->env);
    if (store_open(&s->env, &reads, &s->checker, &err) != QP_OK ||
        store_open(&s->outside.env, &follows, &s->outside.store, &err) != QP_OK) {
        sim_bug(err.text);
    }
}

void watch_done(struct sim *s)
{
    struct qp_err err = {0};
    (void)store_close(s->checker, &err); /* it only reads */
    (void)store_close(s->outside.store, &err);
    for (struct omap_node *n = omap_seek(&s->sink, QP_NONE); n != NULL; n = omap_next(n)) {
        mem_free(&s->env, omap_value(n));
    }
    omap_done(&s->sink);
    omap_done(&s->feed);
}
