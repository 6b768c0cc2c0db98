/* acting.c - turns of an instance in the kernel's (see acting.h)
 *
 *   I1  all rows of a turn are written in one commit, with the digit, the ack or the answer that proves it
 *   I2  the head's `due` falls in the commit that puts the task of the decision
 *   I3  a job with a work that has failed is parked, and says which, if it is not parked for another reason; it is no more when none
 *       has
 *
 * If we crash before the commit, nothing of the turn happened, and what began it comes again. If we crash between
 * acting_save and acting_settle, step 2 of the same GUID settles; until then nothing else can prepare.
 */
#include "agent/acting.h"

#include "agent/start.h"
#include "kernel/deciding.h"
#include "kernel/face.h"

int64_t acting_now(const struct turn *t)
{
    const struct agents *agents = t->program->context;
    return agents->lead_ms != NULL ? *agents->lead_ms : bundle_now(t->bundle);
}

enum instance_mode acting_mode(const struct job_row *job)
{
    return job->paused != 0 ? MODE_PAUSE : MODE_RUN;
}

bool acting_is_led(const struct turn *t)
{
    return ((const struct agents *)t->program->context)->lead_ms != NULL;
}

int acting_start(struct turn *t, struct agent_start *out_start)
{
    const struct act_row *trigger = NULL;
    qp_str text;
    QP_TRY(turn_act(t, TRIGGER_ADDRESS, &trigger));
    QP_ASSERT(trigger != NULL);
    if (!arena_copy(turn_arena(t), trigger->input, &text)) {
        return QP_E_NOMEM;
    }
    return start_read(turn_arena(t), text, out_start);
}

/* ------------------------------------------------------------------------------------------ reading */

static int copy_value(struct arena *arena, qp_str value, qp_str *out)
{
    return arena_copy(arena, value, out) ? QP_OK : QP_E_NOMEM;
}

static int get_in_turn(void *context, struct arena *arena, bool works, qp_str name,
                       qp_str *out_value)
{
    const struct data_row *data = NULL;
    const struct act_row *act = NULL;
    *out_value = QP_NONE;
    if (works) {
        QP_TRY(turn_act(context, name, &act));
        return act == NULL ? QP_OK : copy_value(arena, act->input, out_value);
    }
    QP_TRY(turn_data(context, name, &data));
    return data == NULL ? QP_OK : copy_value(arena, data->value, out_value);
}

/* What a scan hands on. */
struct handing {
    const struct row_range *range;
    void *visitor;
    int (*visit)(void *visitor, qp_str name, qp_str value);
};

static int hand_on(void *context, const void *row)
{
    const struct handing *h = context;
    const struct act_row *act = row;
    const struct data_row *data = row;
    qp_str name;
    qp_str value;
    QP_TRY(copy_value(h->range->arena, h->range->works ? act->addr : data->name, &name));
    QP_TRY(copy_value(h->range->arena, h->range->works ? act->input : data->value, &value));
    return h->visit(h->visitor, name, value);
}

/* The scan of a range; its keys are the caller's. */
struct keys {
    struct act_row act;
    struct data_row data;
};

static struct scan scan_of(const struct row_range *range, struct job_ref ref, struct keys *keys)
{
    keys->act = (struct act_row){.ns = ref.ns, .job = ref.job, .addr = range->after};
    keys->data = (struct data_row){.ns = ref.ns, .job = ref.job, .name = range->after};
    const void *key = range->works ? (const void *)&keys->act : (const void *)&keys->data;
    return (struct scan){.table = range->works ? TABLE_act : TABLE_data,
                         .index = -1,
                         .prefix = key,
                         .prefix_count = 2,
                         .after = key,
                         .limit = range->limit,
                         .backwards = range->backwards};
}

static int each_in_turn(void *context, const struct row_range *range, void *visitor,
                        int (*visit)(void *visitor, qp_str name, qp_str value))
{
    struct turn *t = context;
    struct handing h = {range, visitor, visit};
    struct keys keys;
    struct scan scan = scan_of(range, t->site.ref, &keys);
    return bundle_each(t->bundle, &scan, &h, hand_on);
}

