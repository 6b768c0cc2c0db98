/* script_cancel.c - where a cancel is thrown, and compensations (see script_cancel.h) */
#include "flow/script_cancel.h"

/* ----------------------------------------------------------------------------------------- landing */

void cancel_land(struct script *s, const struct work *work)
{
    if (!s->thrown && s->log->cancel.thrown.depth == 0) {
        s->landed = work->at;
    }
    s->thrown = true;
}

void cancel_met(const qp_flow *f, const struct work *work)
{
    if (work->cancelled && !work->is_closure) {
        cancel_land(f->script, work);
    }
}

bool cancel_lands(const qp_flow *f, const struct work *work)
{
    const struct script *s = f->script;
    const struct log_cancel *cancel = &s->log->cancel;
    if (cancel->done == 0 || s->thrown || work->is_closure || work->is_born || work->shielded ||
        work->cancelled) {
        return false;
    }
    return cancel->thrown.depth > 0 ? location_compare(&cancel->thrown, &work->at) == 0
                                    : work->open || work->done > cancel->done;
}

bool cancel_was_at(const qp_flow *f, const struct location *at)
{
    const struct script *s = f->script;
    return !s->thrown && s->log->cancel.thrown.depth > 0 &&
           location_compare(&s->log->cancel.thrown, at) == 0;
}

/* ------------------------------------------------------------------------------------ passing over */

/* The event was there before the cancel, and the code that unwinds has passed it. */
static bool may_pass(const struct script *s, const struct scope *scope)
{
    const struct cursor *c = &scope->cursor;
    return scope->unwinds && c->here < c->end && s->log->entries[c->here].n < s->log->cancel.done;
}

void scope_pass_to(const struct script *s, struct scope *scope, const struct cursor_step *step)
{
    while (may_pass(s, scope)) {
        struct cursor ahead = scope->cursor;
        struct cursor_found found;
        if (cursor_compare(&ahead, step, &found) != CURSOR_DIVERGED) {
            return;
        }
        cursor_pass_over(&scope->cursor);
    }
}

void scope_pass_all(const struct script *s, struct scope *scope)
{
    while (may_pass(s, scope) && !s->log->entries[scope->cursor.here].shielded) {
        cursor_pass_over(&scope->cursor);
    }
}

bool scope_passes(const struct script *s, const struct scope *scope,
                  const struct history_event *event)
{
    const struct log_entry *e = &s->log->entries[event - s->log->history.events];
    return scope->unwinds && e->n < s->log->cancel.done;
}
