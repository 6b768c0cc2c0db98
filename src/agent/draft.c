/* draft.c - executions one by one, and the answers to the works that their scripts reach */
#include "agent/draft.h"

#include "base/failpoint.h"

void draft_init(struct draft *d, struct arena *arena, const struct instance *instance)
{
    QP_ASSERT(instance->decision_ongoing);
    QP_ASSERT(!instance->parked);
    *d = (struct draft){.instance = instance,
                        .arena = arena,
                        .ongoing_index = instance->ongoing_index,
                        .attempt = instance->decision_attempt,
                        .index = instance->ongoing_index};
}

bool draft_is_finished(const struct draft *d)
{
    return !d->modified && !d->in_hand && d->index == d->instance->execution_count;
}

/* properties(index), with the changes of this draft: their keys are behind those of the instance. */
static qp_str properties_at(const struct draft *d, int64_t index)
{
    if (d->property_count > 0 && d->properties[0].key <= index) {
        return state_properties(d->properties, d->property_count, index);
    }
    return state_properties(d->instance->properties, d->instance->property_count, index);
}

qp_str draft_handed(const struct draft *d)
{
    QP_ASSERT(d->in_hand);
    return properties_at(d, d->base_index);
}

static int check_in_hand(const struct draft *d, struct qp_err *err)
{
    if (d->modified) {
        return err_set(err, QP_E_CONFLICT,
                       "the decision ended as modified; it can be retried after a fix of the code");
    }
    if (!d->in_hand) {
        return err_set(err, QP_E_CONFLICT, "no branch is in hand; get the next branch first");
    }
    return QP_OK;
}

int draft_branch(struct draft *d, struct qp_err *err, const struct branch **out_branch,
                 qp_str *out_properties)
{
    if (d->modified) {
        return check_in_hand(d, err);
    }
    if (d->index == d->instance->execution_count) {
        *out_branch = NULL;
        *out_properties = QP_NONE;
        return QP_OK;
    }
    const struct branch *branch = state_branch(d->instance, state_execution(d->instance, d->index));
    QP_ASSERT(branch->start_index <= d->index);
    d->in_hand = true;
    d->base_index = branch->start_index;
    *out_branch = branch;
    *out_properties = draft_handed(d);
    return QP_OK;
}

/* ------------------------------------------------------------------------------------- execute */

static struct status *find(const struct draft *d, int64_t branch_key, qp_str position)
{
    struct status *status = status_find(&d->instance->statuses, branch_key, position);
    return status != NULL ? status : status_find(&d->statuses, branch_key, position);
}

static int schedule(struct draft *d, const struct agent_work *work, int64_t branch_key)
{
    struct status *status = ARENA_NEW(d->arena, struct status);
    if (status == NULL) {
        return QP_E_NOMEM;
    }
    status->work = *work;
    status->branch_key = branch_key;
    status->attempt = 1;
    status->completion_index = NO_INDEX;
    if (!arena_copy(d->arena, work->name, &status->work.name) ||
        !arena_copy(d->arena, work->input, &status->work.input) ||
        !arena_copy(d->arena, work->position, &status->work.position) ||
        !arena_copy(d->arena, work->event, &status->work.event)) {
        return QP_E_NOMEM;
    }
    work_hash(work, branch_key, status->hash);
    QP_TRY(STATE_GROW(d->arena, d->works, d->work_count, d->work_room));
    QP_TRY(status_add(d->arena, &d->statuses, status));
    d->works[d->work_count++] = (struct draft_work){.status = status, .index = d->index};
    return QP_OK;
}

static bool is_modified(const struct draft *d, const struct agent_work *works, size_t count,
                        int64_t branch_key)
{
    for (size_t i = 0; i < count; i++) {
        const struct status *status = find(d, branch_key, works[i].position);
        char hash[WORK_HASH_SIZE];
        work_hash(&works[i], branch_key, hash);
        if (status != NULL && memcmp(status->hash, hash, sizeof(hash)) != 0) {
            return true;
        }
    }
    return false;
}

/* A completion is visible from its index on, which grows within the decision. */
static bool is_visible(const struct draft *d, const struct status *status)
{
    return status->state == WORK_SUCCESSFUL && status->completion_index <= d->index;
}

