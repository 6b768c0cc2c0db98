/* graph_file.c - the text of an application, from a file and what it refers to (see graph_file.h)
 *
 * References are followed as the text is written out, so that a part may stand in several places. Depth and size are limited,
 * which ends references that lead round in a circle, too.
 */
#include "cli/graph_file.h"
#include "cli/output.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file that was read. */
struct part {
    struct part *next;
    const char *path;
    const char *shown; /* as people would write it, beside the application's file */
    struct node *root;
};

/* What stands at a byte of the text that was made, and at all behind it up to the next place, was written there. */
struct graph_place {
    const struct graph_place *next; /* the one before it in the text */
    size_t at;
    const char *path;
    int line;
    int column;
};

struct assembly {
    struct cli *c;
    const char *directory;   /* whole path of the one that all files are in */
    const struct node *root; /* of the application's file */
    const char *prefix;      /* that directory as people wrote it, with its slash */
    struct part *parts;
    const struct graph_place *places;
    struct buf out;
    int line;    /* of what is written now */
    int deep;    /* references that are being followed */
    bool refers; /* there was one */
    int status;
};

static void write_node(struct assembly *a, const struct part *part, const struct node *node,
                       bool ours);

/* ------------------------------------------------------------------------------------- findings */

/* Where a place of a text is, in bytes. */
static size_t offset_of(qp_str text, int line, int column)
{
    size_t at = 0;
    while (line > 1 && at < text.n) {
        line -= text.p[at++] == '\n';
    }
    for (; column > 1 && at < text.n; column--) {
        at++;
        while (at < text.n && ((unsigned char)text.p[at] & 0xc0) == 0x80) {
            at++;
        }
    }
    return at;
}

/* Where what was found was written. */
static struct graph_place place_of(const struct graph_text *text, const struct finding *f)
{
    const struct graph_place *p = text->places;
    size_t at = p == NULL ? 0 : offset_of(text->text, f->line, f->column);
    while (p != NULL && p->at > at) {
        p = p->next;
    }
    return p != NULL
               ? *p
               : (struct graph_place){.path = text->path, .line = f->line, .column = f->column};
}

static void print_finding(const struct graph_text *text, const struct finding *f)
{
    static const char *const words[] = {[FINDING_WRONG] = "",
                                        [FINDING_WARNING] = "warning: ",
                                        [FINDING_NOTE] = "note: ",
                                        [FINDING_STRICT] = "warning: "};
    struct graph_place place = place_of(text, f);
    cli_say("%s:%d:%d: %s%.*s [%s]", place.path, place.line, place.column, words[f->level],
            STR_ARG(f->message), f->code);
    if (!str_is_none(f->hint)) {
        cli_say("    %.*s", STR_ARG(f->hint));
    }
}

/* {"errors":[{"file":..,"line":..,"column":..,"code":..,"message":..,"hint":..}],"count":n} */
static int print_report(struct cli *c, const struct graph_text *text, const struct report *report)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, &c->env, 0);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    json_key(&w, QP_STR("errors"));
    json_begin_array(&w);
    for (const struct finding *f = report->first; f != NULL; f = f->next) {
        struct graph_place place = place_of(text, f);
        json_begin_object(&w);
        json_key(&w, QP_STR("file"));
        json_put_str(&w, str_from(place.path));
        json_key(&w, QP_STR("line"));
        json_put_i64(&w, place.line);
        json_key(&w, QP_STR("column"));
        json_put_i64(&w, place.column);
        json_key(&w, QP_STR("code"));
        json_put_str(&w, str_from(f->code));
        json_key(&w, QP_STR("message"));
        json_put_str(&w, f->message);
        json_key(&w, QP_STR("hint"));
        json_put_str(&w, f->hint);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_key(&w, QP_STR("count"));
    json_put_i64(&w, (int64_t)report->count);
    json_end_object(&w);
    if (json_writer_done(&w) == QP_OK) {
        print_json(stdout, buf_slice(&out));
        (void)fputc('\n', stdout);
    }
    buf_done(&out);
    return EXIT_ERROR;
}

static bool wants_json(const struct cli *c)
{
    return cli_has(c, OPT_output) && (strcmp(c->values[OPT_output], "json") == 0 ||
                                      strcmp(c->values[OPT_output], "jsonl") == 0);
}

