/* draw.c - a compiled application as a picture in words (see draw.h)
 *
 * All three forms go over the same things in the same order: the boxes, then the arrows. Boxes are named g<graph>a<index> in
 * dot and mermaid, so that no id can be a word of theirs.
 */
#include "graph/draw.h"

#include "base/json.h"
#include "base/log.h"

struct pen {
    struct buf *out;
    enum draw_form form;
    const char *digits;
    size_t number; /* of the graph */
};

/* How a state looks. */
static const struct look {
    char digit;
    const char *fill;
} looks[] = {
    {'9', "#eeeeee"}, /* pending */
    {'8', "#aaccff"}, /* started */
    {'7', "#ff9999"}, /* errored */
    {'6', "#aaddaa"}, /* completed */
    {'5', "#ffdd88"}, /* paused */
    {'4', "#cceecc"}, /* released */
    {'3', "#ffffff"}, /* skipped */
};

static void draw_boxes(const struct pen *p, const struct graph *g);
static void draw_arrows(const struct pen *p, const struct graph *g);
static void draw_lines(const struct pen *p, const struct graph *g);

const char *activity_type_name(enum activity_type type)
{
    static const char *const names[ACTIVITY_TYPES] = {
        [ACTIVITY_TRIGGER] = "trigger",     [ACTIVITY_WORKER] = "worker",
        [ACTIVITY_AWAIT] = "await",         [ACTIVITY_HOOK] = "hook",
        [ACTIVITY_SIGNAL] = "signal",       [ACTIVITY_CYCLE] = "cycle",
        [ACTIVITY_INTERRUPT] = "interrupt", [ACTIVITY_GATE] = "join",
    };
    return names[type];
}

/* --------------------------------------------------------------------------------------- the whole */

/* Text inside of double quotes. dot knows a backslash; mermaid entities, written with #. What a terminal would act on is a
 * blank in all of them. */
static void put_text(const struct pen *p, qp_str text)
{
    for (size_t i = 0; i < text.n; i++) {
        unsigned char byte = (unsigned char)text.p[i];
        bool special = strchr("\"\\<>#&;`{}[]|", byte) != NULL;
        bool begins = (byte & 0xC0) != 0x80;
        size_t misleading = begins ? log_misleads((qp_str){text.p + i, text.n - i}) : 0;
        if (misleading > 0) {
            buf_byte(p->out, ' ');
            i += misleading - 1;
        } else if (p->form == DRAW_TEXT || (p->form == DRAW_DOT && byte != '"' && byte != '\\')) {
            buf_byte(p->out, (char)byte);
        } else if (p->form == DRAW_DOT) {
            buf_printf(p->out, "\\%c", byte);
        } else if (special) {
            buf_printf(p->out, "#%u;", byte);
        } else {
            buf_byte(p->out, (char)byte);
        }
    }
}

static void draw_begin(const struct pen *p)
{
    if (p->form == DRAW_DOT) {
        buf_text(p->out, "digraph quipu {\n    node [shape=box];\n");
    } else if (p->form == DRAW_MERMAID) {
        buf_text(p->out, "flowchart TD\n");
    }
}

static void draw_end(const struct pen *p)
{
    if (p->form == DRAW_MERMAID && p->digits != NULL) {
        for (size_t i = 0; i < ARRAY_COUNT(looks); i++) {
            buf_printf(p->out, "    classDef state%c fill:%s\n", looks[i].digit, looks[i].fill);
        }
    }
    if (p->form == DRAW_DOT) {
        buf_text(p->out, "}\n");
    }
}

static void draw_inside(const struct pen *p, const struct graph *g)
{
    if (p->form == DRAW_TEXT) {
        buf_text(p->out, p->number > 0 ? "\n" : "");
        draw_lines(p, g);
        return;
    }
    buf_printf(p->out,
               p->form == DRAW_DOT ? "    subgraph cluster_%zu {\n        label=\""
                                   : "    subgraph g%zu[\"",
               p->number);
    put_text(p, g->subscribes);
    buf_text(p->out, p->form == DRAW_DOT ? "\";\n" : "\"]\n");
    draw_boxes(p, g);
    buf_text(p->out, p->form == DRAW_DOT ? "    }\n" : "    end\n");
    draw_arrows(p, g);
}

void draw_app(struct buf *out, const struct app *app, enum draw_form form)
{
    struct pen p = {.out = out, .form = form};
    draw_begin(&p);
    for (; p.number < app->graph_count; p.number++) {
        draw_inside(&p, &app->graphs[p.number]);
    }
    draw_end(&p);
}

