/* enginetest.c - see enginetest.h */
#include "support/enginetest.h"

#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/hash.h"
#include "kernel/check.h"

int enginetest_answer;
int64_t enginetest_answers;

/* -------------------------------------------------------------------------------------- the cast */

static const struct actor *actor_of(struct turn *t)
{
    const struct cast *c = t->program->context;
    for (const struct actor *a = c->actors; a->name != NULL; a++) {
        if (str_equal(t->at.name, str_from(a->name))) {
            return a;
        }
    }
    fail_msg("no actor '%.*s'", STR_ARG(t->at.name));
    return NULL;
}

static int trouble(struct turn *t, const char *function)
{
    struct cast *c = t->program->context;
    c->calls++;
    return c->trouble == NULL ? QP_OK : c->trouble(c->context, t, function);
}

static qp_str key_of(struct turn *t, const struct actor *a)
{
    return strcmp(a->key, "@") == 0 ? t->job->jid : str_from(a->key);
}

static int cast_describe(struct turn *t, struct op_act_create *row)
{
    const struct actor *a = actor_of(t);
    row->category = a->category;
    row->cyclic = a->cyclic;
    row->topic = a->topic == NULL ? QP_NONE : str_from(a->topic);
    row->policy = a->policy == NULL ? QP_NONE : str_from(a->policy);
    return trouble(t, "describe");
}

static int await(struct turn *t, const struct actor *a)
{
    return turn_call(t, &(struct call_job){.workflow = QP_STR("awaited"),
                                           .jid = str_from(a->key),
                                           .kind = CAST_SECOND,
                                           .input = QP_STR("{}"),
                                           .purpose = QP_STR("await")});
}

static int cast_enter(struct turn *t)
{
    const struct actor *a = actor_of(t);
    int64_t token = 0;
    int rc = trouble(t, "enter");
    if (rc != QP_OK) {
        return rc;
    }
    switch (a->deed) {
    case DEED_TASK:
        return turn_task(t, str_from(a->topic));
    case DEED_SLEEP:
        return turn_timer(t, QP_STR("sleep"), a->ms);
    case DEED_HOOK:
        return turn_hook(t, str_from(a->topic), key_of(t, a), a->keep);
    case DEED_BOTH:
        rc = turn_timer(t, QP_STR("sleep"), a->ms);
        return rc == QP_OK ? turn_hook(t, str_from(a->topic), key_of(t, a), a->keep) : rc;
    case DEED_LISTEN:
        return turn_listen(t, &(struct turn_listen){
                                  (qp_str[]){str_from(a->topic), str_from(a->key)}, 2, a->depth});
    case DEED_AWAIT:
        return await(t, a);
    case DEED_CYCLE:
        return turn_cycle(t, str_from(a->key), a->depth, QP_STR("again"));
    case DEED_KEY:
        rc = turn_key(t,
                      &(struct op_key_acquire){.ns = t->site.ref.ns,
                                               .name = key_of(t, a),
                                               .capacity = 1,
                                               .units = 1,
                                               .wait = true},
                      &token);
        /* whoever gets it at once wakes itself */
        return rc == QP_OK && token > 0 ? turn_timer(t, QP_STR("now"), 0) : rc;
    case DEED_NOTHING:
    case DEED_SIGNAL:
    case DEED_SIGNALS:
    case DEED_SIGNAL_ALL:
    case DEED_SIGNAL_JOB:
    case DEED_INTERRUPT:
    case DEED_END:
        break;
    }
    return QP_OK;
}

static int signal_one(struct turn *t, const struct actor *a, qp_str topic, struct work *work)
{
    struct turn_signal s = {.topic = topic,
                            .key = key_of(t, a),
                            .payload = QP_STR("hello"),
                            .code = a->code,
                            .ttl_ms = 60000};
    int rc = turn_signal(t, &s);
    work->output = s.out_delivered ? QP_STR("delivered") : s.out_kept ? QP_STR("kept") : QP_NONE;
    return rc;
}

