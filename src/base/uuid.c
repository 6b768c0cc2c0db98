/* uuid.c - UUID version 7 with a counter
 *
 *   I1  (last_ms, counter) grows strictly with every value of a source
 *   I2  last_ms >= the clock's largest reading so far
 *
 * A new millisecond starts its counter at a random number in the lower half: there is room for two
 * thousand more, and a value does not tell how many came before it.
 */
#include "base/uuid.h"

#define COUNTER_BITS 12
#define COUNTER_END (1u << COUNTER_BITS)
#define TIME_END ((int64_t)1 << 48)

static const char digits[] = "0123456789abcdef";

static struct uuid_source advanced(struct uuid_source from, int64_t now_ms, uint32_t fresh);
static bool is_hyphen_place(size_t i);
static int digit_value(char c);

void uuid_source_init(struct uuid_source *source)
{
    *source = (struct uuid_source){.last_ms = -1};
}

int uuid_next(struct uuid_source *source, const struct qp_env *env,
              unsigned char out_uuid[UUID_SIZE])
{
    unsigned char random[10];
    struct uuid_source next;
    int rc = env->entropy(env->context, random, sizeof(random));

    if (rc != QP_OK) {
        return rc;
    }
    next = advanced(*source, env->wall_ms(env->context), (uint32_t)random[8] << 8 | random[9]);
    for (size_t i = 0; i < 6; i++) {
        out_uuid[i] = (unsigned char)((next.last_ms >> (40 - 8 * i)) & 0xFF);
    }
    out_uuid[6] = (unsigned char)(0x70 | next.counter >> 8);
    out_uuid[7] = (unsigned char)(next.counter & 0xFF);
    memcpy(out_uuid + 8, random, 8);
    out_uuid[8] = (unsigned char)(0x80 | (random[0] & 0x3F));
    *source = next;
    return QP_OK;
}

void uuid_format(const unsigned char uuid[UUID_SIZE], char out_text[UUID_TEXT_SIZE])
{
    size_t at = 0;

    for (size_t i = 0; i < UUID_SIZE; i++) {
        if (is_hyphen_place(at)) {
            out_text[at++] = '-';
        }
        out_text[at++] = digits[uuid[i] >> 4];
        out_text[at++] = digits[uuid[i] & 15];
    }
    QP_ASSERT(at == UUID_TEXT_SIZE);
}

int uuid_parse(qp_str text, unsigned char out_uuid[UUID_SIZE], struct qp_err *err)
{
    unsigned char uuid[UUID_SIZE] = {0};
    size_t nibble = 0;

    if (text.n != UUID_TEXT_SIZE) {
        return err_set(err, QP_E_MALFORMED, "uuid: %zu characters instead of %d", text.n,
                       UUID_TEXT_SIZE);
    }
    for (size_t i = 0; i < UUID_TEXT_SIZE; i++) {
        int value = digit_value(text.p[i]);

        if (is_hyphen_place(i) ? text.p[i] != '-' : value < 0) {
            return err_set(err, QP_E_MALFORMED, "uuid: byte 0x%02x at offset %zu",
                           (unsigned char)text.p[i], i);
        }
        if (value >= 0) {
            uuid[nibble / 2] = (unsigned char)(uuid[nibble / 2] << 4 | value);
            nibble++;
        }
    }
    memcpy(out_uuid, uuid, UUID_SIZE);
    return QP_OK;
}

/* `fresh` is random; its lower eleven bits begin a counter. */
static struct uuid_source advanced(struct uuid_source from, int64_t now_ms, uint32_t fresh)
{
    uint32_t begin = fresh & (COUNTER_END / 2 - 1);

    if (now_ms < 0 || now_ms >= TIME_END) {
        now_ms = 0; /* a clock that far off says nothing: the counter goes on from where it was */
    }
    if (now_ms > from.last_ms) {
        return (struct uuid_source){now_ms, begin};
    }
    if (from.counter + 1 < COUNTER_END) {
        return (struct uuid_source){from.last_ms, from.counter + 1};
    }
    return (struct uuid_source){from.last_ms + 1, begin};
}

static bool is_hyphen_place(size_t i)
{
    return i == 8 || i == 13 || i == 18 || i == 23;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}
