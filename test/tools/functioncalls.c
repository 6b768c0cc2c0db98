/* functioncalls.c - calls of the functions of mappings with odd operands, and what they give
 *
 * usage: functioncalls SEED COUNT
 *
 * Prints COUNT lines of JSON: {"f": "string.padStart", "a": [operands], "r": result}, or "e": code in place of a
 * result. What JSON has no word for is written as {"$": "undefined"}, NaN, Infinity, -Infinity, -0 or a date: {"$":
 * "date", "t": milliseconds}. test/graph/functions.js does the same calls in JavaScript and compares. Every function has its
 * turn before any has a second one.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/env.h"
#include "base/json.h"
#include "mapping/functions.h"
#include "support/testenv.h"

#define NOW INT64_C(1769850487123) /* 2026-01-31T09:08:07.123Z */

static struct qp_env env;
static struct arena arena;
static struct scope scope;
static uint64_t chance;

static size_t below(size_t n)
{
    return (size_t)testenv_random_below(&chance, n);
}

static struct value text_value(const char *text)
{
    return (struct value){.kind = VALUE_STRING, .text = str_from(text)};
}

/* ------------------------------------------------------------------------------------- operands */

static const char *const texts[] = {
    "",
    " ",
    "a",
    "abc",
    "abcabc",
    "The quick brown fox",
    "\t pad \n\xC2\xA0",
    "\xEF\xBB\xBF x\xE2\x80\xA8",
    "Stra\xC3\x9F"
    "e",
    "\xC4\xB0stanbul \xC4\xB1",
    "\xCE\x9F\xCE\x94\xCE\xA5\xCE\xA3\xCE\xA3\xCE\x95\xCE\xA5\xCE\xA3 \xCE\xA3",
    "\xF0\x9F\x98\x80",
    "a\xF0\x9F\x98\x80"
    "b\xF0\x9F\x98\x81"
    "c",
    "\xEF\xAC\x83\xC5\x89\xC7\xB0",
    "\xD0\xBF\xD1\x80\xD0\xB8\xD0\xB2\xD0\xB5\xD1\x82",
    "\xEE\x80\x80\xEF\xBF\xBF",
    "e\xCC\x81",
    "0",
    "-0",
    "12",
    " 12 ",
    "12.50",
    ".5",
    "5.",
    "+7",
    "1e3",
    "1E-7",
    "1e400",
    "-1e-400",
    "0x1F",
    "0b101",
    "0o17",
    "0xg",
    "1_000",
    "12px",
    "Infinity",
    "-Infinity",
    "NaN",
    "null",
    "true",
    "9007199254740993",
    "0.1",
    "123456789012345678901234567890",
    "4.9406564584124654e-324",
    "2.2250738585072011e-308",
    "9007199254740992.5",
    "[1,2,{\"a\":\"b\"}]",
    "{\"a\":[true,null],\"b\":1.50}",
    "{\"a\":1",
    "\"quoted\\u0041\\n\"",
    "1,2,3",
    "a,b,,c",
    "$&-$$-$`-$'-$1",
    "$",
    "2026-01-31",
    "2026-01-31T09:08:07Z",
    "2024-02-29T23:59:59.999+05:30",
    "1969-12-31T23:59:59.999Z",
    "-000001-01-01T00:00:00Z",
    "+012345-06-07T08:09:10.011Z",
    "2026-13-01",
    "2026",
    "2026-05",
    "2026-05-06T24:00:00",
    "Sat, 31 Jan 2026 09:08:07 GMT",
    "Sat Jan 31 2026 09:08:07 GMT+0100 (somewhere)",
    "Jan 31, 2026",
    "31 January 2026 9:08 PM",
    "1/31/2026, 9:08:07 AM",
    "not a date",
    "length",
    "x",
    "y",
    "__missing__",
};

