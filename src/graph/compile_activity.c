/* compile_activity.c - activities: their types, and the keys that each type has (see compile.h)
 *
 * One table says which type has which key; a key of another type is told with those that have it. What an activity is
 * in its graph (joins, ways, who may be a cycle's ancestor) is compile_shape.c's.
 */
#include <stdio.h>
#include <stdlib.h>

#include "graph/compile.h"
#include "graph/draw.h"

#define ON(type) (1u << ACTIVITY_##type)
#define ALL (ON(GATE) - 1)

static const struct key {
    const char *name;
    unsigned types; /* that have it */
} keys[] = {
    {"title", ALL},
    {"type", ALL},
    {"telemetry", ALL},
    {"input", ALL},
    {"output", ALL},
    {"job", ALL},
    {"emit", ALL},
    {"persist", ALL},
    {"statusThreshold", ALL & ~ON(TRIGGER)},
    {"join", ALL & ~ON(TRIGGER)},
    {"stats", ON(TRIGGER)},
    {"topic", ON(WORKER) | ON(AWAIT) | ON(SIGNAL) | ON(INTERRUPT)},
    {"retry", ON(WORKER) | ON(AWAIT)},
    {"startTimeout", ON(WORKER)},
    {"timeout", ON(WORKER)},
    {"heartbeat", ON(WORKER)},
    {"await", ON(AWAIT)},
    {"sleep", ON(HOOK)},
    {"hook", ON(HOOK)},
    {"cycle", ON(HOOK)},
    {"escalation", ON(HOOK)},
    {"subtype", ON(SIGNAL)},
    {"signal", ON(SIGNAL)},
    {"resolver", ON(SIGNAL)},
    {"status", ON(SIGNAL)},
    {"key_name", ON(SIGNAL)},
    {"key_value", ON(SIGNAL)},
    {"scrub", ON(SIGNAL)},
    {"code", ON(SIGNAL) | ON(INTERRUPT)},
    {"ancestor", ON(CYCLE)},
    {"target", ON(INTERRUPT)},
    {"reason", ON(INTERRUPT)},
    {"throw", ON(INTERRUPT)},
    {"descend", ON(INTERRUPT)},
};

/* Keys whose value may be computed, and where it goes. */
static const struct computed {
    const char *name;
    size_t offset; /* in struct activity */
    enum literal literal;
} computed[] = {
    {"topic", offsetof(struct activity, topic), LITERAL_TOPIC},
    {"emit", offsetof(struct activity, emit), LITERAL_BOOL},
    {"persist", offsetof(struct activity, persist), LITERAL_BOOL},
    {"sleep", offsetof(struct activity, sleep), LITERAL_SECONDS},
    {"await", offsetof(struct activity, awaits), LITERAL_BOOL},
    {"statusThreshold", offsetof(struct activity, threshold), LITERAL_THRESHOLD},
    {"status", offsetof(struct activity, status), LITERAL_STATUS},
    {"key_name", offsetof(struct activity, key_name), LITERAL_TEXT},
    {"key_value", offsetof(struct activity, key_value), LITERAL_TEXT},
    {"escalation", offsetof(struct activity, escalation), LITERAL_MAP},
    {"code", offsetof(struct activity, code), LITERAL_CODE},
    {"target", offsetof(struct activity, target), LITERAL_TEXT},
    {"reason", offsetof(struct activity, reason), LITERAL_TEXT},
    {"throw", offsetof(struct activity, throws), LITERAL_BOOL},
    {"descend", offsetof(struct activity, descend), LITERAL_BOOL},
};

static void read_activity(struct making *m, const struct node *node, struct activity *a);
static void read_keys(struct making *m, const struct node *node, struct activity *a);
static void read_sections(struct making *m, const struct node *node, struct activity *a);
static void read_switches(struct making *m, const struct node *node, struct activity *a);
static void read_needs(struct making *m, const struct node *node, const struct activity *a);
static void order_digits(struct making *m);

/* --------------------------------------------------------------------------------------- all of them */

static size_t count_transitions(const struct node *transitions)
{
    size_t count = 0;
    for (const struct node *entry = transitions == NULL ? NULL : transitions->first; entry != NULL;
         entry = entry->next) {
        count += entry->count;
    }
    return count;
}

