/* sql.c - sql: a SELECT over the views of a store, and its rows as a table, CSV or JSON
 *
 * Two columns may have the same name. A table and CSV show both; as members of an object the second
 * is called name_2.
 */
#include <stdlib.h>

#include "cli/output.h"

enum shape { SHAPE_API, SHAPE_TABLE, SHAPE_CSV, SHAPE_JSONL };

/* -o has two words here that other commands do not know. */
static int read_shape(const struct cli *c, enum shape *out_shape, enum output *out_kind)
{
    const char *typed = c->values[OPT_output];
    int status = EXIT_OK;
    *out_kind = OUTPUT_TEXT;
    *out_shape = SHAPE_TABLE;
    if (typed != NULL && strcmp(typed, "csv") == 0) {
        *out_shape = SHAPE_CSV;
    } else if (typed == NULL || strcmp(typed, "table") != 0) {
        status = output_kind(c, out_kind);
        *out_shape = *out_kind == OUTPUT_JSONL                              ? SHAPE_JSONL
                     : *out_kind == OUTPUT_JSON || *out_kind == OUTPUT_YAML ? SHAPE_API
                                                                            : SHAPE_TABLE;
    }
    return status;
}

/* ----------------------------------------------------------------------------------------- CSV */

/* Quoted where RFC 4180 wants it; a quote is doubled. Control characters are shown as \xNN. */
static void print_cell(const struct json *value)
{
    char *memory = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&memory, &size);
    if (out == NULL || json_is(value, JSON_KIND_NULL)) {
        size = 0;
    } else {
        (void)print_value(out, value);
        (void)fflush(out);
    }
    if (size > 0 && strpbrk(memory, ",\"") != NULL) {
        (void)fputc('"', stdout);
        for (size_t i = 0; i < size; i++) {
            (void)fputs(memory[i] == '"' ? "\"" : "", stdout);
            (void)fputc(memory[i], stdout);
        }
        (void)fputc('"', stdout);
    } else if (size > 0) {
        (void)fwrite(memory, 1, size, stdout);
    }
    if (out != NULL) {
        (void)fclose(out);
    }
    free(memory);
}

static void print_csv_row(const struct json *row)
{
    for (size_t i = 0; i < json_count(row); i++) {
        (void)fputs(i > 0 ? "," : "", stdout);
        print_cell(json_at(row, i));
    }
    (void)fputc('\n', stdout);
}

static void print_csv(const struct json *columns, const struct json *rows)
{
    print_csv_row(columns);
    for (size_t i = 0; i < json_count(rows); i++) {
        print_csv_row(json_at(rows, i));
    }
}

/* ------------------------------------------------------------------------------- JSON and tables */

/* The names of the columns, in the arena. */
static const char **names_of(struct cli *c, const struct json *columns)
{
    const char **names = arena_alloc(&c->arena, (json_count(columns) + 1) * sizeof *names);
    for (size_t i = 0; names != NULL && i < json_count(columns); i++) {
        qp_str name = QP_STR("");
        (void)!json_as_str(json_at(columns, i), &name); /* they are texts */
        names[i] = cli_text(c, "%.*s", STR_ARG(name));
    }
    return names;
}

/* The same as members of an object: each unlike those before it. */
static void make_unlike(struct cli *c, const char **names, size_t count)
{
    for (size_t i = count; i-- > 1;) {
        size_t same = 1;
        for (size_t j = 0; j < i; j++) {
            same += strcmp(names[i], names[j]) == 0;
        }
        names[i] = same == 1 ? names[i] : cli_text(c, "%s_%zu", names[i], same);
    }
}

static void print_jsonl(struct cli *c, const char **names, size_t count, const struct json *rows)
{
    make_unlike(c, names, count);
    for (size_t i = 0; i < json_count(rows); i++) {
        struct buf b;
        struct json_writer w;
        buf_init(&b, &c->env, 0);
        json_writer_init(&w, &b);
        json_begin_object(&w);
        for (size_t j = 0; j < count; j++) {
            json_key(&w, str_from(names[j]));
            json_write_tree(&w, json_at(json_at(rows, i), j));
        }
        json_end_object(&w);
        print_json(stdout, buf_slice(&b));
        (void)fputc('\n', stdout);
        buf_done(&b);
    }
}

