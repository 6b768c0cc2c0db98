/* compile_way.c - transitions with their conditions, and the rules of web hooks (see compile.h) */
#include <stdio.h>
#include <stdlib.h>

#include "graph/compile.h"

static const char *const to_keys[] = {"to", "conditions", NULL};
/* Keys of conditions that are written beside them, where nothing would read them. */
static const char *const way_keys[] = {"to", "conditions", "code", "match", "gate", NULL};

/* --------------------------------------------------------------------------------------- conditions */

static bool read_match(struct making *m, const struct node *node, const struct activity *reader,
                       struct match *out_match)
{
    static const char *const keys[] = {"expected", "actual", NULL};
    if (node->kind != NODE_MAP) {
        report_add(m->c->report, "match_wrong", node->line, node->column, NULL,
                   "an entry of match must be a map with expected and actual, not %s",
                   node_words(node));
        return false;
    }
    entries_known(m->c, node, keys, "an entry of match");
    for (size_t i = 0; keys[i] != NULL; i++) {
        if (node_get(node, keys[i]) == NULL) {
            report_add(m->c->report, "match_wrong", node->line, node->column, NULL,
                       "an entry of match needs the key '%s'", keys[i]);
        }
    }
    out_match->expected = entry_mapping(m, node, "expected", LITERAL_ANY, reader);
    out_match->actual = entry_mapping(m, node, "actual", LITERAL_ANY, reader);
    return true;
}

static const struct match *read_matches(struct making *m, const struct node *conditions,
                                        const struct activity *reader, size_t *out_count)
{
    const struct node *list = entry_get(m->c, conditions, "match", NODE_LIST);
    size_t count = list == NULL ? 0 : list->count;
    struct match *matches = compile_keep(m->c, count, sizeof *matches);
    size_t n = 0;
    for (const struct node *item = list == NULL ? NULL : list->first;
         item != NULL && matches != NULL; item = item->next) {
        n += read_match(m, item, reader, &matches[n]);
    }
    *out_count = n;
    return matches;
}

static void read_codes(struct making *m, const struct node *node, struct transition *t)
{
    bool list = node != NULL && node->kind == NODE_LIST;
    size_t count = list ? node->count : 1;
    int64_t *codes = compile_keep(m->c, count, sizeof *codes);
    const struct node *item = list ? node->first : node;
    if (codes == NULL) {
        return;
    }
    if (count == 0) {
        report_add(m->c->report, "code_wrong", node->line, node->column,
                   "leave it out for 200, or name the codes",
                   "a condition on no code at all is never met");
    }
    codes[0] = 200;
    for (size_t i = 0; i < count && item != NULL; i++, item = list ? item->next : NULL) {
        (void)node_code(m->c, item, &codes[i]); /* what is wrong is told */
    }
    t->codes = codes;
    t->code_count = count;
}

static void read_conditions(struct making *m, const struct node *node,
                            const struct activity *reader, struct transition *t)
{
    static const char *const keys[] = {"code", "match", "gate", NULL};
    const struct node *conditions = entry_get(m->c, node, "conditions", NODE_MAP);
    const struct node *gate = entry_get(m->c, conditions, "gate", NODE_STRING);
    t->always = conditions == NULL;
    if (conditions == NULL) {
        return;
    }
    entries_known(m->c, conditions, keys, "a condition");
    read_codes(m, node_get(conditions, "code"), t);
    t->matches = read_matches(m, conditions, reader, &t->match_count);
    if (gate != NULL) {
        t->any = str_equal(gate->text, QP_STR("or"));
        if (!t->any && !str_equal(gate->text, QP_STR("and"))) {
            report_add(m->c->report, "gate_wrong", gate->line, gate->column, NULL,
                       "'gate' must be 'and' or 'or'");
        }
    }
}

/* --------------------------------------------------------------------------------------- transitions */