static int schedule_new(struct draft *d, const struct agent_work *works, size_t count,
                        int64_t branch_key, bool *out_all_visible)
{
    *out_all_visible = true;
    for (size_t i = 0; i < count; i++) {
        const struct status *status = find(d, branch_key, works[i].position);
        if (status == NULL) {
            QP_TRY(schedule(d, &works[i], branch_key));
        }
        *out_all_visible &= status != NULL && is_visible(d, status);
    }
    return QP_OK;
}

static int complete(struct draft *d, const struct agent_work *works, size_t count,
                    int64_t branch_key, struct draft_reply *out)
{
    int64_t index = 0;
    qp_str *outputs = arena_alloc(d->arena, count * sizeof(*outputs));
    if (outputs == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        const struct status *status = find(d, branch_key, works[i].position);
        QP_ASSERT(status->completion_index != NO_INDEX);
        outputs[i] = status->output;
        index = status->completion_index > index ? status->completion_index : index;
    }
    if (works[0].sync) {
        d->base_index = index;
    }
    *out = (struct draft_reply){.status = REPLY_COMPLETED,
                                .properties = properties_at(d, index),
                                .outputs = outputs,
                                .output_count = count};
    return QP_OK;
}

int draft_execute(struct draft *d, const struct agent_work *works, size_t count, struct qp_err *err,
                  struct draft_reply *out_reply)
{
    bool all_visible = false;
    QP_ASSERT(count > 0);
    QP_TRY(check_in_hand(d, err));
    int64_t branch_key = state_execution(d->instance, d->index);
    if (is_modified(d, works, count, branch_key)) {
        d->modified = true;
        d->in_hand = false;
        *out_reply = (struct draft_reply){.status = REPLY_MODIFIED};
        return QP_OK;
    }
    QP_TRY(schedule_new(d, works, count, branch_key, &all_visible));
    if (all_visible) {
        return complete(d, works, count, branch_key, out_reply);
    }
    *out_reply = (struct draft_reply){.status = REPLY_SCHEDULED};
    return QP_OK;
}

/* ---------------------------------------------------------------------------------------- post */

static int check_text(qp_str text, const char *what, struct qp_err *err)
{
    if (text.n <= LIMIT_INSTANCE_TEXT_SIZE) {
        return QP_OK;
    }
    return err_set(err, QP_E_TOO_LARGE, "%s must have at most %d bytes, got %zu", what,
                   LIMIT_INSTANCE_TEXT_SIZE, text.n);
}

static int update_properties(struct draft *d, qp_str values)
{
    bool is_fresh = PLANT(stale_properties) || d->base_index == d->index;
    if (!is_fresh || str_equal(values, properties_at(d, d->index))) {
        return QP_OK;
    }
    QP_TRY(STATE_GROW(d->arena, d->properties, d->property_count, d->property_room));
    struct property *property = &d->properties[d->property_count];
    if (!arena_copy(d->arena, values, &property->values)) {
        return QP_E_NOMEM;
    }
    property->key = d->index + 1;
    d->property_count++;
    return QP_OK;
}

static int set_output(struct draft *d, qp_str output)
{
    QP_TRY(STATE_GROW(d->arena, d->outputs, d->output_count, d->output_room));
    struct draft_output *out = &d->outputs[d->output_count];
    if (!arena_copy(d->arena, output, &out->output)) {
        return QP_E_NOMEM;
    }
    out->branch_key = state_execution(d->instance, d->index);
    d->output_count++;
    return QP_OK;
}

int draft_post(struct draft *d, qp_str properties, const qp_str *output, struct qp_err *err)
{
    QP_TRY(check_in_hand(d, err));
    QP_TRY(check_text(properties, "properties", err));
    if (output != NULL) {
        QP_TRY(check_text(*output, "output", err));
    }
    QP_TRY(update_properties(d, properties));
    if (output != NULL) {
        QP_TRY(set_output(d, *output));
    }
    d->in_hand = false;
    d->index++;
    return QP_OK;
}

int draft_name(struct draft *d, qp_str name, struct qp_err *err)
{
    if (name.n == 0 || name.n > LIMIT_ID_SIZE) {
        return err_set(err, QP_E_SHAPE, "name must have 1 to %d bytes, got %zu", LIMIT_ID_SIZE,
                       name.n);
    }
    if (!d->instance->is_unnamed || !str_is_none(d->name)) {
        return QP_OK;
    }
    return arena_copy(d->arena, name, &d->name) ? QP_OK : QP_E_NOMEM;
}
