/* output.c - lists and objects on stdout (see output.h) */
#include "cli/output.h"

#include "base/time.h"
#include "cli/words.h"

#include <stdlib.h>
#include <unistd.h>

#define CELL_MOST 60      /* a longer cell is cut, unless it is the last */
#define MEMBER_COLUMNS 15 /* where the values of members begin */

int output_kind(const struct cli *c, enum output *out_kind)
{
    static const char *const words[] = {"text", "wide", "json", "jsonl", "yaml", "name"};
    *out_kind = cli_has(c, OPT_quiet) ? OUTPUT_NAME : OUTPUT_TEXT;
    if (!cli_has(c, OPT_output)) {
        return EXIT_OK;
    }
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        if (strcmp(c->values[OPT_output], words[i]) == 0) {
            *out_kind = (enum output)i;
            return EXIT_OK;
        }
    }
    return cli_usage(
        "%s: --output must be text, wide, json, jsonl, yaml or name, got '%s'; see quipu help %s",
        c->command->words, c->values[OPT_output], c->command->words);
}

bool output_colors(const struct cli *c)
{
    const char *variable = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) != 0 && !cli_has(c, OPT_no_color) &&
           (variable == NULL || *variable == '\0');
}

/* ----------------------------------------------------------------------------------------- text */

/* A value as text, in memory of its own. */
static void value_text(struct buf *b, const struct json *value)
{
    struct json_writer w;
    qp_str text;
    if (value == NULL) {
        return;
    }
    if (json_as_str(value, &text)) {
        buf_str(b, text);
        return;
    }
    json_writer_init(&w, b);
    json_write_tree(&w, value);
}

static size_t put_value(FILE *out, const struct json *value, size_t most)
{
    struct qp_env env;
    struct buf b;
    size_t shown;
    qp_env_init(&env);
    buf_init(&b, &env, 0);
    value_text(&b, value);
    shown = print_cut(out, buf_slice(&b), most);
    buf_done(&b);
    return shown;
}

size_t print_value(FILE *out, const struct json *value)
{
    return put_value(out, value, SIZE_MAX);
}

const struct json *error_sentence(const struct json *error)
{
    const struct json *message = json_get(error, QP_STR("message"));
    return message != NULL ? message : error;
}

qp_str member_text(const struct json *object, const char *key)
{
    qp_str text = {"", 0};
    return json_as_str(json_get(object, str_from(key)), &text) ? text : QP_STR("");
}

int64_t member_number(const struct json *object, const char *key)
{
    int64_t number = 0;
    return json_as_i64(json_get(object, str_from(key)), &number) ? number : 0;
}

qp_ms member_time(const struct json *object, const char *key)
{
    qp_ms at = 0;
    qp_str text = member_text(object, key);
    return text.n > 0 && rfc3339_parse(text, &at, NULL) == QP_OK ? at : 0;
}

/* --------------------------------------------------------------------------------------- tables */

/* What stands in a column of an item; NULL: nothing. */
static const struct json *cell_of(const struct json *item, const struct table_column *columns,
                                  size_t index)
{
    const struct json *value = columns[index].key == NULL
                                   ? json_at(item, index)
                                   : json_get(item, str_from(columns[index].key));
    return json_is(value, JSON_KIND_NULL) ? NULL : value;
}

/* How long a job took, or has left. */
static const char *took_text(const struct cli *c, const struct json *item,
                             char out_text[SPAN_TEXT_SIZE])
{
    qp_ms ended = member_time(item, "ended_at");
    qp_ms limit = member_time(item, "times_out_at");
    if (ended != 0) {
        return span_text(ended - member_time(item, "started_at"), out_text);
    }
    return limit != 0 ? left_text(cli_now(c), limit, out_text) : "";
}

/* What stands in a column of an item, cut after `most` columns; how many it has. */
static size_t put_cell(FILE *out, const struct output_list *l, const struct json *item,
                       size_t column, size_t most)
{
    const struct json *value = cell_of(item, l->columns, column);
    int how = l->columns[column].how;
    char text[SPAN_TEXT_SIZE];
    if ((how & CELL_TOOK) != 0) {
        return print_cut(out, str_from(took_text(l->c, item, text)), most);
    }
    if ((how & CELL_AGE) != 0 && value != NULL && l->kind != OUTPUT_WIDE) {
        qp_ms at = member_time(item, l->columns[column].key);
        return print_cut(out, str_from(age_text(cli_now(l->c), at, text)), most);
    }
    return put_value(out, value, most);
}

/* How wide a cell is when it is shown. */
static size_t width_of(const struct output_list *l, const struct json *item, size_t column)
{
    char *memory = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&memory, &size);
    size_t shown = 0;
    if (out != NULL) {
        shown = put_cell(out, l, item, column, CELL_MOST);
        (void)fclose(out);
    }
    free(memory);
    return shown;
}

/* One row; spaces are only printed before something, so that no line ends in them. */
static void print_row(const struct output_list *l, const struct json *item)
{
    size_t pending = 0;
    for (size_t j = 0; j < l->shown_count; j++) {
        size_t width = width_of(l, item, l->shown[j]);
        bool colors = (l->columns[l->shown[j]].how & CELL_STATUS) != 0 && output_colors(l->c);
        if (width > 0) {
            printf("%*s%s", (int)pending, "", color_of(colors, member_text(item, "status")));
            width = put_cell(stdout, l, item, l->shown[j],
                             j + 1 == l->shown_count ? SIZE_MAX : CELL_MOST);
            (void)fputs(color_end(colors), stdout);
            pending = 0;
        }
        pending += l->widths[j] + 2 - (width < l->widths[j] ? width : l->widths[j]);
    }
    (void)fputc('\n', stdout);
}

