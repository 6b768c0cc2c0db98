/* store.h - the durable primitives: what commits together, what it compares, what a duplicate gets
 *
 * A BUNDLE is what one message commits: a list of ops, carried out in order, all or none. A COMMIT
 * is a list of bundles that share one transaction and one fsync. A bundle whose comparison fails
 * rolls back alone: its neighbours commit, and it says which op, and which digit, stopped it.
 *
 *     struct commit c;
 *     commit_init(&c, store);
 *     struct bundle *b = commit_bundle(&c, "leg2");
 *     bundle_op(b, OP_guid_enter)->guid_enter = (struct op_guid_enter){ ... };
 *     bundle_op(b, OP_sem_move)->sem_move = (struct op_sem_move){ ... };
 *     rc = store_commit(store, &c);         rc: did the transaction commit?
 *     b->rc                                 and did this bundle, in it?
 *     commit_done(&c);
 *
 * Invariants that every provider keeps:
 *   I1  A committed bundle is durable before store_submit's completion says so; a failed one left
 *       no trace.
 *   I2  Every change of a row compares that row's revision: what was read is what is replaced.
 *   I3  A digit moves only from the value that the op's guards name (ledger-protocol H1, H6, H7).
 *   I4  A semaphore moves only in the op that stores its signed delta on a GUID row, and closes
 *       once (H9, H10).
 *   I5  Journal sequence is dense per job; the feed position only grows, and a reader that has seen
 *       position p never finds a new entry below p. Where commits overlap (PostgreSQL), the entries of
 *       one job are in order by their sequence, not by their position.
 *   I6  Leases and timers are judged by the store's clock alone, which never goes back (store_now).
 *
 * Outcome: any submit may end in QP_E_UNKNOWN_OUTCOME: the commit was asked for and its answer was
 * lost. Never repeat it blindly: open the store again, read the digit, and go on from what it says
 * (H17). The handle of a file is finished then, as after QP_E_FSYNC: it refuses everything, reads too.
 * That of a server goes on: it is the line that broke, not the disk.
 *
 * If we crash before the commit, nothing of any of its bundles exists. If we crash after it, all of
 * it does. There is no third case, and so no repair at start: what is in the tables is what was
 * committed.
 *
 * Threads: a store handle belongs to one thread. Other threads open a reader of their own
 * (store_options.read_only).
 *
 * How it is built: the meaning of every op is written once, in apply_*.c, over rows in memory
 * (txn.h). A provider only loads rows by key or index, writes changed rows back, and commits
 * (provider.h). docs/adr/0002 says why.
 */
#ifndef QP_STORE_STORE_H
#define QP_STORE_STORE_H

#include "store/rows.h"

struct store;
struct txn;
struct bundle;
struct scan;

/* ----------------------------------------------------------------------------------- identities */

#define STORE_NS_DEFAULT 1

/* A job by number. Numbers come from ids_reserve and are never used twice; a person sees the job's
 * id (jid). */
struct job_ref {
    int64_t ns;
    int64_t job;
};

/* A claimed message: the fence. Every claim gets a token that was never given before, so an older
 * claim is recognised and refused. */
struct msg_ref {
    int64_t ns;
    int64_t job;
    qp_str guid;
    int64_t token;
};

/* (ledger / weight) % radix must lie in [min, max]. With weight 1e9 and radix 10 it is one digit of
 * the document; with weight 1e12 and radix 100 it is the attempt counter. A guard that does not
 * hold stops the bundle and is reported. */
struct guard {
    int64_t weight;
    int64_t radix;
    int64_t min;
    int64_t max;
};

#define GUARDS_MAX 4

/* ---------------------------------------------------------- namespaces, numbers, nodes (system) */

/* A new namespace. Duplicate: QP_E_EXISTS, out_ns is the one that is there. */
struct op_space_create {
    qp_str name;
    int64_t out_ns;
};

/* Reserves `count` numbers, for jobs, schedules and nodes; what a crash leaves unused stays
 * unused. */
struct op_ids_reserve {
    int64_t count;
    int64_t out_first;
};

/* Writes a node's row: epoch 0 enters a new run, whose number comes back; else updates lease and
 * intent of that run; ENDING: whatever is put or claimed in its name from now on is refused; LEFT or
 * DEAD: its row goes. Who ends a run where many write says ENDING first, then gives back what it holds
 * (msg_adopt), then ends it: else something that the run was just committing would be held by nobody.
 * Compares: the run has a row, and RUNNING is refused to one that is ENDING (else QP_E_STALE: it is over, or
 * never was). */
struct op_node_put {
    int64_t epoch;
    qp_str name;
    int64_t lease_ms;
    int64_t state;
    qp_str intent;
    int64_t out_epoch;
};

/* ----------------------------------------------------------------------------------------- jobs */