void activities_read(struct making *m)
{
    struct compiler *c = m->c;
    struct graph *g = m->graph;
    const struct node *map = entry_need(c, m->node, "activities", NODE_MAP, "a graph");
    size_t count = map == NULL ? 0 : map->count;
    size_t joins = count_transitions(node_get(m->node, "transitions")) / 2;
    c->activity_count += count;
    if (c->activity_count > LIMIT_APP_ACTIVITIES) {
        report_add(c->report, "activities_limit", node_line(map), node_column(map),
                   "make several applications of it", "more activities than the limit of %d",
                   LIMIT_APP_ACTIVITIES);
        return;
    }
    /* A join has at least two transitions, so this leaves room for all gates. */
    g->activities =
        compile_keep(c, count + (joins < count ? joins : count), sizeof(struct activity));
    m->nodes = compile_scratch(c, count, sizeof(const struct node *));
    if (g->activities == NULL || m->nodes == NULL || map == NULL) {
        return;
    }
    for (const struct node *node = map->first; node != NULL; node = node->next) {
        struct activity *a = &g->activities[g->activity_count];
        m->nodes[g->activity_count] = node;
        *a = (struct activity){.id = node->key,
                               .graph = g,
                               .index = g->activity_count++,
                               .line = node->key_line,
                               .column = node->key_column};
        read_activity(m, node, a);
    }
    order_digits(m);
}

static bool is_id(qp_str id)
{
    for (size_t i = 0; i < id.n; i++) {
        char byte = id.p[i];
        if (!((byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
              (byte >= '0' && byte <= '9') || byte == '_' || byte == '-')) {
            return false;
        }
    }
    return id.n > 0 && id.n <= LIMIT_NAME_SIZE;
}

static bool read_type(struct making *m, const struct node *node, struct activity *a)
{
    const struct node *type = entry_need(m->c, node, "type", NODE_STRING, "an activity");
    struct guess guess = {0};
    char hint[GUESS_SIZE];
    if (type == NULL) {
        return false;
    }
    guess.word = type->text;
    for (enum activity_type i = 0; i < ACTIVITY_GATE; i++) {
        if (str_equal(type->text, str_from(activity_type_name(i)))) {
            a->type = i;
            return true;
        }
        guess_try(&guess, str_from(activity_type_name(i)));
    }
    report_add(m->c->report, "type_unknown", type->line, type->column,
               guess_hint(&guess, hint, "trigger, worker, await, hook, signal, cycle or interrupt"),
               "there is no type '%.*s'", STR_ARG(text_shown(type->text)));
    return false;
}

static void read_activity(struct making *m, const struct node *node, struct activity *a)
{
    struct compiler *c = m->c;
    const struct node *title;
    if (!is_id(a->id)) {
        report_add(c->report, "id_wrong", a->line, a->column, NULL,
                   "the id of an activity must be 1 to %d of A-Z a-z 0-9 _ -", LIMIT_NAME_SIZE);
    }
    a->type = ACTIVITY_GATE; /* until it is known: no type has all keys */
    if (node->kind != NODE_MAP) {
        report_add(c->report, "kind_wrong", node->line, node->column, NULL,
                   "an activity must be a map, not %s", node_words(node));
        return;
    }
    if (!read_type(m, node, a)) {
        a->type = ACTIVITY_GATE;
        return;
    }
    title = entry_get(c, node, "title", NODE_STRING);
    a->title = title == NULL ? QP_NONE : title->text;
    read_keys(m, node, a);
    for (size_t i = 0; i < ARRAY_COUNT(computed); i++) {
        const struct mapping **place =
            (const struct mapping **)(void *)((char *)a + computed[i].offset);
        *place = entry_mapping(m, node, computed[i].name, computed[i].literal, a);
    }
    read_sections(m, node, a);
    read_switches(m, node, a);
    read_needs(m, node, a);
}

static int id_compare(const void *a, const void *b)
{
    return str_compare((*(const struct activity *const *)a)->id,
                       (*(const struct activity *const *)b)->id);
}

/* The collation key has a digit per activity, in the order of their ids. */
static void order_digits(struct making *m)
{
    struct graph *g = m->graph;
    g->digit_count = g->activity_count;
    g->by_digit = compile_keep(m->c, g->digit_count, sizeof(const struct activity *));
    if (g->by_digit == NULL) {
        return;
    }
    for (size_t i = 0; i < g->digit_count; i++) {
        g->by_digit[i] = &g->activities[i];
    }
    qsort(g->by_digit, g->digit_count, sizeof g->by_digit[0], id_compare);
    for (size_t i = 0; i < g->digit_count; i++) {
        g->activities[g->by_digit[i]->index].digit = i;
        /* The same key twice: nobody can say which of them is meant. */
        m->loose = m->loose || (i > 0 && str_equal(g->by_digit[i - 1]->id, g->by_digit[i]->id));
    }
}

/* --------------------------------------------------------------------------------------- keys */

static const struct key *find_key(qp_str name)
{
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        if (str_equal(name, str_from(keys[i].name))) {
            return &keys[i];
        }
    }
    return NULL;
}

