/* input.c - what a person types, as JSON
 *
 * name=text, name:=JSON, name=@FILE and name:=@FILE make an object; one argument that is a JSON
 * text, @FILE or - (stdin) is the whole. A mistake is told with its argument, before anybody is
 * asked.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

int input_stream(struct cli *c, FILE *file, const char *name, size_t limit, qp_str *out_text)
{
    struct buf b;
    size_t n = 1;
    int status = EXIT_OK;
    buf_init(&b, &c->env, limit + 4096); /* as much as is read at a time */
    while (n > 0 && b.n <= limit && buf_rc(&b) == QP_OK) {
        char *room = buf_room(&b, 4096);
        n = room == NULL ? 0 : fread(room, 1, 4096, file);
        buf_took(&b, n);
    }
    if (ferror(file) != 0) {
        status = cli_fail(c, EXIT_USAGE, "'%s': %s", name, strerror(errno));
    } else if (buf_rc(&b) != QP_OK || b.n > limit) {
        status = cli_fail(c, EXIT_USAGE, "'%s': more than %zu bytes", name, limit);
    } else if (!arena_copy(&c->arena, (qp_str){b.p != NULL ? b.p : "", b.n}, out_text)) {
        status = cli_fail(c, EXIT_ERROR, "out of memory");
    }
    buf_done(&b);
    return status;
}

int input_file(struct cli *c, const char *path, size_t limit, qp_str *out_text)
{
    FILE *file;
    int status;
    if (strcmp(path, "-") == 0) {
        return input_stream(c, stdin, path, limit, out_text);
    }
    file = fopen(path, "re");
    if (file == NULL) {
        return cli_fail(c, EXIT_USAGE, "'%s': %s", path, strerror(errno));
    }
    status = input_stream(c, file, path, limit, out_text);
    (void)fclose(file);
    return status;
}

static int check(struct cli *c, const char *what, qp_str json)
{
    struct qp_err err;
    return json_check(&c->env, json, NULL, &err) == QP_OK
               ? EXIT_OK
               : cli_fail(c, EXIT_USAGE, "%s: %s", what, err.text);
}

/* The value of name:=JSON, as it was typed; most who get it wrong mean a text. */
static int check_value(struct cli *c, const char *argument, qp_str name, qp_str json)
{
    struct qp_err err;
    return json_check(&c->env, json, NULL, &err) == QP_OK
               ? EXIT_OK
               : cli_fail_next(
                     c, EXIT_USAGE,
                     cli_text(c, "%.*s=%.*s when a text is meant", STR_ARG(name), STR_ARG(json)),
                     "%s: %s", argument, err.text);
}

static int refuse_argument(struct cli *c, const char *argument)
{
    return cli_fail(c, EXIT_USAGE, "'%s' is not name=text, name:=JSON, @FILE or JSON", argument);
}

/* One member of the object. */
static int put_member(struct cli *c, struct json_writer *w, const char *argument)
{
    const char *equals = strchr(argument, '=');
    bool raw = equals != NULL && equals > argument && equals[-1] == ':';
    qp_str name = {argument, equals == NULL ? 0 : (size_t)(equals - argument) - (raw ? 1 : 0)};
    qp_str value;
    int status = EXIT_OK;
    if (name.n == 0) {
        return refuse_argument(c, argument);
    }
    value = str_from(equals + 1);
    if (value.n > 1 && value.p[0] == '@') {
        status = input_file(c, value.p + 1, LIMIT_PAYLOAD_SIZE, &value);
    }
    if (status == EXIT_OK && raw) {
        status = value.p == equals + 1 ? check_value(c, argument, name, value)
                                       : check(c, argument, value);
    }
    if (status == EXIT_OK) {
        json_key(w, name);
        if (raw) {
            json_put_raw(w, value);
        } else {
            json_put_str(w, value);
        }
    }
    return status;
}

static int read_members(struct cli *c, const char *const *arguments, size_t count, qp_str *out_json)
{
    struct buf b;
    struct json_writer w;
    int status = EXIT_OK;
    buf_init(&b, &c->env, 0);
    json_writer_init(&w, &b);
    json_begin_object(&w);
    for (size_t i = 0; i < count && status == EXIT_OK; i++) {
        status = put_member(c, &w, arguments[i]);
    }
    json_end_object(&w);
    if (status == EXIT_OK &&
        (json_writer_done(&w) != QP_OK || !arena_copy(&c->arena, buf_slice(&b), out_json))) {
        status = cli_fail(c, EXIT_ERROR, "out of memory");
    }
    buf_done(&b);
    return status == EXIT_OK ? check(c, "input", *out_json) : status; /* a name that comes twice */
}

int input_text(struct cli *c, const char *argument, qp_str *out_text)
{
    *out_text = str_from(argument);
    if (strcmp(argument, "-") == 0) {
        return input_stream(c, stdin, "-", LIMIT_PAYLOAD_SIZE, out_text);
    }
    return argument[0] == '@' ? input_file(c, argument + 1, LIMIT_PAYLOAD_SIZE, out_text) : EXIT_OK;
}

int input_read(struct cli *c, const char *const *arguments, size_t count, const char *otherwise,
               qp_str *out_json)
{
    const char *first = count > 0 ? arguments[0] : otherwise;
    int status;
    if (count == 0) {
        *out_json = str_from(first);
        return EXIT_OK;
    }
    if (count > 1 || (strchr("{[\"@", first[0]) == NULL && strchr(first, '=') != NULL)) {
        return read_members(c, arguments, count, out_json);
    }
    if (strchr("{[\"@-", first[0]) == NULL &&
        json_check(&c->env, str_from(first), NULL, NULL) != QP_OK) {
        return refuse_argument(c, first);
    }
    status = input_text(c, first, out_json);
    return status == EXIT_OK ? check(c, "input", *out_json) : status;
}
