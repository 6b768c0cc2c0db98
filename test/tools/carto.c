/* carto.c - traverses a universe in memory, for scripts: node and edge sets, formats, reverse dependencies
 *
 * usage: carto LIST... < commands
 *
 * Commands, one per line, each writes one file:
 *
 *   set CLOSURE DEPTH FILE ROOT...     lines "N name" and "E from to", edges of kind provides left out; DEPTH - is none
 *   FORMAT CLOSURE DEPTH FILE ROOT...       one of format.h
 *   rdepends FIELDS FILE NAME          FIELDS: needed or all; lines "name"
 *   rset FILE NAME                     recursive, fields needed: lines "N name", "E name dependent"
 *   names FILE                         real packages, by name
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/env.h"
#include "carto/deb.h"
#include "carto/deb_import.h"
#include "carto/result_graph.h"
#include "support/cartorun.h"

static struct qp_env env;
static struct facts_table table;
static struct carto_facts facts;

_Noreturn static void die(const char *what, const char *text)
{
    (void)fprintf(stderr, "carto: %s: %s\n", what, text);
    exit(1);
}

static void read_list(struct deb_import *import, const char *name)
{
    static char piece[64 * 1024];
    struct qp_err err = {0};
    FILE *file = fopen(name, "r");
    size_t size = 0;
    if (file == NULL) {
        die(name, strerror(errno));
    }
    while ((size = fread(piece, 1, sizeof(piece), file)) > 0) {
        if (deb_import_feed(import, (qp_str){piece, size}, &err) != QP_OK) {
            die(name, err.text);
        }
    }
    if (deb_import_end_list(import, &err) != QP_OK) {
        die(name, err.text);
    }
    (void)fclose(file);
}

static void import_lists(char **names, int count)
{
    struct deb_import import;
    struct qp_err err = {0};
    deb_import_init(&import, &env);
    for (int i = 0; i < count; i++) {
        read_list(&import, names[i]);
    }
    facts_table_init(&table, &env);
    if (deb_import_finish(&import, &table, &err) != QP_OK) {
        die("import", err.text);
    }
    deb_import_done(&import);
    facts = facts_table_reader(&table);
}

static FILE *open_output(const char *name)
{
    FILE *file = fopen(name, "w");
    if (file == NULL) {
        die(name, strerror(errno));
    }
    return file;
}

static char *word(char **rest)
{
    char *start = *rest + strspn(*rest, " \n");
    size_t size = strcspn(start, " \n");
    if (size == 0) {
        return NULL;
    }
    *rest = start[size] != '\0' ? start + size + 1 : start + size;
    start[size] = '\0';
    return start;
}

static char *need(char **rest, const char *what)
{
    char *w = word(rest);
    if (w == NULL) {
        die("expected", what);
    }
    return w;
}

/* ------------------------------------------------------------------------------------ traversals */

static int write_piece(void *context, const char *bytes, size_t size)
{
    return fwrite(bytes, 1, size, context) == size ? QP_OK : QP_E_IO;
}

static qp_str node_name(const struct carto_item *item)
{
    return result_package(item).id.name;
}

/* Parents of a level stand in the order of their children. */
static void write_set(const struct carto_run *run, FILE *out)
{
    for (size_t level = 0; level < run->level_count; level++) {
        size_t parent = 0;
        for (size_t i = 0; i < run->sizes[level]; i++) {
            const struct carto_item *item = &run->levels[level][i];
            if (item->is_first) {
                (void)fprintf(out, "N %.*s\n", STR_ARG(node_name(item)));
            }
            if (level == 0 || item->via.n > 0) {
                continue;
            }
            while (!path_is_parent(run->levels[level - 1][parent].path, item->path)) {
                parent++;
            }
            (void)fprintf(out, "E %.*s %.*s\n", STR_ARG(node_name(&run->levels[level - 1][parent])),
                          STR_ARG(node_name(item)));
        }
    }
}

static void write_format(struct carto_run *run, const char *format, FILE *out)
{
    struct carto_items items = cartorun_items(run);
    struct carto_result_head head = {.reason = stage_end(&run->counts), .counts = run->counts};
    struct format_digest digest;
    struct format_of of = {.env = &env, .items = items};
    char universe[sizeof table.universe + 4];
    int rc = QP_OK;
    (void)snprintf(universe, sizeof universe, "deb@%s", table.universe); /* as a job has it */
    head.universe = str_from(universe);
    if (strcmp(format, "set") == 0) {
        write_set(run, out);
        return;
    }
    if (!format_read(str_from(format), &of.format)) {
        die("format", format);
    }
    rc = format_hash(&env, &items, &head, &digest);
    if (rc == QP_OK) {
        of.head = head;
        of.hash = str_from(digest.hash);
        rc = format_write(&of, out, write_piece);
    }
    if (rc != QP_OK) {
        die(format, qp_code_text(rc));
    }
}

