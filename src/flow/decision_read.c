/* decision_read.c - the text of a decision, taken apart (see decision_read.h) */
#include "flow/decision_read.h"

#include <stdio.h>

#include "flow/flow.h"
#include "kernel/properties.h"
#include "kernel/retry.h"
#include "store/error.h"

static_assert(LIMIT_FLOW_COMMANDS == 2000, "a sentence below names it");

/* ---------------------------------------------------------------------------------------- members */

/* Members of a command, as they stand in the text; none: it has no such member. */
struct members {
    qp_str op, loc, v, name, input, retry, start_timeout, timeout, heartbeat, limit_key, shield;
    qp_str ok, error;
    qp_str until, names, got, limit, to, data, iteration, state, output, mark, of, value;
    qp_str workflow, id, detached, close, properties;
};

#define MEMBERS(M)                                                                                 \
    M(op)                                                                                          \
    M(loc)                                                                                         \
    M(v)                                                                                           \
    M(name)                                                                                        \
    M(input)                                                                                       \
    M(retry)                                                                                       \
    M(start_timeout)                                                                               \
    M(timeout)                                                                                     \
    M(heartbeat)                                                                                   \
    M(limit_key)                                                                                   \
    M(shield)                                                                                      \
    M(ok)                                                                                          \
    M(error)                                                                                       \
    M(until)                                                                                       \
    M(names)                                                                                       \
    M(got)                                                                                         \
    M(limit)                                                                                       \
    M(to)                                                                                          \
    M(data)                                                                                        \
    M(iteration)                                                                                   \
    M(state)                                                                                       \
    M(output)                                                                                      \
    M(mark)                                                                                        \
    M(of)                                                                                          \
    M(value)                                                                                       \
    M(workflow)                                                                                    \
    M(id)                                                                                          \
    M(detached)                                                                                    \
    M(close)                                                                                       \
    M(properties)

enum member {
#define MEMBER_ENUM(name) MEMBER_##name,
    MEMBERS(MEMBER_ENUM)
#undef MEMBER_ENUM
        MEMBER_COUNT
};
#define HAS(name) (UINT32_C(1) << MEMBER_##name)
#define PLACED (HAS(op) | HAS(loc) | HAS(v))

static const struct {
    const char *word;
    size_t offset;
} member_table[MEMBER_COUNT] = {
#define MEMBER_ROW(name) {#name, offsetof(struct members, name)},
    MEMBERS(MEMBER_ROW)
#undef MEMBER_ROW
};
static_assert(MEMBER_COUNT <= 32, "members are bits");

/* What each op needs, and what it may have. */
static const struct op_shape {
    const char *word;
    uint32_t needs;
    uint32_t may;
} shapes[FLOW_OPS] = {
    [FLOW_OP_ACTIVITY] = {"activity", PLACED | HAS(name) | HAS(input),
                          HAS(retry) | HAS(start_timeout) | HAS(timeout) | HAS(heartbeat) |
                              HAS(limit_key) | HAS(shield)},
    [FLOW_OP_RUN] = {"run", PLACED | HAS(name), HAS(ok) | HAS(error)},
    [FLOW_OP_SLEEP] = {"sleep", PLACED | HAS(until), 0},
    [FLOW_OP_LISTEN] = {"listen", PLACED | HAS(names), HAS(until) | HAS(got) | HAS(limit)},
    [FLOW_OP_SIGNAL] = {"signal", PLACED | HAS(to) | HAS(name) | HAS(data), 0},
    [FLOW_OP_CHILD] = {"child", PLACED | HAS(workflow) | HAS(input),
                       HAS(id) | HAS(detached) | HAS(close)},
    [FLOW_OP_BRANCH] = {"branch", PLACED, HAS(name)},
    [FLOW_OP_LOOP] = {"loop", PLACED | HAS(name) | HAS(iteration) | HAS(state),
                      HAS(output) | HAS(properties)},
    [FLOW_OP_MARK] = {"mark", PLACED | HAS(mark), HAS(of) | HAS(name) | HAS(value)},
    [FLOW_OP_SET] = {"set", HAS(op) | HAS(properties), 0},
    [FLOW_OP_RETURN] = {"return", HAS(op) | HAS(output), 0},
    [FLOW_OP_FAIL] = {"fail", HAS(op) | HAS(error), 0},
};