/* The activity that an entry leads to; NULL: what is wrong was told. */
static struct activity *read_to(struct making *m, const struct node *node, const char *what,
                                const char *const *keys, const char *code,
                                const struct node **out_to)
{
    struct activity *to;
    if (node->kind != NODE_MAP) {
        report_add(m->c->report, "kind_wrong", node->line, node->column, "write - to: id",
                   "%s must be a map, not %s", what, node_words(node));
        return NULL;
    }
    entries_known(m->c, node, keys, what);
    *out_to = entry_need(m->c, node, "to", NODE_STRING, what);
    if (*out_to == NULL) {
        return NULL;
    }
    to = activity_find(m, (*out_to)->text);
    if (to == NULL) {
        activity_unknown(m, (*out_to)->line, (*out_to)->column, (*out_to)->text, code);
    }
    return to;
}

static void add_edge(struct making *m, const struct activity *from, const struct activity *to,
                     const struct node *node)
{
    m->edges[m->edge_count++] = (struct edge){from->index, to->index, node};
}

/* Neither to itself, nor to a trigger, nor twice to the same. */
static bool edge_good(struct making *m, const struct activity *from, const struct activity *to,
                      const struct node *node, size_t *led_from)
{
    if (from == to) {
        report_add(m->c->report, "transition_self", node->line, node->column,
                   "an activity of type cycle makes a loop", "'%.*s' leads to itself",
                   STR_ARG(text_shown(from->id)));
        return false;
    }
    if (to->type == ACTIVITY_TRIGGER) {
        report_add(m->c->report, "trigger_entered", node->line, node->column,
                   "lead to the activity after it; a loop has a hook with `cycle: true`",
                   "a trigger begins the graph: nothing leads to it");
        return false;
    }
    if (led_from[to->index] == from->index + 1) {
        report_add(m->c->report, "transition_twice", node->line, node->column,
                   "put both conditions into one", "'%.*s' leads to '%.*s' twice",
                   STR_ARG(text_shown(from->id)), STR_ARG(text_shown(to->id)));
        return false;
    }
    led_from[to->index] = from->index + 1;
    return true;
}

static void check_beside(struct making *m, const struct node *way)
{
    for (const char *const *key = way_keys + 2; *key != NULL; key++) {
        const struct node *entry = node_get(way, *key);
        char hint[GUESS_SIZE];
        if (entry != NULL) {
            (void)snprintf(hint, sizeof hint, "write conditions: { %s: ... }", *key);
            report_add(m->c->report, "key_unknown", entry->key_line, entry->key_column, hint,
                       "a transition has no key '%s'; it belongs to its conditions", *key);
        }
    }
}

static void read_from(struct making *m, const struct node *entry, struct activity *from,
                      size_t *led_from)
{
    struct transition *list = compile_keep(m->c, entry->count, sizeof *list);
    size_t n = 0;
    if (list == NULL) {
        return;
    }
    for (const struct node *item = entry->first; item != NULL; item = item->next) {
        const struct node *node = NULL;
        const struct activity *to =
            read_to(m, item, "a transition", way_keys, "transition_unknown", &node);
        if (to != NULL && edge_good(m, from, to, node, led_from)) {
            list[n].to = to;
            add_edge(m, from, to, node);
        }
        m->loose = m->loose || to == NULL;
        if (item->kind == NODE_MAP) {
            check_beside(m, item);
            read_conditions(m, item, from, &list[n]);
        }
        n += list[n].to != NULL;
    }
    from->transitions = list;
    from->transition_count = n;
}

/* What has nothing after it. */
static void check_last(struct making *m, const struct node *entry, const struct activity *from)
{
    if (from->type == ACTIVITY_CYCLE) {
        report_add(m->c->report, "cycle_leads", entry->key_line, entry->key_column,
                   "its ancestor's transitions are what comes next",
                   "'%.*s' is a cycle: nothing comes after it", STR_ARG(text_shown(from->id)));
    } else if (from->type == ACTIVITY_INTERRUPT &&
               node_get(m->nodes[from->index], "target") == NULL) {
        report_add(m->c->report, "interrupt_leads", entry->key_line, entry->key_column,
                   "give it a target when another job is meant",
                   "'%.*s' interrupts its own job: nothing runs after it",
                   STR_ARG(text_shown(from->id)));
    }
}

