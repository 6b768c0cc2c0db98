/* path.c - Dewey paths and their keys (see path.h) */
#include "carto/path.h"

#include <inttypes.h>
#include <stdio.h>

#define NUMBER_SIZE 24

/* A letter and the digits, with a NUL that is not counted. */
static size_t write_number(uint64_t number, char out[NUMBER_SIZE])
{
    int digits = snprintf(out + 1, NUMBER_SIZE - 1, "%" PRIu64, number);
    QP_ASSERT(digits > 0 && digits < NUMBER_SIZE - 1);
    out[0] = (char)('a' + digits - 1);
    return (size_t)digits + 1;
}

/* Takes a number off the key; false when there is none. */
static bool take_number(qp_str *key, uint64_t *out_number)
{
    uint64_t number = 0;
    size_t digits = 0;
    if (key->n < 2 || key->p[0] < 'a' || key->p[0] > 'r') {
        return false;
    }
    digits = (size_t)(key->p[0] - 'a') + 1;
    if (key->n < digits + 1 || (digits > 1 && key->p[1] == '0')) {
        return false;
    }
    for (size_t i = 1; i <= digits; i++) {
        if (key->p[i] < '0' || key->p[i] > '9') {
            return false;
        }
        number = number * 10 + (uint64_t)(key->p[i] - '0');
    }
    *key = (qp_str){key->p + digits + 1, key->n - digits - 1};
    *out_number = number;
    return true;
}

bool path_is_valid(qp_str key)
{
    uint64_t level = 0;
    uint64_t ordinal = 0;
    if (key.n > PATH_KEY_SIZE || !take_number(&key, &level) || level > LIMIT_CARTO_LEVELS) {
        return false;
    }
    for (uint64_t i = 0; i <= level; i++) {
        if (!take_number(&key, &ordinal)) {
            return false;
        }
    }
    return key.n == 0;
}

uint64_t path_level(qp_str key)
{
    uint64_t level = 0;
    bool is_key = take_number(&key, &level);
    QP_ASSERT(is_key);
    return level;
}

qp_str path_ordinals(qp_str key)
{
    uint64_t level = 0;
    bool is_key = take_number(&key, &level);
    QP_ASSERT(is_key);
    return key;
}

uint64_t path_ordinal(qp_str key)
{
    qp_str rest = path_ordinals(key);
    uint64_t ordinal = 0;
    while (take_number(&rest, &ordinal)) {}
    return ordinal;
}

bool path_is_parent(qp_str key, qp_str child)
{
    qp_str ours = path_ordinals(key);
    qp_str theirs = path_ordinals(child);
    return path_level(child) == path_level(key) + 1 && theirs.n > ours.n &&
           memcmp(theirs.p, ours.p, ours.n) == 0;
}

static int make(struct arena *a, uint64_t level, qp_str before, uint64_t ordinal, qp_str *out_key)
{
    char head[NUMBER_SIZE];
    char tail[NUMBER_SIZE];
    size_t head_size = write_number(level, head);
    size_t tail_size = write_number(ordinal, tail);
    size_t size = head_size + before.n + tail_size;
    char *key = NULL;
    if (level > LIMIT_CARTO_LEVELS || size > PATH_KEY_SIZE) {
        return QP_E_TOO_LARGE;
    }
    key = arena_bytes(a, size);
    if (key == NULL) {
        return QP_E_NOMEM;
    }
    memcpy(key, head, head_size);
    if (before.n > 0) {
        memcpy(key + head_size, before.p, before.n);
    }
    memcpy(key + head_size + before.n, tail, tail_size);
    *out_key = (qp_str){key, size};
    return QP_OK;
}

int path_root(struct arena *a, uint64_t ordinal, qp_str *out_key)
{
    return make(a, 0, QP_NONE, ordinal, out_key);
}

int path_child(struct arena *a, qp_str key, uint64_t ordinal, qp_str *out_key)
{
    return make(a, path_level(key) + 1, path_ordinals(key), ordinal, out_key);
}

void path_print(struct buf *out, qp_str key)
{
    qp_str rest = path_ordinals(key);
    uint64_t ordinal = 0;
    for (bool is_first = true; take_number(&rest, &ordinal); is_first = false) {
        buf_printf(out, "%s%" PRIu64, is_first ? "" : ".", ordinal);
    }
}
