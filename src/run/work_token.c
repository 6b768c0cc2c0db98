/* work_token.c - tokens of tasks that are given to workers elsewhere (see work_token.h) */
#include "run/work_token.h"

#include <stdio.h>

#include "base/hash.h"

#define TOKEN_PREFIX "w1."

static void hex_write(const unsigned char *bytes, size_t size, char *out)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * size] = '\0';
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool hex_read(qp_str *rest, unsigned char *out, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        int high = 2 * i < rest->n ? hex_digit(rest->p[2 * i]) : -1;
        int low = 2 * i + 1 < rest->n ? hex_digit(rest->p[2 * i + 1]) : -1;
        if (high < 0 || low < 0) {
            return false;
        }
        out[i] = (unsigned char)(high << 4 | low);
    }
    *rest = (qp_str){rest->p + 2 * size, rest->n - 2 * size};
    return true;
}

static bool number_read(qp_str *rest, int64_t *out_number)
{
    uint64_t number = 0;
    size_t i = 0;
    for (; i < rest->n && rest->p[i] >= '0' && rest->p[i] <= '9' && i < 19; i++) {
        number = number * 10 + (uint64_t)(rest->p[i] - '0');
    }
    if (i == 0 || i == rest->n || rest->p[i] != '.' || number > INT64_MAX) {
        return false;
    }
    *rest = (qp_str){rest->p + i + 1, rest->n - i - 1};
    *out_number = (int64_t)number;
    return true;
}

void token_write(const struct work_caller *caller, const struct msg_ref *ref,
                 char out_token[WORK_TOKEN_SIZE])
{
    unsigned char mark[HASH_KEYED_SIZE];
    char guid[2 * LIMIT_GUID_SIZE + 1];
    int n;
    QP_ASSERT(ref->guid.n == LIMIT_GUID_SIZE);
    hex_write((const unsigned char *)ref->guid.p, LIMIT_GUID_SIZE, guid);
    n = snprintf(out_token, WORK_TOKEN_SIZE, TOKEN_PREFIX "%lld.%lld.%lld.%s", (long long)ref->ns,
                 (long long)ref->job, (long long)ref->token, guid);
    QP_ASSERT(n > 0 && (size_t)n + 1 + 2 * sizeof mark < WORK_TOKEN_SIZE);
    hash_keyed(caller->key.p, caller->key.n, out_token, (size_t)n, mark);
    out_token[n] = '.';
    hex_write(mark, sizeof mark, out_token + n + 1);
}

bool token_read(const struct work_caller *caller, qp_str token, struct msg_ref *out_ref,
                unsigned char out_guid[LIMIT_GUID_SIZE])
{
    qp_str rest = token;
    struct msg_ref ref = {0};
    unsigned char mark[HASH_KEYED_SIZE];
    unsigned char told[HASH_KEYED_SIZE];
    size_t signed_size;
    if (rest.n < sizeof TOKEN_PREFIX ||
        memcmp(rest.p, TOKEN_PREFIX, sizeof TOKEN_PREFIX - 1) != 0) {
        return false;
    }
    rest = (qp_str){rest.p + sizeof TOKEN_PREFIX - 1, rest.n - (sizeof TOKEN_PREFIX - 1)};
    if (!number_read(&rest, &ref.ns) || !number_read(&rest, &ref.job) ||
        !number_read(&rest, &ref.token) || !hex_read(&rest, out_guid, LIMIT_GUID_SIZE)) {
        return false;
    }
    signed_size = token.n - rest.n;
    if (rest.n == 0 || rest.p[0] != '.') {
        return false;
    }
    rest = (qp_str){rest.p + 1, rest.n - 1};
    if (!hex_read(&rest, told, sizeof told) || rest.n > 0) {
        return false;
    }
    hash_keyed(caller->key.p, caller->key.n, token.p, signed_size, mark);
    ref.guid = (qp_str){(const char *)out_guid, LIMIT_GUID_SIZE};
    *out_ref = ref;
    return hash_equal(mark, told, sizeof mark);
}