/* "only hook has it", "worker, await have it" */
static const char *owners(const struct key *key, char out_hint[GUESS_SIZE])
{
    size_t n = 0;
    size_t count = 0;
    for (enum activity_type i = 0; i < ACTIVITY_GATE; i++) {
        if ((key->types & (1u << i)) != 0) {
            n += (size_t)snprintf(out_hint + n, GUESS_SIZE - n, "%s%s", count++ == 0 ? "" : ", ",
                                  activity_type_name(i));
        }
    }
    (void)snprintf(out_hint + n, GUESS_SIZE - n, count == 1 ? " alone has it" : " have it");
    return out_hint;
}

static void tell_key(struct making *m, const struct node *entry, const struct activity *a,
                     const char *hint)
{
    bool vowel = a->type == ACTIVITY_AWAIT || a->type == ACTIVITY_INTERRUPT;
    report_add(m->c->report, "key_unknown", entry->key_line, entry->key_column, hint,
               "%s %s has no key '%.*s'", vowel ? "an" : "a", activity_type_name(a->type),
               STR_ARG(text_shown(entry->key)));
}

static void read_keys(struct making *m, const struct node *node, struct activity *a)
{
    char hint[GUESS_SIZE];
    for (const struct node *entry = node->first; entry != NULL; entry = entry->next) {
        const struct key *key = find_key(entry->key);
        struct guess guess = {.word = entry->key};
        for (size_t i = 0; key == NULL && i < ARRAY_COUNT(keys); i++) {
            if ((keys[i].types & (1u << a->type)) != 0) {
                guess_try(&guess, str_from(keys[i].name));
            }
        }
        if (key == NULL) {
            tell_key(m, entry, a, guess_hint(&guess, hint, NULL));
        } else if (str_equal(entry->key, QP_STR("telemetry"))) {
            key_ignored(m->c, entry, "an activity");
        } else if ((key->types & (1u << a->type)) == 0) {
            tell_key(m, entry, a, owners(key, hint));
        }
    }
}

/* What is mapped beside the properties of a schema may be a misspelt name. */
static void check_declared(struct making *m, const struct node *maps, const struct schema *schema)
{
    for (const struct node *entry = maps->first; entry != NULL; entry = entry->next) {
        if (!schema_declares(schema, entry->key)) {
            report_note(m->c->report, FINDING_STRICT, "map_undeclared", entry->key_line,
                        entry->key_column, "declare it under properties",
                        "the schema has no property '%.*s'", STR_ARG(text_shown(entry->key)));
        }
    }
}

/* One key per dimension ("name[-]"), also deeper in the map: as deep as it was written. */
static void check_suffixes(struct making *m, const struct node *maps)
{
    const qp_str suffix = QP_STR("[-]");
    for (const struct node *entry = maps->first; entry != NULL; entry = entry->next) {
        qp_str key = entry->key;
        if (key.n >= suffix.n && memcmp(key.p + key.n - suffix.n, suffix.p, suffix.n) == 0) {
            report_add(m->c->report, "not_supported", entry->key_line, entry->key_column,
                       "collect what the rounds bring in a list with {@array.push}",
                       "a key with a suffix per dimension, '%.*s', is not supported",
                       STR_ARG(text_shown(key)));
        }
        if (entry->kind == NODE_MAP) {
            check_suffixes(m, entry);
        }
    }
}

/* Into what is there already: the job's data, what an activity brought. A hook's output stands beside what came. */
static bool is_merged(const char *section, const struct activity *a)
{
    return strcmp(section, "job") == 0 ||
           (strcmp(section, "output") == 0 && a->type != ACTIVITY_HOOK);
}

/* Of input a reference may stand for all of a map. Others are put together name by name with what is there. */
static bool may_be_whole(const char *section)
{
    return strcmp(section, "input") == 0;
}

