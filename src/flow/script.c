/* script.c - one run of a flow's function, and what came of it (see script.h) */
#include "flow/script_calls.h"
#include "flow/script_commands.h"

/* --------------------------------------------------------------------------------------- the result */

static int finish(struct script *s, const struct work *work)
{
    struct script_result *r = &s->result;
    if (work->open) {
        r->kind = SCRIPT_WAITS;
        return commands_write(s, NULL, NULL, QP_NONE, &r->decision);
    }
    if (work->failed) {
        r->kind = SCRIPT_FAILED;
        return commands_write(s, "fail", "error", work->output, &r->decision);
    }
    r->kind = SCRIPT_RETURNED;
    return commands_write(s, "return", "output", work->output, &r->decision);
}

/* A call from another thread spoils the run, whatever the function has returned. */
static void look_for_strays(struct script *s)
{
    const char *call = atomic_load(&s->stray);
    if (call != NULL && s->rc == QP_OK) {
        (void)script_mistake(
            s, QP_E_INVALID,
            "%s: called from another thread; durable calls are made on the thread that the "
            "flow's function runs on",
            call);
    }
}

static void run(struct script *s, const struct script_input *input)
{
    struct frame root;
    struct work work;
    int rc;
    frame_begin(&root, s, FRAME_FLOW, s->log->workflow);
    cursor_begin(&root.own.cursor, &s->log->history);
    root.now = s->log->started_at;
    rc = input->function(&root.flow, s->log->input, input->context);
    look_for_strays(s);
    if (frame_end(&root, rc, &work) == QP_OK) {
        (void)finish(s, &work);
    }
}

int script_run(const struct script_input *input, struct script_result *out_result)
{
    struct script s = {.env = input->env,
                       .arena = input->arena,
                       .log = input->log,
                       .start = input->now,
                       .thread = pthread_self(),
                       .compensate = step_compensate};
    s.last = &s.first;
    atomic_init(&s.stray, NULL);
    buf_init(&s.text, input->env, 0);
    buf_init(&s.defer_names, input->env, 0);
    run(&s, input);
    buf_done(&s.text);
    buf_done(&s.defer_names);
    mem_free(s.env, s.works);
    if (s.rc == QP_E_NOMEM) {
        return QP_E_NOMEM;
    }
    *out_result = s.result;
    return QP_OK;
}