/* Which columns there are, how wide, and their titles. */
static void begin_table(struct output_list *l, const struct json *const *items, size_t count)
{
    for (size_t j = 0; j < l->column_count; j++) {
        size_t *width = &l->widths[l->shown_count];
        if ((l->columns[j].how & (l->kind == OUTPUT_WIDE ? CELL_TOOK : CELL_WIDE)) != 0) {
            continue;
        }
        l->shown[l->shown_count++] = j;
        *width = strlen(l->columns[j].title);
        for (size_t i = 0; i < count; i++) {
            size_t wanted = width_of(l, items[i], j);
            *width = wanted > *width ? wanted : *width;
        }
    }
    (void)fputs(output_colors(l->c) ? "\033[1m" : "", stdout);
    for (size_t j = 0; j < l->shown_count; j++) {
        printf("%-*s", j + 1 < l->shown_count ? (int)l->widths[j] + 2 : 0,
               l->columns[l->shown[j]].title);
    }
    (void)fputs(output_colors(l->c) ? "\033[0m\n" : "\n", stdout);
}

/* ---------------------------------------------------------------------------------------- lists */

void output_tree(const struct cli *c, const struct json *item)
{
    struct buf b;
    struct json_writer w;
    buf_init(&b, &c->env, 0);
    json_writer_init(&w, &b);
    json_write_tree(&w, item);
    print_json(stdout, buf_slice(&b));
    buf_done(&b);
}

static void print_item(const struct output_list *l, const struct json *item, bool first)
{
    switch (l->kind) {
    case OUTPUT_JSON:
        (void)fputs(first ? "{\"items\":[" : ",", stdout);
        output_tree(l->c, item);
        break;
    case OUTPUT_YAML:
        (void)fputs(first ? "items:\n" : "", stdout);
        print_yaml_item(stdout, item);
        break;
    case OUTPUT_JSONL:
        output_tree(l->c, item);
        (void)fputc('\n', stdout);
        break;
    case OUTPUT_NAME:
        (void)print_value(stdout, l->columns != NULL && l->columns[0].key == NULL
                                      ? json_at(item, 0)
                                      : json_get(item, str_from(l->name)));
        (void)fputc('\n', stdout);
        break;
    default:
        print_row(l, item);
    }
}

void output_items(struct output_list *l, const struct json *const *items, size_t count)
{
    bool for_people = l->kind == OUTPUT_TEXT || l->kind == OUTPUT_WIDE;
    if (for_people && l->line != NULL) {
        for (size_t i = 0; i < count; i++) {
            l->line(l->line_context, items[i], l->kind == OUTPUT_WIDE);
        }
        return;
    }
    if (!l->begun && for_people) {
        begin_table(l, items, count);
        l->begun = true;
    }
    for (size_t i = 0; i < count; i++) {
        print_item(l, items[i], !l->begun);
        l->begun = true;
    }
}

void output_end(struct output_list *l, const char *next_cursor)
{
    if (l->kind == OUTPUT_JSON) {
        (void)fputs(l->begun ? "]" : "{\"items\":[]", stdout);
        (void)fputs(next_cursor != NULL ? ",\"next_cursor\":" : "", stdout);
    } else if (l->kind == OUTPUT_YAML) {
        (void)fputs(l->begun ? "" : "items: []\n", stdout);
        (void)fputs(next_cursor != NULL ? "next_cursor: " : "", stdout);
    } else {
        output_items(l, NULL, 0); /* a table without rows has titles */
        return;
    }
    if (next_cursor != NULL) {
        struct buf b;
        struct json_writer w;
        buf_init(&b, &l->c->env, 0);
        json_writer_init(&w, &b);
        json_put_str(&w, str_from(next_cursor));
        print_json(stdout, buf_slice(&b));
        buf_done(&b);
    }
    (void)fputs(l->kind == OUTPUT_JSON ? "}\n" : next_cursor != NULL ? "\n" : "", stdout);
}

bool output_object(struct cli *c, enum output kind, const char *name, qp_str text)
{
    struct json *json = NULL;
    if (kind == OUTPUT_JSON || kind == OUTPUT_JSONL) {
        print_json(stdout, text);
        (void)fputc('\n', stdout);
        return true;
    }
    if (kind != OUTPUT_NAME && kind != OUTPUT_YAML) {
        return false;
    }
    if (json_parse(&c->env, text, NULL, &json) == QP_OK) {
        if (kind == OUTPUT_YAML) {
            print_yaml(stdout, json);
        } else {
            (void)print_value(stdout, json_get(json, str_from(name)));
            (void)fputc('\n', stdout);
        }
    }
    json_free(json);
    return true;
}

/* A list of sentences: one per line, below each other. Words, which have no space, stay on one line. */
static bool print_sentences(const struct json *list)
{
    qp_str text;
    if (!json_is(list, JSON_KIND_ARRAY) || !json_as_str(json_at(list, 0), &text) ||
        memchr(text.p, ' ', text.n) == NULL) {
        return false;
    }
    for (size_t i = 0; i < json_count(list); i++) {
        printf("%*s", i > 0 ? MEMBER_COLUMNS : 0, "");
        (void)print_value(stdout, json_at(list, i));
        (void)fputc('\n', stdout);
    }
    return true;
}

void output_members(const struct json *object)
{
    struct json_walk w = {0};
    while (json_each(object, &w)) {
        size_t shown = print_cut(stdout, w.key, CELL_MOST);
        printf("%*s", shown < MEMBER_COLUMNS ? (int)(MEMBER_COLUMNS - shown) : 1, "");
        if (!print_sentences(w.value)) {
            (void)print_value(stdout, w.value);
            (void)fputc('\n', stdout);
        }
    }
}
