/* rows.c - the texts of rows, a table of members per item (see rows.h) */
#include "agent/rows.h"

#include "agent/members.h"

/* Its parts are made of the whole; none: there is no error. */
static int read_error(struct arena *arena, qp_str text, struct state_error *out_error)
{
    struct json *tree = NULL;
    *out_error = (struct state_error){0};
    if (str_is_none(text)) {
        return QP_OK;
    }
    QP_TRY(json_build(arena->env, text, NULL, &tree));
    int rc = state_error(arena, tree, NULL, out_error);
    json_free(tree);
    return rc == QP_E_SHAPE ? QP_E_CORRUPT : rc;
}

/* ------------------------------------------------------------------------------------------ head */

/* Numbers that are not in the instance as such. */
struct head_rest {
    int64_t version;
    int64_t index; /* + 1 */
    qp_str error;
};

#define HEAD_VERSION 1
#define HEAD_MEMBERS 23

static void head_members(struct instance *s, struct row_counts *counts, struct head_rest *rest,
                         struct member out[HEAD_MEMBERS])
{
    const struct member members[HEAD_MEMBERS] = {
        NUMBER("v", &rest->version),
        FLAG("completed", &s->completed),
        FLAG("ongoing", &s->decision_ongoing),
        FLAG("parked", &s->parked),
        FLAG("due", &s->decision_due),
        NUMBER("index", &rest->index),
        NUMBER("triggered", &s->triggered_ms),
        NUMBER("attempt", &s->decision_attempt),
        NUMBER("branches", &s->branch_count),
        NUMBER("executions", &s->execution_count),
        NUMBER("open", &s->open_count),
        NUMBER("works", &s->work_count),
        NUMBER("tasks", &s->open_task_count),
        NUMBER("failed", &s->failed_count),
        NUMBER("last", &s->last_ms),
        NUMBER("order", &s->next_order),
        NUMBER("size", &s->buffer_size),
        NUMBER("waits", &counts->waits),
        NUMBER("actions", &counts->actions),
        NUMBER("properties", &counts->properties),
        NUMBER("last_property", &counts->last_property),
        RAW("error", &rest->error),
        TEXT("name", &s->pinned_name),
    };
    memcpy(out, members, sizeof(members));
}

int rows_put_head(struct arena *arena, const struct instance *s, const struct row_counts *counts,
                  qp_str *out_text)
{
    struct instance copy = *s;
    struct row_counts numbers = *counts;
    struct head_rest rest = {
        .version = HEAD_VERSION, .index = s->ongoing_index + 1, .error = s->error.json};
    struct member members[HEAD_MEMBERS];
    head_members(&copy, &numbers, &rest, members);
    return members_write(arena, members, HEAD_MEMBERS, out_text);
}

int rows_get_head(struct arena *arena, qp_str text, struct instance *out_instance,
                  struct row_counts *out_counts)
{
    struct head_rest rest = {0};
    struct member members[HEAD_MEMBERS];
    *out_counts = (struct row_counts){0};
    head_members(out_instance, out_counts, &rest, members);
    QP_TRY(members_read(arena, text, members, HEAD_MEMBERS));
    if (rest.version != HEAD_VERSION) {
        return QP_E_CORRUPT;
    }
    out_instance->ongoing_index = rest.index - 1;
    return read_error(arena, rest.error, &out_instance->error);
}

/* ----------------------------------------------------------------------- what a hook is called with */

struct call_rest {
    int64_t hook;
    qp_str error;
};

#define CALL_MEMBERS 5
#define CALL(call, rest)                                                                           \
    NUMBER("hook", &(rest)->hook), TEXT("name", &(call)->name), TEXT("input", &(call)->input),     \
        RAW("output", &(call)->output), RAW("error", &(rest)->error)

static int finish_call(struct arena *arena, const struct call_rest *rest, struct hook_call *call)
{
    if (rest->hook < HOOK_HANDLE || rest->hook > HOOK_TIMEOUT) {
        return QP_E_CORRUPT;
    }
    call->hook = (enum hook)rest->hook;
    return read_error(arena, rest->error, &call->error);
}

