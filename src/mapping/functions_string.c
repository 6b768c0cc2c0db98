/* functions_string.c - {@string...}: functions on strings, in units of UTF-16
 *
 * The first operand becomes a string, unless it is null or undefined, of which ECMAScript would take no function: then
 * the result is undefined.
 */
#include <math.h>

#include "mapping/functions.h"
#include "mapping/text.h"

/* The first operand; false: there is none, or something failed. */
static bool take_text(struct args *args, qp_str *out_text, int *out_rc)
{
    enum value_kind kind = args_operand(args, 0)->kind;

    *out_rc = QP_OK;
    if (kind == VALUE_NULL || kind == VALUE_UNDEFINED) {
        return false;
    }
    *out_rc = args_text(args, 0, out_text);
    return *out_rc == QP_OK;
}

/* The first two. The second one is taken for what it is as a string, "undefined" too. */
static bool take_two(struct args *args, qp_str *out_text, qp_str *out_what, int *out_rc)
{
    if (!take_text(args, out_text, out_rc)) {
        return false;
    }
    *out_rc = args_text(args, 1, out_what);
    return *out_rc == QP_OK;
}

/* A position from 0 to the length. */
static int take_place(struct args *args, size_t index, double fallback, size_t units,
                      size_t *out_place)
{
    double place;
    int rc = args_integer(args, index, fallback, &place);

    if (rc == QP_OK) {
        *out_place = args_position(place < 0 ? 0 : place, units);
    }
    return rc;
}

int string_concat(struct args *args)
{
    struct build b = {.scope = args->scope};
    qp_str text;
    int rc = QP_OK;

    for (size_t i = 0; rc == QP_OK && i < args->count; i++) {
        enum value_kind kind = args->operands[i].kind;

        if (kind != VALUE_NULL && kind != VALUE_UNDEFINED) {
            rc = args_text(args, i, &text);
            if (rc == QP_OK) {
                build_add(&b, text);
            }
        }
    }
    if (rc == QP_OK) {
        rc = build_done(&b, &text);
    }
    return rc == QP_OK ? give_string(args, text) : rc;
}

int string_char_at(struct args *args)
{
    qp_str text;
    double index;
    int rc;

    if (!take_text(args, &text, &rc)) {
        return rc;
    }
    rc = args_integer(args, 1, 0, &index);
    if (rc != QP_OK) {
        return rc;
    }
    if (index < 0 || index >= (double)text_units(text)) {
        return give_string(args, QP_STR(""));
    }
    return give_cut(args, text, (size_t)index, (size_t)index + 1);
}

int string_slice(struct args *args)
{
    qp_str text;
    size_t from;
    size_t to;
    int rc;

    if (!take_text(args, &text, &rc)) {
        return rc;
    }
    rc = args_range(args, text_units(text), &from, &to);
    return rc == QP_OK ? give_cut(args, text, from, to) : rc;
}

int string_substring(struct args *args)
{
    qp_str text;
    size_t units;
    size_t a;
    size_t b;
    int rc;

    if (!take_text(args, &text, &rc)) {
        return rc;
    }
    units = text_units(text);
    rc = take_place(args, 1, 0, units, &a);
    if (rc == QP_OK) {
        rc = take_place(args, 2, (double)units, units, &b);
    }
    if (rc != QP_OK) {
        return rc;
    }
    return give_cut(args, text, a < b ? a : b, a < b ? b : a);
}

/* ------------------------------------------------------------------------------------ searching */

/* Where `what` is at or behind a unit, in units; -1: nowhere. */
static int64_t index_from(qp_str text, qp_str what, size_t unit)
{
    bool inside;
    size_t at = text_unit(text, unit, &inside);

    if (what.n == 0) {
        return (int64_t)unit;
    }
    at = text_find(text, what, inside ? at + 1 : at); /* inside of a character nothing begins */
    return at == SIZE_MAX ? -1 : (int64_t)text_units((qp_str){text.p, at});
}

