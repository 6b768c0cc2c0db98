/* compile_key.c - keys of maps, their kinds, and literals where values are computed (see compile.h) */
#include <math.h>
#include <stdio.h>

#include "graph/compile.h"

void *compile_keep(struct compiler *c, size_t count, size_t size)
{
    void *memory = arena_alloc(c->arena, (count + 1) * size);
    c->report->no_memory = c->report->no_memory || memory == NULL;
    return memory;
}

void *compile_scratch(struct compiler *c, size_t count, size_t size)
{
    void *memory = arena_alloc(&c->scratch, (count + 1) * size);
    c->report->no_memory = c->report->no_memory || memory == NULL;
    return memory;
}

/* --------------------------------------------------------------------------------------- hints */

void guess_try(struct guess *g, qp_str candidate)
{
    size_t distance = str_distance(g->word, candidate);
    if (str_is_none(g->best) || distance < g->distance) {
        g->best = candidate;
        g->distance = distance;
    }
}

const char *guess_hint(const struct guess *g, char out_hint[GUESS_SIZE], const char *otherwise)
{
    if (str_is_none(g->best) || g->distance > 1 + g->word.n / 3) {
        return otherwise;
    }
    (void)snprintf(out_hint, GUESS_SIZE, "did you mean '%.*s'?", STR_ARG(text_shown(g->best)));
    return out_hint;
}

/* --------------------------------------------------------------------------------------- kinds */

int node_line(const struct node *node)
{
    return node->key_line > 0 ? node->key_line : node->line;
}

int node_column(const struct node *node)
{
    return node->key_line > 0 ? node->key_column : node->column;
}

static const char *kind_words(enum node_kind kind)
{
    static const char *const words[] = {
        [NODE_NULL] = "nothing",    [NODE_BOOL] = "a boolean", [NODE_NUMBER] = "a number",
        [NODE_STRING] = "a string", [NODE_LIST] = "a list",    [NODE_MAP] = "a map",
    };
    return words[kind];
}

const char *node_words(const struct node *node)
{
    return kind_words(node->kind);
}

/* Whether a key is one of these; of another one `guess` has the nearest. */
static bool key_known(const struct node *entry, const char *const *keys, struct guess *guess)
{
    *guess = (struct guess){.word = entry->key};
    for (size_t i = 0; keys[i] != NULL; i++) {
        if (str_equal(entry->key, str_from(keys[i]))) {
            return true;
        }
        guess_try(guess, str_from(keys[i]));
    }
    return false;
}

static void key_refuse(struct compiler *c, const struct node *entry, const struct guess *guess,
                       const char *what)
{
    char hint[GUESS_SIZE];
    report_add(c->report, "key_unknown", entry->key_line, entry->key_column,
               guess_hint(guess, hint, NULL), "%s has no key '%.*s'", what,
               STR_ARG(text_shown(entry->key)));
}

void entries_known(struct compiler *c, const struct node *map, const char *const *keys,
                   const char *what)
{
    struct guess guess;
    for (const struct node *entry = map->first; entry != NULL; entry = entry->next) {
        if (!key_known(entry, keys, &guess)) {
            key_refuse(c, entry, &guess, what);
        }
    }
}

void key_ignored(struct compiler *c, const struct node *entry, const char *what)
{
    report_note(c->report, FINDING_WARNING, "key_ignored", entry->key_line, entry->key_column, NULL,
                "the key '%.*s' of %s is ignored", STR_ARG(text_shown(entry->key)), what);
}

void entries_read(struct compiler *c, const struct node *map, const char *const *keys,
                  const char *what)
{
    struct guess guess;
    char hint[GUESS_SIZE];
    for (const struct node *entry = map->first; entry != NULL; entry = entry->next) {
        if (key_known(entry, keys, &guess)) {
            continue;
        }
        if (guess_hint(&guess, hint, NULL) != NULL) {
            key_refuse(c, entry, &guess, what);
        } else {
            key_ignored(c, entry, what);
        }
    }
}

const struct node *entry_get(struct compiler *c, const struct node *map, const char *key,
                             enum node_kind kind)
{
    const struct node *entry = node_get(map, key);
    if (entry == NULL || (entry->kind == NODE_NULL && (kind == NODE_LIST || kind == NODE_MAP))) {
        return NULL;
    }
    if (entry->kind != kind) {
        report_add(c->report, "kind_wrong", entry->line, entry->column,
                   kind == NODE_STRING && entry->kind < NODE_LIST ? "put it in quotes" : NULL,
                   "'%s' must be %s, not %s", key, kind_words(kind), node_words(entry));
        return NULL;
    }
    return entry;
}