/* `key`, if there is one, is a filter: "name=value". */
static int signal_all(struct turn *t, const struct actor *a)
{
    struct turn_signal_all s = {
        .topic = str_from(a->topic), .payload = QP_STR("hello"), .code = a->code};
    const char *equals = a->key == NULL ? NULL : strchr(a->key, '=');
    if (equals != NULL) {
        s.attribute = (qp_str){a->key, (size_t)(equals - a->key)};
        s.value = str_from(equals + 1);
    }
    return turn_signal_all(t, &s);
}

static int cast_yields(struct turn *t, bool *out_yields)
{
    bool timer = actor_of(t)->closes && t->code == 0; /* a signal has a code */
    bool waited = true;
    int rc = timer ? turn_hook_close(t, &waited) : QP_OK;
    *out_yields = !waited;
    return rc;
}

static int cast_work(struct turn *t, struct work *work)
{
    const struct actor *a = actor_of(t);
    int rc = trouble(t, "work");
    if (rc != QP_OK || t->act->category == 'A') {
        return rc;
    }
    switch (a->deed) {
    case DEED_SIGNAL:
        return signal_one(t, a, str_from(a->topic), work);
    case DEED_SIGNALS:
        rc = signal_one(t, a, str_from(a->topic), work);
        return rc == QP_OK ? signal_one(t, a, QP_STR("other"), work) : rc;
    case DEED_SIGNAL_ALL:
        return signal_all(t, a);
    case DEED_INTERRUPT:
        return turn_end_other(t, str_from(a->key), JOB_INTERRUPTED, QP_STR("410"), false);
    case DEED_NOTHING:
    case DEED_TASK:
    case DEED_SLEEP:
    case DEED_HOOK:
    case DEED_BOTH:
    case DEED_AWAIT:
    case DEED_CYCLE:
    case DEED_LISTEN:
    case DEED_SIGNAL_JOB:
    case DEED_KEY:
    case DEED_END:
        break;
    }
    return QP_OK;
}

static int spawn_next(struct turn *t, const char *names)
{
    int rc = QP_OK;
    while (names != NULL && *names != '\0' && rc == QP_OK) {
        size_t n = strcspn(names, " ");
        rc = turn_child(t, (qp_str){names, n}, QP_STR("in"));
        names += n + (names[n] == ' ');
    }
    return rc;
}

static int cast_spawn(struct turn *t, struct spawn *spawn)
{
    const struct actor *a = actor_of(t);
    int64_t plane = t->has_guid ? step_dimension(t->guid.ledger) : 0;
    int rc = trouble(t, "spawn");
    (void)spawn;
    if (rc != QP_OK) {
        return rc;
    }
    if (a->deed == DEED_END) {
        turn_fail(t, JOB_INTERRUPTED, QP_STR("410"));
        return QP_OK;
    }
    if (t->guid.code >= 400) {
        return turn_spawn_nothing(t);
    }
    if (a->deed == DEED_SIGNAL_JOB) {
        QP_TRY(turn_signal_job(t, &(struct turn_signal_job){.job = str_from(a->key),
                                                            .name = str_from(a->topic),
                                                            .payload = QP_STR("{}")}));
    }
    return a->rounds > 0 && plane >= a->rounds ? QP_OK : spawn_next(t, a->next);
}

static int cast_complete(struct turn *t, struct complete *complete)
{
    complete->output = QP_STR("done");
    return trouble(t, "complete");
}

static bool listens(const struct actor *actors)
{
    bool any = false;
    for (const struct actor *a = actors; a != NULL && a->name != NULL; a++) {
        any = any || a->deed == DEED_LISTEN;
    }
    return any;
}

