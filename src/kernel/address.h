/* address.h - where an activity instance is: its name and its dimensional address (section 21)
 *
 *   "pay,0,1,0"   activity `pay`, dimensional address ",0,1,0": one segment per generation from
 *                 the trigger (",0") down; a segment is the dimension that its generation ran in
 *
 * The row of an activity stands at its own address, whose last segment is 0: the entries of a
 * cycle are GUIDs of that one row. What an entry spawns lives below the plane of that entry:
 *
 *   pivot's row   ",0,0"      entry with index 1  ->  plane ",0,1"  ->  its children ",0,1,0"
 *
 * Pure functions. Texts are made in the arena that is given; QP_E_NOMEM, or QP_E_TOO_LARGE past
 * LIMIT_ADDRESS_SIZE.
 */
#ifndef QP_KERNEL_ADDRESS_H
#define QP_KERNEL_ADDRESS_H

#include "base/mem.h"

struct address {
    qp_str name;
    qp_str dad; /* begins with a comma; empty when the address has none */
};

struct address address_split(qp_str addr);
int address_make(struct arena *a, qp_str name, qp_str dad, qp_str *out_addr) QP_MUST_USE;

/* Gates and what they run. An activity whose address begins with GATE_MARK is a gate, "#a3", or waits for one,
 * "#a3a0b12": the address of its gate is the beginning of its own, a number as a letter for how many digits it has (a is
 * one) and the digits. So what a gate runs is one range of addresses, directly behind the gate. No name of a graph's
 * activity begins so. */
#define GATE_MARK '#'
/* The gate of an address, the address itself for a gate; none: it has no gate. */
qp_str address_gate(qp_str addr);
int address_of_gate(struct arena *a, uint64_t number, qp_str *out_addr) QP_MUST_USE;

/* How many generations: 1 for the trigger's ",0". */
int64_t dad_depth(qp_str dad);

/* The plane of an entry: the last segment becomes the index. */
int dad_plane(struct arena *a, qp_str dad, int64_t index, qp_str *out_dad) QP_MUST_USE;

/* One generation further down, in its first dimension: the plane and ",0". */
int dad_below(struct arena *a, qp_str plane, qp_str *out_dad) QP_MUST_USE;

/* The row of an ancestor at `depth`, seen from any of its descendants: the first depth - 1 segments
 * and ",0" (H14). For the ancestor itself it changes nothing. */
int dad_ancestor(struct arena *a, qp_str dad, int64_t depth, qp_str *out_dad) QP_MUST_USE;

#endif