/* While one decision is read. */
struct reader {
    const struct qp_env *env;
    struct arena *arena;
    struct decision *decision;
    qp_ms now;
    size_t index; /* of the command */
    struct qp_err *err;
};

/* Nothing of the decision is applied: why, and which member of which command it is. */
static int refuse(const struct reader *r, const char *member, const char *format, ...)
    QP_PRINTF(3, 4);
static int refuse(const struct reader *r, const char *member, const char *format, ...)
{
    char text[QP_ERR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return command_refused(r->err, r->index, member, text);
}

static bool find_member(qp_str key, enum member *out_member)
{
    for (enum member m = 0; m < MEMBER_COUNT; m++) {
        if (str_equal(key, str_from(member_table[m].word))) {
            *out_member = m;
            return true;
        }
    }
    return false;
}

static int split(struct reader *r, qp_str text, struct members *out_members, uint32_t *out_has)
{
    struct raw_walk w = {.rest = text};
    if (raw_first(text) != '{') {
        return refuse(r, "", "a command has to be an object");
    }
    while (raw_each(&w)) {
        enum member m;
        if (!find_member(w.key, &m)) {
            return refuse(r, "", "unknown member '%.*s' of a command", STR_ARG(w.key));
        }
        memcpy((char *)out_members + member_table[m].offset, &w.value, sizeof w.value);
        *out_has |= UINT32_C(1) << m;
    }
    return QP_OK;
}

static int find_op(struct reader *r, const struct members *m, enum flow_op *out_op)
{
    qp_str word;
    if (str_is_none(m->op) || !raw_text(r->env, r->arena, m->op, &word)) {
        return refuse(r, "op", "a command needs its op, a string");
    }
    for (enum flow_op op = 0; op < FLOW_OPS; op++) {
        if (str_equal(word, str_from(shapes[op].word))) {
            *out_op = op;
            return QP_OK;
        }
    }
    return refuse(r, "op",
                  "sdk_too_old: no op '%.*s' is known here; upgrade this engine, or use an op that "
                  "it knows",
                  STR_ARG(word));
}

static int check_shape(struct reader *r, enum flow_op op, uint32_t has)
{
    const struct op_shape *shape = &shapes[op];
    for (enum member m = 0; m < MEMBER_COUNT; m++) {
        uint32_t bit = UINT32_C(1) << m;
        if ((shape->needs & bit) != 0 && (has & bit) == 0) {
            return refuse(r, member_table[m].word, "'%s' needs '%s'", shape->word,
                          member_table[m].word);
        }
        if ((has & bit) != 0 && ((shape->needs | shape->may) & bit) == 0) {
            return refuse(r, member_table[m].word, "'%s' has no '%s'", shape->word,
                          member_table[m].word);
        }
    }
    return QP_OK;
}

/* ----------------------------------------------------------------------------------------- values */

/* An integer as JSON has it. */
static bool is_integer(qp_str text)
{
    size_t digits = text.n > 0 && text.p[0] == '-' ? text.n - 1 : text.n;
    for (size_t i = text.n - digits; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9') {
            return false;
        }
    }
    return digits > 0 && digits <= 16; /* a double has it exactly */
}

static int take_number(struct reader *r, const char *member, qp_str text, int64_t min, int64_t max,
                       int64_t *out_number)
{
    int64_t number = is_integer(text) ? (int64_t)real_parse(text) : min - 1;
    if (number < min || number > max) {
        return refuse(r, member, "%s must be an integer between %lld and %lld, got %.*s", member,
                      (long long)min, (long long)max, STR_ARG(error_cut(text)));
    }
    *out_number = number;
    return QP_OK;
}

