/* print.c - foreign text and JSON, harmless to a terminal (see output.h) */
#include "cli/output.h"

/* The size of the character at the front if it may be shown; 0: its first byte is escaped. */
static size_t harmless(qp_str text)
{
    unsigned char first = (unsigned char)text.p[0];
    size_t n = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first < 0x20 || first == 0x7f || n > text.n ||
        utf8_valid_prefix((qp_str){text.p, n}) != n) {
        return 0;
    }
    if (n == 2 && first == 0xc2 && (unsigned char)text.p[1] < 0xa0) {
        return 0; /* C1 controls */
    }
    /* What is not seen, or changes lines or the direction of what follows: U+200B..F, U+2028..E,
     * U+2060..F. */
    if (n == 3 && first == 0xe2) {
        unsigned char second = (unsigned char)text.p[1];
        unsigned char third = (unsigned char)text.p[2];
        bool unseen = second == 0x80 &&
                      ((third >= 0x8b && third <= 0x8f) || (third >= 0xa8 && third <= 0xae));
        return unseen || (second == 0x81 && third >= 0xa0 && third <= 0xaf) ? 0 : n;
    }
    return n;
}

size_t print_cut(FILE *out, qp_str text, size_t most)
{
    size_t shown = 0;
    while (text.n > 0 && shown < most) {
        size_t n = harmless(text);
        if (n == 0) {
            (void)fprintf(out, "\\x%02x", (unsigned char)text.p[0]);
            shown += 3;
        } else {
            (void)fwrite(text.p, 1, n, out);
        }
        shown++;
        text.p += n == 0 ? 1 : n;
        text.n -= n == 0 ? 1 : n;
    }
    return shown;
}

void print_safe(FILE *out, qp_str text)
{
    (void)print_cut(out, text, SIZE_MAX);
}

void print_json(FILE *out, qp_str json)
{
    while (json.n > 0) {
        size_t n = harmless(json);
        unsigned char first = (unsigned char)json.p[0];
        bool plain = n > 0 || first == '\n' || first == '\t' || first == '\r';
        size_t size = n > 0 || plain ? (n > 0 ? n : 1) : first < 0x80 ? 1 : first < 0xe0 ? 2 : 3;
        if (plain) {
            (void)fwrite(json.p, 1, size, out);
        } else {
            unsigned code = size == 1 ? first
                            : size == 2
                                ? (first & 0x1fU) << 6 | ((unsigned char)json.p[1] & 0x3fU)
                                : (first & 0x0fU) << 12 | ((unsigned char)json.p[1] & 0x3fU) << 6 |
                                      ((unsigned char)json.p[2] & 0x3fU);
            (void)fprintf(out, "\\u%04x", code);
        }
        json.p += size;
        json.n -= size;
    }
}
