/* client.c - what clients want: each thing is asked of some node, and asked again of another, until an answer
 * comes that no repetition would change
 *
 *   planned --its time--> sent --answer--> done
 *                          |  ^
 *                          +--+ no answer for a while: again, with the same id or GUID; a signal with an id
 *                               also when it was acknowledged, some times
 */
#include "sim/world.h"

#include <stdio.h>

#include "agent/face.h"
#include "flow/face.h"
#include "kernel/turn.h"
#include "support/deploy.h"

#define PATIENCE_US 200000
#define DELAY_US 500
#define REPEAT_US 400000 /* after which a signal is repeated that was acknowledged, at most */

/* One request in the hands of an engine; in the node's memory. */
struct order {
    union {
        struct command command; /* the first member of all */
        struct request_start start;
        struct request_signal signal;
        struct request_ask ask;
        struct request_change change;
        struct request_end end;
        struct request_unpark unpark;
        struct deploy deploy;
        struct request_announce flow;
    };
    struct node *node;
    struct act *act;
    struct arena arena; /* what the scene makes of a start */
    bool answer_lost;
};

/* ------------------------------------------------------------------------------------------- planning */

static struct act *act_new(struct sim *s, enum act_kind kind, qp_ms at_ms)
{
    struct act *a = &s->acts[s->act_count];
    if (s->act_count >= SIM_ACTS_MAX) {
        sim_bug("too many acts");
    }
    *a = (struct act){.kind = kind, .at_us = at_ms * 1000};
    (void)snprintf((char *)a->guid, sizeof a->guid, "act-%d", s->act_count);
    s->act_count++;
    return a;
}

static void put(char out[NAME_SIZE], const char *text)
{
    if (snprintf(out, NAME_SIZE, "%s", text) >= NAME_SIZE) {
        sim_bug("a name is too long");
    }
}

void scene_start(struct sim *s, qp_ms at_ms, const struct scene_job *job)
{
    struct act *a = act_new(s, ACT_START, at_ms);
    put(a->jid, job->jid);
    put(a->workflow, job->workflow);
    put(a->pinned, job->pinned == NULL ? "" : job->pinned);
    a->job_kind = job->kind;
    a->expire_ms = job->expire_ms;
    (void)snprintf(a->input, sizeof a->input, "%s", job->input);
}

void client_limit(struct sim *s, struct sim_random *r)
{
    if (!random_chance(r, 40)) {
        return;
    }
    s->limit_max = 1 + random_below(r, 2);
    for (int i = 0; i < s->act_count; i++) {
        (void)snprintf(s->acts[i].limit_key, NAME_SIZE, "k%lld", (long long)random_below(r, 2));
    }
    sim_cover("limits");
}

void scene_signal(struct sim *s, qp_ms at_ms, const char *topic, const char *key,
                  const char *payload, int64_t code)
{
    struct act *a = act_new(s, ACT_SIGNAL, at_ms);
    put(a->topic, topic);
    put(a->key, key);
    put(a->payload, payload);
    a->code = code;
}

void scene_signal_with_id(struct sim *s, qp_ms at_ms, const char *topic, const char *key,
                          const char *payload, int repeats)
{
    struct act *a;
    scene_signal(s, at_ms, topic, key, payload, 200);
    a = &s->acts[s->act_count - 1];
    a->has_id = true;
    a->repeats = repeats;
}

void scene_signal_job(struct sim *s, qp_ms at_ms, const char *jid, const char *name,
                      const char *payload, int repeats)
{
    scene_signal_with_id(s, at_ms, name, "", payload, repeats);
    put(s->acts[s->act_count - 1].jid, jid);
}

int scene_event(struct sim *s, qp_ms at_ms, const char *jid, const char *name, const char *input)
{
    struct act *a = act_new(s, ACT_EVENT, at_ms);
    put(a->jid, jid);
    put(a->topic, name);
    put(a->payload, input);
    return s->act_count - 1;
}

