/* escalation.c - the person that a hook waits for: role, type, subtype, priority, metadata, envelope (see action.h)
 *
 *   I1  it is written in the commit that registers the hook, as named data of the job, and stays there for people
 *   I2  the four that can be looked for are search attributes of the job (escalation.role, ...) until the step that ends the
 *       wait; of several hooks of one job they are those of the last one
 *
 * If we crash before the commit of the registration, there is none of it; after it, the registration has it.
 */
#include <stdio.h>

#include "graph/action.h"

static const char *const facets[] = {"role", "type", "subtype", "priority"};

int escalation_name(struct arena *a, qp_str addr, qp_str *out_name)
{
    char *p = arena_bytes(a, addr.n + 2);
    if (p == NULL) {
        return QP_E_NOMEM;
    }
    p[0] = 'e';
    p[1] = ':';
    memcpy(p + 2, addr.p, addr.n);
    *out_name = (qp_str){p, addr.n + 2};
    return QP_OK;
}

static int facet_put(struct action *s, const char *facet, qp_str value)
{
    struct op op = {.kind = OP_attr_put, .attr_put = {.ref = s->turn->site.ref, .value = value}};
    char name[40];
    int n = snprintf(name, sizeof name, "escalation.%s", facet);
    QP_ASSERT(n > 0 && (size_t)n < sizeof name);
    if (value.n > LIMIT_ATTRIBUTE_SIZE) {
        s->why = "a text of its escalation is longer than a search attribute may be";
        return QP_E_INVALID;
    }
    return arena_copy(action_arena(s), (qp_str){name, (size_t)n}, &op.attr_put.name)
               ? turn_op(s->turn, &op)
               : QP_E_NOMEM;
}

/* What the object has of what can be looked for. */
static int facets_put(struct action *s, const struct value *object)
{
    for (size_t i = 0; i < ARRAY_COUNT(facets); i++) {
        const struct value *member = value_get(object, str_from(facets[i]));
        struct value v = member == NULL ? (struct value){.kind = VALUE_UNDEFINED} : *member;
        qp_str text = QP_NONE;
        QP_TRY(value_open(action_arena(s), &v));
        if (value_as_text(action_arena(s), &v, &text) && !str_is_none(text)) {
            QP_TRY(facet_put(s, facets[i], text));
        }
    }
    return QP_OK;
}

int escalation_put(struct action *s)
{
    struct value v;
    qp_str json;
    qp_str name;
    if (s->activity->escalation == NULL) {
        return QP_OK;
    }
    QP_TRY(action_json(s, s->activity->escalation, &json));
    if (str_is_none(json)) {
        return QP_OK;
    }
    v = value_raw(json);
    QP_TRY(value_open(action_arena(s), &v));
    if (v.kind != VALUE_OBJECT) {
        s->why = "escalation must be an object";
        return QP_E_INVALID;
    }
    QP_TRY(escalation_name(action_arena(s), s->turn->site.addr, &name));
    QP_TRY(turn_data_put(s->turn, name, json));
    return facets_put(s, &v);
}

int escalation_end(struct action *s)
{
    for (size_t i = 0; s->activity->escalation != NULL && i < ARRAY_COUNT(facets); i++) {
        QP_TRY(facet_put(s, facets[i], QP_NONE));
    }
    return QP_OK;
}
