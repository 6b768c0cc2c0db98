/* fuzz_json.c - what the checker takes, the tree takes, and writing it gives the same tree again
 *
 * Three promises: json_check ends without a fault on any bytes, and json_parse agrees with it;
 * what is written from a tree is taken again; and it is a fixed point: written once more, it is
 * the same bytes. An error has a code of the documented set and a place inside of the text.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/env.h"
#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(int rc, const struct qp_err *err, size_t size)
{
    const char *at = NULL;

    /* The last one: a quoted key may say the same words. */
    for (const char *p = strstr(err->text, " at byte "); p != NULL;
         p = strstr(p + 1, " at byte ")) {
        at = p;
    }
    QP_ASSERT(rc == QP_E_MALFORMED || rc == QP_E_SHAPE || rc == QP_E_TOO_LARGE);
    QP_ASSERT(err->code == rc);
    QP_ASSERT(at != NULL && strtoull(at + 9, NULL, 10) <= size);
    for (const char *p = err->text; *p != '\0'; p++) {
        QP_ASSERT((unsigned char)*p >= 0x20 && *p != 0x7F);
    }
}

/* Parses text and writes it into out. */
static void rewrite(const struct qp_env *env, qp_str text, struct buf *out)
{
    struct json_writer w;
    struct json *json = NULL;
    int rc = json_parse(env, text, NULL, &json);

    QP_ASSERT(rc == QP_OK);
    json_writer_init(&w, out);
    json_write_tree(&w, json);
    rc = json_writer_done(&w);
    QP_ASSERT(rc == QP_OK);
    json_free(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    qp_str text = {(const char *)data, size};
    struct qp_err err = {0};
    struct qp_env env;
    struct buf first;
    struct buf second;
    int rc;

    qp_env_init(&env);
    rc = json_check(&env, text, NULL, &err);
    if (rc != QP_OK) {
        check_error(rc, &err, size);
        return 0;
    }
    buf_init(&first, &env, 0);
    buf_init(&second, &env, 0);
    rewrite(&env, text, &first);
    rewrite(&env, buf_slice(&first), &second);
    QP_ASSERT(str_equal(buf_slice(&first), buf_slice(&second)));
    buf_done(&first);
    buf_done(&second);
    return 0;
}