static bool list_good(struct making *m, const struct node *entry)
{
    if (entry->kind != NODE_LIST) {
        report_add(m->c->report, "kind_wrong", entry->line, entry->column, "write - to: id",
                   "'%.*s' must be a list, not %s", STR_ARG(text_shown(entry->key)),
                   node_words(entry));
        m->loose = true;
        return false;
    }
    m->c->transition_count += entry->count;
    if (entry->count > LIMIT_SPAWN) {
        report_add(m->c->report, "spawn_limit", entry->key_line, entry->key_column,
                   "spread them over several activities",
                   "%zu transitions of one activity, the limit is %d", entry->count, LIMIT_SPAWN);
    }
    return true;
}

void transitions_read(struct making *m)
{
    const struct node *map = entry_get(m->c, m->node, "transitions", NODE_MAP);
    size_t total = 0;
    size_t *led_from = compile_scratch(m->c, m->graph->activity_count, sizeof *led_from);
    for (const struct node *entry = map == NULL ? NULL : map->first; entry != NULL;
         entry = entry->next) {
        total += entry->count;
    }
    m->edges = compile_scratch(m->c, total, sizeof *m->edges);
    if (led_from == NULL || m->edges == NULL || map == NULL) {
        m->loose = node_get(m->node, "transitions") != NULL;
        return;
    }
    for (const struct node *entry = map->first; entry != NULL; entry = entry->next) {
        struct activity *from = activity_find(m, entry->key);
        if (from == NULL) {
            m->loose = true;
            activity_unknown(m, entry->key_line, entry->key_column, entry->key,
                             "transition_unknown");
        } else if (from->transitions == NULL && /* else its key is there twice, and that was told */
                   list_good(m, entry)) {
            check_last(m, entry, from);
            read_from(m, entry, from, led_from);
        }
    }
    if (m->c->transition_count > LIMIT_APP_TRANSITIONS) {
        report_add(m->c->report, "transitions_limit", node_line(map), node_column(map),
                   "make several applications of it", "more transitions than the limit of %d",
                   LIMIT_APP_TRANSITIONS);
    }
}

/* --------------------------------------------------------------------------------------- hooks */

static void check_hook(struct making *m, const struct node *node, const struct activity *to)
{
    if (to->type != ACTIVITY_HOOK) {
        report_add(m->c->report, "hook_type", node->line, node->column, NULL,
                   "'%.*s' is no activity of type hook", STR_ARG(text_shown(to->id)));
    } else if (to->hook != NULL) {
        report_add(m->c->report, "hook_twice", node->line, node->column,
                   "put one hook behind the other", "'%.*s' waits by another rule already",
                   STR_ARG(text_shown(to->id)));
    }
}

static void read_rule(struct making *m, const struct node *item, qp_str topic)
{
    static const char *const keys[] = {"match", NULL};
    const struct node *node = NULL;
    struct activity *to = read_to(m, item, "a hook rule", to_keys, "hook_unknown", &node);
    const struct node *conditions = entry_get(m->c, item, "conditions", NODE_MAP);
    struct ruled *ruled = compile_scratch(m->c, 1, sizeof *ruled);
    if (conditions != NULL) {
        entries_known(m->c, conditions, keys, "the condition of a hook rule");
    }
    if (to == NULL || ruled == NULL) {
        return;
    }
    check_hook(m, node, to);
    *ruled = (struct ruled){m->c->ruled, {.topic = topic, .to = to}, item, m->c->ruled_count++};
    ruled->rule.matches = read_matches(m, conditions, to, &ruled->rule.match_count);
    if (ruled->rule.match_count > LIMIT_HOOK_MATCHES) {
        report_add(m->c->report, "match_limit", item->line, item->column,
                   "make one text of them with a pipe",
                   "a hook rule has %zu matches, the limit is %d", ruled->rule.match_count,
                   LIMIT_HOOK_MATCHES);
    }
    if (ruled->rule.match_count == 0) {
        report_add(m->c->report, "match_missing", item->line, item->column,
                   "say which signal is meant: conditions.match with expected and actual",
                   "a hook rule needs at least one match");
    }
    m->c->ruled = ruled;
    to->hook = &ruled->rule; /* until hooks_finish */
}

