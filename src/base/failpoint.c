/* failpoint.c - counts every named point that is passed, and fails at the one a test asked for
 *
 * Compiled to nothing in the shipped objects. A point is interned by its text at the first hit, in
 * a fixed table that only grows: a slot that is `used` never changes its name again, so looking up
 * takes no lock. When nothing is set, a hit costs one hash of a short name and two increments.
 *
 * The n of a spec counts from the moment it is set: "the third time from now". The point `*` is an
 * entry of its own, with one running counter over all hits; in a fresh process "*=kill@17" kills
 * at the 17th hit of any point. A point's own action is asked first, that of `*` second. The error
 * is always QP_E_IO: the world's failure, which every caller must be ready for.
 */
#include "base/failpoint.h"

#ifdef QP_FAILPOINTS

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum plant plant_set;

#define FAILPOINT_COUNT 1024 /* slots; a power of two, kept at most three quarters full */
#define FAILPOINT_NAME_SIZE 96
#define FAILPOINT_DELAY_MS 60000

static_assert((FAILPOINT_COUNT & (FAILPOINT_COUNT - 1)) == 0, "slots are found by masking");

enum action { ACTION_OFF, ACTION_KILL, ACTION_ERROR, ACTION_DELAY, ACTION_CALL };

/* What a spec says. */
struct order {
    enum action action;
    int64_t delay_ms;
    int64_t from; /* acts at this hit */
    bool forever; /* and at all later ones */
};

struct point {
    atomic_bool used;
    char name[FAILPOINT_NAME_SIZE];
    atomic_llong hits;
    struct order order;
    int64_t set_at; /* hits when the order was given */
};

static struct point points[FAILPOINT_COUNT];
static struct point star = {.name = "*"};
static void (*on_call)(void *context); /* of ACTION_CALL */
static void *on_call_context;
static atomic_int armed_count; /* orders that are not OFF */
static int point_count;        /* under intern_lock */
static pthread_mutex_t intern_lock = PTHREAD_MUTEX_INITIALIZER;

static struct point *find(const char *name, size_t size);
static struct point *intern(const char *name, size_t size);
static size_t first_slot(const char *name, size_t size);
static bool is_named(const struct point *point, const char *name, size_t size);
static int act(const struct point *point, int64_t hits);
static void give_order(struct point *point, const struct order *order);
static bool parse_order(const char *text, struct order *out_order);
static bool parse_number(const char **at, int64_t *out_number);
static bool skip_word(const char **at, const char *word);

int failpoint_hit(const char *name)
{
    struct point *point = intern(name, strlen(name));
    int64_t hits = atomic_fetch_add(&point->hits, 1) + 1;
    int64_t all = atomic_fetch_add(&star.hits, 1) + 1;
    int rc;

    if (atomic_load(&armed_count) == 0) {
        return QP_OK;
    }
    rc = act(point, hits);
    return rc != QP_OK ? rc : act(&star, all);
}

int failpoint_set(const char *spec)
{
    static const struct order off = {.action = ACTION_OFF};
    const char *equals = spec == NULL ? NULL : strchr(spec, '=');
    struct order order;

    if (spec == NULL) {
        for (size_t i = 0; i < FAILPOINT_COUNT; i++) {
            give_order(&points[i], &off);
        }
        give_order(&star, &off);
        return QP_OK;
    }
    if (equals == NULL || equals == spec || equals - spec >= FAILPOINT_NAME_SIZE ||
        !parse_order(equals + 1, &order)) {
        return QP_E_INVALID;
    }
    give_order(intern(spec, (size_t)(equals - spec)), &order);
    return QP_OK;
}

int64_t failpoint_hits(const char *name)
{
    struct point *point = find(name, strlen(name));

    return point == NULL ? 0 : atomic_load(&point->hits);
}

void failpoint_reset(void)
{
    (void)failpoint_set(NULL); /* clearing cannot fail */
    for (size_t i = 0; i < FAILPOINT_COUNT; i++) {
        atomic_store(&points[i].hits, 0);
    }
    atomic_store(&star.hits, 0);
}

void failpoint_on_call(void (*call)(void *context), void *context)
{
    on_call = call;
    on_call_context = context;
}

/* Visits what was hit since the last reset. */
void failpoint_each(void (*visit)(void *context, const char *name, int64_t hits), void *context)
{
    for (size_t i = 0; i < FAILPOINT_COUNT; i++) {
        int64_t hits = atomic_load(&points[i].hits);

        if (hits > 0) {
            visit(context, points[i].name, hits);
        }
    }
}

