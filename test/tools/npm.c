/* npm.c - what the package type npm makes of texts, for scripts that compare it with npm's own
 *
 * usage: npm semver < pairs
 *
 * semver   a pair per line, a range and a version with byte 0x1f between (test/carto/npm/semver_pairs.js says what is
 *          answered)
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/env.h"
#include "carto/semver_range.h"

static struct qp_env env;

_Noreturn static void die(const char *what)
{
    (void)fprintf(stderr, "npm: %s\n", what);
    exit(1);
}

/* --------------------------------------------------------------------------------------------- semver */

struct former {
    char text[1024];
    struct semver version;
    bool is_there;
};

static int order_after(struct former *f, qp_str text, bool is_version, const struct semver *v)
{
    int order = is_version && f->is_there ? semver_compare(v, &f->version) : 0;
    f->is_there = is_version;
    if (text.n > sizeof f->text) {
        die("a version of more than 1024 bytes");
    }
    memcpy(f->text, text.p, text.n);
    if (is_version && !semver_read((qp_str){f->text, text.n}, &f->version)) {
        die("a version reads only once");
    }
    return (order > 0) - (order < 0);
}

static void answer_pair(struct former *f, qp_str range_text, qp_str version_text)
{
    struct arena arena;
    struct buf canonical;
    struct semver_range range;
    struct semver version;
    bool is_range;
    bool is_version = semver_read(version_text, &version);
    arena_init(&arena, &env, 0);
    buf_init(&canonical, &env, 0);
    is_range = semver_range_read(&arena, range_text, &range) == QP_OK;
    if (is_version) {
        semver_write(&canonical, &version);
    } else {
        buf_text(&canonical, "-");
    }
    printf("%s %.*s %s %d\n", is_range ? "range" : "-", (int)canonical.n, canonical.p,
           is_range && is_version && semver_range_admits(&range, &version) ? "admits" : "-",
           order_after(f, version_text, is_version, &version));
    buf_done(&canonical);
    arena_done(&arena);
}

static void answer_pairs(void)
{
    static struct former former;
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    while ((n = getline(&line, &room, stdin)) > 0) {
        char *mark = memchr(line, '\x1f', (size_t)n);
        if (mark == NULL) {
            die("a line without byte 0x1f");
        }
        answer_pair(&former, (qp_str){line, (size_t)(mark - line)},
                    (qp_str){mark + 1, (size_t)(line + n - 1 - mark - 1)});
    }
    free(line);
}

int main(int argc, char **argv)
{
    qp_env_init(&env);
    env_complete(&env);
    if (argc != 2 || strcmp(argv[1], "semver") != 0) {
        die("usage: npm semver < pairs");
    }
    answer_pairs();
    return 0;
}
