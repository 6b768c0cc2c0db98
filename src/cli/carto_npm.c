/* carto_npm.c - files of npm for quipu carto: saved packuments, package.json, package-lock.json
 *
 * They are read here: the API takes no paths. Packuments and a lock become facts, whose hash names their universe, and
 * are sent before the traversal; the same files again are the same universe. A package.json goes along with the request.
 *
 *   --packuments DIR     NAME.json and @SCOPE/NAME.json
 *   npm:./package.json   its maps of dependencies, and of "overrides" those that hold everywhere
 *   npm:./any.json       with a lockfileVersion it is a lock
 */
#include "cli/carto_npm.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>

#include "carto/npm_import.h"
#include "carto/npm_lock.h"
#include "carto/npm_spec.h"
#include "cli/carto_import.h"

bool carto_npm_is_file(const char *argument)
{
    return strncmp(argument, "npm:./", 6) == 0 || strncmp(argument, "npm:../", 7) == 0 ||
           strncmp(argument, "npm:/", 5) == 0;
}

/* ----------------------------------------------------------------------------------------- packuments */

static int read_packument(struct cli *c, struct npm_import *import, const char *path, qp_str name)
{
    struct qp_err err = {0};
    struct arena kept = c->arena; /* packuments are large: each goes when it was read */
    qp_str text = QP_NONE;
    int status;
    arena_init(&c->arena, &c->env, 2 * (size_t)LIMIT_NPM_PACKUMENT_SIZE);
    status = input_file(c, path, LIMIT_NPM_PACKUMENT_SIZE, &text);
    if (status == EXIT_OK && npm_import_packument(import, name, text, &err) != QP_OK) {
        status = cli_fail(c, EXIT_USAGE, "'%s': %s", path, err.text);
    }
    arena_done(&c->arena);
    c->arena = kept;
    return status;
}

/* A file of the directory, "NAME.json"; `scope` is "" or "@scope/". */
static int read_entry(struct cli *c, struct npm_import *import, const char *directory,
                      const char *scope, const char *entry)
{
    size_t n = strlen(entry);
    const char *name;
    if (n <= 5 || strcmp(entry + n - 5, ".json") != 0) {
        return EXIT_OK;
    }
    name = cli_text(c, "%s%.*s", scope, (int)(n - 5), entry);
    return read_packument(c, import, cli_text(c, "%s/%s%s", directory, scope, entry),
                          str_from(name));
}

static int read_directory(struct cli *c, struct npm_import *import, const char *directory,
                          const char *scope)
{
    const char *path = cli_text(c, "%s/%s", directory, scope);
    DIR *dir = opendir(path);
    struct dirent *entry;
    int status = EXIT_OK;
    if (dir == NULL) {
        return cli_fail(c, EXIT_USAGE, "--packuments '%s': %s", path, strerror(errno));
    }
    while (status == EXIT_OK && (entry = readdir(dir)) != NULL) {
        status = scope[0] == '\0' && entry->d_name[0] == '@'
                     ? read_directory(c, import, directory, cli_text(c, "%s/", entry->d_name))
                     : read_entry(c, import, directory, scope, entry->d_name);
    }
    (void)closedir(dir);
    return status;
}

static int send(struct cli *c, struct npm_import *import, struct npm_given *out)
{
    struct facts_table table;
    int64_t sent = 0;
    int status = EXIT_OK;
    facts_table_init(&table, &c->env);
    if (npm_import_finish(import, &table) != QP_OK) {
        status = cli_fail(c, EXIT_ERROR, "out of memory");
    }
    status = status == EXIT_OK ? carto_send_facts(c, "npm", &table, &sent) : status;
    out->universe = cli_text(c, "%s", table.universe);
    facts_table_done(&table);
    return status;
}

static int take_packuments(struct cli *c, struct npm_given *out)
{
    const char *directory = c->values[OPT_packuments];
    struct npm_import import;
    int status;
    npm_import_init(&import, &c->env);
    status = read_directory(c, &import, directory, "");
    if (status == EXIT_OK && import.package_count == 0) {
        status =
            cli_fail(c, EXIT_USAGE, "--packuments '%s': there is no NAME.json in it", directory);
    }
    status = status == EXIT_OK ? send(c, &import, out) : status;
    npm_import_done(&import);
    return status;
}

