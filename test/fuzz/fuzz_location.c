/* fuzz_location.c - any bytes are a location, a key, or are refused with their place
 *
 * What is taken has the same text, key and JSON again, and two locations have the order of their keys. A refused text
 * leaves the output alone and names a byte within the text.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/env.h"
#include "flow/location.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int sign(int order)
{
    return (order > 0) - (order < 0);
}

static void check_json(const struct location *l)
{
    struct qp_env env;
    struct buf out;
    struct json_writer w;
    struct json *json = NULL;
    struct location back;
    qp_env_init(&env);
    env_complete(&env);
    buf_init(&out, &env, 0);
    json_writer_init(&w, &out);
    location_write_json(&w, l);
    QP_ASSERT(json_writer_done(&w) == QP_OK);
    QP_ASSERT(json_parse(&env, buf_slice(&out), NULL, &json) == QP_OK);
    QP_ASSERT(location_read_json(json, &back, NULL) == QP_OK && location_compare(l, &back) == 0);
    json_free(json);
    buf_done(&out);
}

/* Every form reads back. */
static void check_forms(const struct location *l)
{
    char key[LOCATION_KEY_SIZE];
    char text[LOCATION_TEXT_SIZE];
    struct location back;
    QP_ASSERT(location_from_key((qp_str){key, location_key(l, key)}, &back));
    QP_ASSERT(location_compare(l, &back) == 0);
    QP_ASSERT(location_parse((qp_str){text, location_print(l, text)}, &back, NULL) == QP_OK);
    QP_ASSERT(location_compare(l, &back) == 0);
    check_json(l);
}

/* What is between two of one branch lies between them. */
static void check_between(const struct location *a, const struct location *b)
{
    struct location x;
    struct location y;
    struct location between;
    if (a->depth == 0 || a->depth != b->depth) {
        return;
    }
    x = location_parent(a);
    y = location_parent(b);
    if (location_compare(&x, &y) == 0 && location_compare(a, b) < 0 &&
        location_between(a, b, &between)) {
        QP_ASSERT(location_compare(a, &between) < 0 && location_compare(&between, b) < 0);
        check_forms(&between);
    }
}

static void check_pair(const struct location *a, const struct location *b)
{
    char x[LOCATION_KEY_SIZE];
    char y[LOCATION_KEY_SIZE];
    qp_str p = {x, location_key(a, x)};
    qp_str q = {y, location_key(b, y)};
    QP_ASSERT(sign(str_compare(p, q)) == location_compare(a, b));
    check_between(a, b);
    check_between(b, a);
}

static bool read(qp_str text, struct location *out_location)
{
    struct qp_err err = {0};
    int64_t version = -1;
    int rc = location_parse_version(text, out_location, &version, &err);
    const char *byte = strstr(err.text, "at byte ");
    if (rc == QP_OK) {
        QP_ASSERT(version >= 0 && version <= LIMIT_EVENT_VERSION);
        return true;
    }
    QP_ASSERT(rc == QP_E_INVALID && version == -1 && byte != NULL);
    QP_ASSERT(strtoul(byte + 8, NULL, 10) <= text.n);
    return false;
}

/* Up to the first newline is one text, what follows another; all of it is perhaps a key. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    qp_str all = {(const char *)data, size};
    const char *newline = size > 0 ? memchr(all.p, '\n', size) : NULL;
    size_t first = newline != NULL ? (size_t)(newline - all.p) : size;
    struct location a;
    struct location b;
    if (location_from_key(all, &a)) {
        char key[LOCATION_KEY_SIZE];
        qp_str again = {key, location_key(&a, key)};
        QP_ASSERT(again.n == all.n && (all.n == 0 || memcmp(again.p, all.p, all.n) == 0));
        check_forms(&a);
    }
    if (!read((qp_str){all.p, first}, &a)) {
        return 0;
    }
    check_forms(&a);
    if (newline != NULL && read((qp_str){newline + 1, size - first - 1}, &b)) {
        check_pair(&a, &b);
    }
    return 0;
}
