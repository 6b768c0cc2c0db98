/* sim.h - the real kernel on virtual time: a world of engines, workers and clients that follows from a seed
 *
 * A world has a store in memory (memory.h) that plays SQLite or PostgreSQL (model.h), up to three nodes, each
 * an engine with its workers as one process would have them, and clients that ask for things until they are
 * answered. Nodes are fibers of one thread. Every call of a node to its store is a point at which another may
 * go on, time passes, or a fault strikes:
 *
 *     node 0   begin  load  load ....... write  commit          crash here: what was volatile is gone
 *     node 1         begin ...waits for node 0 .............. load ..
 *     client              start again, at another node, since no answer came
 *
 * Who runs next, how long things take and which faults strike follow from the seed alone; so do the programs,
 * which a SCENE makes (scene.h). The same seed gives the same trace, whose hash is printed.
 *
 *   FAULTS  crash, pause, aborted transaction, unknown outcome, slow call, clock step, message lost, late
 *           or twice, slow worker, result twice: a list that is drawn first, so that single ones can be left out
 *   after every commit    the rules of fsck for the jobs that it touched; what is closed stays as it is
 *   at the end            faults stop; everything comes to rest within a bound; whole fsck; no acknowledged
 *                         request is lost; the feed skipped nothing; workers were called as often as they
 *                         may be; and the scene compares with its naive interpreter
 *
 * A violation ends the run: sim_run returns it with the check that found it.
 */
#ifndef QP_TEST_SIM_H
#define QP_TEST_SIM_H

#include "kernel/request.h"
#include "sim/random.h"
#include "store/memory.h"

struct sim;
struct scene;

enum sim_model {
    MODEL_ALONE,  /* SQLite: one process, whose engine has a writer; nobody else writes */
    MODEL_SERIAL, /* several engines, one transaction at a time */
    MODEL_ROWS,   /* PostgreSQL: read committed, row locks, re-check, deadlock victims */
    MODEL_COUNT
};

#define SIM_NODES_MAX 3
#define SIM_FAULTS_MAX 64
#define SIM_ACTS_MAX 512
#define SIM_JOBS_MAX 64
#define SIM_EVENTS_MAX 256
#define SIM_TEXT_SIZE 2048

struct sim_options {
    uint64_t seed;
    const struct scene *scene; /* NULL: by the seed */
    int model;                 /* -1: by the seed */
    uint64_t without;          /* faults that are left out, a bit each */
    bool print;                /* the trace, to stderr */
};

struct sim_result {
    bool ok;
    char check[32]; /* which one found it */
    char text[SIM_TEXT_SIZE];
    uint64_t trace;  /* hash */
    int fault_count; /* that were planned */
    int64_t commits;
    int64_t calls;
};

void sim_run(const struct sim_options *options, struct sim_result *out_result);
/* The faults of a seed, a line each, without those that are left out. */
void sim_print_faults(const struct sim_options *options);

/* ---------------------------------------------------------------------------------------- coverage */

/* What was seen, over all runs of the process: any name, at any time. */
void sim_cover(const char *name);
int64_t sim_covered(const char *name);
/* Prints all, in order; false, and which, when one of `needed` (ended by NULL) was seen less often than
 * `least` times. */
bool sim_print_cover(const char *const *needed, int64_t least);

#endif
