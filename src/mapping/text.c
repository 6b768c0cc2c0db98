/* text.c - units of UTF-16 in UTF-8, white space, upper and lower case (see text.h) */
#include "mapping/text.h"

struct case_range {
    uint32_t first;
    uint32_t last;
    uint32_t stride;
    int32_t delta;
};

struct case_special {
    uint32_t character;
    const char *text;
};

static const struct case_range lower_ranges[] = {
#define LOWER(first, last, stride, delta) {first, last, stride, delta},
#define UPPER(first, last, stride, delta)
#define SPECIAL(character, text)
#include "mapping/casing.def"
};

static const struct case_range upper_ranges[] = {
#define LOWER(first, last, stride, delta)
#define UPPER(first, last, stride, delta) {first, last, stride, delta},
#define SPECIAL(character, text)
#include "mapping/casing.def"
};

static const struct case_special upper_specials[] = {
#define LOWER(first, last, stride, delta)
#define UPPER(first, last, stride, delta)
#define SPECIAL(character, text) {character, text},
#include "mapping/casing.def"
};

/* ---------------------------------------------------------------------------------------- units */

static bool is_continuation(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80;
}

/* The size of the character that begins with this byte, and how many units it is. */
static size_t size_of(char byte)
{
    unsigned char b = (unsigned char)byte;

    return b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}

static size_t units_of(char byte)
{
    return (unsigned char)byte >= 0xF0 ? 2 : 1;
}

size_t text_size(qp_str s)
{
    return size_of(s.p[0]);
}

size_t text_units(qp_str s)
{
    size_t units = 0;

    for (size_t i = 0; i < s.n; i++) {
        units += !is_continuation(s.p[i]);
        units += (unsigned char)s.p[i] >= 0xF0;
    }
    return units;
}

/* The byte of the character that has the unit, and whether the unit is its second one. */
size_t text_unit(qp_str s, size_t unit, bool *out_inside)
{
    size_t at = 0;

    while (at < s.n && unit >= units_of(s.p[at])) {
        unit -= units_of(s.p[at]);
        at += size_of(s.p[at]);
    }
    *out_inside = at < s.n && unit > 0;
    return at;
}

struct text_piece text_cut(qp_str s, size_t first, size_t last)
{
    struct text_piece piece = {.middle = QP_STR("")};
    bool first_inside;
    bool last_inside;
    size_t from = text_unit(s, first, &first_inside);
    size_t to = text_unit(s, last, &last_inside);

    QP_ASSERT(first <= last);
    if (first == last) {
        return piece;
    }
    piece.before = first_inside;
    piece.behind = last_inside;
    if (first_inside) {
        from += size_of(s.p[from]);
    }
    piece.middle = (qp_str){s.p + from, to - from};
    return piece;
}

size_t text_piece_size(const struct text_piece *piece)
{
    return piece->middle.n + (piece->before ? 3 : 0) + (piece->behind ? 3 : 0);
}

char *text_piece_put(const struct text_piece *piece, char *out)
{
    if (piece->before) {
        memcpy(out, TEXT_REPLACEMENT, 3);
        out += 3;
    }
    memcpy(out, piece->middle.p, piece->middle.n);
    out += piece->middle.n;
    if (piece->behind) {
        memcpy(out, TEXT_REPLACEMENT, 3);
        out += 3;
    }
    return out;
}

size_t text_find(qp_str s, qp_str what, size_t from)
{
    const char *found;

    if (from > s.n || what.n > s.n - from) {
        return SIZE_MAX;
    }
    found = memmem(s.p + from, s.n - from, what.p, what.n);
    return found == NULL ? SIZE_MAX : (size_t)(found - s.p);
}

static void reverse(qp_str s, char *out)
{
    for (size_t i = 0; i < s.n; i++) {
        out[i] = s.p[s.n - 1 - i];
    }
}

/* The last one is the first one from behind. */
size_t text_find_last(qp_str s, qp_str what, size_t from, char *scratch)
{
    qp_str turned = {scratch, 0};
    size_t found;

    if (what.n > s.n) {
        return SIZE_MAX;
    }
    turned.n = (from < s.n - what.n ? from : s.n - what.n) + what.n;
    reverse((qp_str){s.p, turned.n}, scratch);
    reverse(what, scratch + turned.n);
    found = text_find(turned, (qp_str){scratch + turned.n, what.n}, 0);
    return found == SIZE_MAX ? SIZE_MAX : turned.n - found - what.n;
}

/* Bytes order characters by their number. Units differ from that only where a character of two units (it begins with
 * F0 or more, its first unit is D800 or more) meets one of U+E000 to U+FFFF (EE or EF). */
int text_compare(qp_str a, qp_str b)
{
    size_t shared = a.n < b.n ? a.n : b.n;

    for (size_t i = 0; i < shared; i++) {
        unsigned char x = (unsigned char)a.p[i];
        unsigned char y = (unsigned char)b.p[i];

        if (x != y) {
            bool swapped =
                (x >= 0xF0 && (y == 0xEE || y == 0xEF)) || (y >= 0xF0 && (x == 0xEE || x == 0xEF));

            return (x < y) != swapped ? -1 : 1;
        }
    }
    return (a.n > b.n) - (a.n < b.n);
}