static int take_version(struct reader *r, qp_str text, int64_t *out_version)
{
    int64_t version = is_integer(text) ? (int64_t)real_parse(text) : 0;
    if (version < 1 || version > LIMIT_EVENT_VERSION) {
        return refuse(r, "v", "bad_version: v must be an integer between 1 and %lld, got %.*s",
                      (long long)LIMIT_EVENT_VERSION, STR_ARG(error_cut(text)));
    }
    *out_version = version;
    return QP_OK;
}

static int take_text(struct reader *r, const char *member, qp_str value, qp_str *out_text)
{
    return raw_text(r->env, r->arena, value, out_text)
               ? QP_OK
               : refuse(r, member, "%s has to be a string", member);
}

static int take_name(struct reader *r, const char *member, qp_str value, qp_str *out_name)
{
    struct qp_err why = {0};
    QP_TRY(take_text(r, member, value, out_name));
    return name_check(*out_name, member, &why) == QP_OK ? QP_OK : refuse(r, member, "%s", why.text);
}

/* A value that a row keeps as it came. */
static int take_value(struct reader *r, const char *member, qp_str value, qp_str *out_value)
{
    struct qp_err why = {0};
    int rc;
    if (value.n > LIMIT_PAYLOAD_SIZE) {
        return refuse(r, member, "too_large: %s has %zu bytes; LIMIT_PAYLOAD_SIZE is %d", member,
                      value.n, LIMIT_PAYLOAD_SIZE);
    }
    rc = json_check(r->env, value, NULL, &why);
    if (rc == QP_E_NOMEM) {
        return rc;
    }
    if (rc != QP_OK) {
        return refuse(r, member, "%s%s: %s", rc == QP_E_TOO_LARGE ? "too_large: " : "", member,
                      why.text);
    }
    *out_value = value;
    return QP_OK;
}

static int take_until(struct reader *r, qp_str value, qp_ms *out_until)
{
    int64_t until;
    QP_TRY(take_number(r, "until", value, 0, LIMIT_EVENT_VERSION, &until));
    if (until > r->now + LIMIT_TIMER_MS) {
        return refuse(r, "until", "bad_until: until is more than ten years from now: %lld",
                      (long long)until);
    }
    *out_until = until;
    return QP_OK;
}

static int take_location(struct reader *r, const char *member, qp_str value, qp_str *out_addr)
{
    char addr[LOCATION_ADDRESS_SIZE];
    struct location at;
    struct qp_err why = {0};
    qp_str text;
    QP_TRY(take_text(r, member, value, &text));
    if (location_parse(text, &at, &why) != QP_OK) {
        return refuse(r, member, "%s", why.text);
    }
    if (at.depth == 0) {
        return refuse(r, member, "bad_location: {} is the flow itself; no event stands there");
    }
    return arena_copy(r->arena, (qp_str){addr, location_address(&at, addr)}, out_addr) ? QP_OK
                                                                                       : QP_E_NOMEM;
}

/* A text that is built for a row. */
static int keep_built(struct reader *r, struct buf *out, qp_str *out_text)
{
    int rc = buf_rc(out);
    if (rc == QP_OK && !arena_copy(r->arena, buf_slice(out), out_text)) {
        rc = QP_E_NOMEM;
    }
    buf_done(out);
    return rc;
}

/* ----------------------------------------------------------------------------------- each op */

static int take_never(struct reader *r, struct buf *policy, qp_str value)
{
    struct raw_walk w = {.rest = value};
    if (raw_first(value) != '[') {
        return refuse(r, "retry/never", "never has to be an array of codes");
    }
    buf_text(policy, "never=");
    while (raw_each(&w)) {
        int64_t code;
        if (w.index == LIMIT_STEP_NEVER) {
            return refuse(r, "retry/never", "never has more than %d codes", LIMIT_STEP_NEVER);
        }
        QP_TRY(take_number(r, "retry/never", w.value, 400, 599, &code));
        buf_printf(policy, "%s%lld", w.index > 0 ? "+" : "", (long long)code);
    }
    buf_byte(policy, ',');
    return QP_OK;
}