bool scene_was_taken(const struct sim *s, int event)
{
    return s->acts[event].acknowledged;
}

void scene_retry(struct sim *s, qp_ms at_ms, const char *jid)
{
    put(act_new(s, ACT_UNPARK, at_ms)->jid, jid);
}

void scene_deploy(struct sim *s, qp_ms at_ms, const struct app *app)
{
    act_new(s, ACT_DEPLOY, at_ms)->app = app;
}

void scene_activate(struct sim *s, qp_ms at_ms, const struct app *app)
{
    act_new(s, ACT_ACTIVATE, at_ms)->app = app;
}

void scene_delete(struct sim *s, qp_ms at_ms, const struct app *app)
{
    act_new(s, ACT_DELETE, at_ms)->app = app;
}

void scene_announce(struct sim *s, qp_ms at_ms, const char *name)
{
    put(act_new(s, ACT_ANNOUNCE, at_ms)->workflow, name);
}

bool scene_was_announced(const struct sim *s)
{
    for (int i = 0; i < s->act_count; i++) {
        if (s->acts[i].kind == ACT_ANNOUNCE && !s->acts[i].acknowledged) {
            return false;
        }
    }
    return true;
}

bool scene_was_activated(const struct sim *s)
{
    bool was = false;
    for (int i = 0; i < s->event_count; i++) {
        was = was || s->events[i].state == APP_ACTIVE;
    }
    return was;
}

void scene_end_job(struct sim *s, qp_ms at_ms, const char *jid, enum job_state state)
{
    struct act *a = act_new(s, ACT_END, at_ms);
    put(a->jid, jid);
    a->state = state;
}

void scene_pause(struct sim *s, qp_ms at_ms, qp_ms for_ms, const char *jid)
{
    put(act_new(s, ACT_PAUSE, at_ms)->jid, jid);
    put(act_new(s, ACT_RESUME, at_ms + for_ms)->jid, jid);
}

void scene_reserve(struct sim *s, const char *name)
{
    if (s->reserved_count == 0) {
        (void)act_new(s, ACT_NUMBERS, 0);
    }
    if (s->reserved_count >= SIM_JOBS_MAX) {
        sim_bug("too many numbers");
    }
    put(s->reserved[s->reserved_count++].name, name);
}

int64_t scene_number(const struct sim *s, const char *name)
{
    for (int i = 0; i < s->reserved_count; i++) {
        if (strcmp(s->reserved[i].name, name) == 0) {
            return s->reserved[i].number;
        }
    }
    return 0;
}

void client_help(struct sim *s, enum act_kind kind, const char *jid)
{
    struct act *a;
    for (int i = 0; i < s->act_count; i++) {
        a = &s->acts[i];
        if (a->kind == kind && strcmp(a->jid, jid) == 0) {
            a->at_us = a->done ? s->now_us : a->at_us;
            a->done = false;
            return;
        }
    }
    a = act_new(s, kind, s->now_us / 1000);
    a->state = JOB_INTERRUPTED;
    put(a->jid, jid);
}

bool scene_was_ended(const struct sim *s, const char *jid)
{
    size_t n = strlen(jid);
    for (int i = 0; i < s->act_count; i++) {
        const struct act *a = &s->acts[i];
        if (a->kind == ACT_END && strncmp(a->jid, jid, n) == 0 &&
            (a->jid[n] == '\0' || a->jid[n] == '.')) {
            return true;
        }
    }
    return false;
}

static bool was_started(const struct sim *s, const char *jid)
{
    for (int i = 0; i < s->act_count; i++) {
        if (s->acts[i].kind == ACT_START && strcmp(s->acts[i].jid, jid) == 0) {
            return true;
        }
    }
    return false;
}

bool scene_gave_up(const struct sim *s)
{
    for (int i = 0; i < s->act_count; i++) {
        if (s->acts[i].kind == ACT_END && !was_started(s, s->acts[i].jid)) {
            return true;
        }
    }
    return false;
}