/* Inception: the job row, owned by `owner_guid` (H3). The semaphore is 0 and not open until
 * sem_move opens it. The number is one that was reserved and never used: that is not looked up, and
 * a used one fails the whole commit (QP_E_CONFLICT). Compares: no job with this jid, no open job of
 * this workflow with this custom id (none: not asked for). Duplicate: QP_E_EXISTS when body_hash is
 * equal, QP_E_CONFLICT when not; out_job is the job that is there, out_owner tells whether its
 * owner_guid is ours (resume) or another's (a true duplicate). `fresh`: the caller has just made the
 * jid up, as a UUID, so nobody else can have it: it is treated as the number is. */
struct op_job_create {
    struct job_ref ref;
    qp_str jid;
    int64_t kind;
    qp_str workflow;
    qp_str version;
    qp_str custom_id;
    int64_t parent_job;
    qp_str parent_addr;
    qp_str parent_guid;
    qp_str forked_from;
    qp_str owner_guid;
    qp_str body_hash;
    int64_t priority;
    qp_str limit_key;
    int64_t threshold;
    int64_t expire_ms; /* when its time is over (job_row.expire_at); 0: never */
    bool fresh;
    int64_t out_job;
    bool out_owner;
};

enum job_set_what {
    JOB_SET_STATUS = 1,
    JOB_SET_CANCELLED = 2,
    JOB_SET_PARKED = 4,
    JOB_SET_ERROR = 8,
    JOB_SET_EXPIRE = 16,
};

/* Sets what `what` names. Compares: the job is open (else QP_E_CLOSED). parked none means "not
 * parked". */
struct op_job_set {
    struct job_ref ref;
    int what;
    int64_t status;
    int64_t cancelled;
    qp_str parked;
    qp_str error;
    qp_str fingerprint;
    int64_t expire_ms; /* from now; 0: never */
};

/* Closes a job out of its turn: interrupt, failure, cancellation, expiry (H9). The GUID that does
 * it becomes closed_by and must carry the closed digit by a guid_add of the same bundle. Compares:
 * closed_by is none (else QP_E_CLOSED). */
struct op_job_close {
    struct job_ref ref;
    qp_str guid;
    int64_t state;
    qp_str error;
    qp_str fingerprint;
};

/* Completion effects, once: completions 0 -> 1, closed_at, output, when it may be deleted (keep_ms
 * 0: never). Compares: closed_by equals guid (else QP_E_CONFLICT), completions is 0 (else
 * QP_E_DONE). */
struct op_job_finish {
    struct job_ref ref;
    qp_str guid;
    qp_str output;
    int64_t keep_ms;
};

/* No new claims: messages of a paused job are set aside when a claim meets them, and born aside.
 * Duplicate: nothing. */
struct op_job_pause {
    struct job_ref ref;
};

/* Claims go on: brings back up to `limit` messages; out_more says that there are others, and the
 * caller comes again. */
struct op_job_resume {
    struct job_ref ref;
    int64_t status;
    int64_t limit;
    bool out_more;
};

/* Takes away what a closed job still waits for: messages, hooks, keys held or waited for; up to
 * `limit` rows. Keys go to their next waiters. Compares: the job is closed (else QP_E_CONFLICT). */
struct op_job_sweep {
    struct job_ref ref;
    int64_t limit;
    bool out_more;
};

/* Retention: deletes up to `limit` rows of a finished job, its own row last. Compares: completions
 * is 1 (else QP_E_CONFLICT). Duplicate, or already gone: QP_E_NOT_FOUND. */
struct op_job_delete {
    struct job_ref ref;
    int64_t limit;
    bool out_more;
};

/* Sets or (value none) removes one search attribute. Compares: the job is there. */
struct op_attr_put {
    struct job_ref ref;
    qp_str name;
    qp_str value;
};

/* -------------------------------------------------------------------------- ledgers, semaphores */

/* The activity's row, with its input. Compares: no such row (else QP_E_DONE, out_found is its
 * ledger). Journal entry. */
struct op_act_create {
    struct job_ref ref;
    qp_str addr;
    int64_t kind;
    int64_t category; /* 'A' .. 'D' */
    int64_t cyclic;
    qp_str parent_guid;
    qp_str topic;
    qp_str policy;
    qp_str input;
    int64_t ledger;
    int64_t out_found;
};

/* ledger += weight, if all guards hold. Not there: QP_E_NOT_FOUND. A guard on a single digit stops
 * with QP_E_DIGIT, one on a counter (radix > 10) with QP_E_CEILING. attempt, error: written when
 * not -1 / not none. `escalate` marks the
 * activity: after that act_add and guid_enter refuse everything on it (QP_E_DIGIT, weight 0), so an
 * activity is escalated or completed, never both (H7). */
struct op_act_add {
    struct job_ref ref;
    qp_str addr;
    int64_t weight;
    struct guard guards[GUARDS_MAX];
    int guard_count;
    int64_t attempt;
    qp_str error;
    bool escalate;
    int64_t out_ledger;
};

/* Leg2 entry (H8): the GUID's row is born with the activity's next ordinal, and the activity's
 * counter moves, in one; a GUID that is there already moves nothing. ordinal_ceiling 0 seeds
 * ordinal 0 and moves no counter (Leg1 GUIDs of categories B, C, D). Compares: the activity is
 * there and its guards hold; the count is below the ceiling. Duplicate: QP_E_DONE, out_ledger is
 * what the GUID's ledger says: resume by it. Journal entry. */