static int take_retry_member(struct reader *r, struct buf *policy, const struct raw_walk *w)
{
    static const char *const plain[] = {"attempts", "backoff", "factor", "cap"};
    if (str_equal(w->key, QP_STR("never"))) {
        return take_never(r, policy, w->value);
    }
    for (size_t i = 0; i < ARRAY_COUNT(plain); i++) {
        if (str_equal(w->key, str_from(plain[i]))) {
            buf_printf(policy, "%s=%.*s,", plain[i], STR_ARG(w->value));
            return QP_OK;
        }
    }
    return refuse(r, "retry", "retry has attempts, backoff, factor, cap and never, no '%.*s'",
                  STR_ARG(w->key));
}

static int take_retry(struct reader *r, struct buf *policy, qp_str value)
{
    struct raw_walk w = {.rest = value};
    if (raw_first(value) != '{') {
        return refuse(r, "retry", "retry has to be an object");
    }
    while (raw_each(&w)) {
        QP_TRY(take_retry_member(r, policy, &w));
    }
    return QP_OK;
}

static int take_limit(struct reader *r, struct buf *policy, const char *key, const char *member,
                      qp_str value)
{
    int64_t ms;
    if (str_is_none(value)) {
        return QP_OK;
    }
    QP_TRY(take_number(r, member, value, 1, LIMIT_TIMER_MS, &ms));
    buf_printf(policy, "%s=%lld,", key, (long long)ms);
    return QP_OK;
}

/* A limit key may have commas, so it is the last. */
static int take_limit_key(struct reader *r, struct buf *policy, qp_str value)
{
    struct qp_err why = {0};
    qp_str key;
    if (str_is_none(value)) {
        return QP_OK;
    }
    QP_TRY(take_text(r, "limit_key", value, &key));
    if (id_check(key, "limit_key", &why) != QP_OK) {
        return refuse(r, "limit_key", "%s", why.text);
    }
    buf_text(policy, "limit=");
    buf_str(policy, key);
    return QP_OK;
}

static int fill_policy(struct reader *r, struct buf *policy, const struct members *m)
{
    if (!str_is_none(m->retry)) {
        QP_TRY(take_retry(r, policy, m->retry));
    }
    if (str_equal(m->shield, QP_STR("true"))) {
        buf_text(policy, "shield=1,");
    }
    QP_TRY(take_limit(r, policy, "start", "start_timeout", m->start_timeout));
    QP_TRY(take_limit(r, policy, "run", "timeout", m->timeout));
    QP_TRY(take_limit(r, policy, "beat", "heartbeat", m->heartbeat));
    return take_limit_key(r, policy, m->limit_key);
}

static int read_policy(struct reader *r, const struct members *m, qp_str *out_policy)
{
    struct retry retry;
    struct qp_err why = {0};
    struct buf policy;
    int rc;
    buf_init(&policy, r->env, 0);
    rc = fill_policy(r, &policy, m);
    if (rc != QP_OK || policy.n == 0) {
        buf_done(&policy);
        return rc;
    }
    if (policy.p[policy.n - 1] == ',') {
        policy.n--;
    }
    QP_TRY(keep_built(r, &policy, out_policy));
    return retry_parse(*out_policy, &retry, &why) == QP_OK ? QP_OK
                                                           : refuse(r, "retry", "%s", why.text);
}

static int read_activity(struct reader *r, const struct members *m, struct flow_command *c)
{
    struct qp_err why = {0};
    c->type = HISTORY_ACTIVITY;
    QP_TRY(take_name(r, "name", m->name, &c->name));
    if (topic_check(c->name, &why) != QP_OK) {
        return refuse(r, "name", "%s", why.text);
    }
    QP_TRY(take_value(r, "input", m->input, &c->input));
    return read_policy(r, m, &c->policy);
}

static int build(struct reader *r, qp_str *out_text, const char *format, ...) QP_PRINTF(3, 4);
static int build(struct reader *r, qp_str *out_text, const char *format, ...)
{
    va_list arguments;
    char *p;
    int n;
    va_start(arguments, format);
    n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    p = n < 0 ? NULL : arena_bytes(r->arena, (size_t)n + 1);
    if (p == NULL) {
        return QP_E_NOMEM;
    }
    va_start(arguments, format);
    (void)vsnprintf(p, (size_t)n + 1, format, arguments);
    va_end(arguments);
    *out_text = (qp_str){p, (size_t)n};
    return QP_OK;
}

