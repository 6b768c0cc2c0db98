/* cursor.c - one branch of a history beside its code (see cursor.h) */
#include "flow/cursor.h"

const char *cursor_code(enum cursor_verdict verdict)
{
    switch (verdict) {
    case CURSOR_DIVERGED:
        return "history_diverged";
    case CURSOR_LATENT:
        return "latent_history";
    case CURSOR_REFUSED:
        return "insertion_refused";
    default:
        QP_ASSERT(verdict == CURSOR_BAD);
        return "bad_location";
    }
}

/* --------------------------------------------------------------------------------------- the walk */

/* The event under the cursor; NULL: the history of the branch has ended. */
static const struct history_event *current(const struct cursor *c)
{
    return c->here < c->end ? &c->history->events[c->here] : NULL;
}

/* The first event of the branch itself, from this one on: what lies deeper below a location without
 * an event is stepped over. */
static size_t settle(const struct cursor *c, size_t index)
{
    while (index < c->end && c->history->events[index].depth != c->last.depth) {
        index = c->history->events[index].behind;
    }
    return index;
}

static enum cursor_verdict stop(struct cursor_found *found, enum cursor_verdict verdict)
{
    QP_ASSERT(cursor_is_stopped(verdict));
    found->verdict = verdict;
    return verdict;
}

/* The code has passed the event under the cursor. */
static enum cursor_verdict pass(struct cursor *c, struct cursor_found *found,
                                enum cursor_verdict verdict)
{
    found->verdict = verdict;
    c->last = found->at;
    c->here = settle(c, found->event->behind);
    c->looked = false;
    return verdict;
}

/* The step is written behind everything that the branch has. */
static enum cursor_verdict append(struct cursor *c, struct cursor_found *found)
{
    QP_ASSERT(found->event == NULL);
    if (!location_next(&c->last, &found->at)) {
        return stop(found, CURSOR_BAD);
    }
    found->verdict = CURSOR_NEW;
    c->last = found->at;
    return CURSOR_NEW;
}

/* The step is written before the event under the cursor. */
static enum cursor_verdict insert(struct cursor *c, struct cursor_found *found)
{
    struct location at;
    if (!location_between(&c->last, &found->at, &at)) {
        return stop(found, CURSOR_BAD);
    }
    found->at = at;
    if (c->looked) {
        return stop(found, CURSOR_REFUSED);
    }
    found->verdict = CURSOR_INSERT;
    c->last = at;
    return CURSOR_INSERT;
}

/* The event under the cursor, and the code's side of what is compared with it. */
static struct cursor_found meet(const struct cursor *c, enum history_type type, qp_str name,
                                int64_t n)
{
    struct cursor_found found = {
        .event = current(c), .type = type, .name = name, .version = c->version + n - 1};
    QP_ASSERT(n >= 1 && found.version <= LIMIT_EVENT_VERSION);
    if (found.event != NULL) {
        found.at = history_location(found.event);
    }
    return found;
}

/* ---------------------------------------------------------------------------------------- branches */

void cursor_begin(struct cursor *c, const struct history *history)
{
    const struct location root = {0};
    *c = (struct cursor){
        .history = history, .version = 1, .last = location_start(&root), .end = history->count};
    c->here = settle(c, 0);
}

/* Where the events below a location begin; one that has no event may have some all the same. */
static size_t seek_below(const struct history *h, const struct cursor_found *found)
{
    char key[LOCATION_KEY_SIZE];
    return found->verdict == CURSOR_REPLAY
               ? (size_t)(found->event - h->events) + 1
               : history_seek(h, (qp_str){key, location_key(&found->at, key)});
}

static size_t seek_behind(const struct history *h, const struct location *location)
{
    char key[LOCATION_KEY_SIZE];
    return history_seek(h, (qp_str){key, location_behind(location, key)});
}

void cursor_enter(struct cursor *c, const struct cursor *parent, const struct cursor_found *found)
{
    const struct history *h = parent->history;
    QP_ASSERT(found->verdict <= CURSOR_INSERT);
    QP_ASSERT(found->type == HISTORY_BRANCH || found->type == HISTORY_LOOP);
    *c = (struct cursor){.history = h,
                         .version = found->version,
                         .last = location_start(&found->at),
                         .end = found->verdict == CURSOR_REPLAY ? found->event->behind
                                                                : seek_behind(h, &found->at)};
    c->here = settle(c, seek_below(h, found));
}

/* ------------------------------------------------------------------------------------------- steps */

/* No name and an empty one are the same. */
static bool has_name(const struct history_event *e, const struct cursor_step *step)
{
    return step->any_name || (e->name.n == 0 ? step->name.n == 0 : str_equal(e->name, step->name));
}

