/* chores.h - work that belongs to no single activity, in bounded pages
 *
 * Each is a message of the engine's stream, or a look at an index, and each page is one bundle:
 * what it did and where it stands commit together. If we crash between two pages, the next one
 * goes on from where the last one stood; if we crash in one, it was never begun.
 */
#ifndef QP_KERNEL_CHORES_H
#define QP_KERNEL_CHORES_H

#include "store/store.h"

struct faces;

/* A signal to all that wait at a topic (H12): those that were registered when it was sent, up to
 * `snapshot` in the order of registrations and messages; `key` and `seq` are the last that was looked at. */
struct fanout {
    int64_t snapshot; /* 0: the message's own place in that order */
    int64_t seq;
    qp_str key;
    qp_str attribute; /* none: of no matter which job */
    qp_str value;
    qp_str payload;
};
int fanout_payload(struct arena *a, const struct fanout *fanout, qp_str *out_payload) QP_MUST_USE;
int fanout_parse(qp_str payload, struct fanout *out_fanout) QP_MUST_USE;

/* One page of a FANOUT message; when there are more, the next message is put in the same bundle. */
int fanout_page(struct bundle *b, const struct msg_row *message) QP_MUST_USE;

/* The jobs that `job` has called, and that are open, get an END each, with the error of the one that called them;
 * `after` is the last one that was looked at. */
struct descent {
    int64_t job;
    int64_t after;
    qp_str error;
};
int descent_payload(struct arena *a, const struct descent *descent,
                    qp_str *out_payload) QP_MUST_USE;
int descent_parse(qp_str payload, struct descent *out_descent) QP_MUST_USE;

/* One page of a DESCEND message, likewise. */
int descend_page(struct bundle *b, const struct msg_row *message) QP_MUST_USE;

/* One page of a SWEEP message, likewise. */
int sweep_page(struct bundle *b, const struct msg_row *message) QP_MUST_USE;

/* The text of a version that was deleted `at` that time goes LIMIT_APP_KEEP_MS later, unless an open job needs it then:
 * in that case as much later again. `after` is the last job that was looked at. No job begins with a deleted version in a
 * commit that began after its deletion, and no commit takes that long: so a job that was passed over needs it no more. */
struct collect {
    qp_ms at;
    int64_t after;
    qp_str version; /* "app/version", as on its jobs */
};
int collect_payload(struct arena *a, const struct collect *collect,
                    qp_str *out_payload) QP_MUST_USE;
int collect_parse(qp_str payload, struct collect *out_collect) QP_MUST_USE;
/* The version is hidden, and a message in the same bundle does the rest. `version` is its name. */
int delete_version(struct bundle *b, const struct op_app_delete *op, qp_str version) QP_MUST_USE;
/* One page of a COLLECT message, likewise; what jobs need is their faces' to say (face.h); NULL: as by default. */
int collect_page(struct bundle *b, const struct msg_row *message,
                 const struct faces *faces) QP_MUST_USE;

/* Jobs whose time is over, LIMIT_RETENTION_JOBS of them: one that is open is sent its END, of one that
 * is finished LIMIT_SWEEP_ROWS rows go. Jobs that somebody works on are passed over. out_more: come again at
 * once. */
int retention_page(struct bundle *b, bool *out_more) QP_MUST_USE;

/* The feed up to a time goes, LIMIT_SWEEP_ROWS commits of it. The newest
 * commit stays, so that the feed always says where it is. The journal itself is in other rows, and stays with its
 * jobs: whoever reads the feed and is further behind begins again from lists (query_feed). */
int feed_page(struct bundle *b, qp_ms before, bool *out_more) QP_MUST_USE;

/* Both of them, the feed's when feed_before > 0; where many engines share the store, one at a time does it, and the others
 * leave it to that one (bundle_tidies). */
struct housekeeping {
    bool ours;
    bool more;      /* jobs that are over are left */
    bool feed_more; /* there is more of the feed that is too old */
};
int housekeeping_page(struct bundle *b, qp_ms feed_before, struct housekeeping *out) QP_MUST_USE;

#endif