struct op_guid_enter {
    struct job_ref ref;
    qp_str addr;
    qp_str guid;
    int64_t ordinal_ceiling;
    int64_t ledger;                  /* step digits to be born with, when steps are fused */
    struct guard guards[GUARDS_MAX]; /* on the activity's ledger */
    int guard_count;
    int64_t code;
    qp_str output;
    int64_t out_ordinal;
    int64_t out_ledger;
};

/* ledger += weight on a GUID's row, if all guards hold; code and output are written when output is
 * not none. */
struct op_guid_add {
    struct job_ref ref;
    qp_str addr;
    qp_str guid;
    int64_t weight;
    struct guard guards[GUARDS_MAX];
    int guard_count;
    int64_t code;
    qp_str output;
    int64_t out_ledger;
};

/* Forgets a GUID: its delta and count fold into the activity's row, the row goes. Compares: it has
 * spawned (step 2), and it does not own the job's edge (else QP_E_CONFLICT). Duplicate:
 * QP_E_NOT_FOUND. */
struct op_guid_fold {
    struct job_ref ref;
    qp_str addr;
    qp_str guid;
};

/* A further scope (scope > 0). When its count falls to the threshold, `guid` is sent to
 * `owner_addr` on `topic`, once. Compares: no such scope (else QP_E_DONE); opening > threshold
 * (else QP_E_INVALID: it would never have an edge). */
struct op_sem_open {
    struct job_ref ref;
    int64_t scope;
    int64_t opening;
    int64_t threshold;
    qp_str owner_addr;
    qp_str guid;
    qp_str topic;
};

/* Step 2's compound primitive: the GUID's ledger += spawn_weight, n and delta stored on it, the
 * scope's count += delta; if that crosses the threshold for the first time, the scope is closed by
 * this GUID and, on scope 0, the GUID's ledger += edge_weight and the job's state becomes
 * close_state. If it does not, and `finalize` says so, the activity's ledger += final_weight,
 * compared to be 0 there (H4).
 *   edge  = before > threshold >= after, and nobody closed it before (H10)
 *   open  : the first move of scope 0, by the trigger; it also is an edge when it opens at or below
 *         the threshold
 *   scope > 0: the delta is stored in a row of its own beside the GUID's; the GUID's digits do not
 *   move
 * Compares: the guards on the GUID's ledger; count + delta >= 0 (else QP_E_UNDERFLOW); the GUID has
 * not moved this scope (else QP_E_DONE). A closed job still counts: later deltas are applied and
 * are no edge (H9); one that was closed before it was opened takes a move by nothing. */
struct op_sem_move {
    struct job_ref ref;
    qp_str addr;
    qp_str guid;
    int64_t scope;
    int64_t delta;
    int64_t n;
    bool open;
    int64_t spawn_weight;
    int64_t edge_weight;
    int64_t close_state;
    struct guard guards[GUARDS_MAX];
    int guard_count;
    bool finalize;
    int64_t final_weight;
    bool out_edge;
    int64_t out_count;
};

/* -------------------------------------------------------------------------- messages and timers */

/* A message, or with delay_ms > 0 a timer. holder > 0 or lease_ms > 0: born claimed, by that epoch
 * or for that time, with a token and one try. A message of a paused job is born aside. Compares: no
 * message of this job with this GUID (else QP_E_EXISTS; with `once`, the bundle goes on and nothing
 * is written); the holder's run is not over (else QP_E_STALE). */
struct op_msg_put {
    struct job_ref ref; /* job 0: the system's */
    qp_str guid;
    int64_t owner;
    int64_t kind;
    qp_str topic;
    qp_str addr;
    qp_str parent_guid;
    qp_str payload;
    int64_t code;
    int64_t priority;
    qp_str limit_key; /* none and empty are the same: no limit key */
    int64_t delay_ms;
    int64_t holder;
    int64_t lease_ms;
    bool once;
    int64_t out_token; /* of a message that was born claimed; else 0 */
};

/* Claims up to `want` messages of a topic: at most `max` held per limit key, keys in rotation; of
 * one key the best priority first, then the oldest. Messages of paused jobs are set aside on the
 * way, so that a claim may return fewer than are ready. Each gets a higher token and one try more.
 * lease_ms > 0 or holder > 0 (exactly one). ns 0 means any namespace. out_messages live until
 * commit_done. Compares: the holder's run is not over (else QP_E_STALE). */
struct op_msg_claim {
    int64_t ns;
    qp_str topic;
    int64_t want;
    int64_t lease_ms;
    int64_t holder;
    qp_str worker;
    const struct msg_row **out_messages;
    size_t out_count;
};

/* The four that need a claim. All compare: the message is there, HELD, and its token is ours (else
 * QP_E_STALE).
 *   fence   nothing moves (a pending completion keeps its task), but for the tries: whoever claims
 *           more than it works on takes back a try, and gives it when it begins
 *   extend  the lease ends lease_ms from now
 *   ack     the message is gone
 *   retry   READY again, or DELAYED when delay_ms > 0; error is kept on it; untry gives the try
 *           back */
