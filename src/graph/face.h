/* face.h - the face of graphs (kernel/face.h): what the rest of the system must know of them
 *
 * Its state is the library of compiled applications (library.h). What people see of a graph's job beside its rows: its
 * state as digits, its data, its activities nested. A version that cannot be had any more takes nothing from what the
 * rows say: then nothing is added.
 */
#ifndef QP_GRAPH_FACE_H
#define QP_GRAPH_FACE_H

#include "graph/library.h"
#include "kernel/face.h"

extern const struct face graph_face;

/* The state of the face of graphs in this set. */
struct library *graph_library(const struct faces *f);

#endif