int rows_put_branch(struct arena *arena, const struct branch *branch, qp_str *out_text)
{
    struct branch b = *branch;
    struct call_rest rest = {.hook = b.call.hook, .error = b.call.error.json};
    const struct member members[] = {CALL(&b.call, &rest),          NUMBER("start", &b.start_index),
                                     NUMBER("at", &b.timestamp_ms), NUMBER("works", &b.work_count),
                                     FLAG("ended", &b.ended),       TEXT("result", &b.output)};
    return members_write(arena, members, ARRAY_COUNT(members), out_text);
}

int rows_get_branch(struct arena *arena, qp_str text, struct branch *out_branch)
{
    struct call_rest rest = {0};
    struct branch *b = out_branch;
    const struct member members[] = {
        CALL(&b->call, &rest),          NUMBER("start", &b->start_index),
        NUMBER("at", &b->timestamp_ms), NUMBER("works", &b->work_count),
        FLAG("ended", &b->ended),       TEXT("result", &b->output)};
    QP_TRY(members_read(arena, text, members, ARRAY_COUNT(members)));
    return finish_call(arena, &rest, &b->call);
}

int rows_put_action(struct arena *arena, const struct action *action, qp_str *out_text)
{
    struct action a = *action;
    struct call_rest rest = {.hook = a.call.hook, .error = a.call.error.json};
    bool of_work = a.status != NULL;
    struct row_work work = {of_work ? a.status->branch_key : 0, of_work ? a.status->number : 0};
    const struct member members[] = {CALL(&a.call, &rest),         NUMBER("at", &a.timestamp_ms),
                                     FLAG("of", &of_work),         NUMBER("branch", &work.branch),
                                     NUMBER("work", &work.number), NUMBER("attempt", &a.attempt)};
    return members_write(arena, members, ARRAY_COUNT(members), out_text);
}

int rows_get_action(struct arena *arena, qp_str text, struct action *out_action,
                    struct row_work *out_work)
{
    struct call_rest rest = {0};
    struct action *a = out_action;
    bool of_work = false;
    *out_work = (struct row_work){0};
    const struct member members[] = {CALL(&a->call, &rest),
                                     NUMBER("at", &a->timestamp_ms),
                                     FLAG("of", &of_work),
                                     NUMBER("branch", &out_work->branch),
                                     NUMBER("work", &out_work->number),
                                     NUMBER("attempt", &a->attempt)};
    QP_TRY(members_read(arena, text, members, ARRAY_COUNT(members)));
    out_work->branch = of_work ? out_work->branch : NO_INDEX;
    return finish_call(arena, &rest, &a->call);
}

/* ------------------------------------------------------------------------------------- executions */

int rows_put_chunk(struct arena *arena, const int64_t *keys, size_t count, qp_str *out_text)
{
    struct buf out;
    QP_ASSERT(count > 0);
    QP_ASSERT(count <= AGENT_CHUNK);
    buf_init(&out, arena->env, 0);
    for (size_t i = 0; i < count; i++) {
        buf_printf(&out, i == 0 ? "%lld" : ",%lld", (long long)keys[i]);
    }
    int rc = buf_rc(&out);
    if (rc == QP_OK && !arena_copy(arena, buf_slice(&out), out_text)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&out);
    return rc;
}

int rows_get_chunk(qp_str text, int64_t out_keys[AGENT_CHUNK], size_t *out_count)
{
    size_t count = 0;
    while (text.n > 0) {
        const char *comma = memchr(text.p, ',', text.n);
        qp_str one = {text.p, comma == NULL ? text.n : (size_t)(comma - text.p)};
        size_t used = comma == NULL ? one.n : one.n + 1;
        if (count == AGENT_CHUNK || !members_i64(one, &out_keys[count])) {
            return QP_E_CORRUPT;
        }
        count++;
        text = (qp_str){text.p + used, text.n - used};
    }
    *out_count = count;
    return QP_OK;
}

/* ------------------------------------------------------------------------------------------ works */

/* Numbers that stand as others in the status. */
struct definition_rest {
    int64_t type;
    int64_t end;
    int64_t number; /* + 1 */
    qp_str hash;
};