/* -------------------------------------------------------------------------------------------- sending */

static bool numbers_are_there(const struct sim *s)
{
    for (int i = 0; i < s->reserved_count; i++) {
        if (s->reserved[i].number == 0) {
            return false;
        }
    }
    return true;
}

static void send(struct sim *s, struct act *a)
{
    struct node *n = &s->nodes[random_below(&s->network, s->node_count)];
    int64_t number = s->requests;
    const struct fault *late = fault_at(s, FAULT_REQUEST_LATE, -1, number);
    int64_t delay = random_below(&s->network, DELAY_US) + (late != NULL ? late->amount : 0);
    bool lost = fault_at(s, FAULT_ANSWER_LOST, -1, number) != NULL;
    if (n->up && n->letter_count < LETTERS_MAX) {
        n->letters[n->letter_count++] = (struct letter){a, s->now_us + delay, lost};
        n->wake_us = n->wake_us < s->now_us + delay ? n->wake_us : s->now_us + delay;
    }
}

static bool may_send(const struct sim *s, const struct act *a)
{
    return !a->done && a->at_us <= s->now_us && (a->kind == ACT_NUMBERS || numbers_are_there(s));
}

void client_go_on(struct sim *s)
{
    for (int i = 0; i < s->act_count; i++) {
        struct act *a = &s->acts[i];
        if (may_send(s, a)) {
            s->requests++;
            a->events = a->sent ? a->events : s->event_count;
            a->sent = true;
            send(s, a);
            if (fault_at(s, FAULT_REQUEST_TWICE, -1, s->requests) != NULL) {
                send(s, a);
            }
            a->at_us = s->now_us + PATIENCE_US + random_below(&s->network, PATIENCE_US);
        }
    }
}

int64_t client_next_us(const struct sim *s)
{
    int64_t next = NEVER;
    for (int i = 0; i < s->act_count; i++) {
        const struct act *a = &s->acts[i];
        bool may = a->kind == ACT_NUMBERS || numbers_are_there(s);
        next = !a->done && may && a->at_us < next ? a->at_us : next;
    }
    return next;
}

bool client_is_done(const struct sim *s)
{
    for (int i = 0; i < s->act_count; i++) {
        if (!s->acts[i].done) {
            return false;
        }
    }
    return true;
}

/* -------------------------------------------------------------------------------------------- answers */

/* The codes that say: it was done, now or by an earlier request. */
static bool is_good(const struct act *a, int rc)
{
    return rc == QP_OK || (rc == QP_E_EXISTS && (a->kind == ACT_START || a->kind == ACT_SIGNAL ||
                                                 a->kind == ACT_EVENT || a->kind == ACT_DEPLOY));
}

/* A signal to one job, which has ended because a client asked for it, or because it needed no more; an event to any. */
static bool is_over(struct sim *s, const struct act *a, int rc)
{
    const struct seen_job *job = watch_job(s, str_from(a->jid));
    if (a->kind == ACT_EVENT) {
        return rc == QP_E_CLOSED && job != NULL && job->end.ended;
    }
    return a->kind == ACT_SIGNAL && a->jid[0] != '\0' && rc == QP_E_CLOSED &&
           (scene_was_ended(s, a->jid) ||
            (s->scene->spare_signals && job != NULL && job->end.ended));
}