static int read_run(struct reader *r, const struct members *m, struct flow_command *c)
{
    bool good = !str_is_none(m->ok);
    qp_str value = good ? m->ok : m->error;
    c->type = HISTORY_RUN;
    QP_TRY(take_name(r, "name", m->name, &c->name));
    if (good == !str_is_none(m->error)) {
        return refuse(r, "", "'run' needs one of ok and error");
    }
    if (!good && raw_first(value) != '{') {
        return refuse(r, "error", "error has to be an object: {\"code\",\"message\"}");
    }
    QP_TRY(take_value(r, good ? "ok" : "error", value, &value));
    return build(r, &c->input, "{\"%s\":%.*s}", good ? "ok" : "error", STR_ARG(value));
}

static int read_sleep(struct reader *r, const struct members *m, struct flow_command *c)
{
    qp_ms until;
    c->type = HISTORY_SLEEP;
    QP_TRY(take_until(r, m->until, &until));
    return build(r, &c->input, "{\"until\":%lld}", (long long)until);
}

static int check_names(struct reader *r, qp_str names)
{
    struct raw_walk w = {.rest = names};
    size_t count = 0;
    if (raw_first(names) != '[') {
        return refuse(r, "names", "names has to be an array of names");
    }
    while (raw_each(&w)) {
        qp_str name;
        QP_TRY(take_name(r, "names", w.value, &name));
        count++;
    }
    return count >= 1 && count <= LIMIT_LISTEN_NAMES
               ? QP_OK
               : refuse(r, "names", "a listen has 1 to %d names, got %zu", LIMIT_LISTEN_NAMES,
                        count);
}

static int read_listen(struct reader *r, const struct members *m, struct flow_command *c)
{
    bool timed = !str_is_none(m->until);
    int64_t limit = 1;
    qp_ms until = 0;
    c->type = timed ? HISTORY_SLEEP : HISTORY_SIGNALS;
    QP_TRY(check_names(r, m->names));
    if (!str_is_none(m->limit)) {
        QP_TRY(take_number(r, "limit", m->limit, 1, LIMIT_FLOW_LISTEN, &limit));
    }
    if (timed == str_is_none(m->got)) {
        return refuse(r, "got", "a listen has both until and got, or none of them");
    }
    if (!timed) {
        return build(r, &c->input, "{\"names\":%.*s,\"limit\":%lld}", STR_ARG(m->names),
                     (long long)limit);
    }
    QP_TRY(take_until(r, m->until, &until));
    QP_TRY(take_location(r, "got", m->got, &c->got));
    return build(r, &c->input, "{\"until\":%lld,\"names\":%.*s,\"limit\":%lld,\"got\":%.*s}",
                 (long long)until, STR_ARG(m->names), (long long)limit, STR_ARG(m->got));
}

static int read_signal(struct reader *r, const struct members *m, struct flow_command *c)
{
    struct qp_err why = {0};
    qp_str to;
    c->type = HISTORY_SIGNAL;
    QP_TRY(take_name(r, "name", m->name, &c->name));
    QP_TRY(take_text(r, "to", m->to, &to));
    if (id_check(to, "to", &why) != QP_OK) {
        return refuse(r, "to", "%s", why.text);
    }
    QP_TRY(take_value(r, "data", m->data, &c->input));
    return build(r, &c->input, "{\"to\":%.*s,\"name\":%.*s,\"data\":%.*s}", STR_ARG(m->to),
                 STR_ARG(m->name), STR_ARG(m->data));
}

static int take_child_id(struct reader *r, qp_str value, qp_str *out_id)
{
    struct qp_err why = {0};
    if (str_is_none(value)) {
        return QP_OK;
    }
    QP_TRY(take_text(r, "id", value, out_id));
    return id_check(*out_id, "id", &why) == QP_OK ? QP_OK : refuse(r, "id", "%s", why.text);
}