static int find_text(struct args *args, int64_t *out_index, bool *out_known)
{
    qp_str text;
    qp_str what;
    size_t from;
    int rc;

    *out_known = false;
    if (!take_two(args, &text, &what, &rc)) {
        return rc;
    }
    rc = take_place(args, 2, 0, text_units(text), &from);
    if (rc == QP_OK) {
        *out_index = index_from(text, what, from);
        *out_known = true;
    }
    return rc;
}

int string_index_of(struct args *args)
{
    int64_t index;
    bool known;
    int rc = find_text(args, &index, &known);

    return known ? give_integer(args, index) : rc;
}

int string_includes(struct args *args)
{
    int64_t index;
    bool known;
    int rc = find_text(args, &index, &known);

    return known ? give_bool(args, index >= 0) : rc;
}

int string_search(struct args *args)
{
    args->count = args->count > 2 ? 2 : args->count;
    return string_index_of(args);
}

int string_last_index_of(struct args *args)
{
    qp_str text;
    qp_str what;
    double number = NAN;
    size_t units;
    size_t place;
    size_t at;
    bool inside;
    char *scratch;
    int rc;

    if (!take_two(args, &text, &what, &rc)) {
        return rc;
    }
    rc = args_number(args, 2, &number);
    units = text_units(text);
    place = isnan(number) ? units : args_position(number < 0 ? 0 : number, units);
    scratch = scope_room(args->scope, text.n + what.n);
    if (rc != QP_OK || scratch == NULL) {
        return rc != QP_OK ? rc : args->scope->rc;
    }
    if (what.n == 0) {
        return give_integer(args, (int64_t)place);
    }
    at = text_find_last(text, what, text_unit(text, place, &inside), scratch);
    return give_integer(args, at == SIZE_MAX ? -1 : (int64_t)text_units((qp_str){text.p, at}));
}

int string_starts_with(struct args *args)
{
    qp_str text;
    qp_str what;
    size_t from;
    size_t at;
    bool inside;
    int rc;

    if (!take_two(args, &text, &what, &rc)) {
        return rc;
    }
    rc = take_place(args, 2, 0, text_units(text), &from);
    if (rc != QP_OK) {
        return rc;
    }
    at = text_unit(text, from, &inside);
    return give_bool(args, what.n == 0 || (!inside && what.n <= text.n - at &&
                                           memcmp(text.p + at, what.p, what.n) == 0));
}

int string_ends_with(struct args *args)
{
    qp_str text;
    qp_str what;
    size_t units;
    size_t to;
    size_t at;
    bool inside;
    int rc;

    if (!take_two(args, &text, &what, &rc)) {
        return rc;
    }
    units = text_units(text);
    rc = take_place(args, 2, (double)units, units, &to);
    if (rc != QP_OK) {
        return rc;
    }
    at = text_unit(text, to, &inside);
    return give_bool(args, what.n == 0 || (!inside && what.n <= at &&
                                           memcmp(text.p + at - what.n, what.p, what.n) == 0));
}

/* ------------------------------------------------------------------------------------- changing */

static int change_case(struct args *args, bool upper)
{
    qp_str text;
    size_t size;
    char *p;
    int rc;

    if (!take_text(args, &text, &rc)) {
        return rc;
    }
    size = text_case(text, upper, NULL);
    p = scope_text(args->scope, size);
    if (p == NULL) {
        return args->scope->rc;
    }
    (void)text_case(text, upper, p);
    return give_string(args, (qp_str){p, size});
}

int string_to_lower(struct args *args)
{
    return change_case(args, false);
}

int string_to_upper(struct args *args)
{
    return change_case(args, true);
}

static int give_trimmed(struct args *args, bool start, bool end)
{
    qp_str text;
    int rc;

    if (!take_text(args, &text, &rc)) {
        return rc;
    }
    return give_string(args, text_trim(text, start, end));
}

int string_trim(struct args *args)
{
    return give_trimmed(args, true, true);
}

int string_trim_start(struct args *args)
{
    return give_trimmed(args, true, false);
}