static void answered(struct sim *s, struct act *a, int rc, const char *why)
{
    enum qp_class class = qp_code_class(rc);
    bool again = class == QP_CLASS_RETRY || class == QP_CLASS_UNKNOWN || class == QP_CLASS_FATAL ||
                 (rc == QP_E_NOT_FOUND &&
                  ((a->kind == ACT_SIGNAL && a->jid[0] != '\0') || a->kind == ACT_EVENT)) ||
                 (rc == QP_E_CLOSED && a->kind != ACT_END && a->kind != ACT_PAUSE &&
                  a->kind != ACT_RESUME && a->kind != ACT_UNPARK);
    sim_trace(s, "client: %s%s is answered %s", a->jid, a->key, qp_code_word(rc));
    if (a->done) {
        return;
    }
    if (is_good(a, rc) && a->repeats > 0) {
        a->acknowledged = true;
        a->repeats--;
        a->at_us = s->now_us + random_below(&s->network, REPEAT_US);
        sim_cover("signals.repeated");
    } else if (is_good(a, rc)) {
        a->acknowledged = true;
        a->done = true;
    } else if (is_over(s, a, rc)) {
        a->refused = true;
        a->done = true;
    } else if (!again) {
        a->refused = true;
        a->done = true;
        if ((a->kind == ACT_START && a->pinned[0] == '\0') || a->kind == ACT_SIGNAL ||
            a->kind == ACT_EVENT || a->kind == ACT_DEPLOY) {
            sim_violate(s, "answer", "%s%s was refused: %s (%s)", a->jid, a->key, qp_code_word(rc),
                        why == NULL ? "" : why);
        }
    }
    a->rc = rc;
}

static void order_free(struct order *o)
{
    arena_done(&o->arena);
    mem_free(&o->node->env, o);
}

/* A pause or its end goes on page by page. */
static bool goes_on(const struct order *o, int rc)
{
    return rc == QP_OK && (o->act->kind == ACT_PAUSE || o->act->kind == ACT_RESUME) &&
           o->change.more;
}

static void order_answered(struct engine *e, struct command *command, int rc, const char *why)
{
    struct order *o = (struct order *)command;
    (void)e;
    if (o->act->kind == ACT_SIGNAL && is_good(o->act, rc) &&
        o->signal.delivered == o->signal.kept) {
        sim_violate(o->node->sim, "answer",
                    "the signal %s is said to be neither delivered nor kept", o->act->payload);
    }
    if (!o->answer_lost) {
        answered(o->node->sim, o->act, goes_on(o, rc) ? QP_E_BUSY : rc, why);
    }
    order_free(o);
}

/* --------------------------------------------------------------------------------- on a node's fiber */

static int take_number(struct node *n, int64_t *out)
{
    struct qp_err err = {0};
    return engine_number(n->engine, out, &err);
}

static void take_numbers(struct node *n, struct act *a)
{
    struct sim *s = n->sim;
    for (int i = 0; i < s->reserved_count; i++) {
        int64_t number = 0;
        if (s->reserved[i].number == 0 && take_number(n, &number) == QP_OK &&
            s->reserved[i].number == 0) {
            s->reserved[i].number = number;
        }
    }
    if (numbers_are_there(s)) {
        answered(s, a, QP_OK, NULL);
    }
}

/* The idempotency key of what a client asks for. */
static struct op_idem_put keyed_by(const struct act *a)
{
    qp_str key = {(const char *)a->guid, sizeof a->guid};
    return (struct op_idem_put){.ns = STORE_NS_DEFAULT,
                                .key = key,
                                .body_hash = key,
                                .answer = QP_STR(""),
                                .ttl_ms = 3600000};
}

/* A pause as people ask for it: the job's kind says what it spares. */
static bool fill_change(struct order *o, enum job_change change)
{
    o->change.ns = STORE_NS_DEFAULT;
    o->change.jid = str_from(o->act->jid);
    o->change.change = change;
    request_change(&o->change);
    return watch_job(o->node->sim, str_from(o->act->jid)) != NULL;
}

