/* text.h - UTF-8 text seen as ECMAScript sees its strings: as units of UTF-16
 *
 * Indices and lengths of string functions count units: a character beyond U+FFFF is two. Our texts are valid UTF-8 and
 * stay so: half of such a character, where a function would cut it apart, becomes U+FFFD. Pure and thread-safe.
 */
#ifndef QP_MAPPING_TEXT_H
#define QP_MAPPING_TEXT_H

#include "base/base.h"

#define TEXT_REPLACEMENT "\xEF\xBF\xBD"

size_t text_units(qp_str s);
/* Bytes of the first character of a text that is not empty. */
size_t text_size(qp_str s);

/* A piece of a text: `middle`, with U+FFFD before or behind it where a character was cut apart. */
struct text_piece {
    bool before;
    qp_str middle;
    bool behind;
};
/* The units from `first` up to, not including, `last`; first <= last <= text_units. */
struct text_piece text_cut(qp_str s, size_t first, size_t last);
size_t text_piece_size(const struct text_piece *piece);
/* Returns the end. */
char *text_piece_put(const struct text_piece *piece, char *out);

/* Where `what` stands in s, in bytes, at or behind byte `from`, or at or before it; SIZE_MAX: nowhere. Both take time in
 * proportion to the texts, whatever they are; for that the latter needs room for both of them. */
size_t text_find(qp_str s, qp_str what, size_t from);
size_t text_find_last(qp_str s, qp_str what, size_t from, char *scratch);
/* The byte where the character of a unit begins, and whether the unit is its second half. Past the end: the size. */
size_t text_unit(qp_str s, size_t unit, bool *out_inside);

/* The order of units, which differs from that of bytes beyond U+FFFF. */
int text_compare(qp_str a, qp_str b);
/* Without what ECMAScript takes for white space. */
qp_str text_trim(qp_str s, bool start, bool end);

/* Upper or lower case of all of Unicode, with the cases that make several characters of one. Returns the size; with `out`
 * NULL nothing is written. */
size_t text_case(qp_str s, bool upper, char *out);

#endif