struct op_msg_fence {
    struct msg_ref ref;
    int64_t tries; /* is added to its tries */
};
struct op_msg_extend {
    struct msg_ref ref;
    int64_t lease_ms;
};
struct op_msg_ack {
    struct msg_ref ref;
};
struct op_msg_retry {
    struct msg_ref ref;
    int64_t delay_ms;
    qp_str error;
    bool untry;
};

/* A dead letter: kept, claimed by nobody. Belongs into one bundle with a job_set that parks the job
 * (fsck M7). */
struct op_msg_bury {
    struct msg_ref ref;
    qp_str error;
};

/* A dead letter goes back into its stream, with its tries at 0. Compares: it is DEAD (else
 * QP_E_CONFLICT). token unused. */
struct op_msg_revive {
    struct msg_ref ref;
};

/* What a dead epoch held is READY again: its next claim gives it a higher token and try. Pages
 * through all messages by key, `limit` at a time, since an index of holders would cost every task
 * two writes and serve only after a crash: begin with `after` zeroed, then with the out_after of
 * the last page, while out_more. */
struct op_msg_adopt {
    int64_t epoch;
    struct msg_ref after; /* its token is not used */
    int64_t limit;
    int64_t out_count;
    struct msg_ref out_after;
    bool out_more;
};

/* How many messages of (topic, limit key) may be held at once; 0: any number. limit_key "*" is for
 * all keys that have no setting of their own; it reaches a key with its next message. */
struct op_lane_limit {
    int64_t ns;
    qp_str topic;
    qp_str limit_key;
    int64_t max;
};

/* ----------------------------------------------------------------------------- signals and keys */

/* Registration. Signals that wait at (topic, key) become messages to the activity in this commit,
 * the oldest first, until one ends the waiting: it and the registration both without `keep`. If
 * none does, the registration stays. out_seq identifies the waiter; out_met: at least one signal
 * came. */
struct op_hook_open {
    struct job_ref ref;
    qp_str topic;
    qp_str key;
    qp_str addr;
    qp_str parent_guid;
    qp_str msg_topic;
    bool keep;
    int64_t out_seq;
    bool out_met;
};

/* The waiter goes. Compares: it is there (else QP_E_NOT_FOUND). */
struct op_hook_close {
    int64_t ns;
    qp_str topic;
    qp_str key;
    int64_t seq;
};

/* A signal to the waiter `seq`, or with seq 0 to the one that has waited longest: it becomes a
 * message with the signal's GUID. Nobody waits: kept for ttl_ms (0: not kept, out_delivered and
 * out_kept are false). Past LIMIT_SIGNALS_PENDING_PER_KEY: QP_E_LIMIT. Duplicate GUID, pending here
 * or a message there: QP_E_EXISTS. */
struct op_hook_signal {
    int64_t ns;
    qp_str topic;
    qp_str key;
    qp_str guid;
    qp_str payload;
    int64_t code;
    int64_t ttl_ms;
    int64_t seq;
    bool keep;
    bool out_delivered;
    bool out_kept;
    struct job_ref out_job;
};

/* `units` of a key of `capacity` units, for lease_ms (0: until released or the job is swept). FIFO:
 * whoever comes while others wait, waits behind them. Not free: with `wait` a durable waiter
 * (out_token 0), whom the releasing commit sends `guid` with the token as payload; without,
 * QP_E_BUSY. Duplicate (same job, addr, guid): the token that it has, or the place that it has. */
struct op_key_acquire {
    int64_t ns;
    int64_t scope; /* 0: the namespace; else a job's number */
    qp_str name;
    int64_t capacity;
    int64_t units;
    struct job_ref holder;
    qp_str addr;
    qp_str guid;
    qp_str msg_topic;
    int64_t lease_ms;
    bool wait;
    int64_t out_token;
};

/* Compare: the token holds (else QP_E_STALE). Release wakes, in this commit, all waiters that now
 * fit. */
struct op_key_extend {
    int64_t ns;
    int64_t scope;
    qp_str name;
    int64_t token;
    int64_t lease_ms;
};
struct op_key_release {
    int64_t ns;
    int64_t scope;
    qp_str name;
    int64_t token;
};

/* Everything whose time has come by the store's clock, up to `limit` rows: timers and delayed
 * messages become READY, ended leases give their messages back, keys pass to their next waiters,
 * kept signals and idempotency records go. Each happens once: the row that says so changes in this
 * commit. out_more: come again at once. */
struct op_wake {
    int64_t limit;
    int64_t out_count;
    int64_t out_leases; /* of messages, that have ended */
    bool out_more;
};

/* ------------------------------------------------------------------------------- what else goes */

/* Named data of a job; value none deletes. */
struct op_data_put {
    struct job_ref ref;
    qp_str name;
    qp_str value;
};

/* A journal entry that has no other row. Kinds below zero are the store's own (enum event_kind):
 * job_set, job_close, job_pause and job_resume make one each, so that no visible change is without
 * its entry. */