enum cursor_verdict cursor_compare(struct cursor *c, const struct cursor_step *step,
                                   struct cursor_found *out_found)
{
    *out_found = meet(c, step->type, step->name, step->n);
    if (out_found->event == NULL) {
        return append(c, out_found);
    }
    if (out_found->version > out_found->event->version) {
        return insert(c, out_found);
    }
    if (out_found->version < out_found->event->version || out_found->event->type != step->type ||
        !has_name(out_found->event, step)) {
        return stop(out_found, CURSOR_DIVERGED);
    }
    return pass(c, out_found, CURSOR_REPLAY);
}

/* The event is the step that was removed, or says so of it. */
static bool is_removed(const struct history_event *e, const struct cursor_step *step,
                       int64_t version)
{
    bool is_type = e->type == step->type || (e->type == HISTORY_REMOVED && e->of == step->type);
    return is_type && e->version == version && has_name(e, step);
}

enum cursor_verdict cursor_remove(struct cursor *c, const struct cursor_step *step,
                                  struct cursor_found *out_found)
{
    QP_ASSERT(step->type != HISTORY_REMOVED);
    *out_found = meet(c, HISTORY_REMOVED, step->name, step->n);
    out_found->of = step->type;
    if (out_found->event == NULL) {
        return append(c, out_found);
    }
    if (is_removed(out_found->event, step, out_found->version)) {
        return pass(c, out_found, CURSOR_SKIP);
    }
    out_found->verdict = CURSOR_IGNORE;
    return CURSOR_IGNORE;
}

enum cursor_verdict cursor_check(struct cursor *c, const struct cursor_question *question,
                                 struct cursor_found *out_found)
{
    int64_t context = c->version + question->n - 1;
    *out_found = meet(c, HISTORY_VERSION, QP_NONE, question->n + question->latest - 1);
    QP_ASSERT(question->n >= 1 && question->latest >= 1);
    if (out_found->event == NULL) {
        out_found->value = question->latest;
        return append(c, out_found);
    }
    if (out_found->event->version < context) {
        return stop(out_found, CURSOR_DIVERGED);
    }
    out_found->value = out_found->event->version - context + 1;
    if (out_found->event->type == HISTORY_VERSION) {
        out_found->version = out_found->event->version;
        return pass(c, out_found, CURSOR_REPLAY);
    }
    c->looked = true;
    out_found->verdict = CURSOR_LOOK;
    return CURSOR_LOOK;
}

/* ------------------------------------------------------------------------------------------- loops */

/* The event at exactly this location; NULL: there is none. *out_index is where it is or would be. */
static const struct history_event *event_at(const struct history *h, const struct location *at,
                                            size_t *out_index)
{
    char bytes[LOCATION_KEY_SIZE];
    qp_str key = {bytes, location_key(at, bytes)};
    *out_index = history_seek(h, key);
    return *out_index < h->count && str_equal(h->events[*out_index].key, key)
               ? &h->events[*out_index]
               : NULL;
}

enum cursor_verdict cursor_iterate(struct cursor *c, int64_t iteration,
                                   struct cursor_found *out_found)
{
    struct location loop = location_parent(&c->last);
    size_t index;
    *out_found = (struct cursor_found){.type = HISTORY_BRANCH, .version = c->version};
    QP_ASSERT(iteration >= 0);
    if (iteration >= LIMIT_ORDINATE ||
        !location_child(&loop, (uint32_t)(iteration + 1), &out_found->at)) {
        return stop(out_found, CURSOR_BAD);
    }
    QP_ASSERT(location_compare(&c->last, &out_found->at) < 0);
    out_found->event = event_at(c->history, &out_found->at, &index);
    if (out_found->event == NULL) {
        out_found->verdict = CURSOR_NEW;
        c->last = out_found->at;
        c->here = settle(c, index);
        return CURSOR_NEW;
    }
    if (out_found->event->type != HISTORY_BRANCH || out_found->event->version != c->version) {
        return stop(out_found, CURSOR_DIVERGED);
    }
    return pass(c, out_found, CURSOR_REPLAY);
}

void cursor_pass_over(struct cursor *c)
{
    const struct history_event *event = &c->history->events[c->here];
    QP_ASSERT(c->here < c->end);
    c->last = history_location(event);
    c->here = settle(c, event->behind);
    c->looked = false;
}

/* -------------------------------------------------------------------------------------- ends */

static enum cursor_verdict end_at(const struct cursor *c, size_t index,
                                  struct cursor_found *out_found)
{
    *out_found = (struct cursor_found){.verdict = CURSOR_END};
    if (index < c->end) {
        out_found->verdict = CURSOR_LATENT;
        out_found->event = &c->history->events[index];
        out_found->at = history_location(out_found->event);
    }
    return out_found->verdict;
}

