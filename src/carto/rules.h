/* rules.h - the part of fsck that is about traversals (kernel/face.h)
 *
 *   V1  the text of every item can be read, and an item that is finalized says what became of it
 *   V2  the sums of the job are what its items add up to
 *   V3  nodes and edges that are kept (result_kept.h) are those of the hash that FORMAT has answered
 */
#ifndef QP_CARTO_RULES_H
#define QP_CARTO_RULES_H

#include "kernel/face.h"

extern const struct face_rule carto_rules[];

#endif
