/* fuzz_toml.c - any bytes are a configuration file or are refused with their place
 *
 * What is taken lies in the arena or in the text, and is good UTF-8 without a NUL; an error says where, within the
 * text, in words that can be printed.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/env.h"
#include "base/toml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(qp_str text)
{
    QP_ASSERT(utf8_valid_prefix(text) == text.n);
    QP_ASSERT(text.n == 0 || memchr(text.p, '\0', text.n) == NULL);
}

static void check_error(int rc, const struct qp_err *err, size_t lines)
{
    char *end = NULL;
    unsigned long line = strtoul(err->text, &end, 10);
    QP_ASSERT((rc == QP_E_MALFORMED || rc == QP_E_TOO_LARGE) && err->code == rc);
    QP_ASSERT(line >= 1 && line <= lines && *end == ':');
    for (const char *p = err->text; *p != '\0'; p++) {
        QP_ASSERT((unsigned char)*p >= 0x20 && (unsigned char)*p < 0x7F);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct qp_env env;
    struct arena arena;
    struct toml toml;
    struct toml_entry e;
    struct qp_err err = {0};
    size_t lines = 2;
    int rc;
    for (size_t i = 0; i < size; i++) {
        lines += data[i] == '\n';
    }
    qp_env_init(&env);
    env_complete(&env);
    arena_init(&arena, &env, 0);
    toml_init(&toml, &arena, (qp_str){(const char *)data, size});
    while ((rc = toml_next(&toml, &e, &err)) == QP_OK) {
        QP_ASSERT(e.line >= 1 && e.line < lines && e.column >= 1);
        QP_ASSERT((e.kind == TOML_TABLE) == str_is_none(e.key));
        look(e.table[0]);
        look(e.table[1]);
        look(e.key);
        look(e.text);
    }
    if (rc != QP_E_NOT_FOUND) {
        check_error(rc, &err, lines);
    }
    arena_done(&arena);
    return 0;
}