/* `maps` of a section: a map, or a string where that may be. */
static const struct node *maps_get(struct making *m, const struct node *section, const char *name)
{
    const struct node *maps = node_get(section, "maps");
    return maps != NULL && maps->kind == NODE_STRING && may_be_whole(name)
               ? maps
               : entry_get(m->c, section, "maps", NODE_MAP);
}

/* {schema, maps}; of job without a schema of its own: it is the graph's output. */
static const struct mapping *read_section(struct making *m, const struct node *node,
                                          const char *name, const struct activity *a)
{
    static const char *const both[] = {"schema", "maps", NULL};
    bool job = strcmp(name, "job") == 0;
    const struct node *section = entry_get(m->c, node, name, NODE_MAP);
    const struct node *schema = job ? NULL : entry_get(m->c, section, "schema", NODE_MAP);
    const struct node *maps = section == NULL ? NULL : maps_get(m, section, name);
    const struct schema *declared = job ? m->output : NULL;
    const struct mapping *mapping = NULL;
    if (section != NULL) {
        entries_read(m->c, section, job ? both + 1 : both, name);
    }
    if (schema != NULL) {
        declared = schema_compile(m->c->arena, schema, m->c->report);
    }
    if (maps != NULL) {
        check_declared(m, maps, declared);
        check_suffixes(m, maps);
        mapping = node_mapping(m, maps, a);
    }
    if (mapping != NULL && !mapping_is_map(mapping) &&
        !(may_be_whole(name) && mapping_is_reference(mapping))) {
        report_add(m->c->report, "kind_wrong", maps->line, maps->column,
                   "name what the value is for", "'maps' of %s must be a map of values%s", name,
                   may_be_whole(name) ? ", or one reference" : "");
        return NULL;
    }
    return mapping != NULL && mapping_good(m->c, maps, mapping, is_merged(name, a)) ? mapping
                                                                                    : NULL;
}

/* The schema of what a signal brings: with or without the word `schema` around it. */
static void read_hook(struct making *m, const struct node *hook)
{
    static const char *const keys_of_hook[] = {"schema", NULL};
    const struct node *schema = node_get(hook, "schema");
    if (hook == NULL) {
        return;
    }
    if (schema != NULL) {
        entries_read(m->c, hook, keys_of_hook, "hook");
    }
    (void)schema_compile(m->c->arena, schema == NULL ? hook : schema,
                         m->c->report); /* only for what is wrong with it */
}

static void read_sections(struct making *m, const struct node *node, struct activity *a)
{
    const struct node *stats = entry_get(m->c, node, "stats", NODE_MAP);
    const struct node *retry = node_get(node, "retry");
    a->input = read_section(m, node, "input", a);
    a->output = read_section(m, node, "output", a);
    a->job = read_section(m, node, "job", a);
    if (a->type == ACTIVITY_SIGNAL) {
        a->signal = read_section(m, node, "signal", a);
        a->resolver = read_section(m, node, "resolver", a);
    }
    if (a->type == ACTIVITY_HOOK) {
        read_hook(m, entry_get(m->c, node, "hook", NODE_MAP));
    }
    if (stats != NULL && a->type == ACTIVITY_TRIGGER) {
        stats_read(m, stats, a);
    }
    if (retry != NULL && (a->type == ACTIVITY_WORKER || a->type == ACTIVITY_AWAIT)) {
        retry_read(m, retry, a);
    }
    if (a->type == ACTIVITY_WORKER) {
        time_limits_read(m, node, a);
    }
}

static bool truth_of(struct making *m, const struct node *node, const char *key, bool otherwise)
{
    const struct node *entry = entry_get(m->c, node, key, NODE_BOOL);
    return entry == NULL ? otherwise : entry->truth;
}

static void read_switches(struct making *m, const struct node *node, struct activity *a)
{
    const struct node *subtype = entry_get(m->c, node, "subtype", NODE_STRING);
    const struct node *join = entry_get(m->c, node, "join", NODE_STRING);
    a->scrub = truth_of(m, node, "scrub", false);
    a->pivot = truth_of(m, node, "cycle", false);
    if (subtype != NULL && a->type == ACTIVITY_SIGNAL) {
        a->all = str_equal(subtype->text, QP_STR("all"));
        if (!a->all && !str_equal(subtype->text, QP_STR("one"))) {
            report_add(m->c->report, "subtype_wrong", subtype->line, subtype->column, NULL,
                       "the subtype of a signal must be 'one' or 'all'");
        }
    }
    if (join != NULL && !str_equal(join->text, QP_STR("all")) &&
        !str_equal(join->text, QP_STR("any"))) {
        report_add(m->c->report, "join_wrong", join->line, join->column, NULL,
                   "'join' must be 'all' or 'any'");
    }
}

