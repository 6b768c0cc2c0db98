/* start.c - the input of a trigger, and the stream of its tasks (see start.h) */
#include "agent/start.h"

#include "agent/members.h"

#define START_MEMBERS(s)                                                                           \
    TEXT("input", &(s)->input), TEXT("properties", &(s)->properties),                              \
        TEXT("language", &(s)->language), TEXT("environment", &(s)->environment),                  \
        TEXT("canonical_name", &(s)->canonical_name), RAW("task", &(s)->task),                     \
        NUMBER("attempt", &(s)->attempt), FLAG("unnamed", &(s)->is_unnamed)

int start_write(struct arena *arena, const struct agent_start *start, qp_str *out_text)
{
    struct agent_start s = *start;
    const struct member members[] = {START_MEMBERS(&s)};
    return members_write(arena, members, ARRAY_COUNT(members), out_text);
}

int start_read(struct arena *arena, qp_str text, struct agent_start *out_start)
{
    *out_start = (struct agent_start){0};
    const struct member members[] = {START_MEMBERS(out_start)};
    QP_TRY(members_read(arena, text, members, ARRAY_COUNT(members)));
    if (str_is_none(out_start->language)) {
        out_start->language = QP_STR("Javascript");
    }
    if (str_is_none(out_start->environment)) {
        out_start->environment = QP_STR("dev");
    }
    if (out_start->attempt < 1) {
        out_start->attempt = 1;
    }
    return QP_OK;
}

int start_topic(struct arena *arena, const struct agent_start *start, qp_str *out_topic)
{
    static const char prefix[] = "quipu:agent:";
    size_t n = sizeof prefix - 1;
    char *text = arena_bytes(arena, n + start->environment.n + 1 + start->language.n);
    if (text == NULL) {
        return QP_E_NOMEM;
    }
    memcpy(text, prefix, n);
    memcpy(text + n, start->environment.p, start->environment.n);
    n += start->environment.n;
    text[n++] = ':';
    for (size_t i = 0; i < start->language.n; i++) {
        char c = start->language.p[i];
        text[n++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    *out_topic = (qp_str){text, n};
    return QP_OK;
}
