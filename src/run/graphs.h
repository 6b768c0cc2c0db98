/* graphs.h - applications of graphs behind quipu.h: deploying, and what is told of them
 *
 * A version of an application is one row, its text; it is compiled where it is needed (graph/library.h). Deploying
 * compiles it first, on the caller's thread, and writes nothing when anything is wrong. Activating is one commit: the
 * version, the one before it, and what every topic of both means from then on. Jobs keep the version that they began with.
 * Deleting hides a version at once; its text goes later (kernel/chores.h, collect).
 */
#ifndef QP_RUN_GRAPHS_H
#define QP_RUN_GRAPHS_H

#include "graph/face.h"
#include "graph/program.h"
#include "run/handle.h"

#endif