/* ---------------------------------------------------------------------------------------------- files */

/* A package that has no name gets that of its directory, as npm calls it, or "root". */
static qp_str name_of_directory(struct cli *c, const char *path)
{
    char *whole = realpath(path, NULL);
    qp_str name = QP_STR("root");
    if (whole != NULL) {
        qp_str last = str_from(cli_text(c, "%s", basename(dirname(whole))));
        name = npm_name_is_valid(last) ? last : name;
    }
    free(whole);
    return name;
}

static int take_lock(struct cli *c, const char *path, qp_str text, struct npm_given *out)
{
    struct npm_import import;
    struct qp_err err = {0};
    qp_str root = QP_NONE;
    int status = EXIT_OK;
    npm_import_init(&import, &c->env);
    if (npm_lock_read(&import, text, name_of_directory(c, path), &root, &err) != QP_OK) {
        status = cli_fail(c, EXIT_USAGE, "'%s': %s", path, err.text);
    }
    if (status == EXIT_OK) {
        out->root = cli_text(c, "npm:%.*s", STR_ARG(root));
        status = send(c, &import, out);
    }
    npm_import_done(&import);
    return status;
}

/* What a package.json's own dependency on a package is: "$name" in overrides stands for it. */
static bool own_spec(const struct json *manifest, qp_str name, qp_str *out)
{
    static const char *const maps[] = {"dependencies", "devDependencies", "optionalDependencies",
                                       "peerDependencies"};
    for (size_t i = 0; i < ARRAY_COUNT(maps); i++) {
        if (json_as_str(json_get(json_get(manifest, str_from(maps[i])), name), out)) {
            return true;
        }
    }
    return false;
}

static int refuse_override(struct cli *c, const char *path, qp_str key, const char *why)
{
    return cli_fail(c, EXIT_USAGE, "'%s': overrides: '%.*s': %s", path, STR_ARG(key), why);
}

/* One that holds wherever the package is asked for: a text, or an object with nothing but ".". */
static int put_override(struct cli *c, const char *path, const struct json *manifest,
                        const struct json_walk *w, struct json_writer *out)
{
    const struct json *value = w->value;
    qp_str text = QP_NONE;
    if (json_is(value, JSON_KIND_OBJECT) && json_count(value) == 1) {
        value = json_get(value, QP_STR("."));
    }
    if (!npm_name_is_valid(w->key) || !json_as_str(value, &text)) {
        return refuse_override(c, path, w->key,
                               "only overrides that hold everywhere are taken, like \"name\": "
                               "\"1.2.3\"; leave out the others, or use --take");
    }
    if (text.n > 1 && text.p[0] == '$' &&
        !own_spec(manifest, (qp_str){text.p + 1, text.n - 1}, &text)) {
        return refuse_override(c, path, w->key, "there is no dependency of this name");
    }
    json_key(out, str_from(cli_text(c, "npm:%.*s", STR_ARG(w->key))));
    json_put_str(out, text);
    return EXIT_OK;
}

static int take_overrides(struct cli *c, const char *path, const struct json *manifest,
                          struct npm_given *out)
{
    const struct json *overrides = json_get(manifest, QP_STR("overrides"));
    struct json_walk walk = {0};
    struct json_writer w;
    struct buf text;
    int status = EXIT_OK;
    if (!json_is(overrides, JSON_KIND_OBJECT) || json_count(overrides) == 0) {
        return EXIT_OK;
    }
    buf_init(&text, &c->env, 0);
    json_writer_init(&w, &text);
    json_begin_object(&w);
    while (status == EXIT_OK && json_each(overrides, &walk)) {
        status = put_override(c, path, manifest, &walk, &w);
    }
    json_end_object(&w);
    if (status == EXIT_OK &&
        (json_writer_done(&w) != QP_OK ||
         json_parse(&c->env, buf_slice(&text), NULL, &out->overrides) != QP_OK)) {
        status = cli_fail(c, EXIT_ERROR, "out of memory");
    }
    buf_done(&text);
    return status;
}

