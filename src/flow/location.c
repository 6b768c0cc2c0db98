/* location.c - locations: three forms, an order, and the ways from one to the next (see location.h) */
#include "flow/location.h"

#include <stdio.h>

static const struct location root;

static uint32_t ordinate_count(const struct location *l)
{
    return l->depth == 0 ? 0 : l->ends[l->depth - 1];
}

/* Where the ordinates of a coordinate begin. */
static uint32_t begin_of(const struct location *l, uint32_t coordinate)
{
    QP_ASSERT(coordinate < l->depth);
    return coordinate == 0 ? 0 : l->ends[coordinate - 1];
}

static bool is_within_limits(const struct location *l)
{
    return l->depth <= LIMIT_LOCATION_COORDINATES && ordinate_count(l) <= LIMIT_LOCATION_ORDINATES;
}

/* ------------------------------------------------------------------------------ building, bounded */

static bool add_ordinate(struct location *l, uint32_t ordinate)
{
    uint32_t count = ordinate_count(l);
    QP_ASSERT(l->depth > 0);
    if (count == LIMIT_LOCATION_ORDINATES || ordinate > LIMIT_ORDINATE) {
        return false;
    }
    l->ordinates[count] = ordinate;
    l->ends[l->depth - 1] = (uint8_t)(count + 1);
    return true;
}

/* A coordinate without ordinates: they follow. */
static bool add_coordinate(struct location *l)
{
    uint32_t count = ordinate_count(l);
    if (l->depth == LIMIT_LOCATION_COORDINATES) {
        return false;
    }
    l->ends[l->depth++] = (uint8_t)count;
    return true;
}

/* ------------------------------------------------------------------------------------------- text */

struct reading {
    qp_str text;
    size_t at;
};

static char peek(const struct reading *r)
{
    return r->at < r->text.n ? r->text.p[r->at] : '\0';
}