struct op_event_add {
    struct job_ref ref;
    int64_t kind;
    qp_str addr;
    qp_str detail;
    int64_t out_seq;
};

/* Forgets the feed up to and including a position, up to `limit` commits of it; the entries' own
 * rows stay. A reader that is further behind starts again from the tables. */
struct op_feed_trim {
    int64_t upto;
    int64_t limit;
    bool out_more;
};

struct op_audit_add {
    int64_t ns;
    qp_str actor;
    qp_str action;
    qp_str target;
    qp_str outcome;
    qp_str detail;
};

/* The answer to an idempotency key. Duplicate: QP_E_EXISTS with the recorded answer when body_hash
 * is equal, else QP_E_CONFLICT. */
struct op_idem_put {
    int64_t ns;
    qp_str key;
    qp_str body_hash;
    int64_t status;
    qp_str answer;
    int64_t ttl_ms;
    int64_t out_status;
    qp_str out_answer;
};

/* A new access token. Duplicate id: QP_E_EXISTS. expire_ms: from now; 0: never. */
struct op_access_put {
    qp_str id;
    qp_str hash;
    qp_str name;
    qp_str role;
    qp_str scopes;
    qp_str spaces;
    qp_str topics;
    int64_t expire_ms;
};

/* It is revoked, or was used, now. Compares: it is there (else QP_E_NOT_FOUND). Who was revoked stays so, with
 * the first time. */
struct op_access_set {
    qp_str id;
    bool revoke;
    bool used;
};

/* A version of an application, deployed and not active. Duplicate: QP_E_EXISTS when the hash is equal, else
 * QP_E_CONFLICT: what a version means never changes. */
struct op_app_put {
    int64_t ns;
    qp_str app;
    qp_str version;
    qp_str source;
    qp_str hash;
};

/* The version is the active one from now on; out_was is the one that was, none: none was. Active already:
 * nothing happens, and out_was is itself. Compares: it is there (else QP_E_NOT_FOUND). */
struct op_app_activate {
    int64_t ns;
    qp_str app;
    qp_str version;
    qp_str out_was;
};

/* The version goes. Compares: it is there (else QP_E_NOT_FOUND), not active, and no topic leads to it (else
 * QP_E_CONFLICT). Whether jobs are on it is up to whoever asks for it. */
struct op_app_delete {
    int64_t ns;
    qp_str app;
    qp_str version;
};

/* A topic leads to this version of an application. Compares: the version is there (else QP_E_NOT_FOUND), and
 * the topic is nobody's or this application's (else QP_E_CONFLICT, out_app is whose). version none: the
 * topic leads nowhere any more; nothing happens when it is not this application's. */
struct op_topic_put {
    int64_t ns;
    int64_t kind;
    qp_str topic;
    qp_str app;
    qp_str version;
    qp_str out_app;
};

/* The host's own writes, inside the transaction, on the thread that writes; runs after the bundle's
 * other ops. `native` is the provider's connection (sqlite3 *, PGconn *), or NULL (memory). A code other than
 * QP_OK rolls the bundle back, and with it what the callback wrote, and is reported as
 * QP_E_ABORTED; so does a callback that took longer than LIMIT_HOST_CALLBACK_MS, with QP_E_TIMEOUT,
 * since everybody waits for it. */
struct op_host_call {
    int (*call)(void *context, void *native);
    void *context;
};

/* -------------------------------------------------------------------------- bundles and commits */

enum op_kind {
#define OP(name) OP_##name,
#include "store/ops.def"
#undef OP
    OP_COUNT
};

struct op {
    enum op_kind kind;
    union {
#define OP(name) struct op_##name name;
#include "store/ops.def"
#undef OP
    };
};

/* What stopped a bundle: the op, the digit (its weight; 0 when it was not a digit) and the ledger
 * that was found. */
struct stop {
    size_t op_index;
    int64_t weight;
    int64_t found;
};

struct op_chunk;

/* The ops in order: bundle_first, then bundle_next until NULL. */
struct op_place {
    struct op_chunk *chunk;
    size_t index; /* within the chunk */
};

/* Decides a bundle inside its transaction (commit_decided). */
typedef int (*bundle_decide)(void *context, struct bundle *b);

struct bundle {
    struct commit *commit;
    const char *label;      /* which protocol step it is; for messages and traces */
    struct op_chunk *first; /* the ops, in chunks: an op never moves once it was handed out */
    struct op_chunk *last;
    size_t op_count;
    size_t host_call_count;
    bundle_decide decide; /* NULL: the ops were given with the bundle */
    void *context;
    struct job_ref job; /* that it will work on, if that is known beforehand; 0: it is not */
    bool transient; /* its ops go when it has been carried out: nobody looks at what they put out */
    struct op_place taken; /* of a decided bundle: how far its ops are carried out */
    struct bundle *next;
    int rc; /* after completion; before it QP_E_BUSY */
    struct stop stop;
};

enum commit_state { COMMIT_FILLING, COMMIT_RUNNING, COMMIT_DONE };