/* False: there is nothing to submit. */
static bool order_fill(struct order *o)
{
    struct act *a = o->act;
    struct sim *s = o->node->sim;
    switch (a->kind) {
    case ACT_START:
        o->start.start =
            (struct start){.job = {.ref = {.ns = STORE_NS_DEFAULT},
                                   .jid = str_from(a->jid),
                                   .kind = a->job_kind,
                                   .workflow = str_from(a->workflow),
                                   .version = a->pinned[0] == '\0' ? QP_NONE : str_from(a->pinned),
                                   .limit_key = str_from(a->limit_key),
                                   .expire_ms = a->expire_ms},
                           .input = str_from(a->input)};
        if (s->scene->start != NULL &&
            !s->scene->start(s->stage, o->node->index, &o->arena, &o->start.start.job)) {
            return false;
        }
        request_start(&o->start);
        return take_number(o->node, &o->start.start.job.ref.job) == QP_OK;
    case ACT_SIGNAL:
        o->signal.signal = (struct op_hook_signal){.ns = STORE_NS_DEFAULT,
                                                   .topic = str_from(a->topic),
                                                   .key = str_from(a->key),
                                                   .guid = {(const char *)a->guid, sizeof a->guid},
                                                   .payload = str_from(a->payload),
                                                   .code = a->code,
                                                   .keep = a->code == CODE_PENDING,
                                                   .has_id = a->has_id,
                                                   .ttl_ms = 3600000};
        if (a->jid[0] != '\0') {
            o->signal.to = (struct signal_job){.id = str_from(a->jid)};
            o->signal.id = str_from(a->payload);
            o->signal.signal.key = QP_NONE;
        }
        if (!a->has_id) {
            o->signal.keyed.idem = keyed_by(a);
        }
        request_signal(&o->signal);
        return true;
    case ACT_EVENT:
        o->ask.ns = STORE_NS_DEFAULT;
        o->ask.jid = str_from(a->jid);
        o->ask.question = (struct kind_question){
            .what = AGENT_EVENT, .name = str_from(a->topic), .text = str_from(a->payload)};
        o->ask.keyed.idem = keyed_by(a);
        request_ask(&o->ask);
        return true;
    case ACT_END:
        o->end.ns = STORE_NS_DEFAULT;
        o->end.jid = str_from(a->jid);
        o->end.state = a->state;
        o->end.error = QP_STR("{\"reason\":\"client\"}");
        request_end(&o->end);
        return true;
    case ACT_UNPARK:
        o->unpark.ns = STORE_NS_DEFAULT;
        o->unpark.jid = str_from(a->jid);
        request_unpark(&o->unpark);
        return true;
    case ACT_PAUSE:
        return fill_change(o, JOB_CHANGE_PAUSE);
    case ACT_RESUME:
        return fill_change(o, JOB_CHANGE_RESUME);
    case ACT_DEPLOY:
    case ACT_ACTIVATE:
    case ACT_DELETE:
        o->deploy.app = a->app;
        o->deploy.activates = a->kind == ACT_ACTIVATE;
        o->deploy.deletes = a->kind == ACT_DELETE;
        deploy_init(&o->deploy);
        return true;
    case ACT_ANNOUNCE:
        o->flow.ns = STORE_NS_DEFAULT;
        o->flow.name = str_from(a->workflow);
        request_announce(&o->flow);
        return true;
    case ACT_NUMBERS:
        break;
    }
    return false;
}

static void read_letter(struct node *n, const struct letter *letter)
{
    struct order *o;
    if (letter->act->kind == ACT_NUMBERS) {
        take_numbers(n, letter->act);
        return;
    }
    o = mem_alloc(&n->env, sizeof *o);
    QP_ASSERT(o != NULL);
    o->node = n;
    o->act = letter->act;
    o->answer_lost = letter->answer_lost;
    o->command.answer = order_answered;
    arena_init(&o->arena, &n->env, 0);
    if (order_fill(o)) {
        engine_submit(n->engine, &o->command);
    } else {
        order_free(o);
    }
}

void node_read_letters(struct node *n)
{
    for (int i = 0; i < n->letter_count;) {
        struct letter letter = n->letters[i];
        if (letter.arrives_us > n->sim->now_us) {
            i++;
            continue;
        }
        n->letters[i] = n->letters[--n->letter_count];
        read_letter(n, &letter);
    }
}