int string_trim_end(struct args *args)
{
    return give_trimmed(args, false, true);
}

/* The same text so many times; QP_E_LIMIT before anything is taken. */
static int repeat_text(struct scope *s, qp_str text, size_t count, size_t more, char **out_text)
{
    size_t size;

    if (!size_mul(text.n, count, &size) || !size_add(size, more, &size)) {
        size = SIZE_MAX;
    }
    *out_text = scope_text(s, size);
    for (size_t i = 0; *out_text != NULL && text.n > 0 && i < count; i++) {
        memcpy(*out_text + i * text.n, text.p, text.n);
    }
    return *out_text == NULL ? s->rc : QP_OK;
}

int string_repeat(struct args *args)
{
    qp_str text;
    double count;
    char *p;
    int rc;

    if (!take_text(args, &text, &rc)) {
        return rc;
    }
    rc = args_integer(args, 1, 0, &count);
    if (rc != QP_OK || count < 0 || isinf(count)) {
        return rc;
    }
    if (text.n == 0) {
        return give_string(args, QP_STR(""));
    }
    if (count > LIMIT_JSON_STRING_SIZE) {
        return SCOPE_REFUSE(args->scope, LIMIT_JSON_STRING_SIZE);
    }
    rc = repeat_text(args->scope, text, (size_t)count, 0, &p);
    return rc == QP_OK ? give_string(args, (qp_str){p, text.n * (size_t)count}) : rc;
}

/* The fill, again and again, cut to so many units. */
static int make_fill(struct scope *s, qp_str fill, size_t units, qp_str *out_text)
{
    size_t each = text_units(fill);
    struct text_piece rest = text_cut(fill, 0, units % each);
    char *p;
    int rc = repeat_text(s, fill, units / each, text_piece_size(&rest), &p);

    if (rc == QP_OK) {
        char *end = text_piece_put(&rest, p + fill.n * (units / each));

        *out_text = (qp_str){p, (size_t)(end - p)};
    }
    return rc;
}

static int give_both(struct args *args, qp_str a, qp_str b)
{
    struct build both = {.scope = args->scope};
    qp_str text;
    int rc;

    build_add(&both, a);
    build_add(&both, b);
    rc = build_done(&both, &text);
    return rc == QP_OK ? give_string(args, text) : rc;
}

static int pad(struct args *args, bool start)
{
    qp_str text;
    qp_str fill = QP_STR(" ");
    double length;
    size_t units;
    int rc;

    if (!take_text(args, &text, &rc)) {
        return rc;
    }
    units = text_units(text);
    rc = args_integer(args, 1, 0, &length);
    if (rc == QP_OK && args_has(args, 2)) {
        rc = args_text(args, 2, &fill);
    }
    if (rc != QP_OK) {
        return rc;
    }
    if (length <= (double)units || fill.n == 0) {
        return give_string(args, text);
    }
    if (length > LIMIT_JSON_STRING_SIZE) {
        return SCOPE_REFUSE(args->scope, LIMIT_JSON_STRING_SIZE);
    }
    rc = make_fill(args->scope, fill, (size_t)length - units, &fill);
    if (rc != QP_OK) {
        return rc;
    }
    return start ? give_both(args, fill, text) : give_both(args, text, fill);
}

int string_pad_start(struct args *args)
{
    return pad(args, true);
}

int string_pad_end(struct args *args)
{
    return pad(args, false);
}

/* What stands for one $ sign and what follows: $$, what was found, and what is before and behind it. */
static size_t build_dollar(struct build *b, qp_str with, qp_str text, size_t at, size_t size)
{
    switch (with.n > 1 ? with.p[1] : '\0') {
    case '$':
        build_add(b, QP_STR("$"));
        return 2;
    case '&':
        build_add(b, (qp_str){text.p + at, size});
        return 2;
    case '`':
        build_add(b, (qp_str){text.p, at});
        return 2;
    case '\'':
        build_add(b, (qp_str){text.p + at + size, text.n - at - size});
        return 2;
    default:
        build_add(b, QP_STR("$"));
        return 1;
    }
}