void cast_init(struct cast *c, int64_t kind, const struct actor *actors)
{
    *c = (struct cast){.actors = actors,
                       .program = {.kind = kind,
                                   .name = "cast",
                                   .context = c,
                                   .takes_signals = listens(actors),
                                   .describe = cast_describe,
                                   .enter = cast_enter,
                                   .yields = cast_yields,
                                   .work = cast_work,
                                   .spawn = cast_spawn,
                                   .complete = cast_complete}};
}

/* ------------------------------------------------------------------------------- the engine's life */

static void take_task(void *context, struct task *task)
{
    struct enginetest *x = context;
    struct task **end = &x->tasks;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    task->next = NULL;
    *end = task;
}

static void job_ended(void *context, struct job_ref job, enum job_state state)
{
    struct enginetest *x = context;
    (void)job;
    (void)state;
    x->ended++;
}

void enginetest_init(struct enginetest *x, enum storetest_kind kind, const struct actor *actors)
{
    cast_init(&x->cast, CAST_KIND, actors);
    x->programs[0] = &x->cast.program;
    x->service =
        (struct service){.topic = QP_STR("t"), .room = 1000, .context = x, .give = take_task};
    x->options = (struct engine_options){.name = "test",
                                         .programs = x->programs,
                                         .program_count = 1,
                                         .context = x,
                                         .ended = job_ended};
    x->tasks = NULL;
    x->watch_count = 0;
    x->e = NULL;
    x->ended = 0;
    x->rounds = 0;
    x->job = 0;
    storetest_init(&x->f, kind, 1);
}

void enginetest_open(struct enginetest *x)
{
    struct qp_err err = {0};
    x->options.store = x->f.s;
    if (engine_open(&x->options, &x->e, &err) != QP_OK) {
        fail_msg("engine: %s", err.text);
    }
    engine_serve(x->e, &x->service);
}

static void drop_tasks(struct enginetest *x)
{
    while (x->tasks != NULL) {
        enginetest_forget(x, x->tasks);
    }
}

void enginetest_crash(struct enginetest *x)
{
    engine_abandon(x->e);
    drop_tasks(x);
    storetest_reopen(&x->f);
    enginetest_open(x);
}

static int print_finding(void *context, const struct qp_finding *finding)
{
    (void)context;
    if (finding->severity == QP_SEVERITY_ERROR) {
        print_error("check: %s %.*s: %s (%s)\n", finding->rule, STR_ARG(finding->job),
                    finding->text, finding->evidence);
    }
    return QP_OK;
}

void enginetest_check_store(struct store *s)
{
    enginetest_check_faces(s, NULL);
}

void enginetest_check_faces(struct store *s, const struct faces *faces)
{
    struct qp_check_result result;
    struct qp_err err = {0};
    int rc =
        check_run(s, &(struct check_options){.faces = faces}, NULL, print_finding, &result, &err);
    if (rc != QP_OK) {
        fail_msg("check: %s", err.text);
    }
    assert_int_equal(result.errors, 0);
}

void enginetest_check(struct enginetest *x)
{
    enginetest_check_store(x->f.s);
}

void enginetest_done(struct enginetest *x)
{
    struct qp_err err;
    enginetest_check(x);
    assert_int_equal(engine_close(x->e, &err), QP_OK);
    x->e = NULL;
    drop_tasks(x);
    storetest_done(&x->f);
}

void enginetest_each(struct enginetest *x, const struct actor *actors, bool stepwise,
                     void (*test)(void))
{
    for (int kind = 0; kind < storetest_kinds(); kind++) {
        enginetest_init(x, (enum storetest_kind)kind, actors);
        x->options.stepwise = stepwise;
        enginetest_open(x);
        test();
        enginetest_done(x);
    }
}

/* ------------------------------------------------------------------------------------------ rounds */