/* Nothing but what a traversal reads goes along. */
static int put_manifest(struct cli *c, const char *path, const struct json *manifest,
                        struct npm_given *out)
{
    static const char *const members[] = {
        "version",         "dependencies",     "optionalDependencies",
        "devDependencies", "peerDependencies", "peerDependenciesMeta"};
    qp_str name = QP_NONE;
    struct json_writer w;
    struct buf text;
    bool is_good;
    buf_init(&text, &c->env, 0);
    json_writer_init(&w, &text);
    json_begin_object(&w);
    json_key(&w, QP_STR("name"));
    json_put_str(&w, json_as_str(json_get(manifest, QP_STR("name")), &name)
                         ? name
                         : name_of_directory(c, path));
    for (size_t i = 0; i < ARRAY_COUNT(members); i++) {
        const struct json *value = json_get(manifest, str_from(members[i]));
        if (value != NULL) {
            json_key(&w, str_from(members[i]));
            json_write_tree(&w, value);
        }
    }
    json_end_object(&w);
    is_good =
        json_writer_done(&w) == QP_OK && arena_copy(&c->arena, buf_slice(&text), &out->manifest);
    buf_done(&text);
    return is_good ? EXIT_OK : cli_fail(c, EXIT_ERROR, "out of memory");
}

static int take_manifest(struct cli *c, const char *path, qp_str text, struct npm_given *out)
{
    struct qp_err err = {0};
    struct json *manifest = NULL;
    int status = EXIT_OK;
    if (json_parse(&c->env, text, &err, &manifest) != QP_OK) {
        return cli_fail(c, EXIT_USAGE, "'%s': %s", path, err.text);
    }
    if (!json_is(manifest, JSON_KIND_OBJECT)) {
        status = cli_fail(c, EXIT_USAGE,
                          "'%s': it is neither a package.json nor a package-lock.json", path);
    }
    status = status == EXIT_OK ? take_overrides(c, path, manifest, out) : status;
    status = status == EXIT_OK ? put_manifest(c, path, manifest, out) : status;
    out->root = "npm:.";
    json_free(manifest);
    return status;
}

/* Whether a text is a lock. What is no JSON is none; its error is told when it is read as a package.json. */
static bool is_lock(struct cli *c, qp_str text)
{
    const struct json_limits limits = {.frame = 1};
    struct raw_walk w = {.rest = text};
    if (json_check(&c->env, text, &limits, NULL) != QP_OK || raw_first(text) != '{') {
        return false;
    }
    while (raw_each(&w)) {
        if (str_equal(w.key, QP_STR("lockfileVersion"))) {
            return true;
        }
    }
    return false;
}

static int take_file(struct cli *c, const char *path, struct npm_given *out)
{
    qp_str text = QP_NONE;
    int status = input_file(c, path, LIMIT_PAYLOAD_HARD_SIZE, &text);
    if (status != EXIT_OK) {
        return status;
    }
    if (!is_lock(c, text)) {
        return take_manifest(c, path, text, out);
    }
    return out->universe == NULL
               ? take_lock(c, path, text, out)
               : cli_fail(c, EXIT_USAGE,
                          "'%s' is a lock, which says all there is: without --packuments", path);
}

int carto_npm_files(struct cli *c, struct npm_given *out)
{
    int status = cli_has(c, OPT_packuments) ? take_packuments(c, out) : EXIT_OK;
    for (size_t i = 0; i < c->argument_count && status == EXIT_OK; i++) {
        if (!carto_npm_is_file(c->arguments[i])) {
            continue;
        }
        if (out->root != NULL) {
            return cli_fail(c, EXIT_USAGE, "'%s': one package.json or lock in one traversal",
                            c->arguments[i]);
        }
        status = take_file(c, c->arguments[i] + 4, out);
    }
    return status;
}
