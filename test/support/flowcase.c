/* flowcase.c - cases of the cursor: from JSON to a line of words (see flowcase.h) */
#include "support/flowcase.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

/* ---------------------------------------------------------------------------------------- reading */

/* Where in the text we are, for error messages. */
struct place {
    const struct place *above;
    const char *key; /* NULL: index */
    size_t index;
};

struct reader {
    struct arena *arena;
    qp_str why;
    int rc;
};

/* RFC 6901: ~ and / of a key are written ~0 and ~1. */
static void print_key(struct buf *out, const char *key)
{
    for (; *key != '\0'; key++) {
        if (*key == '~' || *key == '/') {
            buf_text(out, *key == '~' ? "~0" : "~1");
        } else {
            buf_byte(out, *key);
        }
    }
}

static void print_place(struct buf *out, const struct place *p)
{
    if (p == NULL) {
        return;
    }
    print_place(out, p->above);
    buf_byte(out, '/');
    if (p->key != NULL) {
        print_key(out, p->key);
    } else {
        buf_printf(out, "%zu", p->index);
    }
}

/* The first thing that is wrong stays. */
static bool wrong(struct reader *r, const struct place *p, const char *why)
{
    struct buf text;
    if (r->rc != QP_OK) {
        return false;
    }
    buf_init(&text, r->arena->env, 0);
    print_place(&text, p);
    buf_printf(&text, ": %s", why);
    r->rc = buf_rc(&text) == QP_OK && arena_copy(r->arena, buf_slice(&text), &r->why) ? QP_E_INVALID
                                                                                      : QP_E_NOMEM;
    buf_done(&text);
    return false;
}

static void *make(struct reader *r, size_t size)
{
    void *p = arena_alloc(r->arena, size);
    if (p == NULL && r->rc == QP_OK) {
        r->rc = QP_E_NOMEM;
    }
    return p;
}

static struct place in(const struct place *above, const char *key)
{
    return (struct place){.above = above, .key = key};
}

/* Members that an object may have; NULL ends the list. */
static bool only_known(struct reader *r, const struct place *p, json_t *object,
                       const char *const *known)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        struct place at = in(p, key);
        size_t i = 0;
        while (known[i] != NULL && strcmp(known[i], key) != 0) {
            i++;
        }
        if (known[i] == NULL) {
            return wrong(r, &at, "unknown member");
        }
    }
    return true;
}

static bool get_number(struct reader *r, const struct place *p, json_t *object, const char *key,
                       int64_t least, int64_t most, int64_t *inout_number)
{
    json_t *value = json_object_get(object, key);
    struct place at = in(p, key);
    char why[100];
    if (value == NULL) {
        return *inout_number >= least || wrong(r, &at, "missing, expected a number");
    }
    if (!json_is_integer(value) || json_integer_value(value) < least ||
        json_integer_value(value) > most) {
        (void)snprintf(why, sizeof why, "expected an integer between %lld and %lld",
                       (long long)least, (long long)most);
        return wrong(r, &at, why);
    }
    *inout_number = json_integer_value(value);
    return true;
}

static bool get_bool(struct reader *r, const struct place *p, json_t *object, const char *key,
                     bool *out_truth)
{
    json_t *value = json_object_get(object, key);
    struct place at = in(p, key);
    if (value != NULL && !json_is_boolean(value)) {
        return wrong(r, &at, "expected true or false");
    }
    *out_truth = json_is_true(value);
    return true;
}

static bool get_text(struct reader *r, const struct place *p, json_t *object, const char *key,
                     qp_str *out_text)
{
    json_t *value = json_object_get(object, key);
    struct place at = in(p, key);
    if (value != NULL && !json_is_string(value)) {
        return wrong(r, &at, "expected a string");
    }
    if (value == NULL) {
        *out_text = QP_NONE;
    } else if (!arena_copy(r->arena, (qp_str){json_string_value(value), json_string_length(value)},
                           out_text)) {
        r->rc = QP_E_NOMEM;
    }
    return r->rc == QP_OK;
}

static bool get_type(struct reader *r, const struct place *p, json_t *object, const char *key,
                     enum history_type *out_type)
{
    struct place at = in(p, key);
    qp_str word;
    if (!get_text(r, p, object, key, &word)) {
        return false;
    }
    return (!str_is_none(word) && history_type_of(word, out_type)) ||
           wrong(r, &at,
                 "expected activity, run, sleep, signals, signal, message, child, loop, branch, "
                 "removed or version");
}