enum cursor_verdict cursor_end(const struct cursor *c, struct cursor_found *out_found)
{
    return end_at(c, c->here, out_found);
}

enum cursor_verdict cursor_end_loop(const struct cursor *c, int64_t iteration,
                                    struct cursor_found *out_found)
{
    struct location loop = location_parent(&c->last);
    struct location last;
    size_t index = c->here;
    QP_ASSERT(iteration >= 0);
    if (iteration > LIMIT_ORDINATE) {
        index = c->end;
    } else if (iteration > 0 && location_child(&loop, (uint32_t)iteration, &last)) {
        index = settle(c, seek_behind(c->history, &last));
    }
    return end_at(c, index, out_found);
}

const struct history_event *cursor_following(const struct cursor *c,
                                             const struct history_event *event)
{
    size_t index = settle(c, event->behind);
    return index < c->end ? &c->history->events[index] : NULL;
}

/* --------------------------------------------------------------------------------------- in words */

bool cursor_is_behind(const struct cursor_found *found)
{
    return found->verdict == CURSOR_DIVERGED && found->event->version > found->version;
}

void cursor_explain_side(struct buf *out, enum history_type type, enum history_type of, qp_str name,
                         int64_t version)
{
    buf_text(out, history_word(type));
    if (type == HISTORY_REMOVED) {
        buf_printf(out, " %s", history_word(of));
    }
    if (type == HISTORY_VERSION) {
        buf_text(out, " check");
    }
    if (name.n > 0) {
        buf_printf(out, " '%.*s'", STR_ARG(name));
    }
    buf_printf(out, " v%lld", (long long)version);
}

static void explain_event(struct buf *out, const struct history_event *e)
{
    cursor_explain_side(out, e->type, e->of, e->name, e->version);
}

static void explain_code(struct buf *out, const struct cursor_found *found)
{
    cursor_explain_side(out, found->type, found->of, found->name, found->version);
}

static void explain_diverged(const struct cursor_found *found, const char *at, struct buf *out)
{
    buf_printf(out, "history and code differ at %s: history has ", at);
    explain_event(out, found->event);
    buf_text(out, ", the code has ");
    explain_code(out, found);
    if (cursor_is_behind(found)) {
        buf_text(out, "; the history was written by newer code: run that code");
    } else {
        buf_printf(out,
                   "; give a step that was added a version above %lld, replace one that was "
                   "dropped by removed, or restore the code",
                   (long long)found->event->version);
    }
}

static void explain_latent(const struct cursor *c, const struct cursor_found *found,
                           struct buf *out)
{
    char text[LOCATION_TEXT_SIZE];
    struct location branch = location_parent(&c->last);
    size_t count = 0;
    (void)location_print(&branch, text);
    buf_printf(out, "the code of %s ended, and its history goes on: ", text);
    for (const struct history_event *e = found->event; e != NULL; e = cursor_following(c, e)) {
        struct location at = history_location(e);
        if (count++ < LIMIT_LATENT_NAMED) {
            (void)location_print(&at, text);
            buf_printf(out, "%s%s ", count > 1 ? "; " : "", text);
            explain_event(out, e);
        }
    }
    if (count > LIMIT_LATENT_NAMED) {
        buf_printf(out, "; and %zu more", count - LIMIT_LATENT_NAMED);
    }
    buf_text(out, "; keep these steps, or replace each one by removed");
}

static void explain_refused(const struct cursor_found *found, const char *at, struct buf *out)
{
    buf_text(out, "the code has ");
    explain_code(out, found);
    buf_printf(out, " at %s, directly behind a version check that read ", at);
    explain_event(out, found->event);
    buf_text(out, "; the next replay of the check would read the version of the inserted step: "
                  "move the step before the check or behind the event");
}

void cursor_explain(const struct cursor *c, const struct cursor_found *found, struct buf *out)
{
    char at[LOCATION_TEXT_SIZE];
    QP_ASSERT(cursor_is_stopped(found->verdict));
    (void)location_print(&found->at, at);
    if (found->verdict == CURSOR_DIVERGED) {
        explain_diverged(found, at, out);
    } else if (found->verdict == CURSOR_LATENT) {
        explain_latent(c, found, out);
    } else if (found->verdict == CURSOR_REFUSED) {
        explain_refused(found, at, out);
    } else {
        buf_text(out, "the location of ");
        explain_code(out, found);
        buf_printf(out,
                   " is beyond the limits: %d coordinates, %d ordinates, %lld per ordinate; nest "
                   "less deeply",
                   LIMIT_LOCATION_COORDINATES, LIMIT_LOCATION_ORDINATES, (long long)LIMIT_ORDINATE);
    }
}