static int tell_report(const struct graph_text *text, const struct report *report)
{
    size_t shown = 0;
    for (const struct finding *f = report->first; f != NULL; f = f->next) {
        print_finding(text, f);
        shown++;
    }
    if (shown < report->count) {
        cli_say("the first %zu of them are shown", shown);
    }
    cli_say("%zu error%s, nothing deployed", report->count, report->count == 1 ? "" : "s");
    return EXIT_ERROR;
}

static void tell_notes(struct cli *c, const struct graph_text *text, const struct report *report)
{
    for (const struct finding *f = report->first_note; f != NULL; f = f->next) {
        if (f->level != FINDING_STRICT || cli_has(c, OPT_strict)) {
            print_finding(text, f);
        }
    }
}

int graph_file_compile(struct cli *c, const struct graph_text *text, struct app **out_app)
{
    struct report report;
    int rc;
    report_init(&report, &c->arena);
    rc = app_compile(&c->env, text->text, &report, out_app);
    tell_notes(c, text, &report);
    if (rc == QP_E_INVALID) {
        return wants_json(c) ? print_report(c, text, &report) : tell_report(text, &report);
    }
    return rc == QP_OK ? EXIT_OK : cli_fail(c, EXIT_ERROR, "%s", qp_code_text(rc));
}

/* ---------------------------------------------------------------------------------------- parts */

static void give_up(struct assembly *a, const struct part *part, const struct node *node,
                    const char *why)
{
    if (a->status == EXIT_OK) {
        cli_say("%s:%d:%d: $ref: %s [ref_wrong]", part->shown, node->line, node->column, why);
        cli_say("1 error, nothing deployed");
        a->status = EXIT_ERROR;
    }
}

/* Its tree; NULL: it was said why there is none. */
static struct part *read_part(struct assembly *a, const char *path)
{
    struct part *part = arena_alloc(&a->c->arena, sizeof *part);
    struct report report;
    qp_str text;
    int rc;
    if (part == NULL) {
        a->status = cli_fail(a->c, EXIT_ERROR, "out of memory");
        return NULL;
    }
    a->status = input_file(a->c, path, LIMIT_YAML_SIZE, &text);
    if (a->status != EXIT_OK) {
        return NULL;
    }
    report_init(&report, &a->c->arena);
    *part =
        (struct part){.next = a->parts,
                      .path = path,
                      .shown = cli_text(a->c, "%s%s", a->prefix, path + strlen(a->directory) + 1)};
    rc = tree_read(&a->c->arena, text, &report, &part->root);
    if (rc != QP_OK) {
        a->status = rc == QP_E_MALFORMED
                        ? tell_report(&(struct graph_text){.path = part->shown}, &report)
                        : cli_fail(a->c, EXIT_ERROR, "%s", qp_code_text(rc));
        return NULL;
    }
    a->parts = part;
    return part;
}

/* The whole path of a file that a directory's path and a name give; false: there is none. */
static bool path_of(struct assembly *a, const char *directory, qp_str name, char whole[PATH_MAX])
{
    return realpath(cli_text(a->c, "%s/%.*s", directory, STR_ARG(name)), whole) != NULL;
}

/* The directory that a part is in; of the application's file that of all. */
static const char *directory_of_part(struct assembly *a, const struct part *part)
{
    const char *slash = part->root == a->root ? NULL : strrchr(part->path, '/');
    return slash == NULL ? a->directory
                         : cli_text(a->c, "%.*s", (int)(slash - part->path), part->path);
}

/* The file that a reference names: from the directory of the file that it stands in, or from that of the application's file. It
 * lies in or below the latter, wherever links lead. */
static const struct part *find_part(struct assembly *a, const struct part *from,
                                    const struct node *ref, qp_str name)
{
    char whole[PATH_MAX];
    size_t n = strlen(a->directory);
    if (name.p[0] == '/' || (!path_of(a, directory_of_part(a, from), name, whole) &&
                             !path_of(a, a->directory, name, whole))) {
        give_up(a, from, ref,
                cli_text(a->c, "'%.*s': %s", STR_ARG(name),
                         name.p[0] == '/' ? "name it from the directory of the application's file"
                                          : strerror(errno)));
        return NULL;
    }
    if (strncmp(whole, a->directory, n) != 0 || whole[n] != '/') {
        give_up(a, from, ref,
                cli_text(a->c, "'%.*s' is outside of the directory of the application's file",
                         STR_ARG(name)));
        return NULL;
    }
    for (const struct part *p = a->parts; p != NULL; p = p->next) {
        if (strcmp(p->path, whole) == 0) {
            return p;
        }
    }
    return read_part(a, cli_text(a->c, "%s", whole));
}