void draw_graph(struct buf *out, const struct graph *g, enum draw_form form, const char *digits)
{
    struct pen p = {.out = out, .form = form, .digits = digits};
    draw_begin(&p);
    draw_inside(&p, g);
    draw_end(&p);
}

/* --------------------------------------------------------------------------------------- boxes */

static const struct look *look_of(const struct pen *p, const struct activity *a)
{
    for (size_t i = 0; p->digits != NULL && a->digit != SIZE_MAX && i < ARRAY_COUNT(looks); i++) {
        if (looks[i].digit == p->digits[a->digit]) {
            return &looks[i];
        }
    }
    return NULL;
}

static void draw_gate(const struct pen *p, const struct activity *a)
{
    const char *word = a->any ? "any" : "all";
    if (p->form == DRAW_DOT) {
        buf_printf(p->out, "        g%zua%zu [shape=diamond, label=\"%s\"];\n", p->number, a->index,
                   word);
    } else {
        buf_printf(p->out, "        g%zua%zu{\"%s\"}\n", p->number, a->index, word);
    }
}

static void draw_box(const struct pen *p, const struct activity *a)
{
    const struct look *look = look_of(p, a);
    buf_printf(p->out, p->form == DRAW_DOT ? "        g%zua%zu [label=\"" : "        g%zua%zu[\"",
               p->number, a->index);
    put_text(p, a->id);
    buf_text(p->out, p->form == DRAW_DOT ? "\\n" : "<br/>");
    buf_text(p->out, activity_type_name(a->type));
    if (!str_is_none(a->title)) {
        buf_text(p->out, p->form == DRAW_DOT ? "\\n" : "<br/>");
        put_text(p, a->title);
    }
    buf_text(p->out, "\"");
    if (p->form == DRAW_MERMAID) {
        buf_text(p->out, "]");
        if (look != NULL) {
            buf_printf(p->out, ":::state%c", look->digit);
        }
    } else if (look != NULL) {
        buf_printf(p->out, ", style=filled, fillcolor=\"%s\"", look->fill);
    }
    buf_text(p->out, p->form == DRAW_DOT ? "];\n" : "\n");
}

static void draw_boxes(const struct pen *p, const struct graph *g)
{
    for (size_t i = 0; i < g->activity_count; i++) {
        if (g->activities[i].type == ACTIVITY_GATE) {
            draw_gate(p, &g->activities[i]);
        } else {
            draw_box(p, &g->activities[i]);
        }
    }
}

/* --------------------------------------------------------------------------------------- arrows */

/* "200, 404 if": the codes, and whether there is more to it. */
static void put_condition(const struct pen *p, const struct transition *t)
{
    for (size_t i = 0; i < t->code_count; i++) {
        buf_printf(p->out, "%s%lld", i == 0 ? "" : ", ", (long long)t->codes[i]);
    }
    buf_text(p->out, t->match_count > 0 ? " if" : "");
}

static void draw_arrow(const struct pen *p, const struct activity *from, const struct activity *to,
                       const struct transition *t)
{
    bool back = t == NULL && from->type == ACTIVITY_CYCLE;
    bool dot = p->form == DRAW_DOT;
    buf_printf(p->out, "    g%zua%zu %s", p->number, from->index,
               dot    ? "->"
               : back ? "-.->"
                      : "-->");
    if (!dot && t != NULL && !t->always) {
        buf_text(p->out, "|\"");
        put_condition(p, t);
        buf_text(p->out, "\"|");
    }
    buf_printf(p->out, " g%zua%zu", p->number, to->index);
    if (dot && t != NULL && !t->always) {
        buf_text(p->out, " [label=\"");
        put_condition(p, t);
        buf_text(p->out, "\"]");
    }
    buf_text(p->out, dot && back ? " [style=dashed];\n" : dot ? ";\n" : "\n");
}

static void draw_arrows(const struct pen *p, const struct graph *g)
{
    for (size_t i = 0; i < g->activity_count; i++) {
        const struct activity *a = &g->activities[i];
        for (size_t j = 0; j < a->transition_count; j++) {
            const struct activity *to = a->transitions[j].to;
            draw_arrow(p, a, to->gate != NULL ? to->gate : to, &a->transitions[j]);
        }
        if (a->type == ACTIVITY_GATE) {
            draw_arrow(p, a, a->joins, NULL);
        } else if (a->type == ACTIVITY_CYCLE) {
            draw_arrow(p, a, a->ancestor, NULL);
        }
    }
}

/* --------------------------------------------------------------------------------------- plain text */

