/* program.h - graphs as a program of the kernel */
#ifndef QP_GRAPH_PROGRAM_H
#define QP_GRAPH_PROGRAM_H

#include "graph/library.h"
#include "kernel/program.h"

#define GRAPH_KIND 1 /* job_row.kind */

/* Journal entries of graphs: event_row.kind. */
enum graph_event { EVENT_EMITTED = 100 };

/* The attribute of a job that is its key (stats.key). */
#define STATS_KEY QP_STR("quipu:key")

/* A program whose jobs are served from this library; both outlive the engine. */
struct program graph_program(struct library *l);

#endif
