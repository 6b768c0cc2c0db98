/* decision.c - the places of a decision's events, and what its step 1 leaves for step 2 (see decision.h) */
#include "flow/decision.h"

#include <stdio.h>

#include "base/omap.h"
#include "kernel/deciding.h"

int command_refused(struct qp_err *err, size_t index, const char *member, const char *text)
{
    (void)err_set(err, QP_E_SHAPE, "%s", text);
    return err_point(err, QP_E_SHAPE, "/commands/%zu%s%s", index, member[0] != 0 ? "/" : "",
                     member);
}

const char *decision_word(const char *text)
{
    static const char *const words[] = {"bad_location",      "occupied",     "bad_version",
                                        "bad_base",          "after_end",    "too_large",
                                        "bad_until",         "sdk_too_old",  "decision_too_large",
                                        "waits_for_nothing", "child_exists", "history_too_large"};
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        size_t n = strlen(words[i]);
        if (strncmp(text, words[i], n) == 0 && text[n] == ':') {
            return words[i];
        }
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------ its places */

/* While the places of a decision are checked. */
struct checking {
    struct arena *arena;
    const struct decision_facts *facts;
    size_t index; /* of the command */
    struct qp_err *err;
    struct omap made;     /* address -> command of this decision */
    struct omap children; /* id -> likewise */
};

/* Nothing of the decision is applied: why, and which member of which command it is. */
static int refuse(const struct checking *k, const char *member, const char *format, ...)
    QP_PRINTF(3, 4);
static int refuse(const struct checking *k, const char *member, const char *format, ...)
{
    char text[QP_ERR_TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return command_refused(k->err, k->index, member, text);
}

static int look(struct checking *k, qp_str addr, struct place *out_place)
{
    const struct flow_command *c = omap_get(&k->made, addr);
    *out_place = (struct place){0};
    if (c != NULL) {
        *out_place =
            (struct place){.found = true, .type = c->type, .version = c->version, .name = c->name};
        return QP_OK;
    }
    return k->facts->look(k->facts->context, addr, out_place);
}

static int look_at(struct checking *k, const struct location *at, struct place *out_place)
{
    char addr[LOCATION_ADDRESS_SIZE];
    qp_str copy;
    if (!arena_copy(k->arena, (qp_str){addr, location_address(at, addr)}, &copy)) {
        return QP_E_NOMEM;
    }
    return look(k, copy, out_place);
}

/* The branch that the event stands in, and its version. */
static int check_parent(struct checking *k, const struct flow_command *c, const struct location *at)
{
    struct location parent = location_parent(at);
    struct place place = {.version = 1};
    char text[LOCATION_TEXT_SIZE];
    if (at->depth > 1) {
        QP_TRY(look_at(k, &parent, &place));
        (void)location_print(&parent, text);
        if (!place.found || (place.type != HISTORY_BRANCH && place.type != HISTORY_LOOP)) {
            return refuse(k, "loc",
                          "bad_location: no branch or loop stands at %s, the location above", text);
        }
        if (place.type == HISTORY_LOOP && c->type != HISTORY_BRANCH) {
            return refuse(k, "loc",
                          "bad_location: in the loop at %s stand branches, its iterations", text);
        }
    }
    return c->version >= place.version
               ? QP_OK
               : refuse(k, "v", "bad_version: version %lld is below %lld, that of its branch",
                        (long long)c->version, (long long)place.version);
}

static int need_neighbour(struct checking *k, const struct location *at, uint32_t ordinate)
{
    struct location parent = location_parent(at);
    struct location neighbour;
    struct place place;
    char text[LOCATION_TEXT_SIZE];
    bool good = location_child(&parent, ordinate, &neighbour);
    QP_ASSERT(good);
    QP_TRY(look_at(k, &neighbour, &place));
    (void)location_print(&neighbour, text);
    return place.found
               ? QP_OK
               : refuse(k, "loc",
                        "bad_location: it is past the next free one; no event stands at %s", text);
}

/* Behind the last of its branch, or between two that are there. */
static int check_neighbours(struct checking *k, const struct location *at)
{
    size_t begin = at->depth > 1 ? at->ends[at->depth - 2] : 0;
    size_t count = at->ends[at->depth - 1] - begin;
    uint32_t head = at->ordinates[begin];
    if (count == 1) {
        return head > 1 ? need_neighbour(k, at, head - 1) : QP_OK;
    }
    if (head > 0) {
        QP_TRY(need_neighbour(k, at, head));
    }
    return head < LIMIT_ORDINATE ? need_neighbour(k, at, head + 1) : QP_OK;
}

static int occupied(struct checking *k, const char *member, qp_str addr, const struct place *place)
{
    char text[LOCATION_TEXT_SIZE];
    struct location at;
    bool good = location_from_address(addr, &at);
    QP_ASSERT(good);
    (void)location_print(&at, text);
    return refuse(k, member, "occupied: %s '%.*s' v%lld stands at %s already",
                  history_word(place->type), STR_ARG(place->name), (long long)place->version, text);
}

/* A loop has a command whenever its state changes; everything else is written once. */
static int check_free(struct checking *k, struct flow_command *c)
{
    struct place place;
    QP_TRY(look(k, c->addr, &place));
    if (!place.found) {
        return QP_OK;
    }
    if (c->op == FLOW_OP_LOOP && omap_get(&k->made, c->addr) == NULL &&
        place.type == HISTORY_LOOP && place.version == c->version &&
        str_equal(place.name, c->name)) {
        c->again = true;
        return QP_OK;
    }
    return occupied(k, "loc", c->addr, &place);
}

/* Where the signals event of a listen will stand: free, in the same branch, behind the sleep. */
static int check_got(struct checking *k, const struct flow_command *c, const struct location *at)
{
    struct location got;
    struct location parents[2];
    struct place place;
    bool good = location_from_address(c->got, &got);
    QP_ASSERT(good);
    parents[0] = location_parent(at);
    parents[1] = location_parent(&got);
    if (location_compare(&parents[0], &parents[1]) != 0 || location_compare(at, &got) >= 0) {
        return refuse(k, "got",
                      "bad_location: got has to be a location behind loc, in the same branch");
    }
    QP_TRY(look(k, c->got, &place));
    return place.found ? occupied(k, "got", c->got, &place) : QP_OK;
}

/* The job of another has this id; or two commands want it. */
static int check_child(struct checking *k, struct flow_command *c)
{
    bool taken = omap_get(&k->children, c->child) != NULL;
    if (!taken) {
        QP_TRY(k->facts->taken(k->facts->context, c->addr, c->child, &taken));
    }
    return taken ? refuse(
                       k, "id",
                       "child_exists: a job has the id '%.*s' already; give the child another one, "
                       "or none",
                       STR_ARG(c->child))
                 : omap_put(&k->children, c->child, c, NULL);
}

static int check_command(struct checking *k, struct flow_command *c)
{
    struct location at;
    bool good = location_from_address(c->addr, &at);
    QP_ASSERT(good);
    QP_TRY(check_free(k, c));
    if (c->again) {
        return QP_OK;
    }
    QP_TRY(check_parent(k, c, &at));
    QP_TRY(check_neighbours(k, &at));
    if (!str_is_none(c->got)) {
        QP_TRY(check_got(k, c, &at));
    }
    if (!str_is_none(c->child)) {
        QP_TRY(check_child(k, c));
    }
    return omap_put(&k->made, c->addr, c, NULL);
}

static int check_commands(struct checking *k, struct decision *d)
{
    for (size_t i = 0; i < d->count; i++) {
        k->index = i;
        QP_TRY(check_command(k, &d->commands[i]));
    }
    return QP_OK;
}

/* A history has at most LIMIT_FLOW_EVENTS. A listen with a time limit needs room for the signals that may come, too. */
static int check_room(const struct decision *d, const struct decision_facts *facts,
                      struct qp_err *err)
{
    int64_t events = facts->events;
    for (size_t i = 0; i < d->count; i++) {
        events += d->commands[i].again ? 0 : 1;
        events += str_is_none(d->commands[i].got) ? 0 : 1;
    }
    if (events <= LIMIT_FLOW_EVENTS) {
        return QP_OK;
    }
    (void)err_set(
        err, QP_E_SHAPE,
        "history_too_large: the history would have %lld events, and has at most %d: let the "
        "flow return, and go on in another job",
        (long long)events, LIMIT_FLOW_EVENTS);
    return err_point(err, QP_E_SHAPE, "/commands");
}

/* Something has to come that the next decision is made on. */
static int check_wakes(const struct decision *d, const struct decision_facts *facts,
                       struct qp_err *err)
{
    bool wakes = d->end != DECISION_GOES_ON || d->keep || facts->open > 0 || facts->base > d->base;
    for (size_t i = 0; i < d->count && !wakes; i++) {
        enum flow_op op = d->commands[i].op;
        wakes = op == FLOW_OP_ACTIVITY || op == FLOW_OP_SLEEP || op == FLOW_OP_LISTEN ||
                op == FLOW_OP_CHILD;
    }
    if (wakes) {
        return QP_OK;
    }
    (void)err_set(
        err, QP_E_SHAPE,
        "waits_for_nothing: nothing is open, so nothing would wake the flow; return, begin "
        "something that ends, or send keep");
    return err_point(err, QP_E_SHAPE, "/commands");
}

int decision_check(const struct qp_env *env, struct arena *arena, struct decision *d,
                   const struct decision_facts *facts, struct qp_err *err)
{
    struct checking k = {.arena = arena, .facts = facts, .err = err};
    int rc;
    if (d->base > facts->base) {
        (void)err_set(err, QP_E_SHAPE,
                      "bad_base: base %lld is in the future: the newest entry is %lld",
                      (long long)d->base, (long long)facts->base);
        return err_point(err, QP_E_SHAPE, "/base");
    }
    if (facts->returned) {
        return err_set(err, QP_E_SHAPE, "the flow has returned: nothing more is decided");
    }
    omap_init(&k.made, env);
    omap_init(&k.children, env);
    rc = check_commands(&k, d);
    omap_done(&k.children);
    omap_done(&k.made);
    if (rc != QP_OK) {
        return rc;
    }
    QP_TRY(check_room(d, facts, err));
    return check_wakes(d, facts, err);
}

/* ---------------------------------------------------------------------------- from step 1 to 2 */

static const char *const end_words[] = {
    [DECISION_GOES_ON] = "", [DECISION_RETURNS] = "return", [DECISION_FAILS] = "fail"};

int decision_keep(const struct qp_env *env, struct arena *arena, const struct decision *d,
                  qp_str *out_text)
{
    struct buf out;
    size_t made = 0;
    int rc;
    buf_init(&out, env, LIMIT_PAYLOAD_HARD_SIZE);
    buf_printf(&out, "{\"seen\":%lld,\"after\":%lld,\"end\":\"%s\"", (long long)d->base,
               (long long)d->after, end_words[d->end]);
    if (d->keep) {
        buf_text(&out, ",\"keep\":true");
    }
    if (d->end == DECISION_FAILS) {
        buf_text(&out, ",\"error\":");
        buf_str(&out, d->value);
    }
    buf_text(&out, ",\"made\":[");
    for (size_t i = 0; i < d->count; i++) {
        if (!d->commands[i].again) {
            deciding_put_made(&out, made++, d->commands[i].addr);
        }
    }
    buf_text(&out, "]}");
    rc = buf_rc(&out);
    if (rc == QP_OK && !arena_copy(arena, buf_slice(&out), out_text)) {
        rc = QP_E_NOMEM;
    }
    buf_done(&out);
    return rc;
}

static enum decision_end end_of(qp_str word)
{
    return str_equal(word, QP_STR("\"return\"")) ? DECISION_RETURNS
           : str_equal(word, QP_STR("\"fail\"")) ? DECISION_FAILS
                                                 : DECISION_GOES_ON;
}

struct decision_kept decision_kept(qp_str text)
{
    struct decision_kept kept = {.after = 1};
    struct raw_walk w = {.rest = text};
    QP_ASSERT(raw_first(text) == '{');
    while (raw_each(&w)) {
        if (str_equal(w.key, QP_STR("seen"))) {
            kept.seen = (int64_t)real_parse(w.value);
        } else if (str_equal(w.key, QP_STR("after"))) {
            kept.after = (int64_t)real_parse(w.value);
        } else if (str_equal(w.key, QP_STR("end"))) {
            kept.end = end_of(w.value);
        } else if (str_equal(w.key, QP_STR("keep"))) {
            kept.keep = true;
        } else if (str_equal(w.key, QP_STR("error"))) {
            kept.error = w.value;
        } else if (str_equal(w.key, QP_STR("made"))) {
            kept.made = (struct raw_walk){.rest = w.value};
        }
    }
    return kept;
}