static bool get_of(struct reader *r, const struct place *p, json_t *object,
                   enum history_type *out_type)
{
    struct place at = in(p, "of");
    if (!get_type(r, p, object, "of", out_type)) {
        return false;
    }
    return *out_type != HISTORY_REMOVED || wrong(r, &at, "a removed event cannot be removed");
}

/* ---------------------------------------------------------------------------------------- history */

static bool read_location(struct reader *r, const struct place *p, json_t *json, qp_str *out_key)
{
    struct place at = in(p, "loc");
    struct location location;
    struct qp_err err = {0};
    char key[LOCATION_KEY_SIZE];
    qp_str text;
    if (!get_text(r, p, json, "loc", &text)) {
        return false;
    }
    if (str_is_none(text)) {
        return wrong(r, &at, "missing, expected a location like \"{1}\"");
    }
    if (location_parse(text, &location, &err) != QP_OK) {
        return wrong(r, &at, err.text);
    }
    if (location.depth == 0) {
        return wrong(r, &at, "bad_location: no event stands at the root");
    }
    if (!arena_copy(r->arena, (qp_str){key, location_key(&location, key)}, out_key)) {
        r->rc = QP_E_NOMEM;
    }
    return r->rc == QP_OK;
}

static bool read_sleep(struct reader *r, const struct place *p, json_t *json,
                       enum flowsleep *out_sleep)
{
    struct place at = in(p, "state");
    qp_str state;
    if (!get_text(r, p, json, "state", &state)) {
        return false;
    }
    *out_sleep = FLOWSLEEP_OPEN;
    if (str_is_none(state)) {
        return true;
    }
    if (str_equal(state, QP_STR("normal"))) {
        *out_sleep = FLOWSLEEP_NORMAL;
        return true;
    }
    *out_sleep = FLOWSLEEP_INTERRUPTED;
    return str_equal(state, QP_STR("interrupted")) ||
           wrong(r, &at, "expected normal or interrupted");
}

struct read_event {
    struct history_event event;
    struct flowfacts facts;
    size_t index;
};

static bool read_event(struct reader *r, const struct place *p, json_t *json,
                       struct read_event *out_event)
{
    static const char *const known[] = {"loc",  "v",  "type",  "name", "iteration",
                                        "done", "of", "state", NULL};
    struct history_event *e = &out_event->event;
    *out_event = (struct read_event){.event = {.version = 1}, .index = p->index};
    if (!json_is_object(json)) {
        return wrong(r, p, "expected an event, an object");
    }
    return only_known(r, p, json, known) && read_location(r, p, json, &e->key) &&
           get_number(r, p, json, "v", 1, LIMIT_EVENT_VERSION, &e->version) &&
           get_type(r, p, json, "type", &e->type) && get_text(r, p, json, "name", &e->name) &&
           get_number(r, p, json, "iteration", 0, INT64_MAX - 1, &out_event->facts.iteration) &&
           get_bool(r, p, json, "done", &out_event->facts.done) &&
           read_sleep(r, p, json, &out_event->facts.sleep) &&
           (e->type != HISTORY_REMOVED || get_of(r, p, json, &e->of));
}

static int by_location(const void *a, const void *b)
{
    const struct read_event *x = a;
    const struct read_event *y = b;
    int order = str_compare(x->event.key, y->event.key);
    return order != 0 ? order : (x->index > y->index) - (x->index < y->index);
}

/* In their order; a location that stands there twice is wrong where it is repeated. */
static bool read_history(struct reader *r, const struct place *p, json_t *json,
                         struct flowcase *flow)
{
    size_t count = json_array_size(json);
    struct read_event *events = make(r, (count + 1) * sizeof *events);
    flow->events = make(r, (count + 1) * sizeof *flow->events);
    flow->facts = make(r, (count + 1) * sizeof *flow->facts);
    flow->count = count;
    for (size_t i = 0; i < count && r->rc == QP_OK; i++) {
        struct place at = {.above = p, .index = i};
        (void)read_event(r, &at, json_array_get(json, i), &events[i]);
    }
    if (r->rc != QP_OK) {
        return false;
    }
    qsort(events, count, sizeof *events, by_location);
    for (size_t i = 0; i < count; i++) {
        struct place at = {.above = p, .index = events[i].index};
        struct place loc = in(&at, "loc");
        if (i > 0 && str_equal(events[i].event.key, events[i - 1].event.key)) {
            return wrong(r, &loc, "the location of another event");
        }
        flow->events[i] = events[i].event;
        flow->facts[i] = events[i].facts;
    }
    return true;
}