static void draw_line(const struct pen *p, const struct activity *a)
{
    buf_text(p->out, "  ");
    if (p->digits != NULL) {
        buf_printf(p->out, "%c ", p->digits[a->digit]);
    }
    put_text(p, a->id);
    buf_printf(p->out, " (%s", activity_type_name(a->type));
    if (a->gate != NULL) {
        buf_printf(p->out, ", joins %s of %lld", a->gate->any ? "any" : "all",
                   (long long)a->gate->ways);
    }
    if (a->ancestor != NULL) {
        buf_text(p->out, ", back to ");
        put_text(p, a->ancestor->id);
    }
    if (a->hook != NULL) {
        buf_text(p->out, ", waits for ");
        put_text(p, a->hook->topic);
    }
    buf_text(p->out, ")");
    if (!str_is_none(a->title)) {
        buf_text(p->out, " ");
        put_text(p, a->title);
    }
    buf_text(p->out, "\n");
    for (size_t i = 0; i < a->transition_count; i++) {
        buf_text(p->out, "    -> ");
        put_text(p, a->transitions[i].to->id);
        if (!a->transitions[i].always) {
            buf_text(p->out, " on ");
            put_condition(p, &a->transitions[i]);
        }
        buf_text(p->out, "\n");
    }
}

static void draw_lines(const struct pen *p, const struct graph *g)
{
    put_text(p, g->subscribes);
    if (!str_is_none(g->publishes)) {
        buf_text(p->out, " => ");
        put_text(p, g->publishes);
    }
    buf_text(p->out, "\n");
    for (size_t i = 0; i < g->digit_count; i++) {
        draw_line(p, &g->activities[i]);
    }
}

/* --------------------------------------------------------------------------------------- JSON */

static void put_field(struct json_writer *w, const char *key, qp_str text)
{
    if (!str_is_none(text)) {
        json_key(w, str_from(key));
        json_put_str(w, text);
    }
}

static void put_transition(struct json_writer *w, const struct transition *t)
{
    json_begin_object(w);
    put_field(w, "to", t->to->id);
    if (!t->always) {
        json_key(w, QP_STR("codes"));
        json_begin_array(w);
        for (size_t i = 0; i < t->code_count; i++) {
            json_put_i64(w, t->codes[i]);
        }
        json_end_array(w);
        json_key(w, QP_STR("matches"));
        json_put_i64(w, (int64_t)t->match_count);
        json_key(w, QP_STR("gate"));
        json_put_str(w, t->any ? QP_STR("or") : QP_STR("and"));
    }
    json_end_object(w);
}

static void put_activity(struct json_writer *w, const struct activity *a)
{
    json_begin_object(w);
    put_field(w, "id", a->id);
    put_field(w, "type", str_from(activity_type_name(a->type)));
    put_field(w, "title", a->title);
    json_key(w, QP_STR("line"));
    json_put_i64(w, a->line);
    json_key(w, QP_STR("digit"));
    json_put_i64(w, (int64_t)a->digit);
    json_key(w, QP_STR("depth"));
    json_put_i64(w, a->depth);
    if (a->gate != NULL) {
        put_field(w, "join", a->gate->any ? QP_STR("any") : QP_STR("all"));
        json_key(w, QP_STR("ways"));
        json_put_i64(w, a->gate->ways);
    }
    put_field(w, "ancestor", a->ancestor == NULL ? QP_NONE : a->ancestor->id);
    put_field(w, "hook", a->hook == NULL ? QP_NONE : a->hook->topic);
    json_key(w, QP_STR("transitions"));
    json_begin_array(w);
    for (size_t i = 0; i < a->transition_count; i++) {
        put_transition(w, &a->transitions[i]);
    }
    json_end_array(w);
    json_end_object(w);
}

static void put_graph(struct json_writer *w, const struct graph *g)
{
    json_begin_object(w);
    put_field(w, "subscribes", g->subscribes);
    put_field(w, "publishes", g->publishes);
    json_key(w, QP_STR("activities"));
    json_begin_array(w);
    for (size_t i = 0; i < g->digit_count; i++) {
        put_activity(w, &g->activities[i]);
    }
    json_end_array(w);
    json_end_object(w);
}

void draw_json(struct buf *out, const struct app *app)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    put_field(&w, "id", app->id);
    put_field(&w, "version", app->version);
    json_key(&w, QP_STR("graphs"));
    json_begin_array(&w);
    for (size_t i = 0; i < app->graph_count; i++) {
        put_graph(&w, &app->graphs[i]);
    }
    json_end_array(&w);
    json_end_object(&w);
}