/* One step of a pointer: a key, or the number of an item. ~1 and ~0 are / and ~, as JSON pointers have it. */
static const struct node *step(struct assembly *a, const struct node *node, qp_str token)
{
    char *key = cli_copy(a->c, cli_text(a->c, "%.*s", STR_ARG(token)));
    size_t index = strtoul(key, NULL, 10);
    char *to = key;
    if (node->kind == NODE_LIST) {
        const struct node *item = node->first;
        bool number = *key != '\0' && key[strspn(key, "0123456789")] == '\0';
        while (item != NULL && index-- > 0) {
            item = item->next;
        }
        return number ? item : NULL;
    }
    for (const char *p = key; *p != '\0'; p++) {
        bool escaped = *p == '~' && (p[1] == '0' || p[1] == '1');
        *to++ = (char)(!escaped ? *p : *++p == '1' ? '/' : '~');
    }
    *to = '\0';
    return node_get(node, key);
}

static const struct node *find_node(struct assembly *a, const struct part *part, qp_str pointer)
{
    const struct node *node = part->root;
    while (node != NULL && pointer.n > 0 && pointer.p[0] == '/') {
        const char *end = memchr(pointer.p + 1, '/', pointer.n - 1);
        size_t n = end == NULL ? pointer.n : (size_t)(end - pointer.p);
        node = step(a, node, (qp_str){pointer.p + 1, n - 1});
        pointer = (qp_str){pointer.p + n, pointer.n - n};
    }
    return pointer.n == 0 ? node : NULL;
}

/* Writes what a reference stands for. */
static void follow(struct assembly *a, const struct part *part, const struct node *ref)
{
    const char *hash = memchr(ref->text.p, '#', ref->text.n);
    qp_str name = {ref->text.p, hash == NULL ? ref->text.n : (size_t)(hash - ref->text.p)};
    qp_str pointer = hash == NULL ? QP_STR("") : (qp_str){hash + 1, ref->text.n - name.n - 1};
    const struct part *other = name.n == 0 ? part : find_part(a, part, ref, name);
    const struct node *node = other == NULL ? NULL : find_node(a, other, pointer);
    a->refers = true;
    if (other != NULL && node == NULL) {
        give_up(a, part, ref, cli_text(a->c, "there is no '%.*s'", STR_ARG(ref->text)));
    } else if (a->deep == LIMIT_REF_DEPTH) {
        give_up(a, part, ref, "references lead deeper than the limit, or round in a circle");
    }
    if (a->status == EXIT_OK) {
        a->deep++;
        write_node(a, other, node, false);
        a->deep--;
    }
}

/* --------------------------------------------------------------------------------------- writing */

static const struct node *ref_of(const struct node *node)
{
    const struct node *ref = node->kind == NODE_MAP && node->count == 1 ? node->first : NULL;
    return ref != NULL && str_equal(ref->key, QP_STR("$ref")) && ref->kind == NODE_STRING ? ref
                                                                                          : NULL;
}

/* So that what is found wrong later is found in the line where it was written. */
static void go_to_line(struct assembly *a, int line)
{
    while (a->line < line) {
        buf_byte(&a->out, '\n');
        a->line++;
    }
}

static void note_place(struct assembly *a, const struct part *part, int line, int column)
{
    struct graph_place *place = arena_alloc(&a->c->arena, sizeof *place);
    if (place == NULL) {
        a->status = cli_fail(a->c, EXIT_ERROR, "out of memory");
        return;
    }
    *place = (struct graph_place){a->places, a->out.n, part->shown, line, column};
    a->places = place;
}

static void write_text(struct assembly *a, qp_str text)
{
    struct json_writer w;
    json_writer_init(&w, &a->out);
    json_put_str(&w, text.n > 0 ? text : QP_STR(""));
}

static void write_scalar(struct assembly *a, const struct node *node)
{
    if (node->kind == NODE_STRING) {
        write_text(a, node->text);
    } else if (node->kind == NODE_BOOL) {
        buf_printf(&a->out, "%s", node->truth ? "true" : "false");
    } else {
        buf_str(&a->out, node->kind == NODE_NULL ? QP_STR("null") : node->text);
    }
}