const struct node *entry_need(struct compiler *c, const struct node *map, const char *key,
                              enum node_kind kind, const char *what)
{
    const struct node *entry = entry_get(c, map, key, kind);
    const struct node *given = node_get(map, key);
    if (entry == NULL && (given == NULL || given->kind == NODE_NULL)) {
        report_add(c->report, "key_missing", node_line(map), node_column(map), NULL,
                   "%s needs the key '%s'", what, key);
    }
    return entry;
}

bool name_good(struct compiler *c, const struct node *node, qp_str name)
{
    if (name_check(name, "name", NULL) == QP_OK) {
        return true;
    }
    report_add(c->report, "name_wrong", node->line, node->column, NULL,
               "'%.*s' is no name: that is 1 to %d of A-Z a-z 0-9 . _ ~ : -",
               STR_ARG(text_shown(name)), LIMIT_NAME_SIZE);
    return false;
}

bool topic_good(struct compiler *c, const struct node *node, qp_str topic)
{
    if (!name_good(c, node, topic)) {
        return false;
    }
    if (topic_check(topic, NULL) == QP_OK) {
        return true;
    }
    report_add(c->report, "name_wrong", node->line, node->column, NULL,
               "'%.*s' is no topic: names that begin with quipu: are the engine's own",
               STR_ARG(text_shown(topic)));
    return false;
}

qp_str entry_name(struct compiler *c, const struct node *map, const char *key, const char *what)
{
    const struct node *entry = what == NULL ? entry_get(c, map, key, NODE_STRING)
                                            : entry_need(c, map, key, NODE_STRING, what);
    return entry != NULL && name_good(c, entry, entry->text) ? entry->text : QP_NONE;
}

/* --------------------------------------------------------------------------------------- mappings */

const struct mapping *node_mapping(struct making *m, const struct node *node,
                                   const struct activity *reader)
{
    struct compiler *c = m->c;
    struct reading *reading = compile_scratch(c, 1, sizeof *reading);
    const struct mapping *mapping = mapping_compile(c->arena, node, c->report);
    if (mapping != NULL && reading != NULL) {
        *reading = (struct reading){m->readings, mapping, reader};
        m->readings = reading;
    }
    return mapping;
}

/* The steps of the longest evaluation. What is merged into an object is evaluated entry by entry. */
static size_t steps_most(const struct mapping *mapping, bool merged)
{
    size_t most = 0;
    if (!merged || !mapping_is_map(mapping)) {
        return mapping_steps(mapping);
    }
    for (size_t i = 0; i < mapping_count(mapping); i++) {
        size_t steps = steps_most(mapping_entry(mapping, i), merged);
        most = steps > most ? steps : most;
    }
    return most;
}

bool mapping_good(struct compiler *c, const struct node *node, const struct mapping *mapping,
                  bool merged)
{
    size_t steps = steps_most(mapping, merged);
    if (steps > LIMIT_MAPPING_STEPS) {
        report_add(c->report, "steps_limit", node->line, node->column,
                   "spread it over several activities, or let a worker do it",
                   "this takes at least %zu steps in one go, the limit is %d", steps,
                   LIMIT_MAPPING_STEPS);
    }
    return steps <= LIMIT_MAPPING_STEPS;
}

bool node_code(struct compiler *c, const struct node *node, int64_t *out_code)
{
    struct node number = *node;
    int64_t code = -1;
    if (node->kind == NODE_STRING) {
        number.kind = NODE_NUMBER; /* '404' is as good as 404 */
    }
    if (number.text.n == 0 || !node_as_i64(&number, &code) || code < LIMIT_CODE_LEAST ||
        code > LIMIT_CODE) {
        report_add(c->report, "code_wrong", node->line, node->column, NULL,
                   "a code must be a whole number from %d to %d", LIMIT_CODE_LEAST, LIMIT_CODE);
        return false;
    }
    *out_code = code;
    return true;
}

