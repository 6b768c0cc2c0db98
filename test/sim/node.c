/* node.c - one process of the world: a store handle, an engine, its workers
 *
 *   down --node_start--> up --fault, or its own end--> down      at the end: up --closing--> closed
 *
 * Everything that a process has in memory is on node.blocks: when it dies, the fibers are dropped where they
 * stand, its handles are closed as a server closes the connections of the dead, and the blocks go. */
#include "sim/world.h"

#include <stdio.h>
#include <stdlib.h>

#define START_MS INT64_C(1790000000000) /* a moment of 2026 */
#define CALL_US 30
#define WORK_US 3000
#define RESTART_US 50000
#define LEASE_HEALED_MS 2000

struct block {
    struct block *next;
    struct block **link;
    size_t size;
    max_align_t bytes[];
};

/* ---------------------------------------------------------------------------------- the environment */

static void block_unlink(struct block *b)
{
    *b->link = b->next;
    if (b->next != NULL) {
        b->next->link = b->link;
    }
}

static void block_link(struct node *n, struct block *b)
{
    b->next = n->blocks;
    b->link = &n->blocks;
    if (b->next != NULL) {
        b->next->link = &b->next;
    }
    n->blocks = b;
}

static void *node_resize(void *context, void *pointer, size_t size)
{
    struct node *n = context;
    struct block *old =
        pointer == NULL ? NULL : (struct block *)((char *)pointer - offsetof(struct block, bytes));
    struct block *b = NULL;
    if (size > 0) {
        b = malloc(offsetof(struct block, bytes) + size);
        QP_ASSERT(b != NULL);
        b->size = size;
        block_link(n, b);
    }
    if (old != NULL && b != NULL) {
        memcpy(b->bytes, old->bytes, old->size < size ? old->size : size);
    }
    if (old != NULL) {
        block_unlink(old);
        free(old);
    }
    return b == NULL ? NULL : b->bytes;
}

static void blocks_free(struct node *n)
{
    while (n->blocks != NULL) {
        struct block *b = n->blocks;
        n->blocks = b->next;
        free(b);
    }
}

void node_free(struct node *n)
{
    blocks_free(n);
}

static qp_ms node_wall_ms(void *context)
{
    const struct node *n = context;
    return START_MS + n->sim->now_us / 1000 + n->skew_ms;
}

static int64_t node_monotonic_us(void *context)
{
    const struct node *n = context;
    return n->sim->now_us;
}

static int node_entropy(void *context, void *out_bytes, size_t size)
{
    struct node *n = context;
    for (size_t i = 0; i < size; i++) {
        ((unsigned char *)out_bytes)[i] = (unsigned char)random_next(&n->entropy);
    }
    return QP_OK;
}

static void node_log(void *context, enum qp_log_level level, const char *line, size_t size)
{
    struct node *n = context;
    (void)level;
    sim_trace(n->sim, "node %d: %.*s", n->index, (int)size, line);
}

/* ------------------------------------------------------------------------------ calls to the store */

static void yield(struct node *n)
{
    fiber_leave(n->running);
}

static void die(struct node *n)
{
    n->crashed = true;
    for (;;) {
        yield(n); /* nobody comes back */
    }
}

static void strike(struct node *n, enum model_fate *fate)
{
    struct sim *s = n->sim;
    const struct fault *f = fault_at(s, FAULT_CRASH, n->index, n->calls);
    if (f != NULL) {
        die(n);
    }
    f = fault_at(s, FAULT_PAUSE, n->index, n->calls);
    f = f != NULL ? f : fault_at(s, FAULT_SLOW, n->index, n->calls);
    if (f != NULL) {
        n->pause_us = s->now_us + f->amount;
        yield(n);
    }
    n->leaving = n->leaving || fault_at(s, FAULT_LEAVE, n->index, n->calls) != NULL;
    f = fault_at(s, FAULT_CLOCK, n->index, n->calls);
    n->skew_ms += f != NULL ? f->amount / 1000 : 0;
    f = fault_at(s, FAULT_UNKNOWN, n->index, n->calls);
    if (f != NULL) {
        n->commit_fate = f->amount != 0 ? FATE_UNKNOWN_DONE : FATE_UNKNOWN_NOT;
    }
    if (fault_at(s, FAULT_UNKNOWN_LATE, n->index, n->calls) != NULL) {
        n->commit_fate = FATE_UNKNOWN_LATE;
    }
    if (fault_at(s, FAULT_ABORT, n->index, n->calls) != NULL) {
        *fate = FATE_ABORT;
    }
}