/* A pivot is gone through once a round: it cannot wait as well. */
static void check_waits(struct making *m, const struct activity *a)
{
    const struct node *sleep = node_get(m->nodes[a->index], "sleep");
    double seconds = 1;
    if (a->pivot && (a->sleep != NULL || a->hook != NULL)) {
        report_add(m->c->report, "pivot_waits", a->line, a->column,
                   "let the activity after it wait",
                   "'%.*s' is a pivot (cycle: true) and can neither sleep nor wait for a signal",
                   STR_ARG(text_shown(a->id)));
    } else if (a->hook != NULL && node_as_real(sleep, &seconds) && seconds == 0) {
        report_add(m->c->report, "timeout_zero", sleep->line, sleep->column,
                   "leave out sleep to wait without an end",
                   "the signal of '%.*s' has no time to come", STR_ARG(text_shown(a->id)));
    }
}

void hooks_read(struct making *m)
{
    const struct node *map = entry_get(m->c, m->node, "hooks", NODE_MAP);
    for (const struct node *entry = map == NULL ? NULL : map->first; entry != NULL;
         entry = entry->next) {
        struct node name = {.line = entry->key_line, .column = entry->key_column};
        (void)topic_good(m->c, &name, entry->key); /* what is wrong is told */
        if (entry->kind != NODE_LIST) {
            report_add(m->c->report, "kind_wrong", entry->line, entry->column, "write - to: id",
                       "'%.*s' must be a list, not %s", STR_ARG(text_shown(entry->key)),
                       node_words(entry));
            continue;
        }
        for (const struct node *item = entry->first; item != NULL; item = item->next) {
            read_rule(m, item, entry->key);
        }
    }
    for (size_t i = 0; i < m->graph->activity_count; i++) {
        check_waits(m, &m->graph->activities[i]);
    }
}

/* Whether two nodes say the same; as deep as they were written. */
static bool node_same(const struct node *a, const struct node *b)
{
    const struct node *x = a == NULL ? NULL : a->first;
    const struct node *y = b == NULL ? NULL : b->first;
    if (a == NULL || b == NULL || a->kind != b->kind || !str_equal(a->text, b->text) ||
        a->count != b->count) {
        return a == b;
    }
    while (x != NULL && str_equal(x->key, y->key) && node_same(x, y)) {
        x = x->next;
        y = y->next;
    }
    return x == NULL;
}

static const struct node *first_match(const struct ruled *r)
{
    const struct node *list = node_get(node_get(r->node, "conditions"), "match");
    return list == NULL ? NULL : list->first;
}

static void check_agree(struct compiler *c, const struct ruled *first, const struct ruled *second)
{
    const struct node *x = first_match(first);
    const struct node *y = first_match(second);
    while (x != NULL && y != NULL && node_same(node_get(x, "actual"), node_get(y, "actual"))) {
        x = x->next;
        y = y->next;
    }
    if (x != NULL || y != NULL) {
        report_add(c->report, "hook_key", second->node->line, second->node->column,
                   "give all rules of a topic the same `actual`, or another topic to this one",
                   "another rule of '%.*s' finds the key of a signal in another way",
                   STR_ARG(text_shown(second->rule.topic)));
    }
}

static int ruled_compare(const void *a, const void *b)
{
    const struct ruled *x = *(const struct ruled *const *)a;
    const struct ruled *y = *(const struct ruled *const *)b;
    int order = str_compare(x->rule.topic, y->rule.topic);
    return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

void hooks_finish(struct compiler *c)
{
    struct hook_rule *rules = compile_keep(c, c->ruled_count, sizeof *rules);
    const struct ruled **sorted = compile_scratch(c, c->ruled_count, sizeof(const struct ruled *));
    size_t n = 0;
    if (rules == NULL || sorted == NULL) {
        return;
    }
    for (const struct ruled *r = c->ruled; r != NULL; r = r->next) {
        sorted[n++] = r;
    }
    qsort(sorted, n, sizeof sorted[0], ruled_compare);
    for (size_t i = 0; i < n; i++) {
        const struct activity *to = sorted[i]->rule.to;
        rules[i] = sorted[i]->rule;
        to->graph->activities[to->index].hook = &rules[i];
        if (i > 0 && str_equal(rules[i - 1].topic, rules[i].topic)) {
            check_agree(c, sorted[i - 1], sorted[i]);
        }
    }
    c->app->hooks = rules;
    c->app->hook_count = n;
}