static bool seconds_good(struct compiler *c, const struct node *node)
{
    double least = str_equal(node->key, QP_STR("sleep")) ? 0 : -HUGE_VAL;
    double seconds = 0;
    if (node->kind != NODE_NUMBER) {
        report_add(c->report, "seconds_wrong", node->line, node->column,
                   "write seconds as a number, without quotes",
                   "'%.*s' must be a number of seconds, not %s", STR_ARG(node->key),
                   node_words(node));
        return false;
    }
    if (!node_as_real(node, &seconds)) {
        return false; /* the tree has said what is wrong with it */
    }
    if (seconds < least || seconds * 1000 > (double)LIMIT_TIMER_MS) {
        report_add(c->report, "seconds_range", node->line, node->column, NULL,
                   "'%.*s' must be from 0 to %lld seconds", STR_ARG(node->key),
                   LIMIT_TIMER_MS / 1000);
        return false;
    }
    return true;
}

static bool status_good(struct compiler *c, const struct node *node)
{
    bool good = node->kind == NODE_STRING && (str_equal(node->text, QP_STR("success")) ||
                                              str_equal(node->text, QP_STR("pending")) ||
                                              str_equal(node->text, QP_STR("error")));
    if (!good) {
        report_add(c->report, "status_wrong", node->line, node->column, NULL,
                   "the status of a signal must be 'success', 'pending' or 'error'");
    }
    return good;
}

static bool threshold_good(struct compiler *c, const struct node *node)
{
    int64_t threshold = -1;
    if (node->kind != NODE_NUMBER) {
        report_add(c->report, "kind_wrong", node->line, node->column, NULL,
                   "'statusThreshold' must be a number, a reference or a pipe, not %s",
                   node_words(node));
        return false;
    }
    if (!node_as_i64(node, &threshold) || threshold < 0) {
        report_add(c->report, "threshold_wrong", node->line, node->column, NULL,
                   "'statusThreshold' must be a whole number, 0 or more");
        return false;
    }
    return true;
}

static bool granularity_good(struct compiler *c, const struct node *node)
{
    qp_ms ms = 0;
    bool good = node->kind == NODE_STRING && granularity_parse(node->text, &ms);
    if (!good) {
        report_add(c->report, "stats_wrong", node->line, node->column, NULL,
                   "granularity must be a text like 5m or 1h, infinity, a reference or a pipe");
    }
    return good;
}

static bool literal_good(struct compiler *c, const struct node *node, enum literal literal)
{
    int64_t code;
    bool good = node->kind != NODE_NULL;
    switch (literal) {
    case LITERAL_ANY:
        return true;
    case LITERAL_TEXT:
        break;
    case LITERAL_TOPIC:
        good = node->kind == NODE_STRING;
        if (good) {
            return topic_good(c, node, node->text);
        }
        break;
    case LITERAL_STATUS:
        return status_good(c, node);
    case LITERAL_BOOL:
        good = node->kind == NODE_BOOL;
        break;
    case LITERAL_SECONDS:
        return seconds_good(c, node);
    case LITERAL_CODE:
        return node_code(c, node, &code);
    case LITERAL_MAP:
        good = node->kind == NODE_MAP;
        break;
    case LITERAL_THRESHOLD:
        return threshold_good(c, node);
    case LITERAL_GRANULARITY:
        return granularity_good(c, node);
    }
    if (!good) {
        report_add(c->report, "kind_wrong", node->line, node->column, NULL,
                   "'%.*s' must be %s, a reference or a pipe, not %s", STR_ARG(node->key),
                   literal == LITERAL_BOOL  ? "true, false"
                   : literal == LITERAL_MAP ? "a map"
                                            : "a text",
                   node_words(node));
    }
    return good;
}

const struct mapping *entry_mapping(struct making *m, const struct node *map, const char *key,
                                    enum literal literal, const struct activity *reader)
{
    const struct node *node = node_get(map, key);
    const struct mapping *mapping;
    bool pipe = node_get(node, "@pipe") != NULL;
    if (node == NULL) {
        return NULL;
    }
    if (node->kind >= NODE_LIST && !pipe && literal != LITERAL_ANY && literal != LITERAL_MAP) {
        report_add(m->c->report, "kind_wrong", node->line, node->column, NULL,
                   "'%s' must be one value, a reference or a pipe, not %s", key, node_words(node));
        return NULL;
    }
    mapping = node_mapping(m, node, reader);
    if (mapping != NULL && !pipe && mapping_literal(mapping) != NULL &&
        !literal_good(m->c, node, literal)) {
        return NULL;
    }
    return mapping != NULL && mapping_good(m->c, node, mapping, false) ? mapping : NULL;
}