/* ---------------------------------------------------------------------------------------- program */

static bool read_steps(struct reader *r, const struct place *p, json_t *json,
                       struct flowstep **out_first);

static bool read_body(struct reader *r, const struct place *p, json_t *json, struct flowstep *step)
{
    struct place at = in(p, "do");
    return read_steps(r, &at, json_object_get(json, "do"), &step->body);
}

/* "else" is 0; a value is written as a number is. */
static bool arm_value(const char *key, int64_t *out_value)
{
    char *end = NULL;
    *out_value = 0;
    if (strcmp(key, "else") == 0) {
        return true;
    }
    if (key[0] < '1' || key[0] > '9') {
        return false;
    }
    *out_value = strtoll(key, &end, 10);
    return *end == '\0' && *out_value <= LIMIT_EVENT_VERSION;
}

static bool read_arms(struct reader *r, const struct place *p, json_t *json, struct flowstep *step)
{
    struct flowarm **end = &step->arms;
    struct place at = in(p, "arms");
    json_t *arms = json_object_get(json, "arms");
    const char *key;
    json_t *value;
    if (arms != NULL && !json_is_object(arms)) {
        return wrong(r, &at, "expected an object of arms");
    }
    json_object_foreach(arms, key, value)
    {
        struct place arm_at = in(&at, key);
        struct flowarm *arm = make(r, sizeof *arm);
        if (arm == NULL) {
            return false;
        }
        if (!arm_value(key, &arm->value)) {
            return wrong(r, &arm_at, "expected a version or else");
        }
        if (!read_steps(r, &arm_at, value, &arm->body)) {
            return false;
        }
        *end = arm;
        end = &arm->next;
    }
    return true;
}

static bool read_names(struct reader *r, const struct place *p, json_t *json)
{
    struct place at = in(p, "names");
    json_t *names = json_object_get(json, "names");
    if (names != NULL && !json_is_array(names)) {
        return wrong(r, &at, "expected an array of names");
    }
    for (size_t i = 0; i < json_array_size(names); i++) {
        struct place name = {.above = &at, .index = i};
        if (!json_is_string(json_array_get(names, i))) {
            return wrong(r, &name, "expected a string");
        }
    }
    return true;
}

static bool read_op(struct reader *r, const struct place *p, json_t *json, struct flowstep *step)
{
    struct place at = in(p, "op");
    enum history_type type = HISTORY_TYPES;
    qp_str word;
    if (!get_text(r, p, json, "op", &word)) {
        return false;
    }
    if (!str_is_none(word) && history_type_of(word, &type) && type != HISTORY_SIGNALS) {
        step->op = (int)type;
        return true;
    }
    step->op = str_equal(word, QP_STR("join")) ? FLOWSTEP_JOIN : FLOWSTEP_LISTEN;
    return step->op == FLOWSTEP_JOIN || str_equal(word, QP_STR("listen")) ||
           wrong(r, &at,
                 "expected activity, run, sleep, signal, message, child, loop, branch, join, "
                 "listen, removed or version");
}

/* What only steps of one kind have. */
static bool read_special(struct reader *r, const struct place *p, json_t *json,
                         struct flowstep *step)
{
    bool any;
    switch (step->op) {
    case HISTORY_LOOP:
        step->times = -1;
        return get_number(r, p, json, "times", 0, INT64_MAX - 1, &step->times) &&
               read_body(r, p, json, step);
    case HISTORY_BRANCH:
        return read_body(r, p, json, step);
    case FLOWSTEP_JOIN:
        return get_bool(r, p, json, "any", &any) && read_body(r, p, json, step);
    case FLOWSTEP_LISTEN:
        return read_names(r, p, json) && get_bool(r, p, json, "timeout", &step->timeout) &&
               get_bool(r, p, json, "comes", &step->comes);
    case HISTORY_REMOVED:
        return get_of(r, p, json, &step->of);
    case HISTORY_VERSION:
        return get_number(r, p, json, "n", 1, LIMIT_STEP_VERSION, &step->n) &&
               read_arms(r, p, json, step);
    default:
        return true;
    }
}

