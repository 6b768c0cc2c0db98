/* uuid.h - UUID version 7: time first, so that they sort by when they were made
 *
 *   byte 0..5   milliseconds since 1970        byte 6  0111 and 4 bits of the counter
 *   byte 7      8 bits of the counter          byte 8  10 and 6 random bits;  byte 9..15  random
 *
 * A source gives ever larger values, also when the clock stands still or steps back: then the
 * counter goes on, and when that is full the time of the source runs ahead of the clock by a
 * millisecond. A source belongs to one thread at a time; two sources differ by their random bits.
 */
#ifndef QP_BASE_UUID_H
#define QP_BASE_UUID_H

#include "base/base.h"

#define UUID_SIZE 16
#define UUID_TEXT_SIZE 36 /* without a NUL */

struct uuid_source {
    int64_t last_ms;
    uint32_t counter; /* 12 bits, of the last value */
};

void uuid_source_init(struct uuid_source *source);

/* QP_OK, or what env->entropy answered; the source and the output are untouched then. */
int uuid_next(struct uuid_source *source, const struct qp_env *env,
              unsigned char out_uuid[UUID_SIZE]) QP_MUST_USE;

/* Text: 8-4-4-4-12 hexadecimal digits in lower case. Parsing takes exactly that form, of any
 * version; QP_E_MALFORMED otherwise. */
void uuid_format(const unsigned char uuid[UUID_SIZE], char out_text[UUID_TEXT_SIZE]);
int uuid_parse(qp_str text, unsigned char out_uuid[UUID_SIZE], struct qp_err *err) QP_MUST_USE;

#endif