static enum model_fate world_call(void *context, enum model_call call)
{
    struct node *n = context;
    struct sim *s = n->sim;
    enum model_fate fate = FATE_NONE;
    if (n->no_yield) {
        return FATE_NONE;
    }
    n->calls++;
    s->result->calls++;
    s->now_us += random_below(&s->choice, CALL_US);
    s->trace = s->trace * UINT64_C(0x100000001B3) ^
               ((uint64_t)s->now_us << 8 | (uint64_t)n->index << 4 | (uint64_t)call);
    strike(n, &fate);
    if (call == CALL_COMMITTED && s->has_edge) {
        s->has_edge = false;
        if (fault_at(s, FAULT_CRASH_EDGE, -1, ++s->edges) != NULL) {
            die(n);
        }
    }
    if (call == CALL_COMMIT && n->commit_fate != FATE_NONE && fate == FATE_NONE) {
        fate = n->commit_fate;
        n->commit_fate = FATE_NONE;
    }
    if (random_chance(&s->choice, s->switch_percent)) {
        yield(n);
    }
    return fate;
}

static void world_wait(void *context)
{
    struct node *n = context;
    if (n->no_yield) {
        sim_bug("the follower waits for a lock");
    }
    sim_cover("lock.wait");
    n->waits_since = n->sim->transactions;
    yield(n);
    n->waits_since = -1;
}

static void world_pause(void *context, int64_t us)
{
    struct node *n = context;
    if (!n->no_yield && us > 0) {
        n->wake_us = n->sim->now_us + random_below(&n->sim->choice, us);
        yield(n);
    }
}

static void world_committing(void *context, const struct memory_provider *p)
{
    const struct node *n = context;
    watch_committing(n->sim, p);
}

static void world_committed(void *context)
{
    const struct node *n = context;
    watch_committed(n->sim);
}

static void world_ended(void *context)
{
    const struct node *n = context;
    n->sim->transactions++;
}

/* After a lease or so: somebody else may have begun to look after what it did. */
static void world_late(void *context, struct model_late *late)
{
    const struct node *n = context;
    struct sim *s = n->sim;
    int64_t most = 2 * (s->lease_ms > 0 ? s->lease_ms : 100) * 1000;
    if (s->late_count >= SIM_LATE_MAX) {
        sim_bug("too many commits are late");
    }
    s->late[s->late_count++] = (struct late){late, s->now_us + 1 + random_below(&s->choice, most)};
}

static qp_ms world_now_ms(void *context)
{
    const struct node *n = context;
    return START_MS + n->sim->now_us / 1000;
}

static void world_hint(void *context)
{
    const struct node *n = context;
    for (int i = 0; i < n->sim->node_count; i++) {
        struct node *other = &n->sim->nodes[i];
        if (other != n && random_chance(&n->sim->choice, 80)) {
            other->has_hint = true;
            other->wake_us = n->sim->now_us;
        }
    }
}

/* ------------------------------------------------------------------------------------------ workers */

struct hand {
    struct hand *next;
    struct node *node;
    struct task *task;
    struct sink_key *sink;
    struct scene_answer answer;
    struct request_result request;
    struct request_result again; /* the same once more */
    struct request_beat beat;
    int64_t due_us;
    int64_t says_us; /* when its answer is said; until then beats are sent */
    int64_t pending_done;
    int waiting; /* for answers */
    bool called;
    bool done; /* accepted */
    bool twice;
};

static void take_task(void *context, struct task *task)
{
    struct node *n = context;
    struct sim *s = n->sim;
    struct hand *h = mem_alloc(&n->env, sizeof *h);
    const struct fault *slow = fault_at(s, FAULT_SLOW_WORKER, n->index, ++n->tasks);
    QP_ASSERT(h != NULL);
    h->node = n;
    h->task = task;
    h->sink = watch_sink(s, task->jid, task->addr, task->ref.guid);
    h->due_us = s->now_us + random_below(&s->choice, WORK_US) + (slow != NULL ? slow->amount : 0);
    h->twice = fault_at(s, FAULT_RESULT_TWICE, n->index, n->tasks) != NULL;
    h->next = n->hands;
    n->hands = h;
}

