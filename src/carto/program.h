/* program.h - traversals as a program of the kernel (kernel/program.h, ADR 46)
 *
 *   trigger,0 -> register,0,0 -> #a0 -> items of level 0 -> #a1 -> .. -> the first gate without items -> format,0,0
 *
 * REGISTER makes the items of the roots in pages. A gate runs its level, and each of its items makes those of the next.
 * The edge of a gate that has no items is END-DETECT with DONE, and FORMAT follows; every other edge is IN_PROGRESS.
 */
#ifndef QP_CARTO_PROGRAM_H
#define QP_CARTO_PROGRAM_H

#include "carto/traversal.h"

struct program carto_program(struct traversals *state);

#endif