static int get_in_sight(void *context, struct arena *arena, bool works, qp_str name,
                        qp_str *out_value)
{
    const struct sight *sight = context;
    struct job_ref ref = {sight->job->ns, sight->job->job};
    struct act_row act = {.ns = ref.ns, .job = ref.job, .addr = name};
    struct data_row data = {.ns = ref.ns, .job = ref.job, .name = name};
    const void *row = NULL;
    int rc = store_get(sight->store, arena, works ? TABLE_act : TABLE_data,
                       works ? (const void *)&act : (const void *)&data, &row, sight->err);
    *out_value = QP_NONE;
    if (rc != QP_OK) {
        return rc == QP_E_NOT_FOUND ? QP_OK : rc;
    }
    *out_value =
        works ? ((const struct act_row *)row)->input : ((const struct data_row *)row)->value;
    return QP_OK;
}

static int each_in_sight(void *context, const struct row_range *range, void *visitor,
                         int (*visit)(void *visitor, qp_str name, qp_str value))
{
    const struct sight *sight = context;
    struct handing h = {range, visitor, visit};
    struct keys keys;
    struct scan scan = scan_of(range, (struct job_ref){sight->job->ns, sight->job->job}, &keys);
    return store_scan(sight->store, &scan, &h, hand_on, sight->err);
}

struct row_source acting_sight(const struct sight *sight)
{
    return (struct row_source){
        .context = (void *)(uintptr_t)sight, .get = get_in_sight, .each = each_in_sight};
}

int acting_load(struct acting *a, struct turn *t, unsigned windows)
{
    *a =
        (struct acting){.t = t, .source = {.context = t, .get = get_in_turn, .each = each_in_turn}};
    QP_TRY(bundle_run(t->bundle));
    QP_TRY(stored_load(&a->source, turn_arena(t), windows, &a->s, &a->stored));
    a->s.mode = acting_mode(t->job);
    return QP_OK;
}

int acting_begin(struct acting *a, struct turn *t)
{
    *a =
        (struct acting){.t = t, .source = {.context = t, .get = get_in_turn, .each = each_in_turn}};
    instance_init(&a->s, turn_arena(t), t->job->jid, t->job->workflow);
    a->s.mode = acting_mode(t->job);
    stored_begin(&a->source, &a->stored);
    return bundle_run(t->bundle);
}

int acting_work(struct acting *a, qp_str address, struct status **out_status)
{
    int64_t branch = 0;
    int64_t number = 0;
    bool is_work = agent_work_of(address, &branch, &number);
    QP_ASSERT(is_work);
    return stored_work(&a->source, &a->s, branch, number, out_status);
}

/* ------------------------------------------------------------------------------------------- writing */

static int put_in_turn(void *context, qp_str name, qp_str value)
{
    return turn_data_put(context, name, value);
}

/* The activity of a work: its row, which step 2 enters. */
static int put_work(void *context, qp_str address, const struct status *status, qp_str definition)
{
    struct turn *t = context;
    const struct act_row *instance = NULL;
    QP_TRY(turn_act(t, AGENT_ADDRESS, &instance));
    QP_ASSERT(instance != NULL);
    (void)status;
    return turn_row(t, &(struct op_act_create){.addr = address,
                                               .category = 'A',
                                               .cyclic = CYCLIC_LENT,
                                               .topic = instance->topic,
                                               .policy = QP_STR(AGENT_TASK_POLICY),
                                               .input = definition});
}

/* The failed work that was asked for first, of those that are in the window. */
static const struct status *first_failed(const struct instance *s)
{
    const struct status *first = NULL;
    for (size_t i = 0; i < s->statuses.count; i++) {
        const struct status *status = s->statuses.items[i];
        if (status->state == WORK_FAILED && (first == NULL || status->number < first->number)) {
            first = status;
        }
    }
    return first;
}

#define PARKED_PREFIX "work_failed "