static bool read_step(struct reader *r, const struct place *p, json_t *json, struct flowstep *step)
{
    static const char *const known[] = {"op",      "name",  "v",  "do", "any",  "times", "names",
                                        "timeout", "comes", "of", "n",  "arms", NULL};
    *step = (struct flowstep){.v = 1};
    if (!json_is_object(json)) {
        return wrong(r, p, "expected a step, an object");
    }
    return only_known(r, p, json, known) && read_op(r, p, json, step) &&
           get_text(r, p, json, "name", &step->name) &&
           get_number(r, p, json, "v", 1, LIMIT_STEP_VERSION, &step->v) &&
           read_special(r, p, json, step);
}

static bool read_steps(struct reader *r, const struct place *p, json_t *json,
                       struct flowstep **out_first)
{
    struct flowstep **end = out_first;
    if (!json_is_array(json)) {
        return wrong(r, p, "expected an array of steps");
    }
    for (size_t i = 0; i < json_array_size(json); i++) {
        struct place at = {.above = p, .index = i};
        struct flowstep *step = make(r, sizeof *step);
        if (step == NULL || !read_step(r, &at, json_array_get(json, i), step)) {
            return false;
        }
        *end = step;
        end = &step->next;
    }
    return true;
}

static bool read_case(struct reader *r, json_t *json, struct flowcase *flow)
{
    static const char *const known[] = {"history", "program", NULL};
    struct place history = in(NULL, "history");
    struct place program = in(NULL, "program");
    if (!json_is_object(json)) {
        return wrong(r, NULL, "expected an object with history and program");
    }
    if (!only_known(r, NULL, json, known)) {
        return false;
    }
    if (!json_is_array(json_object_get(json, "history"))) {
        return wrong(r, &history, "expected an array of events");
    }
    return read_history(r, &history, json_object_get(json, "history"), flow) &&
           read_steps(r, &program, json_object_get(json, "program"), &flow->program);
}

int flowcase_parse(struct arena *arena, qp_str text, struct flowcase *out_case, qp_str *out_why)
{
    struct reader r = {.arena = arena};
    struct flowcase flow = {0};
    json_error_t error;
    json_t *json = json_loadb(text.p != NULL ? text.p : "", text.n, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL) {
        (void)wrong(&r, NULL, error.text);
    } else if (read_case(&r, json, &flow)) {
        *out_case = flow;
    }
    json_decref(json);
    *out_why = r.why;
    return r.rc;
}

/* ---------------------------------------------------------------------------------------- running */

static bool run_steps(struct flowrun *run, struct cursor *c, const struct flowstep *first,
                      int64_t n);
static bool run_step(struct flowrun *run, struct cursor *c, const struct flowstep *step, int64_t n);

static void say(struct flowrun *run, const char *word)
{
    if (run->out->n > 0) {
        buf_byte(run->out, ' ');
    }
    buf_text(run->out, word);
}

static void say_at(struct flowrun *run, const char *word, const struct cursor_found *found)
{
    char at[LOCATION_TEXT_SIZE];
    (void)location_print(&found->at, at);
    say(run, word);
    buf_text(run->out, at);
    if (found->version != 1 && !cursor_is_stopped(found->verdict)) {
        buf_printf(run->out, "v%lld", (long long)found->version);
    }
}

/* False when the run has ended with it. */
static bool write_event(struct flowrun *run, const struct cursor_found *found)
{
    struct history_event *e = &run->written[run->written_count];
    char key[LOCATION_KEY_SIZE];
    if (run->written_room == 0) {
        return true;
    }
    QP_ASSERT(run->written_count < run->written_room);
    *e = (struct history_event){
        .version = found->version, .type = found->type, .of = found->of, .name = found->name};
    if (!arena_copy(run->arena, (qp_str){key, location_key(&found->at, key)}, &e->key)) {
        run->rc = QP_E_NOMEM;
        return false;
    }
    run->written_count++;
    run->killed = run->writes_left > 0 && --run->writes_left == 0;
    return !run->killed;
}