static void hand_drop(struct hand *h)
{
    struct node *n = h->node;
    struct hand **link = &n->hands;
    while (*link != h) {
        link = &(*link)->next;
    }
    *link = h->next;
    h->task->service->room++;
    task_free(&n->env, h->task);
    mem_free(&n->env, h);
}

static void hand_accepted(struct hand *h, const struct request_result *r)
{
    struct sim *s = h->node->sim;
    if (r->kind == RESULT_PENDING) {
        h->pending_done = r->pending_index;
        return;
    }
    if (h->done) {
        sim_violate(s, "fence", "%s: a result was accepted twice", h->sink->jid);
    }
    if (r->kind == RESULT_DONE && h->sink->token != h->task->ref.token) {
        sim_violate(s, "fence", "%s: a result was accepted of a task that another had",
                    h->sink->jid);
    }
    h->done = true;
    if (r->kind == RESULT_ERROR || r->kind == RESULT_PARK || r->kind == RESULT_BACK) {
        h->sink->errors++;
    } else if (++h->sink->accepted > 1) {
        sim_violate(s, "fence", "%s: two results of %.*s were accepted", h->sink->jid,
                    STR_ARG(h->task->addr));
    }
}

static bool is_worth_another_try(int rc)
{
    return qp_code_class(rc) == QP_CLASS_RETRY || rc == QP_E_UNKNOWN_OUTCOME;
}

static void hand_answered(struct hand *h, const struct request_result *r, int rc)
{
    struct node *n = h->node;
    h->waiting--;
    if (rc == QP_OK) {
        hand_accepted(h, r);
    } else if (!h->done) {
        sim_cover("result.refused");
    }
    if (h->waiting > 0) {
        return;
    }
    if ((rc == QP_OK && r->kind == RESULT_PENDING) || (!h->done && is_worth_another_try(rc))) {
        h->due_us = n->sim->now_us + random_below(&n->sim->choice, WORK_US);
        return; /* another result will come, or the same again: the task is still in hand */
    }
    if (!h->done) {
        h->sink->lost++;
    }
    hand_drop(h);
}

static void result_answered(struct engine *e, struct command *command, int rc, const char *why)
{
    struct hand *h = (struct hand *)((char *)command - offsetof(struct hand, request.command));
    (void)e;
    sim_trace(h->node->sim, "node %d: result of %s %.*s: %s %s", h->node->index, h->sink->jid,
              STR_ARG(h->task->addr), qp_code_word(rc), why == NULL ? "" : why);
    hand_answered(h, &h->request, rc);
}

static void again_answered(struct engine *e, struct command *command, int rc, const char *why)
{
    struct hand *h = (struct hand *)((char *)command - offsetof(struct hand, again.command));
    (void)e;
    (void)why;
    hand_answered(h, &h->again, rc);
}

static void hand_submit(struct hand *h)
{
    struct node *n = h->node;
    bool pending = h->pending_done < h->answer.pending;
    h->request = (struct request_result){.command.answer = result_answered,
                                         .task = h->task,
                                         .kind = pending ? RESULT_PENDING : h->answer.kind,
                                         .code = pending ? 202 : h->answer.code,
                                         .output = str_from(h->answer.output),
                                         .fatal = h->answer.fatal,
                                         .pending_index = pending ? h->pending_done + 1 : 0};
    if (h->request.kind == RESULT_ERROR || h->request.kind == RESULT_PARK) {
        h->request.error = h->request.output;
    }
    if (h->request.kind == RESULT_PARK) {
        h->request.reason = str_from(h->answer.park);
    }
    if (h->request.kind == RESULT_OTHER) {
        h->request.told = h->request.output;
        h->request.said = RESULT_OTHER;
    }
    request_result(&h->request);
    h->waiting = 1;
    engine_submit(n->engine, &h->request.command);
    if (h->twice && !pending) {
        h->twice = false;
        h->again = h->request;
        h->again.command = (struct command){.answer = again_answered};
        request_result(&h->again);
        h->waiting = 2;
        engine_submit(n->engine, &h->again.command);
    }
}