static int print_rows(struct cli *c, enum output kind, const char **names, size_t count,
                      const struct json *rows)
{
    struct table_column columns[COLUMNS_MOST] = {{0}};
    struct output_list list = {.c = c, .kind = kind, .columns = columns, .column_count = count};
    const struct json **items =
        arena_alloc(&c->arena, (json_count(rows) + 1) * sizeof(const struct json *));
    if (items == NULL || count > ARRAY_COUNT(columns)) {
        return cli_fail(c, EXIT_ERROR, "the answer is too large");
    }
    for (size_t i = 0; i < count; i++) {
        columns[i].title = names[i];
    }
    for (size_t i = 0; i < json_count(rows); i++) {
        items[i] = json_at(rows, i);
    }
    output_items(&list, items, json_count(rows));
    output_end(&list, NULL);
    return EXIT_OK;
}

static int print_answer(struct cli *c, enum shape shape, enum output kind, const struct json *json)
{
    const struct json *columns = json_get(json, QP_STR("columns"));
    const struct json *rows = json_get(json, QP_STR("rows"));
    const char **names = names_of(c, columns);
    int status = names == NULL ? cli_fail(c, EXIT_ERROR, "out of memory") : EXIT_OK;
    if (status == EXIT_OK && shape == SHAPE_CSV) {
        print_csv(columns, rows);
    } else if (status == EXIT_OK && shape == SHAPE_JSONL) {
        print_jsonl(c, names, json_count(columns), rows);
    } else if (status == EXIT_OK) {
        status = print_rows(c, kind, names, json_count(columns), rows);
    }
    if (status == EXIT_OK && json_get(json, QP_STR("more")) != NULL) {
        cli_say("there are more rows: say --limit N, or LIMIT in the statement");
    }
    return status;
}

/* --------------------------------------------------------------------------------------- asking */

static int ask_sql(struct cli *c, qp_str sql, int64_t limit, qp_ms within_ms,
                   struct reply *out_reply)
{
    struct ask_body b;
    ask_body_begin(c, &b);
    json_key(&b.w, QP_STR("sql"));
    json_put_str(&b.w, sql);
    json_key(&b.w, QP_STR("limit"));
    json_put_i64(&b.w, limit);
    ask_body_text(&b, "timeout", cli_text(c, "%lldms", (long long)within_ms));
    return ask_body_send(c, &b, EXIT_OK, &(struct question){.path = "/v1/sql"}, out_reply);
}

int command_sql(struct cli *c)
{
    struct reply reply = {0};
    struct json *json = NULL;
    enum output kind = OUTPUT_TEXT;
    enum shape shape = SHAPE_TABLE;
    int64_t limit = LIMIT_SQL_ROWS;
    qp_ms within_ms = LIMIT_SQL_MS;
    qp_str sql = QP_NONE;
    int status = cli_expect(c, 1, 1);
    status = status == EXIT_OK ? read_shape(c, &shape, &kind) : status;
    status = status == EXIT_OK ? cli_number(c, OPT_limit, 1, LIMIT_SQL_ROWS_HARD, &limit) : status;
    status = status == EXIT_OK ? cli_duration(c, OPT_timeout, &within_ms) : status;
    status = status == EXIT_OK ? input_text(c, c->arguments[0], &sql) : status;
    status = status == EXIT_OK ? ask_sql(c, sql, limit, within_ms, &reply) : status;
    if (status == EXIT_OK && shape == SHAPE_API) {
        (void)output_object(c, kind, "", buf_slice(&reply.body));
    } else if (status == EXIT_OK) {
        status = json_parse(&c->env, buf_slice(&reply.body), NULL, &json) == QP_OK
                     ? print_answer(c, shape, kind, json)
                     : cli_fail(c, EXIT_ERROR, "the answer cannot be read");
    }
    json_free(json);
    reply_done(&reply);
    return status;
}