#define DEFINITION(s, rest)                                                                        \
    TEXT("name", &(s)->work.name), TEXT("input", &(s)->work.input),                                \
        TEXT("position", &(s)->work.position), TEXT("event", &(s)->work.event),                    \
        NUMBER("type", &(rest)->type), NUMBER("end", &(rest)->end),                                \
        NUMBER("end_ms", &(s)->work.end_ms), NUMBER("max", &(s)->work.max_processing_ms),          \
        FLAG("sync", &(s)->work.sync), NUMBER("number", &(rest)->number),                          \
        TEXT("hash", &(rest)->hash)

int rows_put_definition(struct arena *arena, const struct status *status, qp_str *out_text)
{
    struct status s = *status;
    struct definition_rest rest = {.type = s.work.type,
                                   .end = s.work.end,
                                   .number = s.number + 1,
                                   .hash = {s.hash, WORK_HASH_SIZE}};
    const struct member members[] = {DEFINITION(&s, &rest)};
    return members_write(arena, members, ARRAY_COUNT(members), out_text);
}

int rows_get_definition(struct arena *arena, qp_str text, struct status *out_status)
{
    struct definition_rest rest = {0};
    struct status *s = out_status;
    const struct member members[] = {DEFINITION(s, &rest)};
    QP_TRY(members_read(arena, text, members, ARRAY_COUNT(members)));
    if (rest.type < WORK_TASK || rest.type > WORK_WAIT || rest.end < WORK_END_NONE ||
        rest.end > WORK_END_AT || rest.number < 1 || rest.hash.n != WORK_HASH_SIZE) {
        return QP_E_CORRUPT;
    }
    s->work.type = (enum work_type)rest.type;
    s->work.end = (enum work_end)rest.end;
    s->number = rest.number - 1;
    memcpy(s->hash, rest.hash.p, WORK_HASH_SIZE);
    return QP_OK;
}

struct work_rest {
    int64_t state;
    int64_t completion; /* + 1 */
    qp_str error;
};

#define WORK(s, rest)                                                                              \
    NUMBER("state", &(rest)->state), NUMBER("attempt", &(s)->attempt),                             \
        NUMBER("retry", &(s)->retry_index), NUMBER("completion", &(rest)->completion),             \
        FLAG("started", &(s)->started), FLAG("timed_out", &(s)->timed_out),                        \
        FLAG("failing", &(s)->failing), FLAG("done", &(s)->completed),                             \
        RAW("output", &(s)->output), RAW("error", &(rest)->error)

int rows_put_work(struct arena *arena, const struct status *status, qp_str *out_text)
{
    struct status s = *status;
    struct work_rest rest = {
        .state = s.state, .completion = s.completion_index + 1, .error = s.error.json};
    const struct member members[] = {WORK(&s, &rest)};
    return members_write(arena, members, ARRAY_COUNT(members), out_text);
}

int rows_get_work(struct arena *arena, qp_str text, struct status *out_status)
{
    struct work_rest rest = {0};
    struct status *s = out_status;
    const struct member members[] = {WORK(s, &rest)};
    QP_TRY(members_read(arena, text, members, ARRAY_COUNT(members)));
    if (rest.state < WORK_SCHEDULED || rest.state > WORK_FAILED || rest.completion < 0) {
        return QP_E_CORRUPT;
    }
    s->state = (enum work_state)rest.state;
    s->completion_index = rest.completion - 1;
    return read_error(arena, rest.error, &s->error);
}

/* ------------------------------------------------------------------------------------------ waits */

int rows_put_wait(struct arena *arena, const struct wait *wait, qp_str *out_text)
{
    int64_t branch = wait->status->branch_key;
    int64_t end_ms = wait->end_ms;
    const struct member members[] = {NUMBER("branch", &branch), NUMBER("end", &end_ms)};
    return members_write(arena, members, ARRAY_COUNT(members), out_text);
}

int rows_get_wait(struct arena *arena, qp_str text, struct row_work *out_work, int64_t *out_end_ms)
{
    *out_work = (struct row_work){0};
    *out_end_ms = 0;
    const struct member members[] = {NUMBER("branch", &out_work->branch),
                                     NUMBER("end", out_end_ms)};
    return members_read(arena, text, members, ARRAY_COUNT(members));
}