static void watches_read(struct enginetest *x)
{
    for (size_t i = 0; i < x->watch_count; i++) {
        struct watch *w = &x->watches[i];
        const char *line = enginetest_digits(x, w->addr);
        size_t used = strlen(w->text);
        if (strcmp(line, w->line) != 0) {
            assert_true(used + strlen(line) + 2 < sizeof w->text);
            (void)snprintf(w->line, sizeof w->line, "%s", line);
            (void)snprintf(w->text + used, sizeof w->text - used, "%s\n", line);
        }
    }
}

int enginetest_round(struct enginetest *x, bool *out_busy, struct qp_err *err)
{
    int rc = engine_round(x->e, out_busy, err);
    x->rounds++;
    if (rc == QP_OK) {
        watches_read(x);
    }
    return rc;
}

void enginetest_settle(struct enginetest *x)
{
    struct qp_err err = {0};
    bool busy = true;
    for (int i = 0; busy; i++) {
        if (enginetest_round(x, &busy, &err) != QP_OK) {
            fail_msg("round: %s", err.text);
        }
        assert_true(i < 100000);
    }
}

void enginetest_wait(struct enginetest *x, qp_ms ms)
{
    testenv_advance_ms(&x->f.t, ms);
    enginetest_settle(x);
}

void enginetest_answered(struct engine *e, struct command *c, int rc, const char *why)
{
    (void)e;
    (void)c;
    assert_non_null(why);
    enginetest_answer = rc;
    enginetest_answers++;
}

int enginetest_ask(struct enginetest *x, struct command *c)
{
    int64_t before = enginetest_answers;
    c->answer = enginetest_answered;
    engine_submit(x->e, c);
    enginetest_settle(x);
    assert_int_equal(enginetest_answers, before + 1);
    return enginetest_answer;
}

/* ---------------------------------------------------------------------------------------- requests */

void enginetest_fill_start(struct enginetest *x, struct request_start *r, const char *jid,
                           const char *input)
{
    struct qp_err err;
    *r = (struct request_start){.start = {.job = {.ref = {.ns = STORE_NS_DEFAULT},
                                                  .jid = str_from(jid),
                                                  .kind = CAST_KIND,
                                                  .workflow = QP_STR("cast")},
                                          .input = str_from(input)}};
    assert_int_equal(engine_number(x->e, &r->start.job.ref.job, &err), QP_OK);
    request_start(r);
}

/* As request_start, but only one step of it. */
static int start_a_step(struct engine *e, struct command *c, struct bundle *b)
{
    struct request_start *r = (struct request_start *)c;
    struct turn t = {.stepwise = true};
    int rc = turn_start(&t, engine_kernel(e), b, &c->outcome, &r->start);
    r->job = t.site.ref;
    return rc;
}

int enginetest_start(struct enginetest *x, const char *jid)
{
    struct request_start r;
    int rc;
    enginetest_fill_start(x, &r, jid, "{}");
    if (x->options.stepwise) {
        r.command.decide = start_a_step;
    }
    x->job = r.start.job.ref.job; /* watched from its first commit on */
    rc = enginetest_ask(x, &r.command);
    x->job = r.job.job;
    for (int i = 0; x->options.stepwise && rc == QP_OK && i < 2; i++) {
        int again = enginetest_ask(x, &r.command);
        assert_true(again == QP_OK || again == QP_E_EXISTS);
    }
    return rc;
}

struct task *enginetest_task(struct enginetest *x, const char *jid, const char *addr)
{
    struct task *task = x->tasks;
    while (task != NULL && ((jid != NULL && !str_equal(task->jid, str_from(jid))) ||
                            (addr != NULL && !str_equal(task->addr, str_from(addr))))) {
        task = task->next;
    }
    return task;
}

void enginetest_forget(struct enginetest *x, struct task *task)
{
    struct task **at = &x->tasks;
    while (*at != task) {
        assert_non_null(*at);
        at = &(*at)->next;
    }
    *at = task->next;
    x->service.room++;
    task_free(&x->f.t.env, task);
}

