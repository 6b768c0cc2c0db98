/* history.c - an array of events: checked, linked, searched (see history.h) */
#include "flow/history.h"

static const char *const words[HISTORY_TYPES] = {
    [HISTORY_ACTIVITY] = "activity", [HISTORY_RUN] = "run",         [HISTORY_SLEEP] = "sleep",
    [HISTORY_SIGNALS] = "signals",   [HISTORY_SIGNAL] = "signal",   [HISTORY_MESSAGE] = "message",
    [HISTORY_CHILD] = "child",       [HISTORY_LOOP] = "loop",       [HISTORY_BRANCH] = "branch",
    [HISTORY_REMOVED] = "removed",   [HISTORY_VERSION] = "version",
};

static bool is_type(enum history_type type)
{
    return type >= HISTORY_ACTIVITY && type < HISTORY_TYPES;
}

const char *history_word(enum history_type type)
{
    QP_ASSERT(is_type(type));
    return words[type];
}

bool history_type_of(qp_str word, enum history_type *out_type)
{
    for (enum history_type type = HISTORY_ACTIVITY; type < HISTORY_TYPES; type++) {
        if (str_equal(word, str_from(words[type]))) {
            *out_type = type;
            return true;
        }
    }
    return false;
}

/* Only a removed event says what it stands for, and a removed event is not removed again. */
static bool is_sound(const struct history_event *e)
{
    bool of_fits = e->type == HISTORY_REMOVED ? is_type(e->of) && e->of != HISTORY_REMOVED
                                              : e->of == (enum history_type)0;
    return is_type(e->type) && of_fits && e->version >= 1 && e->version <= LIMIT_EVENT_VERSION;
}

static int check(struct history_event *events, size_t index, struct qp_err *err)
{
    struct history_event *e = &events[index];
    struct location location;
    if (!location_from_key(e->key, &location) || location.depth == 0) {
        return err_set(err, QP_E_INVALID, "event %zu: its key is not that of a location", index);
    }
    if (index > 0 && str_compare(events[index - 1].key, e->key) >= 0) {
        return err_set(err, QP_E_INVALID, "event %zu: its location is not behind the one before",
                       index);
    }
    e->depth = location.depth;
    return is_sound(e) ? QP_OK
                       : err_set(err, QP_E_INVALID, "event %zu: unknown type %d or version %lld",
                                 index, (int)e->type, (long long)e->version);
}

static bool is_below(const struct history_event *below, const struct history_event *above)
{
    return below->key.n > above->key.n && memcmp(below->key.p, above->key.p, above->key.n) == 0;
}

/* From the last to the first, so that what lies below an event is linked already: every event is
 * stepped over once, by the nearest one above it. */
static void link_events(struct history_event *events, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        size_t behind = i + 1;
        while (behind < count && is_below(&events[behind], &events[i])) {
            behind = events[behind].behind;
        }
        events[i].behind = behind;
    }
}

int history_init(struct history *h, struct history_event *events, size_t count, struct qp_err *err)
{
    for (size_t i = 0; i < count; i++) {
        QP_TRY(check(events, i, err));
    }
    link_events(events, count);
    *h = (struct history){.events = events, .count = count};
    return QP_OK;
}

size_t history_seek(const struct history *h, qp_str key)
{
    size_t low = 0;
    size_t high = h->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (str_compare(h->events[middle].key, key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct location history_location(const struct history_event *event)
{
    struct location location;
    bool good = location_from_key(event->key, &location);
    QP_ASSERT(good);
    return location;
}
