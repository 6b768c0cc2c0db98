/* feed.c - journal entries as bytes (see feed.h) */
#include "store/feed.h"

#define BITS_PER_BYTE 7
#define BYTES_MAX 9 /* 63 bits: the numbers are not negative */

static void write_number(struct buf *out, int64_t number)
{
    uint64_t left = (uint64_t)number;
    QP_ASSERT(number >= 0);
    while (left > 0x7f) {
        buf_byte(out, (char)(0x80 | (left & 0x7f)));
        left >>= BITS_PER_BYTE;
    }
    buf_byte(out, (char)left);
}

static bool read_number(qp_str *rest, int64_t *out_number)
{
    uint64_t number = 0;
    for (size_t i = 0; i < rest->n && i < BYTES_MAX; i++) {
        unsigned char byte = (unsigned char)rest->p[i];
        number |= (uint64_t)(byte & 0x7f) << (BITS_PER_BYTE * i);
        if (byte < 0x80) {
            *rest = (qp_str){rest->p + i + 1, rest->n - i - 1};
            *out_number = (int64_t)number;
            return true;
        }
    }
    return false;
}

static int64_t size_plus_one(qp_str s)
{
    return str_is_none(s) ? 0 : (int64_t)s.n + 1;
}

static bool read_text(qp_str *rest, int64_t plus_one, qp_str *out_text)
{
    if (plus_one > 0 && (uint64_t)plus_one - 1 > rest->n) {
        return false;
    }
    *out_text = plus_one == 0 ? QP_NONE : (qp_str){rest->p, (size_t)plus_one - 1};
    *rest = (qp_str){rest->p + out_text->n, rest->n - out_text->n};
    return true;
}

void feed_write(struct buf *out, const struct feed_entry *entry)
{
    write_number(out, size_plus_one(entry->addr));
    write_number(out, size_plus_one(entry->guid));
    write_number(out, entry->ns);
    write_number(out, entry->job);
    write_number(out, entry->seq);
    buf_str(out, entry->addr);
    buf_str(out, entry->guid);
}

bool feed_read(qp_str *rest, struct feed_entry *out_entry)
{
    qp_str left = *rest;
    int64_t addr;
    int64_t guid;
    bool whole = read_number(&left, &addr) && read_number(&left, &guid) &&
                 read_number(&left, &out_entry->ns) && read_number(&left, &out_entry->job) &&
                 read_number(&left, &out_entry->seq) && read_text(&left, addr, &out_entry->addr) &&
                 read_text(&left, guid, &out_entry->guid);
    if (whole) {
        *rest = left;
    }
    return whole;
}