static void traverse(const char *format, char *rest)
{
    struct deb_options options = {.arch = QP_STR("amd64")};
    struct carto_use use = {.type = &deb_type, .facts = &facts, .options = &options};
    struct carto_request request = {.uses = &use, .use_count = 1, .depth = CARTO_NO_DEPTH};
    struct carto_run run;
    struct qp_err err = {0};
    qp_str roots[256];
    size_t count = 0;
    char text[300];
    char *depth = NULL;
    FILE *out = NULL;
    if (!deb_closure_parse(str_from(need(&rest, "closure")), &options.closure)) {
        die("closure", "A, F, FR, R, S");
    }
    depth = need(&rest, "depth");
    request.depth = depth[0] == '-' ? CARTO_NO_DEPTH : strtol(depth, NULL, 10);
    out = open_output(need(&rest, "file"));
    cartorun_init(&run, &env, &request);
    for (char *name = word(&rest); name != NULL && count < ARRAY_COUNT(roots); name = word(&rest)) {
        (void)snprintf(text, sizeof(text), "deb:%s", name);
        if (!arena_copy(&run.memory, str_from(text), &roots[count++])) {
            die(name, "out of memory");
        }
    }
    if (cartorun_traverse(&run, roots, count, &err) != QP_OK) {
        die("root", err.text);
    }
    write_format(&run, format, out);
    cartorun_done(&run);
    (void)fclose(out);
}

/* --------------------------------------------------------------------------- reverse dependencies */

static bool next_dependent(qp_str target, unsigned fields, qp_str *after)
{
    const struct deb_options options = {.arch = QP_STR("amd64")};
    struct qp_err err = {0};
    int rc = deb_dependent(&facts, &options, target, fields, *after, after, &err);
    if (rc != QP_OK && rc != QP_E_NOT_FOUND) {
        die("rdepends", err.text);
    }
    return rc == QP_OK;
}

static void list_dependents(char *rest)
{
    unsigned fields =
        strcmp(need(&rest, "fields"), "all") == 0 ? DEB_FIELDS_ALL : DEB_FIELDS_NEEDED;
    FILE *out = open_output(need(&rest, "file"));
    qp_str target = str_from(need(&rest, "name"));
    qp_str name = QP_NONE;
    while (next_dependent(target, fields, &name)) {
        (void)fprintf(out, "%.*s\n", STR_ARG(name));
    }
    (void)fclose(out);
}

static void list_all_dependents(char *rest)
{
    FILE *out = open_output(need(&rest, "file"));
    qp_str target = str_from(need(&rest, "name"));
    struct omap seen;
    qp_str *queue = mem_alloc(&env, (table.fact_count + 1) * sizeof(*queue));
    size_t end = 0;
    omap_init(&seen, &env);
    QP_ASSERT(queue != NULL && omap_put(&seen, target, queue, NULL) == QP_OK);
    queue[end++] = target;
    for (size_t at = 0; at < end; at++) {
        qp_str name = QP_NONE;
        (void)fprintf(out, "N %.*s\n", STR_ARG(queue[at]));
        while (next_dependent(queue[at], DEB_FIELDS_NEEDED, &name)) {
            (void)fprintf(out, "E %.*s %.*s\n", STR_ARG(queue[at]), STR_ARG(name));
            if (omap_get(&seen, name) == NULL) {
                QP_ASSERT(omap_put(&seen, name, queue, NULL) == QP_OK);
                queue[end++] = name;
            }
        }
    }
    omap_done(&seen);
    mem_free(&env, queue);
    (void)fclose(out);
}

static void list_names(char *rest)
{
    FILE *out = open_output(need(&rest, "file"));
    for (size_t i = 0; i < table.fact_count; i++) {
        struct deb_fact f;
        struct deb_package package;
        bool is_found = false;
        if (deb_fact_packages(&f, table.facts[i].value, NULL) != QP_OK ||
            deb_fact_package(&f, &is_found, &package, NULL) != QP_OK) {
            die("names", "a damaged fact");
        }
        if (is_found) {
            (void)fprintf(out, "%.*s\n", STR_ARG(table.facts[i].name));
        }
    }
    (void)fclose(out);
}

int main(int argc, char **argv)
{
    static char line[64 * 1024];
    qp_env_init(&env);
    env_complete(&env);
    if (argc < 2) {
        die("usage", "carto LIST... < commands");
    }
    import_lists(argv + 1, argc - 1);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        char *rest = line;
        const char *command = need(&rest, "a command");
        if (strcmp(command, "rdepends") == 0) {
            list_dependents(rest);
        } else if (strcmp(command, "rset") == 0) {
            list_all_dependents(rest);
        } else if (strcmp(command, "names") == 0) {
            list_names(rest);
        } else {
            traverse(command, rest);
        }
    }
    facts_table_done(&table);
    return 0;
}
