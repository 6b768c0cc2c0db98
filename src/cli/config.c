/* config.c - config show: every setting, its value, and where it comes from
 *
 * It asks nobody. What is secret is not shown: of a database's address the password, and the token.
 */
#include <stdlib.h>

#include "cli/output.h"

/* The default as the help has it: "(default X)", or nothing. */
static qp_str default_of(enum option option)
{
    const char *about = option_at(option)->about;
    const char *at = strstr(about, "(default");
    if (at == NULL) {
        return QP_STR("");
    }
    at += strlen("(default");
    at += strspn(at, ": ");
    return (qp_str){at, strcspn(at, ";)")};
}

/* The value as anybody may see it. */
static qp_str shown_value(struct cli *c, enum option option)
{
    const char *value = c->values[option];
    char *name;
    if (option == OPT_config && c->config != NULL) {
        return str_from(c->config);
    }
    if (c->unset[option]) {
        return QP_STR("0");
    }
    if (value == NULL) {
        return default_of(option);
    }
    if (!cli_place_is_url(value)) {
        return str_from(value);
    }
    name = cli_copy(c, value); /* without its password it is no longer */
    cli_place_name(value, name, strlen(value) + 1);
    return str_from(name);
}

static void put_setting(struct json_writer *w, const char *name, qp_str value, const char *origin)
{
    json_begin_object(w);
    json_key(w, QP_STR("name"));
    json_put_str(w, str_from(name));
    json_key(w, QP_STR("value"));
    json_put_str(w, value);
    json_key(w, QP_STR("origin"));
    json_put_str(w, str_from(origin));
    json_end_object(w);
}

static const char *shown_origin(const struct cli *c, enum option option)
{
    if (c->origins[option] != NULL) {
        return c->origins[option];
    }
    return option == OPT_config && !c->config_read ? "default, not there" : "default";
}

static void put_settings(struct cli *c, struct json_writer *w)
{
    const char *token = getenv("QUIPU_TOKEN");
    json_begin_array(w);
    for (enum option i = 0; i < OPTION_COUNT; i++) {
        if ((option_at(i)->flags & SETTING) != 0) {
            put_setting(w, option_at(i)->name, shown_value(c, i), shown_origin(c, i));
        }
    }
    if (token != NULL && *token != '\0') {
        put_setting(w, "token", QP_STR("(hidden)"), "QUIPU_TOKEN");
    }
    json_end_array(w);
}

static int print_settings(struct cli *c, enum output kind)
{
    static const struct table_column columns[] = {{"SETTING", "name", CELL_PLAIN},
                                                  {"VALUE", "value", CELL_PLAIN},
                                                  {"ORIGIN", "origin", CELL_WIDE}};
    struct buf text;
    struct json_writer w;
    struct json *json = NULL;
    struct output_list list = {
        .c = c, .columns = columns, .column_count = ARRAY_COUNT(columns), .name = "name"};
    const struct json *found[OPTION_COUNT + 1];
    size_t count = 0;
    int status = EXIT_OK;
    buf_init(&text, &c->env, 0);
    json_writer_init(&w, &text);
    put_settings(c, &w);
    if (json_parse(&c->env, buf_slice(&text), NULL, &json) == QP_OK) {
        for (size_t i = 0; i < json_count(json); i++) {
            found[count++] = json_at(json, i);
        }
        list.kind = kind == OUTPUT_TEXT && cli_has(c, OPT_origin) ? OUTPUT_WIDE : kind;
        output_items(&list, found, count);
        output_end(&list, NULL);
    } else {
        status = cli_fail(c, EXIT_ERROR, "a setting is no text");
    }
    json_free(json);
    buf_done(&text);
    return status;
}

int command_config_show(struct cli *c)
{
    enum output kind;
    int status = cli_expect(c, 0, 0);
    status = status == EXIT_OK ? output_kind(c, &kind) : status;
    status = status == EXIT_OK ? cli_settings(c) : status;
    return status == EXIT_OK ? print_settings(c, kind) : status;
}