/* A beat that was refused says that the task is no longer ours. */
static void beat_answered(struct engine *e, struct command *command, int rc, const char *why)
{
    struct hand *h = (struct hand *)((char *)command - offsetof(struct hand, beat.command));
    (void)e;
    (void)why;
    h->waiting--;
    if (rc != QP_OK && !is_worth_another_try(rc)) {
        sim_cover("beat.refused");
        h->sink->lost++;
        hand_drop(h);
    }
}

static void hand_beat(struct hand *h)
{
    struct node *n = h->node;
    h->beat = (struct request_beat){.command.answer = beat_answered,
                                    .ref = h->task->ref,
                                    .lease_ms = h->task->service->lease_ms};
    request_beat(&h->beat);
    sim_cover("beat");
    h->waiting = 1;
    engine_submit(n->engine, &h->beat.command);
}

/* Whether the answer is still to come; a beat is sent meanwhile. */
static bool hand_takes_time(struct hand *h)
{
    struct sim *s = h->node->sim;
    int64_t beat_us = h->answer.beats_ms * 1000;
    if (s->now_us >= h->says_us) {
        return false;
    }
    h->due_us = beat_us > 0 && s->now_us + beat_us < h->says_us ? s->now_us + beat_us : h->says_us;
    if (beat_us > 0) {
        hand_beat(h);
    }
    return true;
}

static void hand_work(struct hand *h)
{
    struct sim *s = h->node->sim;
    if (!h->called) {
        h->called = true;
        h->sink->calls++;
        s->scene->execute(s->stage, h->node->index, h->task, &h->answer);
        h->says_us = s->now_us + h->answer.takes_ms * 1000;
        sim_trace(s, "node %d: call %s %.*s, try %lld", h->node->index, h->sink->jid,
                  STR_ARG(h->task->addr), (long long)h->task->tries);
    }
    if (!hand_takes_time(h)) {
        hand_submit(h);
    }
}

static void work_on(struct node *n)
{
    for (struct hand *h = n->hands, *next; h != NULL; h = next) {
        next = h->next;
        if (h->waiting == 0 && h->due_us <= n->sim->now_us) {
            hand_work(h);
        }
    }
}

bool node_has_work(const struct node *n)
{
    return n->hands != NULL || n->letter_count > 0;
}

/* ------------------------------------------------------------------------------------------- writer */

static void writer_main(void *context)
{
    struct node *n = context;
    for (;;) {
        if (n->work != NULL) {
            n->work(n->argument);
            n->work = NULL;
            n->wake_us = n->sim->now_us;
        }
        yield(n);
    }
}

static void writer_begin(void *context, void (*work)(void *argument), void *argument)
{
    struct node *n = context;
    n->work = work;
    n->argument = argument;
    sim_cover("writer");
}

static bool writer_is_busy(void *context)
{
    const struct node *n = context;
    return n->work != NULL;
}

static void writer_wait(void *context)
{
    struct node *n = context;
    while (n->work != NULL) {
        n->waits_for_writer = true;
        yield(n);
    }
    n->waits_for_writer = false;
}

/* -------------------------------------------------------------------------------------------- a life */

static void nap(struct node *n, int64_t us)
{
    n->wake_us = n->sim->now_us + us;
    yield(n);
}

static void open_engine(struct node *n)
{
    struct sim *s = n->sim;
    struct engine_options o = {.store = n->store,
                               .name = "sim",
                               .lease_ms =
                                   s->healed && s->lease_ms > 0 ? LEASE_HEALED_MS : s->lease_ms,
                               .keep_ms = s->keep_ms,
                               .max_deliveries = s->max_deliveries,
                               .batch = s->batch,
                               .slice_us = s->sliced ? -1 : 0,
                               .elsewhere = 1,
                               .ceilings = s->ceilings,
                               .stepwise = s->stepwise};
    struct qp_err err = {0};
    if (s->scene->programs != NULL) {
        o.programs = s->scene->programs(s->stage, n->index, &n->env);
    }
    if (s->scene->faces != NULL) {
        o.faces = s->scene->faces(s->stage, n->index, &n->env);
    }
    while (o.programs != NULL && o.programs[o.program_count] != NULL) {
        o.program_count++;
    }
    if (engine_open(&o, &n->engine, &err) != QP_OK) {
        sim_trace(s, "node %d: engine: %s", n->index, err.text);
        die(n);
    }
    for (size_t i = 0; s->scene->topics[i] != NULL; i++) {
        QP_ASSERT(i < TOPICS_MAX);
        n->services[i] = (struct service){.topic = str_from(s->scene->topics[i]),
                                          .room = s->room,
                                          .lease_ms = s->task_lease_ms,
                                          .context = n,
                                          .give = take_task};
        engine_serve(n->engine, &n->services[i]);
    }
    if (s->has_writer) {
        n->lent = (struct store_writer){n, writer_begin, writer_is_busy, writer_wait};
        engine_use_writer(n->engine, &n->lent);
    }
}

