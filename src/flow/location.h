/* location.h - where an event stands in the history of a flow (document 004)
 *
 *   {4, 0.3.1, 0.6}     coordinates, one per level of nesting; a coordinate is a list of ordinates
 *
 * Ordinates are numbers from 0; the last one of a coordinate is never 0. The order is lexicographic
 * on both levels, and a prefix comes first:
 *
 *   {0.0.1} < {0.1} < {1} < {1, 1} < {1.0.1} < {1.1} < {1.1.1} < {1.2} < {2}
 *
 * So there is room before, behind and between any two events, and an event is followed by all that
 * lies below it. `{}` is the root: no event stands there.
 *
 * Forms of a location:
 *
 *   text   {4, 0.3.1}; with a version {4, 0.3.1}v2, read also with a space before the v
 *   JSON   [[4],[0,3,1]]
 *   key    a4!a0a3a1!    per ordinate a letter for the number of its digits (a is one), and the
 *                        digits; '!' ends a coordinate. Byte order is the order of locations.
 *   addr   @a4!a0a3a1!   '@' and the key: the address of the event's activity (act_row.addr)
 *
 * No other activity of a job has an address that begins with '@', so the history of a flow, in
 * order, is one scan of the job's activities: LOCATION_FIRST <= addr < LOCATION_END. An event and
 * all below it are the addresses that begin with its own: addr <= x < addr with its last '!'
 * replaced by '"' (location_behind gives that key).
 *
 * Invariants of a struct location that was parsed or made here: at most LIMIT_LOCATION_COORDINATES
 * coordinates and LIMIT_LOCATION_ORDINATES ordinates in all, none above LIMIT_ORDINATE, no empty
 * coordinate, none that ends in 0. The one exception is location_start, which is for cursors.
 *
 * Pure functions without memory of their own; any thread.
 */
#ifndef QP_FLOW_LOCATION_H
#define QP_FLOW_LOCATION_H

#include "base/json.h"

/* One more of each than the limits: what location_start makes in a branch at the limit. */
struct location {
    uint32_t depth;                               /* coordinates */
    uint8_t ends[LIMIT_LOCATION_COORDINATES + 1]; /* ordinates up to the end of each coordinate */
    uint32_t ordinates[LIMIT_LOCATION_ORDINATES + 1];
};

#define LOCATION_MARK '@'
#define LOCATION_FIRST QP_STR("@")
#define LOCATION_END QP_STR("A")

#define LOCATION_DIGITS 10 /* of LIMIT_ORDINATE */
/* The longest of each form; text has a NUL behind it, which is not counted in what is returned. */
#define LOCATION_KEY_SIZE                                                                          \
    (LIMIT_LOCATION_ORDINATES * (1 + LOCATION_DIGITS) + LIMIT_LOCATION_COORDINATES)
#define LOCATION_ADDRESS_SIZE (1 + LOCATION_KEY_SIZE)
#define LOCATION_TEXT_SIZE                                                                         \
    (LIMIT_LOCATION_ORDINATES * (1 + LOCATION_DIGITS) + LIMIT_LOCATION_COORDINATES + 3)

static_assert(LOCATION_ADDRESS_SIZE <= LIMIT_ADDRESS_SIZE, "every location is an address");
static_assert(LIMIT_ORDINATE <= INT32_MAX, "an ordinate has at most LOCATION_DIGITS digits");
static_assert(LIMIT_LOCATION_ORDINATES < UINT8_MAX, "ends are bytes");

/* ---------------------------------------------------------------------------------------- forms */

/* The text of a location, strictly: no leading zeros, exactly one space behind a comma. `{}` is
 * taken: where an event is meant, the caller refuses depth 0. QP_E_INVALID: `bad_location`, with
 * the byte (from 0) and what was expected there. */
int location_parse(qp_str text, struct location *out_location, struct qp_err *err) QP_MUST_USE;
/* The same, with or without a version behind it; *out_version is 0 when there is none. */
int location_parse_version(qp_str text, struct location *out_location, int64_t *out_version,
                           struct qp_err *err) QP_MUST_USE;
size_t location_print(const struct location *location, char out_text[LOCATION_TEXT_SIZE]);

int location_read_json(const struct json *json, struct location *out_location,
                       struct qp_err *err) QP_MUST_USE;
void location_write_json(struct json_writer *w, const struct location *location);

size_t location_key(const struct location *location, char out_key[LOCATION_KEY_SIZE]);
/* The first key that is behind the location and all below it. `location` is not the root. */
size_t location_behind(const struct location *location, char out_key[LOCATION_KEY_SIZE]);
/* False: no location has this key. */
bool location_from_key(qp_str key, struct location *out_location) QP_MUST_USE;
size_t location_address(const struct location *location, char out_addr[LOCATION_ADDRESS_SIZE]);
bool location_from_address(qp_str addr, struct location *out_location) QP_MUST_USE;

/* -------------------------------------------------------------------------------------- algebra */

int location_compare(const struct location *a, const struct location *b);
/* Not of the root. */
struct location location_parent(const struct location *location);

/* The functions that make a location answer false when it would be beyond the limits; then the
 * output is untouched. */

/* The child of `parent` with a coordinate of one ordinate. */
bool location_child(const struct location *parent, uint32_t ordinate,
                    struct location *out_location) QP_MUST_USE;

/* Where a cursor begins in the branch `parent`: the virtual coordinate 0, before everything that
 * can stand there. It is no location of an event; location_next and location_between take it. */
struct location location_start(const struct location *parent);

/* The coordinate behind the end of a branch whose last event is `last`: its first ordinate + 1. */
bool location_next(const struct location *last, struct location *out_location) QP_MUST_USE;

/* A location strictly between two of one branch, before < after:
 *
 *   before is longer              its last ordinate + 1
 *   both are as long              before.1
 *   before is a prefix of after   before, a 0 for every 0 that follows in after and one more, .1
 *   before is shorter otherwise   before.0.1 */
bool location_between(const struct location *before, const struct location *after,
                      struct location *out_location) QP_MUST_USE;

#endif