int enginetest_result(struct enginetest *x, const struct task *task, enum result_kind kind,
                      const char *output)
{
    struct task as = *task;
    struct request_result r = {.task = &as,
                               .kind = kind,
                               .output = str_from(output),
                               .error = str_from(output),
                               .pending_index = 1};
    as.tries += x->options.stepwise ? 1 : 0; /* its response goes through the stream */
    request_result(&r);
    return enginetest_ask(x, &r.command);
}

int64_t enginetest_work(struct enginetest *x)
{
    int64_t count = 0;
    enginetest_settle(x);
    while (x->tasks != NULL) {
        assert_int_equal(enginetest_result(x, x->tasks, RESULT_DONE, "ok"), QP_OK);
        enginetest_forget(x, x->tasks);
        count++;
        enginetest_settle(x);
    }
    return count;
}

int enginetest_signal(struct enginetest *x, const char *topic, const char *key, unsigned guid,
                      qp_ms ttl_ms)
{
    struct request_signal r = {.signal = {.ns = STORE_NS_DEFAULT,
                                          .topic = str_from(topic),
                                          .key = str_from(key),
                                          .guid = storetest_guid(guid),
                                          .payload = QP_STR("signal"),
                                          .code = 200,
                                          .ttl_ms = ttl_ms}};
    request_signal(&r);
    return enginetest_ask(x, &r.command);
}

int enginetest_signal_by_id(struct enginetest *x, const char *topic, const char *key,
                            const char *id)
{
    unsigned char place[LIMIT_GUID_SIZE];
    unsigned char guid[LIMIT_GUID_SIZE];
    struct request_signal r = {.signal = {.ns = STORE_NS_DEFAULT,
                                          .topic = str_from(topic),
                                          .key = str_from(key),
                                          .guid = {(const char *)guid, sizeof guid},
                                          .payload = QP_STR("signal"),
                                          .code = 200,
                                          .ttl_ms = LIMIT_SIGNAL_TTL_MS,
                                          .has_id = true}};
    hash_guid(topic, strlen(topic), key, strlen(key), place);
    hash_guid(place, sizeof place, id, strlen(id), guid);
    request_signal(&r);
    return enginetest_ask(x, &r.command);
}

int enginetest_signal_job(struct enginetest *x, const struct signal_job *to, const char *name,
                          const char *id, struct request_signal *out_request)
{
    static unsigned guids = 1000;
    struct request_signal *r = out_request;
    *r = (struct request_signal){.to = *to,
                                 .id = id == NULL ? QP_NONE : str_from(id),
                                 .signal = {.ns = STORE_NS_DEFAULT,
                                            .topic = str_from(name),
                                            .guid = storetest_guid(++guids),
                                            .payload = QP_STR("{}"),
                                            .code = 200,
                                            .has_id = id != NULL,
                                            .ttl_ms = 1000}};
    request_signal(r);
    return enginetest_ask(x, &r->command);
}

int enginetest_end(struct enginetest *x, const char *jid, enum job_state state)
{
    struct request_end r = {
        .ns = STORE_NS_DEFAULT, .jid = str_from(jid), .state = state, .error = QP_STR("because")};
    request_end(&r);
    return enginetest_ask(x, &r.command);
}

/* ------------------------------------------------------------------------------------------ digits */

struct digits {
    struct guid_row guids[64]; /* seq and ledger */
    size_t count;
};

static void digits_add(struct digits *d, int64_t seq, int64_t ledger)
{
    struct guid_row guid = {.seq = seq, .ledger = ledger};
    size_t at = d->count++;
    assert_true(d->count <= ARRAY_COUNT(d->guids));
    for (; at > 0 && guid_is_later(&d->guids[at - 1], &guid); at--) {
        d->guids[at] = d->guids[at - 1];
    }
    d->guids[at] = guid;
}

static int digits_visit(void *context, const void *row)
{
    const struct guid_row *guid = row;
    digits_add(context, guid->seq, guid->ledger);
    return QP_OK;
}

