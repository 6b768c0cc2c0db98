/* flowcase.h - a history and a program of durable steps as data: read, run through the cursor, printed
 *
 * The format is that of build/test/tools/cursor:
 *
 *     {"history":[EVENT...],"program":[STEP...]}     ->     R{1} I{1.1}v2 R{2} N{3}
 *
 * The line has a word per event, in the order of the program: R replayed, N new, I inserted, S skipped, G ignored by
 * removed, C=n what a version check returned. It ends at HD (diverged), LH (left), REFUSED or BAD.
 *
 * A case and everything in it lie in the arena that was given. Programs may also be made and changed by a test; then
 * `base` is the test's own mark.
 */
#ifndef QP_TEST_FLOWCASE_H
#define QP_TEST_FLOWCASE_H

#include "flow/cursor.h"

/* What a step does: an enum history_type, or one of these. */
enum { FLOWSTEP_JOIN = HISTORY_TYPES, FLOWSTEP_LISTEN };

struct flowstep {
    struct flowstep *next;
    int op;
    qp_str name;
    int64_t v;            /* as in v(n) */
    enum history_type of; /* removed: what */
    int64_t n;            /* version: the latest */
    int64_t times;        /* loop */
    bool timeout;         /* listen */
    bool comes;
    bool base;
    struct flowstep *body; /* branch, loop, join */
    struct flowarm *arms;  /* version */
};

struct flowarm {
    struct flowarm *next;
    int64_t value; /* 0: else */
    struct flowstep *body;
};

enum flowsleep { FLOWSLEEP_OPEN, FLOWSLEEP_NORMAL, FLOWSLEEP_INTERRUPTED };

/* What an event has beside what the cursor looks at. */
struct flowfacts {
    int64_t iteration;
    bool done;
    enum flowsleep sleep;
};

struct flowcase {
    struct history_event *events; /* in the order of locations */
    struct flowfacts *facts;
    size_t count;
    struct flowstep *program;
};

/* One line of text. *out_why is the sentence about what is wrong, behind its JSON pointer: "/program/0/v: ..."; QP_OK,
 * QP_E_INVALID or QP_E_NOMEM. */
int flowcase_parse(struct arena *arena, qp_str text, struct flowcase *out_case,
                   qp_str *out_why) QP_MUST_USE;

struct flowrun {
    const struct flowcase *flow;
    struct arena *arena;
    struct buf *out;               /* the line */
    struct history_event *written; /* room for what the run writes; none: it is not kept */
    size_t written_room;
    int64_t writes_left; /* the run ends with the last of them, as if it were killed; 0: never */
    /* after */
    struct history history;
    size_t written_count;
    enum cursor_verdict verdict; /* CURSOR_END, or what stopped it */
    struct cursor_found stopped; /* then */
    bool killed;
    int rc; /* of memory */
};

/* Runs the program over the history. */
void flowcase_run(struct flowrun *run);

/* The history with what the run has written: a case with the same program. */
int flowcase_after(const struct flowrun *run, struct flowcase *out_case) QP_MUST_USE;

#endif