static void open_store(struct node *n)
{
    struct qp_err err = {0};
    if (store_open(&n->env, &(struct store_options){.memory = n->sim->memory}, &n->store, &err) !=
        QP_OK) {
        sim_trace(n->sim, "node %d: store: %s", n->index, err.text);
        die(n);
    }
}

/* When there is something to do again: a time that is due, a worker that is done, a letter. */
static void rest(struct node *n)
{
    struct sim *s = n->sim;
    qp_ms deadline = engine_deadline(n->engine);
    qp_ms now = store_now(n->store);
    int64_t until = deadline == INT64_MAX ? NEVER
                    : deadline <= now     ? s->now_us
                                          : s->now_us + (deadline - now) * 1000;
    for (const struct hand *h = n->hands; h != NULL; h = h->next) {
        until = h->waiting == 0 && h->due_us < until ? h->due_us : until;
    }
    for (int i = 0; i < n->letter_count; i++) {
        until = n->letters[i].arrives_us < until ? n->letters[i].arrives_us : until;
    }
    until = engine_is_writing(n->engine) && until > s->now_us + 1000 ? s->now_us + 1000 : until;
    if (until > s->now_us && !engine_is_writing(n->engine)) {
        watch_idle(s, n);
    }
    n->wake_us = until;
    yield(n);
}

static void leave(struct node *n)
{
    struct qp_err err = {0};
    if (n->sim->has_writer) {
        int rc = engine_rest(n->engine, &err);
        if (rc == QP_OK) {
            engine_use_writer(n->engine, NULL);
        }
    }
    if (engine_close(n->engine, &err) != QP_OK && !n->leaving) {
        sim_violate(n->sim, "close", "node %d: %s", n->index, err.text);
    }
    n->engine = NULL;
    while (n->hands != NULL) {
        n->hands->sink->lost += n->hands->called && !n->hands->done;
        hand_drop(n->hands);
    }
    if (store_close(n->store, &err) != QP_OK && !n->leaving) {
        sim_violate(n->sim, "close", "node %d: %s", n->index, err.text);
    }
    if (n->sim->scene->leave != NULL) {
        n->sim->scene->leave(n->sim->stage, n->index);
    }
    if (n->blocks != NULL) {
        sim_violate(n->sim, "leak", "node %d has memory left when it has closed", n->index);
    }
    n->closed = !n->leaving;
}

static void scene_turn(struct node *n)
{
    const struct scene *scene = n->sim->scene;
    if (scene->turn != NULL && !engine_is_writing(n->engine)) {
        scene->turn(n->sim->stage, n->index, n->store);
    }
}

static void node_main(void *context)
{
    struct node *n = context;
    struct store_info info;
    struct qp_err err = {0};
    open_store(n);
    open_engine(n);
    while (!n->closing && !n->leaving) {
        bool busy = false;
        int rc;
        scene_turn(n);
        node_read_letters(n);
        work_on(n);
        if (n->has_hint) {
            n->has_hint = false;
            engine_look_again(n->engine);
        }
        rc = engine_round(n->engine, &busy, &err);
        store_info(n->store, &info);
        if (info.refusing || (rc != QP_OK && qp_code_class(rc) != QP_CLASS_RETRY)) {
            sim_trace(n->sim, "node %d stops: %s", n->index, err.text);
            die(n); /* and whoever watches over it starts it again */
        }
        if (rc != QP_OK) {
            nap(n, 1000);
        } else if (!busy && !n->closing && !n->leaving && !n->has_hint) {
            rest(n);
        }
    }
    leave(n);
}

