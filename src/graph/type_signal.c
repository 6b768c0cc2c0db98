/* type_signal.c - signal: category B, tells one or all that wait at a topic
 *
 *   entry    the GUID of Leg1: 001000000000000, GUID 000000000000000
 *   step A   the signal, in the commit that says so: activity +100B, GUID +10B. To one: it meets its waiter, or is
 *            kept; when no more is kept for its key, that is an error, 429. To all: one durable message, whose pages
 *            reach those who were registered by now (H12)
 *   step B   children and semaphore: GUID +1B; step C as ever
 *
 * If we crash before step A's commit, nobody was told; if after it, whoever is concerned has a message, or will get it from the
 * page that is next. Its GUID follows from ours, so that it is told once.
 */
#include "graph/action.h"
#include "graph/program.h"
#include "kernel/face.h"

static int describe(struct action *s, struct op_act_create *row)
{
    int rc = action_topic(s, s->activity->topic, &row->topic);
    row->category = 'B';
    return rc == QP_OK ? action_json(s, s->activity->input, &row->input) : rc;
}

/* The rule by which signals of a topic find whom they are for; NULL: nobody has one. Of a topic that no active version
 * has the job's own version may know. */
static int rule_of(struct action *s, qp_str topic, const struct hook_rule **out_rule)
{
    struct row_reader reader;
    const struct app *app = NULL;
    struct meaning meaning;
    int64_t ns = s->turn->job->ns;
    *out_rule = app_hook(s->graph->app, topic);
    QP_TRY(names_find(turn_faces(s->turn)->names, s->turn->bundle, action_arena(s), ns, NAME_HOOK,
                      topic, &meaning));
    if (meaning.kind != GRAPH_KIND) {
        return QP_OK;
    }
    action_reader(s->turn, &reader);
    QP_TRY(library_app(s->library, &reader, ns, meaning.version, &app));
    *out_rule = app_hook(app, topic);
    return QP_OK;
}

static int code_of(struct action *s, int64_t *out_code)
{
    qp_str status = QP_NONE;
    QP_TRY(action_text(s, s->activity->status, &status));
    return setting_code(s,
                        str_equal(status, QP_STR("pending")) ? 202
                        : str_equal(status, QP_STR("error")) ? 500
                                                             : 200,
                        out_code);
}

/* Nobody waits, and no more is kept: an error of the activity, which a transition can take. */
static int be_refused(struct action *s, struct work *work)
{
    work->code = 429;
    return action_error(s, work->code, "nobody waits, and no more signals are kept for this key",
                        &work->output);
}

static int signal_one(struct action *s, qp_str payload, bool *out_full)
{
    qp_str topic = s->turn->act->topic;
    const struct hook_rule *rule = NULL;
    struct turn_signal signal = {
        .topic = topic, .key = QP_STR("*"), .payload = payload, .ttl_ms = LIMIT_SIGNAL_TTL_MS};
    int rc = rule_of(s, topic, &rule);
    rc = rc == QP_OK && rule != NULL
             ? signal_key(action_arena(s), s->scope.env, s->scope.now, rule, payload, &signal.key)
             : rc;
    rc = rc == QP_OK ? code_of(s, &signal.code) : rc;
    if (rc != QP_OK || str_is_none(signal.key)) {
        return rc != QP_OK ? rc : QP_E_INVALID;
    }
    rc = turn_signal(s->turn, &signal);
    *out_full = signal.out_full;
    return rc;
}

/* Those whose job has the facet. Without its name or value it would be for everybody, or for nobody knows whom. */
static int signal_all(struct action *s, qp_str payload)
{
    struct turn_signal_all signal = {.topic = s->turn->act->topic, .payload = payload};
    int rc = action_text(s, s->activity->key_name, &signal.attribute);
    rc = rc == QP_OK ? action_text(s, s->activity->key_value, &signal.value) : rc;
    if (rc == QP_OK && (str_is_none(signal.attribute) || str_is_none(signal.value))) {
        rc = QP_E_INVALID;
    }
    rc = rc == QP_OK ? code_of(s, &signal.code) : rc;
    return rc == QP_OK ? turn_signal_all(s->turn, &signal) : rc;
}

static int work(struct action *s, struct work *work)
{
    qp_str payload = QP_NONE;
    bool full = false;
    int rc = action_json(s, s->activity->signal, &payload);
    if (rc == QP_OK && str_is_none(payload)) {
        payload = QP_STR("{}");
    }
    rc = rc != QP_OK        ? rc
         : s->activity->all ? signal_all(s, payload)
                            : signal_one(s, payload, &full);
    if (rc == QP_OK && full) {
        return be_refused(s, work);
    }
    return rc == QP_OK ? action_output(s, QP_NONE, &work->output) : rc;
}

const struct type type_signal = {
    .word = "signal", .describe = describe, .work = work, .spawn = advance};