static void build_replacement(struct build *b, qp_str with, qp_str text, size_t at, size_t size)
{
    while (with.n > 0 && b->rc == QP_OK) {
        const char *dollar = memchr(with.p, '$', with.n);
        size_t plain = dollar == NULL ? with.n : (size_t)(dollar - with.p);

        build_add(b, (qp_str){with.p, plain});
        with = (qp_str){with.p + plain, with.n - plain};
        if (with.n > 0) {
            size_t used = build_dollar(b, with, text, at, size);

            with = (qp_str){with.p + used, with.n - used};
        }
    }
}

int string_replace(struct args *args)
{
    struct build b = {.scope = args->scope};
    qp_str text;
    qp_str what;
    qp_str with;
    size_t at;
    int rc;

    if (!take_two(args, &text, &what, &rc)) {
        return rc;
    }
    rc = args_text(args, 2, &with);
    if (rc != QP_OK) {
        return rc;
    }
    at = text_find(text, what, 0);
    if (at == SIZE_MAX) {
        return give_string(args, text);
    }
    build_add(&b, (qp_str){text.p, at});
    build_replacement(&b, with, text, at, what.n);
    build_add(&b, (qp_str){text.p + at + what.n, text.n - at - what.n});
    rc = build_done(&b, &text);
    return rc == QP_OK ? give_string(args, text) : rc;
}

/* ------------------------------------------------------------------------------------ splitting */

static int append_text(struct scope *s, struct value *list, qp_str text)
{
    struct value part = {.kind = VALUE_STRING, .text = text};

    return array_append(s, list, &part);
}

/* Every unit by itself; the halves of a character are U+FFFD each. */
static int split_units(struct scope *s, qp_str text, double most, struct value *list)
{
    int rc = QP_OK;

    for (size_t i = 0; rc == QP_OK && i < text.n && (double)list->count < most;) {
        size_t size = text_size((qp_str){text.p + i, text.n - i});

        rc = append_text(s, list, size < 4 ? (qp_str){text.p + i, size} : QP_STR(TEXT_REPLACEMENT));
        if (rc == QP_OK && size == 4 && (double)list->count < most) {
            rc = append_text(s, list, QP_STR(TEXT_REPLACEMENT));
        }
        i += size;
    }
    return rc;
}

static int split_at(struct scope *s, qp_str text, qp_str separator, double most, struct value *list)
{
    size_t first = 0;
    int rc = QP_OK;

    while (rc == QP_OK && first != SIZE_MAX && (double)list->count < most) {
        size_t found = text_find(text, separator, first);
        size_t end = found == SIZE_MAX ? text.n : found;

        rc = append_text(s, list, (qp_str){text.p + first, end - first});
        first = found == SIZE_MAX ? SIZE_MAX : found + separator.n;
    }
    return rc;
}

/* ToUint32 of the operand: undefined is no limit. */
static int take_most(struct args *args, size_t index, double *out_most)
{
    double most = 4294967295.0;
    int rc = args_integer(args, index, most, &most);

    most = isinf(most) ? 0 : fmod(most, 4294967296.0);
    *out_most = most < 0 ? most + 4294967296.0 : most;
    return rc;
}

int string_split(struct args *args)
{
    struct value list;
    qp_str text;
    qp_str separator;
    double most;
    int rc;

    if (!take_two(args, &text, &separator, &rc)) {
        return rc;
    }
    rc = take_most(args, 2, &most);
    if (rc == QP_OK) {
        rc = array_begin(args->scope, 0, &list);
    }
    if (rc == QP_OK && !args_has(args, 1)) {
        rc = most > 0 ? append_text(args->scope, &list, text) : QP_OK;
    } else if (rc == QP_OK && separator.n == 0) {
        rc = split_units(args->scope, text, most, &list);
    } else if (rc == QP_OK) {
        rc = split_at(args->scope, text, separator, most, &list);
    }
    return rc == QP_OK ? give(args, &list) : rc;
}