static const double numbers[] = {
    0,
    -0.0,
    1,
    -1,
    2,
    3,
    5,
    7,
    10,
    16,
    31,
    32,
    33,
    36,
    53,
    64,
    100,
    101,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    0.1,
    0.2,
    1.005,
    1.45,
    8.345,
    10.235,
    123.456,
    -123.456,
    1e21,
    1e20,
    123456789.987654321,
    1e-6,
    1e-7,
    1.5e-10,
    5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    -1.7976931348623157e308,
    4294967295.0,
    4294967296.0,
    -2147483648.0,
    2147483648.0,
    9007199254740991.0,
    -9007199254740991.0,
    9007199254740992.0,
    5.684341886080802e-14,
    1e300,
    -1e-300,
    0.000001234567,
    999.9999,
    0.99999999999999989,
    86400000,
    1769850487123.0,
    -62135596800000.0,
    -1.0e12,
    8.64e15,
    8.640000000000001e15,
    (double)NAN,
    (double)INFINITY,
    -(double)INFINITY,
};

static struct value make_number(void)
{
    union {
        uint64_t bits;
        double real;
    } any;

    switch (below(8)) {
    case 0:
        any.bits = testenv_random(&chance); /* any double at all */
        return value_number(any.real);
    case 1:
        return value_number((double)below(2000) / 8 - 100);
    case 2:
        return value_number((double)below(12));
    case 3:
        return value_number(((double)below(100000) - 50000) / 1000);
    default:
        return value_number(numbers[below(ARRAY_COUNT(numbers))]);
    }
}

static struct value make_scalar(void)
{
    switch (below(12)) {
    case 0:
        return (struct value){.kind = VALUE_UNDEFINED};
    case 1:
        return (struct value){.kind = VALUE_NULL};
    case 2:
        return (struct value){.kind = VALUE_BOOL, .truth = below(2) == 1};
    case 3:
        return (struct value){.kind = VALUE_DATE, .real = NOW + (double)below(1000000000)};
    case 4:
    case 5:
    case 6:
    case 7:
        return make_number();
    default:
        return text_value(texts[below(ARRAY_COUNT(texts))]);
    }
}

static void need(int rc)
{
    if (rc != QP_OK) {
        fprintf(stderr, "functioncalls: %s\n", qp_code_text(rc));
        exit(1);
    }
}

static struct value make_value(int depth);

static struct value make_array(int depth)
{
    struct value array;

    need(array_begin(&scope, 0, &array));
    for (size_t n = below(6); n > 0; n--) {
        struct value item = make_value(depth - 1);

        need(array_append(&scope, &array, &item));
    }
    return array;
}

/* Keys that look like indices are left out: ECMAScript puts those first, we keep the order. */
static struct value make_object(int depth)
{
    static const char *const keys[] = {"x", "y", "z", "name", "\xC3\xA9", "two words"};
    struct value object;

    need(object_begin(&scope, 0, &object));
    for (size_t n = below(5); n > 0; n--) {
        struct value item = make_value(depth - 1);

        need(object_put(&scope, &object, str_from(keys[below(ARRAY_COUNT(keys))]), &item));
    }
    return object;
}

static struct value make_value(int depth)
{
    size_t kind = depth > 0 ? below(6) : 5;

    return kind == 0 ? make_array(depth) : kind == 1 ? make_object(depth) : make_scalar();
}

/* What a function is most likely asked with first; any other value now and then. */
static struct value first_operand(const char *space)
{
    if (below(8) == 0) {
        return make_value(2);
    }
    if (strcmp(space, "array") == 0) {
        return make_array(2);
    }
    if (strcmp(space, "object") == 0) {
        return make_object(2);
    }
    if (strcmp(space, "string") == 0 || strcmp(space, "json") == 0) {
        return text_value(texts[below(ARRAY_COUNT(texts))]);
    }
    if (strcmp(space, "math") == 0 || strcmp(space, "number") == 0 ||
        strcmp(space, "bitwise") == 0) {
        return make_number();
    }
    return make_value(2);
}

/* -------------------------------------------------------------------------------------- writing */

static void put(struct json_writer *w, const struct value *v);

static void put_tagged(struct json_writer *w, const char *tag)
{
    json_begin_object(w);
    json_key(w, QP_STR("$"));
    json_put_str(w, str_from(tag));
    json_end_object(w);
}

static void put_real(struct json_writer *w, double number)
{
    char text[NUMBER_TEXT_SIZE];

    if (isnan(number)) {
        put_tagged(w, "NaN");
    } else if (isinf(number)) {
        put_tagged(w, number > 0 ? "Infinity" : "-Infinity");
    } else if (number == 0 && signbit(number)) {
        put_tagged(w, "-0");
    } else {
        json_put_raw(w, (qp_str){text, number_format(number, text)});
    }
}