/* Slices given to ops must live until the commit is done; outs live until commit_done. */
struct commit {
    struct store *store;
    struct arena arena;
    struct bundle *first;
    struct bundle *last;
    size_t bundle_count;
    struct op_chunk *spare; /* of decided bundles that are over */
    enum commit_state state;
    int rc; /* of the transaction; QP_OK also when all bundles failed and nothing was written */
    struct qp_err err;
    struct txn *txn;
    int write_rc;          /* the writer's finding */
    int tries;             /* how often it began anew, because others were in the way */
    int64_t ready_count;   /* after completion: no more messages than this became READY in it */
    uint64_t ready_topics; /* and the topic_bits of theirs */
    struct buf journal;    /* of a commit that is done: its entries (commit_journal) */
    qp_ms due_at; /* and the earliest time at which something that it wrote is due; 0: none */
};

void commit_init(struct commit *c, struct store *s);
void commit_done(struct commit *c);
/* Empty again, for the next round; keeps the memory. What the last round handed out is gone. */
void commit_reset(struct commit *c);
/* NULL: no memory, or LIMIT_COMMIT_BUNDLES; c->rc then says so and the commit cannot be
 * submitted. */
struct bundle *commit_bundle(struct commit *c, const char *label);
/* A bundle that is decided when its turn comes, inside the transaction. `decide` reads with
 * bundle_get, adds ops with bundle_op, carries them out with bundle_run and reads again, as often
 * as it likes: it sees what the bundles before it and its own ops have made of the rows. Another code than QP_OK
 * takes the whole bundle back, and is its rc.
 *
 * It may be called again from the start, when a row was locked by another or the provider had to
 * begin anew: so it decides by what it reads, and what it leaves outside of the bundle it sets
 * anew in every call. */
struct bundle *commit_decided(struct commit *c, const char *label, bundle_decide decide,
                              void *context);
/* The ops that were added since the last run; QP_OK, or the code that ends the bundle. */
int bundle_run(struct bundle *b) QP_MUST_USE;
/* The row as it stands now, or NULL: there is none. It lives until commit_done; the bundle's own further
 * ops may change it where it is. */
int bundle_get(struct bundle *b, enum table_id table, const void *key,
               const void **out_row) QP_MUST_USE;
/* The same for who must not wait for others, and does not mind that they may be changing it. */
int bundle_peek(struct bundle *b, enum table_id table, const void *key,
                const void **out_row) QP_MUST_USE;
/* A GUID wherever it stands; false: there is none. */
int bundle_guid(struct bundle *b, const struct guid_row *key, struct guid_row *out_guid,
                bool *out_found) QP_MUST_USE;
/* The rows of a range as they stand now. They live until commit_done. The limit is at most
 * LIMIT_BUNDLE_OPS. */
struct bundle_rows {
    const void **rows;
    size_t count;
    bool cut; /* there are more, but these are LIMIT_SCAN_SIZE bytes already: come again */
};
int bundle_scan(struct bundle *b, const struct scan *scan,
                struct bundle_rows *out_rows) QP_MUST_USE;
/* One of 64 bits: topics with different bits are different. */
uint64_t topic_bit(qp_str topic);
/* Whether this commit may do what one handle does for all, such as retention: where many share a store,
 * one at a time may, and the others leave it to that one. */
int bundle_tidies(struct bundle *b, bool *out_may) QP_MUST_USE;
/* Bytes of the rows that the bundle has made so far: LIMIT_BUNDLE_SIZE ends it. */
size_t bundle_size(const struct bundle *b);
/* The commit's time, which everything in it happens at. */
qp_ms bundle_now(const struct bundle *b);

/* A zeroed op at the end of the bundle. NULL: no memory, or LIMIT_BUNDLE_OPS; c->rc says so. b may
 * be NULL. */
struct op *bundle_op(struct bundle *b, enum op_kind kind);
struct op *bundle_first(const struct bundle *b, struct op_place *place);
struct op *bundle_next(struct op_place *place);
/* The op at an index: O(index), for tests and messages. */
struct op *bundle_op_at(const struct bundle *b, size_t index);

/* ----------------------------------------------------------------------------------- the handle */

enum store_durability { DURABILITY_FULL, DURABILITY_RELAXED };

struct store_options {
    const char *path; /* SQLite: the file; PostgreSQL: a URL, postgresql://.. NULL: memory */
    bool read_only;
    bool must_exist; /* do not create */
    bool
        moving; /* for copy.h: also a store that was moved away, or half of a copy; for writing it is
                        had alone: QP_E_LOCKED when others are at it */
    bool full_check; /* SQLite: check every page when opening */
    enum store_durability durability;
    const char *vfs;       /* SQLite: name of the VFS, NULL for the usual one */
    struct memory *memory; /* memory: share these tables (see memory.h); NULL for private ones */
    size_t cache_size;     /* bytes of rows kept between commits; 0: LIMIT_CACHE_SIZE. For tests */
    bool host_clock;       /* PostgreSQL: time is the environment's, not the server's. For tests */
};

/* Errors are sentences that name the file and the next thing to do; see docs/errors.md for the
 * list. */