static void write_entries(struct assembly *a, const struct part *part, const struct node *node,
                          bool ours)
{
    bool is_map = node->kind == NODE_MAP;
    bool is_top = ours && node == part->root;
    const char *before = "";
    buf_byte(&a->out, is_map ? '{' : '[');
    for (const struct node *n = node->first; n != NULL && a->status == EXIT_OK; n = n->next) {
        if (is_top && str_equal(n->key, QP_STR("definitions"))) {
            continue;
        }
        buf_printf(&a->out, "%s", before);
        if (is_map) {
            go_to_line(a, ours ? n->key_line : 0);
            note_place(a, part, n->key_line, n->key_column);
            write_text(a, n->key);
            buf_byte(&a->out, ':');
        }
        write_node(a, part, n, ours);
        before = ",";
    }
    buf_byte(&a->out, is_map ? '}' : ']');
}

/* The depth is that of trees, as often as references may be followed. */
static void write_node(struct assembly *a, const struct part *part, const struct node *node,
                       bool ours)
{
    const struct node *ref = ref_of(node);
    go_to_line(a, ours ? node->line : 0);
    if (a->out.n > LIMIT_YAML_SIZE) {
        give_up(a, part, node, "what references bring is larger than the limit of a text");
        return;
    }
    if (ref != NULL) {
        follow(a, part, ref);
        return;
    }
    note_place(a, part, node->line, node->column);
    if (node->kind == NODE_MAP || node->kind == NODE_LIST) {
        write_entries(a, part, node, ours);
    } else {
        write_scalar(a, node);
    }
}

/* ------------------------------------------------------------------------------------- the whole */

/* The directory that a file is in, whole. */
static const char *directory_of(struct cli *c, const char *path)
{
    char whole[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const char *name = strcmp(path, "-") == 0 || slash == NULL ? "."
                       : slash == path                         ? "/"
                                       : cli_text(c, "%.*s", (int)(slash - path), path);
    return realpath(name, whole) != NULL ? cli_text(c, "%s", whole) : NULL;
}

static int assemble(struct cli *c, const char *path, struct node *root, struct graph_text *text)
{
    const char *slash = strrchr(path, '/');
    struct part part = {.path = path, .shown = path, .root = root};
    struct assembly a = {
        .c = c,
        .directory = directory_of(c, path),
        .root = root,
        .prefix = slash == NULL ? "" : cli_text(c, "%.*s", (int)(slash - path) + 1, path),
        .line = 1};
    if (a.directory == NULL) {
        return cli_fail(c, EXIT_USAGE, "'%s': %s", path, strerror(errno));
    }
    buf_init(&a.out, &c->env, 0);
    write_node(&a, &part, root, true);
    if (a.status == EXIT_OK && a.refers) {
        text->places = a.places;
        if (buf_rc(&a.out) != QP_OK || !arena_copy(&c->arena, buf_slice(&a.out), &text->text)) {
            a.status = cli_fail(c, EXIT_ERROR, "out of memory");
        }
    }
    buf_done(&a.out);
    return a.status;
}

int graph_file_read(struct cli *c, const char *path, struct graph_text *out_text)
{
    struct report report;
    struct node *root = NULL;
    int status = input_file(c, path, LIMIT_YAML_SIZE, &out_text->text);
    out_text->path = path;
    out_text->places = NULL;
    if (status != EXIT_OK) {
        return status;
    }
    report_init(&report, &c->arena);
    if (tree_read(&c->arena, out_text->text, &report, &root) != QP_OK || root == NULL) {
        return EXIT_OK; /* whoever compiles it tells, and all the rest with it */
    }
    return assemble(c, path, root, out_text);
}

/* -------------------------------------------------------------------------------------- versions */

int graph_file_with_version(struct cli *c, qp_str text, const char *version, qp_str *out_text)
{
    struct report report;
    struct node *root = NULL;
    const struct node *node;
    size_t at, n;
    report_init(&report, &c->arena);
    if (tree_read(&c->arena, text, &report, &root) != QP_OK ||
        (node = node_get(node_get(root, "app"), "version")) == NULL) {
        return cli_fail(c, EXIT_ERROR, "the version of the application cannot be found");
    }
    at = offset_of(text, node->line, node->column);
    n = node->text.n + (strchr("'\"", text.p[at]) != NULL ? 2 : 0); /* names need no escapes */
    *out_text = str_from(cli_text(c, "%.*s'%s'%.*s", (int)at, text.p, version,
                                  (int)(text.n - at - n), text.p + at + n));
    return EXIT_OK;
}
