/* compile_reading.c - who may read from whom: references to activities get their targets
 *
 * A mapping reads from its own activity, and from those that a way leads from to it: they have run, or have been
 * skipped, when it is evaluated. All others could only ever give nothing, so a reference to one is a mistake. Who is
 * before whom is a set of bits per activity, made along the order of the graph: the union of the sets of those who lead to
 * it, and they themselves. The way back of a cycle does not count: what a round reads is its own.
 */
#include "graph/compile.h"

struct before {
    size_t words; /* of one activity's set */
    uint64_t *bits;
};

static bool is_before(const struct before *b, size_t index, size_t of)
{
    return (b->bits[of * b->words + index / 64] >> (index % 64) & 1) != 0;
}

static void add_before(struct before *b, size_t index, size_t of)
{
    for (size_t i = 0; i < b->words; i++) {
        b->bits[of * b->words + i] |= b->bits[index * b->words + i];
    }
    b->bits[of * b->words + index / 64] |= UINT64_C(1) << (index % 64);
}

static bool make_before(struct making *m, struct before *b)
{
    const struct graph *g = m->graph;
    b->words = g->digit_count / 64 + 1;
    b->bits = compile_scratch(m->c, g->digit_count * b->words, sizeof *b->bits);
    for (size_t at = 0; at < g->digit_count && b->bits != NULL; at++) {
        const struct activity *a = &g->activities[m->order[at]];
        for (size_t i = 0; i < a->transition_count; i++) {
            add_before(b, a->index, a->transitions[i].to->index);
        }
    }
    return b->bits != NULL;
}

static void check_reference(struct making *m, const struct before *b, const struct activity *reader,
                            struct reference *r)
{
    const struct activity *target = activity_find(m, r->name);
    if (target == NULL) {
        activity_unknown(m, r->line, r->column, r->name, "reference_unknown");
        return;
    }
    r->target = target;
    if (b != NULL && target != reader && !is_before(b, target->index, reader->index)) {
        report_add(m->c->report, "reference_later", r->line, r->column,
                   "only an activity that a way leads from can be read",
                   "'%.*s' reads from '%.*s', which cannot have run before it",
                   STR_ARG(text_shown(reader->id)), STR_ARG(text_shown(target->id)));
    }
}

void readings_check(struct making *m)
{
    struct before before = {0};
    bool known = m->shaped && make_before(m, &before);
    for (const struct reading *reading = m->readings; reading != NULL; reading = reading->next) {
        const struct activity *reader =
            reading->reader == NULL ? m->graph->trigger : reading->reader;
        for (struct reference *r = mapping_references(reading->mapping); r != NULL; r = r->next) {
            if (r->root == ROOT_ACTIVITY) {
                check_reference(m, known ? &before : NULL, reader, r);
            }
        }
    }
}