/* ---------------------------------------------------------------------------------- white space */

static uint32_t character_at(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;

    switch (size_of(*p)) {
    case 1:
        return b[0];
    case 2:
        return (b[0] & 0x1Fu) << 6 | (b[1] & 0x3Fu);
    case 3:
        return (b[0] & 0x0Fu) << 12 | (b[1] & 0x3Fu) << 6 | (b[2] & 0x3Fu);
    default:
        return (b[0] & 0x07u) << 18 | (b[1] & 0x3Fu) << 12 | (b[2] & 0x3Fu) << 6 | (b[3] & 0x3Fu);
    }
}

static bool is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000 || c == 0xFEFF;
}

/* Where the character before byte `at` begins. */
static size_t before(qp_str s, size_t at)
{
    do {
        at--;
    } while (at > 0 && is_continuation(s.p[at]));
    return at;
}

qp_str text_trim(qp_str s, bool start, bool end)
{
    size_t first = 0;
    size_t last = s.n;

    while (start && first < last && is_space(character_at(s.p + first))) {
        first += size_of(s.p[first]);
    }
    while (end && last > first && is_space(character_at(s.p + before(s, last)))) {
        last = before(s, last);
    }
    return (qp_str){s.p + first, last - first};
}

/* ---------------------------------------------------------------------------------------- case */

static size_t character_put(uint32_t c, char *out)
{
    size_t size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char heads[] = {0, 0x00, 0xC0, 0xE0, 0xF0};

    for (size_t i = size - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (c & 0x3F));
        c >>= 6;
    }
    out[0] = (char)(heads[size] | c);
    return size;
}

/* The character in the other case, by the last range that begins at or before it. */
static uint32_t change(const struct case_range *ranges, size_t count, uint32_t c)
{
    size_t low = 0;
    size_t high = count;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (ranges[middle].first <= c) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0 || c > ranges[low - 1].last ||
        (c - ranges[low - 1].first) % ranges[low - 1].stride != 0) {
        return c;
    }
    return (uint32_t)((int32_t)c + ranges[low - 1].delta);
}

static uint32_t to_lower(uint32_t c)
{
    return change(lower_ranges, ARRAY_COUNT(lower_ranges), c);
}

static const char *upper_special(uint32_t c)
{
    size_t low = 0;
    size_t high = ARRAY_COUNT(upper_specials);

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (upper_specials[middle].character < c) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < ARRAY_COUNT(upper_specials) && upper_specials[low].character == c
               ? upper_specials[low].text
               : NULL;
}

static bool is_cased(uint32_t c)
{
    return to_lower(c) != c || change(upper_ranges, ARRAY_COUNT(upper_ranges), c) != c ||
           upper_special(c) != NULL;
}

/* What may stand inside of a word without ending it: the usual of what Unicode calls case-ignorable. */
static bool is_ignorable(uint32_t c)
{
    return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`' || c == 0xA8 || c == 0xAD ||
           c == 0xAF || c == 0xB4 || c == 0xB7 || c == 0xB8 || (c >= 0x2B0 && c <= 0x36F) ||
           c == 0x2019 || (c >= 0x200B && c <= 0x200F);
}

/* A sigma at the end of a word has a form of its own. */
static bool is_final(qp_str s, size_t at)
{
    size_t i = at;
    bool cased = false;

    while (i > 0 && !cased) {
        i = before(s, i);
        cased = is_cased(character_at(s.p + i));
        if (!cased && !is_ignorable(character_at(s.p + i))) {
            return false;
        }
    }
    for (i = at + 2; cased && i < s.n; i += size_of(s.p[i])) {
        uint32_t c = character_at(s.p + i);

        if (is_ignorable(c)) {
            continue;
        }
        return !is_cased(c);
    }
    return cased;
}

static size_t lower_put(qp_str s, size_t at, char *out)
{
    uint32_t c = character_at(s.p + at);

    if (c == 0x130) { /* the one that becomes two */
        memcpy(out, "i\xCC\x87", 3);
        return 3;
    }
    if (c == 0x3A3 && is_final(s, at)) {
        return character_put(0x3C2, out);
    }
    return character_put(to_lower(c), out);
}

static size_t upper_put(qp_str s, size_t at, char *out)
{
    uint32_t c = character_at(s.p + at);
    const char *special = c < 0x80 ? NULL : upper_special(c);

    if (special != NULL) {
        size_t n = strlen(special);

        memcpy(out, special, n);
        return n;
    }
    return character_put(change(upper_ranges, ARRAY_COUNT(upper_ranges), c), out);
}

size_t text_case(qp_str s, bool upper, char *out)
{
    char character[16];
    size_t n = 0;

    for (size_t i = 0; i < s.n; i += size_of(s.p[i])) {
        size_t size = upper ? upper_put(s, i, character) : lower_put(s, i, character);

        if (out != NULL) {
            memcpy(out + n, character, size);
        }
        n += size;
    }
    return n;
}