static int act(const struct point *point, int64_t hits)
{
    const struct order *order = &point->order;
    int64_t turn = hits - point->set_at;

    if (order->action == ACTION_OFF || turn < order->from ||
        (turn > order->from && !order->forever)) {
        return QP_OK;
    }
    if (order->action == ACTION_ERROR) {
        return QP_E_IO;
    }
    if (order->action == ACTION_DELAY) {
        struct timespec wait = {order->delay_ms / 1000, order->delay_ms % 1000 * 1000000};

        (void)nanosleep(&wait, NULL); /* a shorter delay is a delay, too */
        return QP_OK;
    }
    if (order->action == ACTION_CALL) {
        QP_ASSERT(on_call != NULL);
        on_call(on_call_context);
        return QP_OK;
    }
    (void)kill(getpid(), SIGKILL); /* cannot fail: the process may signal itself */
    for (;;) {
        (void)pause(); /* until the signal arrives */
    }
}

static void give_order(struct point *point, const struct order *order)
{
    int before = point->order.action != ACTION_OFF;
    int after = order->action != ACTION_OFF;

    point->order = *order;
    point->set_at = atomic_load(&point->hits);
    (void)atomic_fetch_add(&armed_count, after - before); /* only the new count matters */
}

/* --------------------------------------------------------------------------- the table of names */

static struct point *find(const char *name, size_t size)
{
    size_t slot = first_slot(name, size);

    if (size == 1 && name[0] == '*') {
        return &star;
    }
    while (atomic_load(&points[slot].used)) {
        if (is_named(&points[slot], name, size)) {
            return &points[slot];
        }
        slot = (slot + 1) & (FAILPOINT_COUNT - 1);
    }
    return NULL;
}

static struct point *intern(const char *name, size_t size)
{
    struct point *point = find(name, size);
    size_t slot = first_slot(name, size);

    if (point != NULL) {
        return point;
    }
    QP_ASSERT(size < FAILPOINT_NAME_SIZE);
    (void)pthread_mutex_lock(&intern_lock); /* a plain mutex that is never destroyed: cannot fail */
    point = find(name, size);
    if (point == NULL) {
        QP_ASSERT(point_count < FAILPOINT_COUNT / 4 * 3);
        while (atomic_load(&points[slot].used)) {
            slot = (slot + 1) & (FAILPOINT_COUNT - 1);
        }
        point = &points[slot];
        memcpy(point->name, name, size);
        point->name[size] = '\0';
        atomic_store(&point->used, true); /* from here on others may read the name */
        point_count++;
    }
    (void)pthread_mutex_unlock(&intern_lock);
    return point;
}

static size_t first_slot(const char *name, size_t size)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ (unsigned char)name[i]) * 0x9E3779B97F4A7C15u;
    }
    return (size_t)(hash >> 32) & (FAILPOINT_COUNT - 1);
}

static bool is_named(const struct point *point, const char *name, size_t size)
{
    return strncmp(point->name, name, size) == 0 && point->name[size] == '\0';
}

/* -------------------------------------------------------------------------------- reading specs */

/* kill | error | delay(ms) | call | off, then nothing, @n or @n+ */
static bool parse_order(const char *text, struct order *out_order)
{
    struct order order = {.from = 1};
    const char *at = text;

    if (skip_word(&at, "kill")) {
        order.action = ACTION_KILL;
    } else if (skip_word(&at, "error")) {
        order.action = ACTION_ERROR;
    } else if (skip_word(&at, "delay(")) {
        order.action = ACTION_DELAY;
        if (!parse_number(&at, &order.delay_ms) || order.delay_ms > FAILPOINT_DELAY_MS ||
            !skip_word(&at, ")")) {
            return false;
        }
    } else if (skip_word(&at, "call")) {
        order.action = ACTION_CALL;
    } else if (skip_word(&at, "off")) {
        order.action = ACTION_OFF;
    } else {
        return false;
    }
    if (skip_word(&at, "@")) {
        if (!parse_number(&at, &order.from) || order.from == 0) {
            return false;
        }
        order.forever = skip_word(&at, "+");
    }
    *out_order = order;
    return *at == '\0';
}

static bool parse_number(const char **at, int64_t *out_number)
{
    const char *p = *at;
    int64_t number = 0;

    while (*p >= '0' && *p <= '9' && number < INT64_MAX / 100) {
        number = number * 10 + (*p++ - '0');
    }
    if (p == *at) {
        return false;
    }
    *at = p;
    *out_number = number;
    return true;
}

static bool skip_word(const char **at, const char *word)
{
    size_t size = strlen(word);

    if (strncmp(*at, word, size) != 0) {
        return false;
    }
    *at += size;
    return true;
}

#else

static_assert(QP_OK == 0, "FP() is the constant QP_OK where failpoints are not compiled in");

#endif