void node_init(struct node *n, struct sim *s, int index)
{
    *n = (struct node){.sim = s, .index = index, .waits_since = -1, .restart_us = NEVER};
    n->world = (struct model_world){.context = n,
                                    .call = world_call,
                                    .wait = world_wait,
                                    .pause = world_pause,
                                    .committing = world_committing,
                                    .committed = world_committed,
                                    .ended = world_ended,
                                    .late = world_late,
                                    .now_ms = world_now_ms,
                                    .hint = world_hint,
                                    .server = &s->server};
    n->env = (struct qp_env){.size = sizeof n->env,
                             .context = n,
                             .resize = node_resize,
                             .wall_ms = node_wall_ms,
                             .monotonic_us = node_monotonic_us,
                             .entropy = node_entropy,
                             .log = node_log};
    random_init(&n->entropy, s->options.seed, 100 + (uint64_t)index);
}

void node_start(struct node *n)
{
    sim_trace(n->sim, "node %d starts", n->index);
    n->up = true;
    n->crashed = false;
    n->lives++;
    n->wake_us = n->sim->now_us;
    n->restart_us = NEVER;
    n->fiber = fiber_create(node_main, n);
    n->writer = n->sim->has_writer ? fiber_create(writer_main, n) : NULL;
}

/* Calls whose answers nobody will hear are reasons for others. */
static void hands_lost(struct node *n)
{
    for (struct hand *h = n->hands; h != NULL; h = h->next) {
        h->sink->lost += h->called && !h->done;
    }
    n->hands = NULL;
}

static void handles_forget(struct node *n)
{
    struct memory_provider *next;
    for (struct memory_provider *p = n->sim->memory->handles; p != NULL; p = next) {
        next = p->next_handle;
        if (!p->base.read_only && p->base.env->context == n) {
            model_forget(p);
        }
    }
}

void node_down(struct node *n)
{
    sim_trace(n->sim, "node %d is down", n->index);
    watch_crash(n->sim, n);
    hands_lost(n);
    handles_forget(n);
    fiber_drop(n->fiber);
    fiber_drop(n->writer);
    blocks_free(n);
    n->fiber = n->writer = NULL;
    n->work = NULL;
    n->store = NULL;
    n->engine = NULL;
    n->letter_count = 0;
    n->waits_since = -1;
    n->waits_for_writer = false;
    n->world.lost = false;
    n->world.xid = 0;
    n->commit_fate = FATE_NONE;
    n->has_hint = false;
    n->leaving = false;
    n->up = false;
    n->restart_us = n->sim->now_us + random_below(&n->sim->choice, RESTART_US);
}

/* --------------------------------------------------------------------------------------- scheduling */

bool node_is_ready(const struct node *n)
{
    const struct sim *s = n->sim;
    return n->up && !n->closed && n->pause_us <= s->now_us && n->wake_us <= s->now_us &&
           (n->waits_since < 0 || n->waits_since != s->transactions) &&
           (!n->waits_for_writer || n->work == NULL);
}

bool writer_is_ready(const struct node *n)
{
    return n->up && !n->closed && n->writer != NULL && n->work != NULL &&
           n->pause_us <= n->sim->now_us;
}

/* When it can go on by itself. */
int64_t node_next_us(const struct node *n)
{
    int64_t at = n->wake_us > n->pause_us ? n->wake_us : n->pause_us;
    if (n->closed) {
        return NEVER;
    }
    if (!n->up) {
        return n->restart_us;
    }
    if (n->work != NULL) {
        return n->pause_us; /* its writer can */
    }
    return n->waits_since >= 0 && n->waits_since == n->sim->transactions ? NEVER : at;
}

static void go_on(struct node *n, struct fiber *f)
{
    bool there;
    n->running = f;
    there = fiber_enter(f);
    if (n->crashed || (!there && !n->closed)) {
        node_down(n);
    } else if (!there) {
        fiber_drop(n->fiber);
        fiber_drop(n->writer);
        n->fiber = n->writer = NULL;
    }
}

void node_go_on(struct node *n)
{
    go_on(n, n->fiber);
}

void writer_go_on(struct node *n)
{
    go_on(n, n->writer);
}