static bool take(struct reading *r, char c)
{
    if (r->at == r->text.n || r->text.p[r->at] != c) {
        return false;
    }
    r->at++;
    return true;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int bad(const struct reading *r, const char *expected, struct qp_err *err)
{
    return err_set(err, QP_E_INVALID, "bad_location: expected %s at byte %zu", expected, r->at);
}

static int bad_version(const struct reading *r, struct qp_err *err)
{
    return err_set(err, QP_E_INVALID,
                   "bad_location: expected a version between 1 and %lld at byte %zu",
                   (long long)LIMIT_EVENT_VERSION, r->at);
}

static int bad_limit(const struct reading *r, struct qp_err *err)
{
    return err_set(err, QP_E_INVALID,
                   "bad_location: beyond the limits at byte %zu: a location has at most %d "
                   "coordinates and %d ordinates, none above %lld",
                   r->at, LIMIT_LOCATION_COORDINATES, LIMIT_LOCATION_ORDINATES,
                   (long long)LIMIT_ORDINATE);
}

/* A number without leading zeros; *out_number is above `most` when it is too large. */
static int take_number(struct reading *r, int64_t most, int64_t *out_number, struct qp_err *err)
{
    const struct reading start = *r;
    int64_t number = 0;
    if (!is_digit(peek(r))) {
        return bad(r, "a digit", err);
    }
    while (is_digit(peek(r)) && number <= most) {
        number = number * 10 + (peek(r) - '0');
        r->at++;
        if (number == 0 && is_digit(peek(r))) {
            return bad(&start, "a number without leading zeros", err);
        }
    }
    *out_number = number;
    return QP_OK;
}

static int take_coordinate(struct reading *r, struct location *l, struct qp_err *err)
{
    struct reading last;
    int64_t ordinate = 0;
    if (!add_coordinate(l)) {
        return bad_limit(r, err);
    }
    do {
        last = *r;
        QP_TRY(take_number(r, LIMIT_ORDINATE, &ordinate, err));
        if (ordinate > LIMIT_ORDINATE || !add_ordinate(l, (uint32_t)ordinate)) {
            return bad_limit(&last, err);
        }
    } while (take(r, '.'));
    return ordinate != 0 ? QP_OK : bad(&last, "a last ordinate above 0", err);
}

static int take_location(struct reading *r, struct location *l, struct qp_err *err)
{
    if (!take(r, '{')) {
        return bad(r, "'{'", err);
    }
    if (take(r, '}')) {
        return QP_OK;
    }
    QP_TRY(take_coordinate(r, l, err));
    while (take(r, ',')) {
        if (!take(r, ' ')) {
            return bad(r, "one space behind the comma", err);
        }
        QP_TRY(take_coordinate(r, l, err));
    }
    return take(r, '}') ? QP_OK : bad(r, "'.', ', ' or '}'", err);
}

int location_parse(qp_str text, struct location *out_location, struct qp_err *err)
{
    struct reading r = {.text = text};
    struct location l = root;
    QP_TRY(take_location(&r, &l, err));
    if (r.at != text.n) {
        return bad(&r, "the end", err);
    }
    *out_location = l;
    return QP_OK;
}

int location_parse_version(qp_str text, struct location *out_location, int64_t *out_version,
                           struct qp_err *err)
{
    struct reading r = {.text = text};
    struct reading number;
    struct location l = root;
    int64_t version = 0;
    QP_TRY(take_location(&r, &l, err));
    if (r.at != text.n) {
        (void)take(&r, ' '); /* it may stand there or not */
        if (!take(&r, 'v')) {
            return bad(&r, "'v' and a version, or the end", err);
        }
        number = r;
        QP_TRY(take_number(&r, LIMIT_EVENT_VERSION, &version, err));
        if (version == 0 || version > LIMIT_EVENT_VERSION) {
            return bad_version(&number, err);
        }
    }
    if (r.at != text.n) {
        return bad(&r, "the end", err);
    }
    *out_location = l;
    *out_version = version;
    return QP_OK;
}

size_t location_print(const struct location *location, char out_text[LOCATION_TEXT_SIZE])
{
    size_t n = 0;
    QP_ASSERT(is_within_limits(location));
    out_text[n++] = '{';
    for (uint32_t c = 0, o = 0; c < location->depth; c++) {
        for (uint32_t first = o; o < location->ends[c]; o++) {
            const char *before = o > first ? "." : c > 0 ? ", " : "";
            n += (size_t)snprintf(out_text + n, LOCATION_TEXT_SIZE - n, "%s%u", before,
                                  location->ordinates[o]);
        }
    }
    QP_ASSERT(n + 1 < LOCATION_TEXT_SIZE);
    out_text[n++] = '}';
    out_text[n] = '\0';
    return n;
}

/* ------------------------------------------------------------------------------------------- JSON */

static int bad_json(size_t coordinate, const char *why, struct qp_err *err)
{
    return err_set(err, QP_E_INVALID, "bad_location: coordinate %zu %s", coordinate, why);
}

static int read_coordinate(const struct json *json, size_t index, struct location *l,
                           struct qp_err *err)
{
    size_t count = json_count(json);
    int64_t ordinate = 0;
    if (!json_is(json, JSON_KIND_ARRAY) || count == 0) {
        return bad_json(index, "must be an array of one or more ordinates", err);
    }
    if (!add_coordinate(l)) {
        return bad_json(index, "is beyond the limit of coordinates", err);
    }
    for (size_t i = 0; i < count; i++) {
        if (!json_as_i64(json_at(json, i), &ordinate) || ordinate < 0 ||
            ordinate > LIMIT_ORDINATE) {
            return bad_json(index, "has an ordinate that is not between 0 and 2147483647", err);
        }
        if (!add_ordinate(l, (uint32_t)ordinate)) {
            return bad_json(index, "is beyond the limit of ordinates", err);
        }
    }
    return ordinate != 0 ? QP_OK : bad_json(index, "ends in 0", err);
}

int location_read_json(const struct json *json, struct location *out_location, struct qp_err *err)
{
    struct location l = root;
    if (!json_is(json, JSON_KIND_ARRAY)) {
        return err_set(err, QP_E_INVALID, "bad_location: expected an array of coordinates");
    }
    for (size_t i = 0; i < json_count(json); i++) {
        QP_TRY(read_coordinate(json_at(json, i), i, &l, err));
    }
    *out_location = l;
    return QP_OK;
}

void location_write_json(struct json_writer *w, const struct location *location)
{
    json_begin_array(w);
    for (uint32_t c = 0, o = 0; c < location->depth; c++) {
        json_begin_array(w);
        for (; o < location->ends[c]; o++) {
            json_put_i64(w, location->ordinates[o]);
        }
        json_end_array(w);
    }
    json_end_array(w);
}

/* -------------------------------------------------------------------------------------------- key */

/* The letter for the number of digits, and the digits: longer numbers are larger. */
static size_t put_ordinate(uint32_t ordinate, char *out)
{
    char digits[LOCATION_DIGITS + 1];
    int count = snprintf(digits, sizeof digits, "%u", ordinate);
    QP_ASSERT(count >= 1 && count <= LOCATION_DIGITS);
    out[0] = (char)('a' + count - 1);
    memcpy(out + 1, digits, (size_t)count);
    return (size_t)count + 1;
}

size_t location_key(const struct location *location, char out_key[LOCATION_KEY_SIZE])
{
    size_t n = 0;
    QP_ASSERT(is_within_limits(location));
    for (uint32_t c = 0, o = 0; c < location->depth; c++) {
        for (; o < location->ends[c]; o++) {
            n += put_ordinate(location->ordinates[o], out_key + n);
        }
        out_key[n++] = '!';
    }
    QP_ASSERT(n <= LOCATION_KEY_SIZE);
    return n;
}

size_t location_behind(const struct location *location, char out_key[LOCATION_KEY_SIZE])
{
    size_t n = location_key(location, out_key);
    QP_ASSERT(n > 0 && out_key[n - 1] == '!');
    out_key[n - 1] = '!' + 1;
    return n;
}

/* As many digits as the letter says, the first of them not 0 unless it is the only one. */
static bool take_key_ordinate(struct reading *r, uint32_t *out_ordinate)
{
    int64_t number = 0;
    int count = peek(r) - 'a' + 1;
    if (count < 1 || count > LOCATION_DIGITS) {
        return false;
    }
    r->at++;
    if (count > 1 && peek(r) == '0') {
        return false;
    }
    for (; count > 0; count--, r->at++) {
        if (!is_digit(peek(r))) {
            return false;
        }
        number = number * 10 + (peek(r) - '0');
    }
    *out_ordinate = (uint32_t)number;
    return number <= LIMIT_ORDINATE;
}

static bool take_key_coordinate(struct reading *r, struct location *l)
{
    uint32_t ordinate = 0;
    if (!add_coordinate(l)) {
        return false;
    }
    do {
        if (!take_key_ordinate(r, &ordinate) || !add_ordinate(l, ordinate)) {
            return false;
        }
    } while (!take(r, '!'));
    return ordinate != 0;
}

bool location_from_key(qp_str key, struct location *out_location)
{
    struct reading r = {.text = key};
    struct location l = root;
    while (r.at < key.n) {
        if (!take_key_coordinate(&r, &l)) {
            return false;
        }
    }
    *out_location = l;
    return true;
}

size_t location_address(const struct location *location, char out_addr[LOCATION_ADDRESS_SIZE])
{
    out_addr[0] = LOCATION_MARK;
    return 1 + location_key(location, out_addr + 1);
}

bool location_from_address(qp_str addr, struct location *out_location)
{
    return addr.n > 0 && addr.p[0] == LOCATION_MARK &&
           location_from_key((qp_str){addr.p + 1, addr.n - 1}, out_location);
}

/* ---------------------------------------------------------------------------------------- algebra */

/* One coordinate of each: -1, 0 or 1. */
static int compare_coordinates(const struct location *a, const struct location *b, uint32_t c)
{
    uint32_t i = begin_of(a, c);
    uint32_t j = begin_of(b, c);
    while (i < a->ends[c] && j < b->ends[c]) {
        uint32_t x = a->ordinates[i++];
        uint32_t y = b->ordinates[j++];
        if (x != y) {
            return x < y ? -1 : 1;
        }
    }
    return (i < a->ends[c]) - (j < b->ends[c]);
}

int location_compare(const struct location *a, const struct location *b)
{
    for (uint32_t c = 0; c < a->depth && c < b->depth; c++) {
        int order = compare_coordinates(a, b, c);
        if (order != 0) {
            return order;
        }
    }
    return (a->depth > b->depth) - (a->depth < b->depth);
}

struct location location_parent(const struct location *location)
{
    struct location parent = *location;
    QP_ASSERT(location->depth > 0);
    parent.depth--;
    return parent;
}

bool location_child(const struct location *parent, uint32_t ordinate, struct location *out_location)
{
    struct location child = *parent;
    QP_ASSERT(ordinate > 0);
    if (!add_coordinate(&child) || !add_ordinate(&child, ordinate)) {
        return false;
    }
    *out_location = child;
    return true;
}

struct location location_start(const struct location *parent)
{
    struct location start = *parent;
    uint32_t count = ordinate_count(parent);
    QP_ASSERT(is_within_limits(parent));
    start.ordinates[count] = 0;
    start.ends[start.depth++] = (uint8_t)(count + 1);
    return start;
}

bool location_next(const struct location *last, struct location *out_location)
{
    struct location parent = location_parent(last);
    uint32_t head = last->ordinates[begin_of(last, last->depth - 1)];
    return head < LIMIT_ORDINATE && location_child(&parent, head + 1, out_location);
}

/* How many ordinates of the last coordinate of `before` begin that of `after`, and the zeros of
 * `after` that follow them: of what the rule of insertion asks. */
struct overlap {
    uint32_t before_count;
    uint32_t after_count;
    uint32_t shared;
    uint32_t zeros;
};

static struct overlap overlap_of(const struct location *before, const struct location *after)
{
    uint32_t last = before->depth - 1;
    const uint32_t *b = before->ordinates + begin_of(before, last);
    const uint32_t *a = after->ordinates + begin_of(after, last);
    struct overlap o = {.before_count = before->ends[last] - begin_of(before, last),
                        .after_count = after->ends[last] - begin_of(after, last)};
    while (o.shared < o.before_count && o.shared < o.after_count && b[o.shared] == a[o.shared]) {
        o.shared++;
    }
    while (o.shared + o.zeros < o.after_count && a[o.shared + o.zeros] == 0) {
        o.zeros++;
    }
    return o;
}

/* Appends `zeros` ordinates 0 and an ordinate 1. */
static bool extend(struct location *l, uint32_t zeros)
{
    for (uint32_t i = 0; i < zeros; i++) {
        if (!add_ordinate(l, 0)) {
            return false;
        }
    }
    return add_ordinate(l, 1);
}

static bool bump(struct location *l)
{
    uint32_t *last = &l->ordinates[ordinate_count(l) - 1];
    if (*last >= LIMIT_ORDINATE) {
        return false;
    }
    (*last)++;
    return true;
}

bool location_between(const struct location *before, const struct location *after,
                      struct location *out_location)
{
    struct location between = *before;
    struct overlap o;
    bool fits;
    QP_ASSERT(is_within_limits(before) && before->depth == after->depth);
    QP_ASSERT(location_compare(before, after) < 0);
    o = overlap_of(before, after);
    if (o.before_count > o.after_count) {
        fits = bump(&between);
    } else if (o.before_count == o.after_count) {
        fits = extend(&between, 0);
    } else {
        fits = extend(&between, o.shared == o.before_count ? o.zeros + 1 : 1);
    }
    if (!fits) {
        return false;
    }
    QP_ASSERT(location_compare(before, &between) < 0 && location_compare(&between, after) < 0);
    *out_location = between;
    return true;
}