int store_open(const struct qp_env *env, const struct store_options *options,
               struct store **out_store, struct qp_err *err) QP_MUST_USE;
/* Writes the clean-shutdown marker. NULL is allowed. The handle is gone in every case; the code
 * says whether it was clean. */
int store_close(struct store *s, struct qp_err *err);

/* Takes the commit. With SQLite it is done on return; with others store_step drives it until
 * c->state is COMMIT_DONE. The code is that of taking it (QP_OK unless it cannot be submitted at
 * all); the outcome is in c->rc and in each bundle. */
int store_submit(struct store *s, struct commit *c) QP_MUST_USE;
/* One op further; the writes and the commit at the end are one step. QP_E_BUSY: it waits for
 * another handle. QP_OK: look at c->state. */
int store_step(struct store *s, struct commit *c) QP_MUST_USE;
/* Submit, and step until done. Returns c->rc. QP_E_BUSY when nobody else can let it go on. */
int store_commit(struct store *s, struct commit *c);

/* The same in two parts, for who has more to decide while the disk works. With a writer, which the
 * store's owner lends it, store_write returns while another thread writes the rows and commits; the
 * next commit is decided meanwhile, on what this one will have made of the rows. So it fails when
 * this one does, with the same code. Only for providers that nobody else writes to; with others, and
 * without a writer, store_write is done on return.
 *
 *   FILLING --store_decide, as often as there are new bundles--> RUNNING --store_write--> RUNNING
 *      --store_settle--> DONE
 *
 * At most one commit is being written, and one is decided in front of it. What asks the provider for
 * something, a row that is not known or a scan, waits for the writer first; so does every other call
 * of this header. */
struct store_writer {
    void *context;
    /* Calls work(argument) on another thread. */
    void (*begin)(void *context, void (*work)(void *argument), void *argument);
    bool (*is_busy)(void *context);
    void (*wait)(void *context); /* until it is not */
};
/* NULL: there is none any more. Nothing may be in its hands. False: there is none now. */
bool store_use_writer(struct store *s, const struct store_writer *writer);
/* Carries out the bundles that were added since; those that fail are told by their rc, as ever. QP_OK, or
 * the commit has failed and is done. */
int store_decide(struct store *s, struct commit *c) QP_MUST_USE;
/* True when it has asked the provider for something: then it must be written before anything else is read. */
bool store_has_reached(const struct commit *c);
/* While there is nothing to add: a part of store_write's work, so that the writer waits less. */
void store_prepare(struct store *s, struct commit *c);
/* `elsewhere`: by the writer, if there is one. */
void store_write(struct store *s, struct commit *c, bool elsewhere);
/* Nothing of it is to happen; every bundle gets the code. */
void store_give_up(struct store *s, struct commit *c, int rc);
/* Whether the writer works; and until it does not: then the commit that it wrote is done. */
bool store_is_writing(const struct store *s);
void store_settle(struct store *s);

const struct qp_env *store_env(const struct store *s);

/* The store's clock: wall time, but it never goes back. When the wall clock falls behind it (it was
 * set back), it goes on at half speed until the wall has caught up. */
qp_ms store_now(struct store *s);

/* From begin to end all reads of a read-only handle see one state, and cost less; writers go on
 * meanwhile, but cannot make their log shorter, so it should not be long. Without effect on handles that
 * write. */
int store_snapshot_begin(struct store *s, struct qp_err *err) QP_MUST_USE;
int store_snapshot_end(struct store *s, struct qp_err *err);

/* Reads, between commits: committed state only. A row's text lives in `arena`. QP_E_NOT_FOUND when
 * there is none. */
int store_get(struct store *s, struct arena *arena, enum table_id table, const void *key,
              const void **out_row, struct qp_err *err) QP_MUST_USE;

/* Many rows of one table by their keys, without payloads (column_is_payload): at most LIMIT_PAGE_ROWS, and
 * one round trip where there is a server. out_rows[i] is that of keys[i], NULL when there is none. */
int store_get_all(struct store *s, struct arena *arena, enum table_id table,
                  const void *const *keys, size_t count, void **out_rows,
                  struct qp_err *err) QP_MUST_USE;

/* A GUID by its key, wherever it stands: on its activity's row or on one of its own. */
int store_guid(struct store *s, struct arena *arena, const struct guid_row *key,
               struct guid_row *out_guid, struct qp_err *err) QP_MUST_USE;

/* A range of a table by its key, or of an index: rows whose first `prefix_count` columns equal
 * those of `prefix`, after the row `after` (NULL: from the start) in that order, at most `limit` of
 * them. */
struct scan {
    enum table_id table;
    int index; /* enum index_id, or -1 for the key */
    const void *prefix;
    size_t prefix_count;
    const void *after;
    size_t limit;
    bool skip_locked; /* in a commit: passes over rows that another holds, instead of waiting */
    bool slim;        /* payloads are not asked for: they may come as none (column_is_payload) */
    bool backwards;   /* from the last to the first; `after` then is what they come before */
};

typedef int (*store_visit)(void *context, const void *row);
/* Stops at the first visit that does not return QP_OK, and returns that code. A row lives until its
 * visit returns. */