const char *enginetest_digits_of(struct storetest *f, int64_t job, const char *addr)
{
    static char text[1024];
    char one[16];
    struct digits d = {.count = 0};
    struct qp_err err;
    struct guid_row prefix = {.ns = STORE_NS_DEFAULT, .job = job, .addr = str_from(addr)};
    struct scan scan = {
        .table = TABLE_guid, .index = -1, .prefix = &prefix, .prefix_count = 3, .limit = SIZE_MAX};
    const struct act_row *act = storetest_row(
        f, TABLE_act,
        &(struct act_row){.ns = STORE_NS_DEFAULT, .job = job, .addr = str_from(addr)});
    text[0] = '\0';
    if (act == NULL) {
        return text;
    }
    ledger_text(act->ledger, text);
    if (act->guid.p != NULL) {
        digits_add(&d, act->guid_seq, act->guid_ledger);
    }
    assert_int_equal(store_scan(f->s, &scan, &d, digits_visit, &err), QP_OK);
    for (size_t i = 0; i < d.count; i++) {
        size_t used = strlen(text);
        ledger_text(d.guids[i].ledger, one);
        (void)snprintf(text + used, sizeof text - used, " %s", one);
    }
    return text;
}

const char *enginetest_digits(struct enginetest *x, const char *addr)
{
    return enginetest_digits_of(&x->f, x->job, addr);
}

void enginetest_watch(struct enginetest *x, const char *addr)
{
    assert_true(x->watch_count < ENGINETEST_WATCHES);
    x->watches[x->watch_count++] = (struct watch){.addr = addr};
}

/* -------------------------------------------------------------------------------------------- rows */

const struct job_row *enginetest_job(struct enginetest *x, int64_t job)
{
    return storetest_row(&x->f, TABLE_job, &(struct job_row){.ns = STORE_NS_DEFAULT, .job = job});
}

const struct act_row *enginetest_act(struct enginetest *x, int64_t job, const char *addr)
{
    return storetest_row(
        &x->f, TABLE_act,
        &(struct act_row){.ns = STORE_NS_DEFAULT, .job = job, .addr = str_from(addr)});
}

struct counting {
    size_t count;
    char guid[LIMIT_GUID_SIZE];
};

static int count_message(void *context, const void *row)
{
    struct counting *c = context;
    c->count++;
    memcpy(c->guid, ((const struct msg_row *)row)->guid.p, LIMIT_GUID_SIZE);
    return QP_OK;
}

const struct msg_row *enginetest_message(struct enginetest *x, int64_t job)
{
    struct msg_row prefix = {.ns = STORE_NS_DEFAULT, .job = job};
    struct scan scan = {
        .table = TABLE_msg, .index = -1, .prefix = &prefix, .prefix_count = 2, .limit = SIZE_MAX};
    struct counting c = {0};
    struct qp_err err;
    assert_int_equal(store_scan(x->f.s, &scan, &c, count_message, &err), QP_OK);
    assert_true(c.count <= 1);
    prefix.guid = (qp_str){c.guid, LIMIT_GUID_SIZE};
    return c.count == 0 ? NULL : storetest_row(&x->f, TABLE_msg, &prefix);
}

static int count_row(void *context, const void *row)
{
    (void)row;
    ++*(size_t *)context;
    return QP_OK;
}

/* Of the tables whose key begins with the job's number. */
size_t enginetest_rows(struct enginetest *x, enum table_id table, int64_t job)
{
    struct msg_row prefix = {.ns = STORE_NS_DEFAULT, .job = job};
    struct scan scan = {
        .table = table, .index = -1, .prefix = &prefix, .prefix_count = 2, .limit = SIZE_MAX};
    size_t count = 0;
    struct qp_err err;
    assert_true(tables[table].keyed_by_job);
    assert_int_equal(store_scan(x->f.s, &scan, &count, count_row, &err), QP_OK);
    return count;
}