static int set_parked(struct turn *t, qp_str text)
{
    return turn_op(
        t, &(struct op){.kind = OP_job_set,
                        .job_set = {.ref = t->site.ref, .what = JOB_SET_PARKED, .parked = text}});
}

/* A work's name may be any text; what the job's row says has a limit. */
static int park_for(struct turn *t, qp_str name)
{
    size_t prefix = sizeof PARKED_PREFIX - 1;
    char *text = arena_bytes(turn_arena(t), prefix + name.n);
    if (text == NULL) {
        return QP_E_NOMEM;
    }
    memcpy(text, PARKED_PREFIX, prefix);
    memcpy(text + prefix, name.p, name.n);
    return set_parked(t, (qp_str){text, prefix + name.n});
}

static bool says_work_failed(qp_str parked)
{
    size_t prefix = sizeof PARKED_PREFIX - 1;
    return parked.n >= prefix && memcmp(parked.p, PARKED_PREFIX, prefix) == 0;
}

/* I3. A decision that failed, or a message that was delivered too often, has parked the job for another reason, which stays until
 * a retry has taken it back (retry.h). */
static int mark_parked(struct acting *a)
{
    qp_str parked = a->t->job->parked;
    const struct status *failed = first_failed(&a->s);
    if (a->s.parked || state_is_over(&a->s)) {
        return QP_OK;
    }
    if (a->s.failed_count == 0) {
        return says_work_failed(parked) ? set_parked(a->t, QP_NONE) : QP_OK;
    }
    return str_is_none(parked) && failed != NULL ? park_for(a->t, failed->work.name) : QP_OK;
}

int acting_save(struct acting *a)
{
    struct row_sink sink = {.context = a->t, .put = put_in_turn, .work = put_work};
    QP_TRY(mark_parked(a));
    return stored_save(&a->stored, &sink, &a->s);
}

/* ---------------------------------------------------------------------------------------- settling */

static int put_decision(struct acting *a)
{
    qp_str name;
    qp_str head;
    a->s.decision_due = false;
    QP_TRY(bundle_run(a->t->bundle));
    QP_TRY(turn_decision(a->t, AGENT_ADDRESS));
    QP_TRY(agent_row_name(turn_arena(a->t), AGENT_HEAD, 0, 0, &name));
    QP_TRY(rows_put_head(turn_arena(a->t), &a->s, &a->stored.counts, &head));
    return turn_data_put(a->t, name, head);
}

/* The instance waits when neither a decision nor a task is there that anybody works on. */
static int say_waits(struct turn *t, bool waits)
{
    const struct act_row *act = NULL;
    struct op op = {.kind = OP_act_add,
                    .act_add = {.ref = t->site.ref, .addr = AGENT_ADDRESS, .attempt = -1}};
    QP_TRY(turn_act(t, AGENT_ADDRESS, &act));
    QP_ASSERT(act != NULL);
    if (waits == (act->waits == ACT_WAITS)) {
        return QP_OK;
    }
    op.act_add.waits = waits ? ACT_WAITS : ACT_BUSY;
    op.act_add.works = !waits;
    return turn_op(t, &op);
}

int acting_settle(struct acting *a, bool *out_waits)
{
    bool waits = !a->s.decision_ongoing && a->s.open_task_count == 0 && !state_is_over(&a->s);
    if (a->s.decision_due) {
        QP_TRY(put_decision(a));
    }
    if (out_waits != NULL) {
        *out_waits = waits;
        return QP_OK;
    }
    return state_is_over(&a->s) ? QP_OK : say_waits(a->t, waits);
}

int acting_note(struct turn *t, enum agent_event event, qp_str name)
{
    qp_str detail;
    QP_TRY(state_text(turn_arena(t), name, &detail));
    return turn_event(t, KERNEL_EVENTS + event, detail);
}

int acting_conclude(struct acting *a, enum agent_event event, qp_str name)
{
    QP_TRY(acting_note(a->t, event, name));
    QP_TRY(acting_save(a));
    return acting_settle(a, NULL);
}