static bool stopped(struct flowrun *run, const struct cursor_found *found, const char *word)
{
    run->verdict = found->verdict;
    run->stopped = *found;
    if (found->verdict == CURSOR_BAD) {
        say(run, word);
    } else {
        say_at(run, word, found);
    }
    return false;
}

/* The word of a verdict, and what follows from it. */
static bool judge(struct flowrun *run, const struct cursor_found *found)
{
    switch (found->verdict) {
    case CURSOR_REPLAY:
        say_at(run, "R", found);
        return true;
    case CURSOR_NEW:
        say_at(run, "N", found);
        return write_event(run, found);
    case CURSOR_INSERT:
        say_at(run, "I", found);
        return write_event(run, found);
    case CURSOR_SKIP:
        say_at(run, "S", found);
        return true;
    case CURSOR_IGNORE:
        say(run, "G");
        return true;
    case CURSOR_DIVERGED:
        return stopped(run, found, "HD");
    case CURSOR_LATENT:
        return stopped(run, found, "LH");
    case CURSOR_REFUSED:
        return stopped(run, found, "REFUSED");
    case CURSOR_BAD:
        return stopped(run, found, "BAD");
    default:
        QP_ASSERT(found->verdict == CURSOR_LOOK || found->verdict == CURSOR_END);
        return true;
    }
}

static const struct flowfacts *facts_of(const struct flowrun *run, const struct cursor_found *found)
{
    static const struct flowfacts none;
    return found->verdict == CURSOR_REPLAY ? &run->flow->facts[found->event - run->history.events]
                                           : &none;
}

static bool run_branch(struct flowrun *run, const struct cursor *parent,
                       const struct cursor_found *found, const struct flowstep *body)
{
    struct cursor c;
    struct cursor_found end;
    cursor_enter(&c, parent, found);
    if (!run_steps(run, &c, body, 1)) {
        return false;
    }
    (void)cursor_end(&c, &end);
    return judge(run, &end);
}

static bool run_loop(struct flowrun *run, struct cursor *parent, const struct cursor_found *loop,
                     const struct flowstep *step)
{
    const struct flowfacts *facts = facts_of(run, loop);
    int64_t iteration = facts->iteration;
    struct cursor_found found;
    struct cursor c;
    if (facts->done) {
        return true;
    }
    cursor_enter(&c, parent, loop);
    for (; iteration < step->times; iteration++) {
        (void)cursor_iterate(&c, iteration, &found);
        if (!judge(run, &found) || !run_branch(run, &c, &found, step->body)) {
            return false;
        }
    }
    (void)cursor_end_loop(&c, iteration, &found);
    return judge(run, &found);
}

/* The answer stands behind the word of the check's own event; it is also the last word of a run that
 * is killed with that write. */
static bool run_check(struct flowrun *run, struct cursor *c, const struct flowstep *step, int64_t n)
{
    struct cursor_question question = {.n = n, .latest = step->n};
    const struct flowstep *body = NULL;
    struct cursor_found found;
    char word[32];
    (void)cursor_check(c, &question, &found);
    if (!judge(run, &found)) {
        return false;
    }
    (void)snprintf(word, sizeof word, "C=%lld", (long long)found.value);
    say(run, word);
    for (const struct flowarm *arm = step->arms; arm != NULL; arm = arm->next) {
        if (arm->value == found.value || (arm->value == 0 && body == NULL)) {
            body = arm->body;
        }
        if (arm->value == found.value) {
            break;
        }
    }
    return run_steps(run, c, body, n - step->v + 1);
}

static bool run_signals(struct flowrun *run, struct cursor *c, int64_t n)
{
    struct cursor_step signals = {.type = HISTORY_SIGNALS, .any_name = true, .n = n};
    struct cursor_found found;
    (void)cursor_compare(c, &signals, &found);
    return judge(run, &found);
}

/* A sleep and, if something came, the signals. */
static bool run_listen(struct flowrun *run, struct cursor *c, const struct flowstep *step,
                       int64_t n)
{
    struct cursor_step sleep = {.type = HISTORY_SLEEP, .any_name = true, .n = n};
    struct cursor_found found;
    enum flowsleep state;
    if (!step->timeout) {
        return run_signals(run, c, n);
    }
    (void)cursor_compare(c, &sleep, &found);
    if (!judge(run, &found)) {
        return false;
    }
    state = facts_of(run, &found)->sleep;
    return state == FLOWSLEEP_INTERRUPTED || (state == FLOWSLEEP_OPEN && step->comes)
               ? run_signals(run, c, n)
               : true;
}