static int take_detached(struct reader *r, qp_str value, bool *out_detached)
{
    *out_detached = str_equal(value, QP_STR("true"));
    return str_is_none(value) || *out_detached || str_equal(value, QP_STR("false"))
               ? QP_OK
               : refuse(r, "detached", "detached has to be true or false");
}

/* Without a word a child that is awaited ends with its flow, and a detached one goes on. */
static int take_close(struct reader *r, qp_str value, bool detached, const char **out_word)
{
    qp_str word;
    *out_word = flow_close_word(detached ? CLOSE_ABANDON : CLOSE_CANCEL);
    if (str_is_none(value)) {
        return QP_OK;
    }
    QP_TRY(take_text(r, "close", value, &word));
    for (enum close_policy close = 0; close < CLOSE_POLICIES; close++) {
        if (str_equal(word, str_from(flow_close_word(close)))) {
            *out_word = flow_close_word(close);
            return QP_OK;
        }
    }
    return refuse(r, "close", "close is 'cancel', 'kill' or 'abandon', got '%.*s'",
                  STR_ARG(error_cut(word)));
}

/* The name of the event is that of the workflow. */
static int read_child(struct reader *r, const struct members *m, struct flow_command *c)
{
    struct qp_err why = {0};
    bool has_id = !str_is_none(m->id);
    bool detached = false;
    const char *close = NULL;
    c->type = HISTORY_CHILD;
    QP_TRY(take_name(r, "workflow", m->workflow, &c->name));
    if (topic_check(c->name, &why) != QP_OK) {
        return refuse(r, "workflow", "%s", why.text);
    }
    QP_TRY(take_child_id(r, m->id, &c->child));
    QP_TRY(take_detached(r, m->detached, &detached));
    QP_TRY(take_close(r, m->close, detached, &close));
    QP_TRY(take_value(r, "input", m->input, &c->input));
    return build(r, &c->input, "{%s%.*s%s\"close\":\"%s\",%s\"input\":%.*s}",
                 has_id ? "\"id\":" : "", has_id ? (int)m->id.n : 0, has_id ? m->id.p : "",
                 has_id ? "," : "", close, detached ? "\"detached\":true," : "", STR_ARG(m->input));
}

static int read_branch(struct reader *r, const struct members *m, struct flow_command *c)
{
    c->type = HISTORY_BRANCH;
    return str_is_none(m->name) ? QP_OK : take_name(r, "name", m->name, &c->name);
}

static int take_properties(struct reader *r, qp_str value)
{
    struct qp_err why = {0};
    int rc = properties_check(value, &why);
    return rc == QP_OK ? QP_OK
                       : refuse(r, "properties", "%s%s", rc == QP_E_TOO_LARGE ? "too_large: " : "",
                                why.text);
}

/* The end of what a loop keeps: what its rounds have set, and the object's. */
static int close_loop(struct reader *r, const struct members *m, struct flow_command *c)
{
    if (str_is_none(m->properties)) {
        return build(r, &c->state, "%.*s}", STR_ARG(c->state));
    }
    QP_TRY(take_properties(r, m->properties));
    return build(r, &c->state, "%.*s,\"properties\":%.*s}", STR_ARG(c->state),
                 STR_ARG(m->properties));
}

static int read_loop(struct reader *r, const struct members *m, struct flow_command *c)
{
    bool broken = !str_is_none(m->output);
    int64_t iteration;
    qp_str value;
    c->type = HISTORY_LOOP;
    QP_TRY(take_name(r, "name", m->name, &c->name));
    QP_TRY(take_number(r, "iteration", m->iteration, 0, LIMIT_ORDINATE, &iteration));
    QP_TRY(take_value(r, "state", m->state, &value));
    QP_TRY(build(r, &c->state, "{\"iteration\":%lld,\"state\":%.*s", (long long)iteration,
                 STR_ARG(m->state)));
    if (broken) {
        QP_TRY(take_value(r, "output", m->output, &value));
        QP_TRY(build(r, &c->state, "%.*s,\"seen\":%lld,\"output\":%.*s", STR_ARG(c->state),
                     (long long)r->decision->base, STR_ARG(m->output)));
    }
    return close_loop(r, m, c);
}

