/* script_child.c - the durable calls that start another job: qp_child, qp_begin_child
 *
 * One step, whose name is that of the workflow. What replay returns stands on its row, so a flow replays when its children are
 * gone; only the input is compared, and a difference is a warning, as with activities.
 */
#include "flow/flow.h"
#include "flow/script_calls.h"
#include "flow/script_step.h"

static const char *const close_words[] = {[QP_CLOSE_DEFAULT] = NULL,
                                          [QP_CLOSE_CANCEL] = "cancel",
                                          [QP_CLOSE_KILL] = "kill",
                                          [QP_CLOSE_ABANDON] = "abandon"};

static int check_options(const qp_flow *f, const char *call, const struct qp_child *options)
{
    struct qp_err err;
    if (options->id != NULL && id_check(str_from(options->id), "id", &err) != QP_OK) {
        return step_refuse(f, call, QP_E_INVALID, &err);
    }
    return step_range(f, call, "close", (int64_t)options->close, QP_CLOSE_DEFAULT,
                      QP_CLOSE_ABANDON);
}

static void put_text(struct json_writer *w, const char *key, const char *text)
{
    json_key(w, str_from(key));
    json_put_str(w, str_from(text));
}

static int command_child(struct script *s, const struct cursor_found *found, qp_str input,
                         const struct qp_child *options)
{
    struct json_writer *w = &s->writer;
    command_begin(s, "child", found);
    json_key(w, QP_STR("workflow"));
    json_put_str(w, found->name);
    json_key(w, QP_STR("input"));
    json_put_raw(w, input);
    if (options->id != NULL) {
        put_text(w, "id", options->id);
    }
    if (options->detached) {
        json_key(w, QP_STR("detached"));
        json_put_bool(w, true);
    }
    if (options->close != QP_CLOSE_DEFAULT) {
        put_text(w, "close", close_words[options->close]);
    }
    return command_end(s);
}

static int begin_child(qp_flow *f, const char *call, const char *workflow, qp_str input,
                       const struct qp_child *options, struct work *out_work)
{
    static const struct qp_child usual = {0};
    struct script *s = f->script;
    struct cursor_step step = {.type = HISTORY_CHILD, .n = f->n};
    struct cursor_found found;
    struct qp_err err;
    options = options == NULL ? &usual : options;
    QP_TRY(step_name(f, call, workflow, &step.name));
    if (topic_check(step.name, &err) != QP_OK) {
        return step_refuse(f, call, QP_E_INVALID, &err);
    }
    QP_TRY(step_json(f, call, "input", input, &input));
    QP_TRY(check_options(f, call, options));
    QP_TRY(step_take(f, &scope_of(f)->cursor, &step, &found));
    work_take(s, &found, out_work);
    if (found.verdict != CURSOR_REPLAY) {
        return command_child(s, &found, input, options);
    }
    call_compare(s, &found, flow_member(step_entry(s, &found)->input, "input"), input);
    return QP_OK;
}

int qp_child(qp_flow *f, const char *workflow, qp_str input, const struct qp_child *options,
             qp_str *out_output)
{
    struct work work;
    QP_TRY(script_enter(f, "qp_child"));
    QP_TRY(begin_child(f, "qp_child", workflow, input, options, &work));
    return work_await(f, &work, out_output);
}

int qp_begin_child(qp_flow *f, const char *workflow, qp_str input, const struct qp_child *options,
                   qp_handle *out_handle)
{
    struct work work;
    QP_TRY(script_enter(f, "qp_begin_child"));
    if (out_handle == NULL) {
        return call_no_output(f, "qp_begin_child");
    }
    QP_TRY(begin_child(f, "qp_begin_child", workflow, input, options, &work));
    return work_keep(f, &work, out_handle);
}