/* In a join a listen with a timeout has a branch of its own. */
static bool run_member(struct flowrun *run, struct cursor *c, const struct flowstep *step,
                       int64_t n)
{
    struct cursor_step branch = {.type = HISTORY_BRANCH, .any_name = true, .n = n};
    struct flowstep listen = *step;
    struct cursor_found found;
    if (step->op != FLOWSTEP_LISTEN || !step->timeout) {
        return run_step(run, c, step, n);
    }
    listen.v = 1;
    listen.next = NULL;
    (void)cursor_compare(c, &branch, &found);
    return judge(run, &found) && run_branch(run, c, &found, &listen);
}

static bool run_join(struct flowrun *run, struct cursor *c, const struct flowstep *join, int64_t n)
{
    for (const struct flowstep *s = join->body; s != NULL; s = s->next) {
        if (!run_member(run, c, s, n + s->v - 1)) {
            return false;
        }
    }
    return true;
}

static bool run_plain(struct flowrun *run, struct cursor *c, const struct flowstep *step, int64_t n)
{
    struct cursor_step s = {.type = (enum history_type)step->op, .name = step->name, .n = n};
    struct cursor_found found;
    (void)cursor_compare(c, &s, &found);
    if (!judge(run, &found)) {
        return false;
    }
    if (step->op == HISTORY_BRANCH) {
        return run_branch(run, c, &found, step->body);
    }
    return step->op != HISTORY_LOOP || run_loop(run, c, &found, step);
}

static bool run_removed(struct flowrun *run, struct cursor *c, const struct flowstep *step,
                        int64_t n)
{
    struct cursor_step s = {
        .type = step->of, .name = step->name, .any_name = step->of == HISTORY_SIGNALS, .n = n};
    struct cursor_found found;
    (void)cursor_remove(c, &s, &found);
    return judge(run, &found);
}

/* `n` is as in v(n), with that of joins around it. */
static bool run_step(struct flowrun *run, struct cursor *c, const struct flowstep *step, int64_t n)
{
    switch (step->op) {
    case FLOWSTEP_JOIN:
        return run_join(run, c, step, n);
    case FLOWSTEP_LISTEN:
        return run_listen(run, c, step, n);
    case HISTORY_VERSION:
        return run_check(run, c, step, n);
    case HISTORY_REMOVED:
        return run_removed(run, c, step, n);
    default:
        return run_plain(run, c, step, n);
    }
}

static bool run_steps(struct flowrun *run, struct cursor *c, const struct flowstep *first,
                      int64_t n)
{
    for (const struct flowstep *s = first; s != NULL; s = s->next) {
        if (!run_step(run, c, s, n + s->v - 1)) {
            return false;
        }
    }
    return true;
}

void flowcase_run(struct flowrun *run)
{
    struct cursor root;
    struct cursor_found end;
    run->rc = history_init(&run->history, run->flow->events, run->flow->count, NULL);
    run->verdict = CURSOR_END;
    if (run->rc != QP_OK) {
        return;
    }
    cursor_begin(&root, &run->history);
    if (run_steps(run, &root, run->flow->program, 1)) {
        (void)cursor_end(&root, &end);
        (void)judge(run, &end);
    }
}

int flowcase_after(const struct flowrun *run, struct flowcase *out_case)
{
    size_t old = run->flow->count;
    size_t count = old + run->written_count;
    struct flowcase after = {.count = count, .program = run->flow->program};
    struct read_event *all = arena_alloc(run->arena, (count + 1) * sizeof *all);
    after.events = arena_alloc(run->arena, (count + 1) * sizeof *after.events);
    after.facts = arena_alloc(run->arena, (count + 1) * sizeof *after.facts);
    if (all == NULL || after.events == NULL || after.facts == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        all[i] = i < old ? (struct read_event){.event = run->flow->events[i],
                                               .facts = run->flow->facts[i]}
                         : (struct read_event){.event = run->written[i - old]};
    }
    qsort(all, count, sizeof *all, by_location);
    for (size_t i = 0; i < count; i++) {
        after.events[i] = all[i].event;
        after.facts[i] = all[i].facts;
    }
    *out_case = after;
    return QP_OK;
}