static int read_removed(struct reader *r, const struct members *m, struct flow_command *c)
{
    enum history_type of;
    c->type = HISTORY_REMOVED;
    if (str_is_none(m->of)) {
        return refuse(r, "of", "a removed mark needs 'of', the type of the step");
    }
    QP_TRY(take_text(r, "of", m->of, &c->policy));
    if (!history_type_of(c->policy, &of) || of == HISTORY_REMOVED) {
        return refuse(r, "of", "no type of steps is called '%.*s'", STR_ARG(error_cut(c->policy)));
    }
    return str_is_none(m->name) ? QP_OK : take_name(r, "name", m->name, &c->name);
}

static int read_mark(struct reader *r, const struct members *m, struct flow_command *c)
{
    qp_str mark;
    QP_TRY(take_text(r, "mark", m->mark, &mark));
    if (str_equal(mark, QP_STR("removed"))) {
        return read_removed(r, m, c);
    }
    if (!str_equal(mark, QP_STR("version"))) {
        return refuse(r, "mark", "mark is 'removed' or 'version', got '%.*s'",
                      STR_ARG(error_cut(mark)));
    }
    c->type = HISTORY_VERSION;
    return QP_OK;
}

/* A command that makes no event. */
static int read_other(struct reader *r, const struct members *m, enum flow_op op)
{
    struct decision *d = r->decision;
    if (op == FLOW_OP_SET) {
        d->properties = m->properties;
        return take_properties(r, m->properties);
    }
    if (op == FLOW_OP_RETURN) {
        d->end = DECISION_RETURNS;
        return take_value(r, "output", m->output, &d->value);
    }
    d->end = DECISION_FAILS;
    d->value = m->error;
    return raw_first(m->error) == '{'
               ? QP_OK
               : refuse(r, "error", "error has to be an object: {\"code\",\"message\"}");
}

static int (*const readers[FLOW_OPS])(struct reader *, const struct members *,
                                      struct flow_command *) = {
    [FLOW_OP_ACTIVITY] = read_activity, [FLOW_OP_RUN] = read_run,
    [FLOW_OP_SLEEP] = read_sleep,       [FLOW_OP_LISTEN] = read_listen,
    [FLOW_OP_CHILD] = read_child,       [FLOW_OP_SIGNAL] = read_signal,
    [FLOW_OP_BRANCH] = read_branch,     [FLOW_OP_LOOP] = read_loop,
    [FLOW_OP_MARK] = read_mark,
};

static int read_command(struct reader *r, qp_str text)
{
    struct members m = {0};
    struct flow_command c = {0};
    uint32_t has = 0;
    QP_TRY(split(r, text, &m, &has));
    QP_TRY(find_op(r, &m, &c.op));
    if (r->decision->end != DECISION_GOES_ON) {
        return refuse(r, "",
                      "after_end: the flow has ended with the command before; nothing follows it");
    }
    QP_TRY(check_shape(r, c.op, has));
    if (readers[c.op] == NULL) {
        return read_other(r, &m, c.op);
    }
    QP_TRY(take_location(r, "loc", m.loc, &c.addr));
    QP_TRY(take_version(r, m.v, &c.version));
    QP_TRY(readers[c.op](r, &m, &c));
    r->decision->commands[r->decision->count++] = c;
    return QP_OK;
}

/* ----------------------------------------------------------------------------------- the whole */

static int refuse_whole(struct qp_err *err, const char *member, const char *text)
{
    (void)err_set(err, QP_E_SHAPE, "%s", text);
    return err_point(err, QP_E_SHAPE, "%s", member);
}

static size_t count_items(qp_str array)
{
    struct raw_walk w = {.rest = array};
    size_t count = 0;
    while (raw_each(&w)) {
        count++;
    }
    return count;
}