static void need_key(struct making *m, const struct node *node, const char *key, const char *what)
{
    if (node_get(node, key) == NULL) {
        report_add(m->c->report, "key_missing", node_line(node), node_column(node), NULL,
                   "%s needs the key '%s'", what, key);
    }
}

/* What a type cannot do without. */
static void read_needs(struct making *m, const struct node *node, const struct activity *a)
{
    switch (a->type) {
    case ACTIVITY_WORKER:
        need_key(m, node, "topic", "a worker");
        break;
    case ACTIVITY_AWAIT:
        need_key(m, node, "topic", "an await");
        break;
    case ACTIVITY_SIGNAL:
        need_key(m, node, "topic", "a signal");
        if (a->all) {
            need_key(m, node, "key_name", "a signal to all");
            need_key(m, node, "key_value", "a signal to all");
        }
        break;
    case ACTIVITY_CYCLE:
        need_key(m, node, "ancestor", "a cycle");
        break;
    case ACTIVITY_TRIGGER:
    case ACTIVITY_HOOK:
    case ACTIVITY_INTERRUPT:
    case ACTIVITY_GATE:
    case ACTIVITY_TYPES:
        break;
    }
}

/* --------------------------------------------------------------------------------------- among each other */

static void link_trigger(struct making *m, const struct activity *a)
{
    struct graph *g = m->graph;
    char hint[GUESS_SIZE];
    if (g->trigger == NULL) {
        g->trigger = a;
        return;
    }
    (void)snprintf(hint, sizeof hint, "the first one is '%.*s'",
                   STR_ARG(text_shown(g->trigger->id)));
    report_add(m->c->report, "trigger_twice", a->line, a->column, hint,
               "a graph has one trigger, this is another one");
}

static void link_cycle(struct making *m, struct activity *a)
{
    const struct node *node = entry_get(m->c, m->nodes[a->index], "ancestor", NODE_STRING);
    const struct activity *ancestor = node == NULL ? NULL : activity_find(m, node->text);
    if (node != NULL && ancestor == NULL) {
        activity_unknown(m, node->line, node->column, node->text, "ancestor_unknown");
    } else if (node != NULL && !(ancestor->type == ACTIVITY_HOOK && ancestor->pivot)) {
        report_add(m->c->report, "ancestor_pivot", node->line, node->column,
                   "give it `cycle: true`, or put such a hook in front of it",
                   "'%.*s' is no hook with `cycle: true`", STR_ARG(text_shown(node->text)));
    } else {
        a->ancestor = ancestor;
    }
}

void activities_link(struct making *m)
{
    struct graph *g = m->graph;
    for (size_t i = 0; i < g->activity_count; i++) {
        if (g->activities[i].type == ACTIVITY_TRIGGER) {
            link_trigger(m, &g->activities[i]);
        } else if (g->activities[i].type == ACTIVITY_CYCLE) {
            link_cycle(m, &g->activities[i]);
        }
    }
    if (g->trigger == NULL) {
        report_add(m->c->report, "trigger_missing", node_line(m->node), node_column(m->node),
                   "give one of its activities `type: trigger`", "the graph has no trigger");
    }
}

struct activity *activity_find(const struct making *m, qp_str id)
{
    const struct activity key = {.id = id};
    const struct activity *wanted = &key;
    const struct activity **found = NULL;
    if (m->graph->by_digit != NULL && m->graph->digit_count > 0) {
        found = bsearch(&wanted, m->graph->by_digit, m->graph->digit_count,
                        sizeof m->graph->by_digit[0], id_compare);
    }
    return found == NULL ? NULL : &m->graph->activities[(*found)->index];
}

void activity_unknown(struct making *m, int line, int column, qp_str id, const char *code)
{
    struct guess guess = {.word = id};
    char hint[GUESS_SIZE];
    for (size_t i = 0; i < m->graph->digit_count && m->c->report->count < LIMIT_FINDINGS; i++) {
        guess_try(&guess, m->graph->activities[i].id);
    }
    report_add(m->c->report, code, line, column, guess_hint(&guess, hint, NULL),
               "this graph has no activity '%.*s'", STR_ARG(text_shown(id)));
}