static void put_container(struct json_writer *w, const struct value *v)
{
    if (v->kind == VALUE_ARRAY) {
        json_begin_array(w);
        for (size_t i = 0; i < v->count; i++) {
            put(w, v->items[i]);
        }
        json_end_array(w);
        return;
    }
    json_begin_object(w);
    for (size_t i = 0; i < v->count; i++) {
        json_key(w, v->members[i].key);
        put(w, v->members[i].value);
    }
    json_end_object(w);
}

static void put(struct json_writer *w, const struct value *v)
{
    struct value opened = *v;

    need(value_open(&arena, &opened));
    switch (opened.kind) {
    case VALUE_UNDEFINED:
        put_tagged(w, "undefined");
        break;
    case VALUE_NULL:
        json_put_null(w);
        break;
    case VALUE_BOOL:
        json_put_bool(w, opened.truth);
        break;
    case VALUE_INT:
        put_real(w, (double)opened.integer);
        break;
    case VALUE_REAL:
        put_real(w, opened.real);
        break;
    case VALUE_STRING:
        json_put_str(w, opened.text);
        break;
    case VALUE_DATE:
        json_begin_object(w);
        json_key(w, QP_STR("$"));
        json_put_str(w, QP_STR("date"));
        json_key(w, QP_STR("t"));
        put_real(w, opened.real);
        json_end_object(w);
        break;
    case VALUE_ARRAY:
    case VALUE_OBJECT:
        put_container(w, &opened);
        break;
    case VALUE_RAW:
        break;
    }
}

/* ---------------------------------------------------------------------------------------- calls */

static void print_call(const struct function *f, const struct value *operands, size_t count, int rc,
                       const struct value *result)
{
    struct json_writer w;
    struct buf out;
    char name[64];
    int n = snprintf(name, sizeof(name), "%s.%s", f->space, f->name);

    buf_init(&out, &env, 0);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    json_key(&w, QP_STR("f"));
    json_put_str(&w, (qp_str){name, (size_t)n});
    json_key(&w, QP_STR("a"));
    json_begin_array(&w);
    for (size_t i = 0; i < count; i++) {
        put(&w, &operands[i]);
    }
    json_end_array(&w);
    if (rc == QP_OK) {
        json_key(&w, QP_STR("r"));
        put(&w, result);
    } else {
        json_key(&w, QP_STR("e"));
        json_put_i64(&w, rc);
    }
    json_end_object(&w);
    need(json_writer_done(&w));
    (void)fwrite(out.p, 1, out.n, stdout);
    (void)fputc('\n', stdout);
    buf_done(&out);
}

static void call(const struct function *f)
{
    struct value operands[5];
    struct value as_given[5];
    struct value result = {.kind = VALUE_UNDEFINED};
    size_t count = below(10) == 0 ? below(ARRAY_COUNT(operands)) : 1 + below(4);
    int rc;

    for (size_t i = 0; i < count; i++) {
        operands[i] = i == 0          ? first_operand(f->space)
                      : below(2) == 0 ? make_value(1)
                                      : first_operand(f->space);
        if (i > 0 && below(3) == 0) {
            operands[i] = make_number();
        }
        as_given[i] = operands[i];
    }
    rc = function_call(f, &scope, operands, count, &result);
    if (rc != QP_E_LIMIT) {
        need(rc);
    }
    print_call(f, as_given, count, rc, &result);
}

int main(int argc, char **argv)
{
    long long count = argc > 2 ? strtoll(argv[2], NULL, 10) : 0;
    const struct function *f;
    size_t index = 0;

    if (count <= 0) {
        fprintf(stderr, "usage: functioncalls SEED COUNT\n");
        return 2;
    }
    chance = strtoull(argv[1], NULL, 10);
    qp_env_init(&env);
    env_complete(&env);
    arena_init(&arena, &env, 0);
    for (long long i = 0; i < count; i++) {
        arena_reset(&arena);
        scope = (struct scope){.arena = &arena, .env = &env, .now = NOW};
        f = function_at(index++);
        if (f == NULL) {
            index = 0;
            f = function_at(index++);
        }
        call(f);
    }
    arena_done(&arena);
    return 0;
}