static int read_commands(struct reader *r, qp_str array)
{
    struct raw_walk w = {.rest = array};
    size_t count;
    if (str_is_none(array) || raw_first(array) != '[') {
        return refuse_whole(r->err, "/commands", "a decision needs commands, an array");
    }
    count = count_items(array);
    if (count > LIMIT_FLOW_COMMANDS) {
        return refuse_whole(r->err, "/commands",
                            "decision_too_large: a decision has at most 2000 commands; wait for "
                            "something before the next ones");
    }
    r->decision->commands =
        arena_alloc(r->arena, (count > 0 ? count : 1) * sizeof *r->decision->commands);
    if (r->decision->commands == NULL) {
        return QP_E_NOMEM;
    }
    while (raw_each(&w)) {
        r->index = w.index;
        QP_TRY(read_command(r, w.value));
    }
    return QP_OK;
}

static int whole_number(struct qp_err *err, const char *pointer, qp_str text, int64_t min,
                        int64_t *out_number)
{
    int64_t number = is_integer(text) ? (int64_t)real_parse(text) : min - 1;
    if (number < min) {
        return refuse_whole(err, pointer,
                            min == 0 ? "base has to be an integer from 0 on"
                                     : "after has to be an integer from 1 on");
    }
    *out_number = number;
    return QP_OK;
}

/* Where the code has met the cancel: a location, as it stands. */
static int read_thrown(struct reader *r, qp_str value)
{
    struct location at;
    if (raw_first(value) != '"' || value.n < 2 ||
        location_parse((qp_str){value.p + 1, value.n - 2}, &at, NULL) != QP_OK) {
        return refuse_whole(r->err, "/thrown",
                            "bad_location: thrown has to be a location, like \"{2}\"");
    }
    r->decision->thrown = (qp_str){value.p + 1, value.n - 2};
    return QP_OK;
}

static int read_defers(struct reader *r, qp_str value)
{
    struct raw_walk w = {.rest = value};
    qp_str name;
    bool good = raw_first(value) == '[';
    while (good && raw_each(&w)) {
        good = w.index < LIMIT_FLOW_COMMANDS && raw_text(r->env, r->arena, w.value, &name) &&
               name_check(name, "defers", NULL) == QP_OK;
    }
    r->decision->defers = value;
    return good ? QP_OK
                : refuse_whole(r->err, "/defers",
                               "defers has to be an array of at most 2000 names of activities");
}

/* A result of a worker elsewhere is a decision as it is. */
static bool is_of_result(qp_str key)
{
    return str_equal(key, QP_STR("token")) || str_equal(key, QP_STR("status"));
}

int decision_read(const struct qp_env *env, struct arena *arena, qp_str text, qp_ms now,
                  struct decision *out_decision, struct qp_err *err)
{
    struct decision d = {.after = 1, .base = -1};
    struct reader r = {.env = env, .arena = arena, .decision = &d, .now = now, .err = err};
    struct raw_walk w = {.rest = text};
    qp_str commands = QP_NONE;
    if (raw_first(text) != '{') {
        return refuse_whole(err, "", "a decision has to be an object: {\"base\",\"commands\"}");
    }
    while (raw_each(&w)) {
        if (str_equal(w.key, QP_STR("base"))) {
            QP_TRY(whole_number(err, "/base", w.value, 0, &d.base));
        } else if (str_equal(w.key, QP_STR("after"))) {
            QP_TRY(whole_number(err, "/after", w.value, 1, &d.after));
        } else if (str_equal(w.key, QP_STR("commands"))) {
            commands = w.value;
        } else if (str_equal(w.key, QP_STR("keep"))) {
            d.keep = str_equal(w.value, QP_STR("true"));
        } else if (str_equal(w.key, QP_STR("thrown"))) {
            QP_TRY(read_thrown(&r, w.value));
        } else if (str_equal(w.key, QP_STR("defers"))) {
            QP_TRY(read_defers(&r, w.value));
        } else if (!is_of_result(w.key)) {
            return refuse_whole(
                err, "",
                "a decision has base, commands, after, keep, thrown and defers, nothing "
                "else");
        }
    }
    if (d.base < 0) {
        return refuse_whole(err, "/base", "a decision needs base, as its task has it");
    }
    QP_TRY(read_commands(&r, commands));
    *out_decision = d;
    return QP_OK;
}