int store_scan(struct store *s, const struct scan *scan, void *context, store_visit visit,
               struct qp_err *err) QP_MUST_USE;

/* One journal entry of the feed. `addr` and `guid` say where its row is: an activity (guid none), a
 * GUID, an event (both none). */
struct feed_entry {
    int64_t pos;
    int64_t ns;
    int64_t job;
    int64_t seq;
    int64_t at;
    qp_str addr;
    qp_str guid;
};

typedef int (*store_feed_visit)(void *context, const struct feed_entry *entry);
/* The journal entries that a commit has made, in order, after it is done and until it is reset; their
 * positions are not told. */
void commit_journal(const struct commit *c, void *context,
                    void (*visit)(void *context, const struct feed_entry *entry));
/* The entries after a position, in order, of at most `commits` commits. What is committed later has
 * a higher position, so whoever has read up to p goes on with p and misses nothing. */
int store_feed(struct store *s, int64_t after, size_t commits, void *context,
               store_feed_visit visit, struct qp_err *err) QP_MUST_USE;

/* The earliest time at which something in the store is due (row_due_at); INT64_MAX: nothing. */
int store_due(struct store *s, qp_ms *out_at, struct qp_err *err) QP_MUST_USE;

/* Whether any of that lets an open job go on: a timer, the delay or lease of a task, the lease of a key, the time
 * of a job that has not ended. What is only kept for a while (signals, idempotency records, ended jobs) does
 * not. Looks at ended jobs whose time runs, one by one, until it finds an open one: not for every round. */
int store_due_to_jobs(struct store *s, bool *out_any, struct qp_err *err) QP_MUST_USE;

/* All tables as text, in key order: equal states print equal bytes. For tests and `quipu
 * export`. */
int store_dump(struct store *s, struct buf *out, struct qp_err *err) QP_MUST_USE;

/* Hints between the handles of a store that many share. A hint says "look again", and nothing more: it
 * may come late, twice, or not at all, so whoever waits for what others put looks by itself now and then,
 * and only sooner when it was hinted at. None of this waits for anybody, or fails.
 *
 *   fd      a descriptor to poll for reading, the same one as long as the handle is open; -1: there
 *           are no hints. When it is readable, call take. The first call begins to listen
 *   take    true when others may have put something since the last call; and once after the line for
 *           hints was made anew, since what was said meanwhile was not heard
 *   others  tells them, after a commit that left messages READY. Outside of any transaction, and not more
 *           often than every LIMIT_HINT_GAP_MS: what comes in between is told at the end of that time,
 *           by take */
int store_wake_fd(struct store *s);
bool store_wake_take(struct store *s);
void store_wake_others(struct store *s);

/* A moment between commits for housekeeping: SQLite gives free pages back and checkpoints its log
 * here. Call it when there is nothing better to do; the log is also checkpointed by itself when it
 * has LIMIT_WAL_PAGES pages. */
int store_idle(struct store *s, struct qp_err *err);

/* A copy of all that is committed, as a new file, while others may be writing: through a handle for reading.
 * The file must not be there (QP_E_EXISTS); it is whole and on disk at QP_OK, and gone otherwise.
 * QP_E_UNSUPPORTED: the store is not a file. */
int store_backup(struct store *s, const char *to, struct qp_err *err) QP_MUST_USE;

/* A person's question in SQL: one SELECT over the views v_jobs, v_activities, v_events and v_workers (docs/sql.md).
 * The visit gets the names of the columns first, as texts, then every row; what it gets lives until it
 * returns, and another code than QP_OK ends the reading. At most LIMIT_SQL_COLUMNS columns.
 *
 * Returns: QP_OK; QP_E_INVALID: SQL that is wrong, or that is not such a SELECT; QP_E_LIMIT: its time was over;
 * QP_E_TOO_LARGE; QP_E_UNSUPPORTED: the store is not a file. *out_more: there were more rows than `limit`. */
struct store_sql {
    qp_str sql;
    int64_t limit; /* rows */
    qp_ms within_ms;
};

enum cell_kind { CELL_NONE, CELL_NUMBER, CELL_REAL, CELL_TEXT, CELL_BYTES };

struct store_cell {
    enum cell_kind kind;
    int64_t number;
    double real;
    qp_str text; /* a text may be any bytes */
};

typedef int (*store_sql_visit)(void *context, const struct store_cell *cells, size_t count);
int store_sql(struct store *s, const struct store_sql *q, void *context, store_sql_visit visit,
              bool *out_more, struct qp_err *err) QP_MUST_USE;

struct store_info {
    const char *provider; /* "memory", "sqlite", "postgres" */
    int64_t schema_version;
    bool
        opened_unclean; /* the last writer did not close it; a writer's finding, false for readers */
    bool exclusive;     /* nobody else can write to it as long as this handle is open */
    bool shared;        /* other processes may be writing to it now */
    bool refusing;      /* a failed fsync, or damage: all further work is refused */
    int64_t commits;
    int64_t rows_written;
};
void store_info(const struct store *s, struct store_info *out_info);

#endif
