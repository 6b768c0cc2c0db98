/* ops.h - what a bundle can do: one struct per op
 *
 * An op has what it needs, what it compares (guards, tokens, revisions), and, with names that begin
 * with out_, what it found. A comment says what a duplicate gets. What the ops mean is written in
 * apply_*.c, once for all providers; ops.def is the list of their names.
 */
#ifndef QP_STORE_OPS_H
#define QP_STORE_OPS_H

#include "store/rows.h"
#include "store/time_limits.h"

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
    qp_str serving; /* of one that is RUNNING; none: as it was */
    int64_t out_epoch;
};

/* ----------------------------------------------------------------------------------------- jobs */

/* Inception: the job row, owned by `owner_guid` (H3). The semaphore is 0 and not open until
 * sem_move opens it. The number is one that was reserved and never used: that is not looked up, and
 * a used one fails the whole commit (QP_E_CONFLICT). Compares: no job with this jid, no open job of
 * this workflow with this custom id (none: not asked for). Duplicate: QP_E_EXISTS when body_hash is
 * equal, QP_E_CONFLICT when not; out_job is the job that is there, out_owner tells whether its
 * owner_guid is ours (resume) or another's (a true duplicate). `fresh`: the caller has just made the
 * jid up, as a UUID, so nobody else can have it: it is treated as the number is. With a `close` other than ABANDON the
 * parent counts it (job_row.calls): compares that the parent is there and open, else QP_E_NOT_FOUND, QP_E_CLOSED. */
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
    enum close_policy close;
    qp_str forked_from;
    qp_str owner_guid;
    qp_str body_hash;
    int64_t priority;
    qp_str limit_key;
    int64_t threshold;
    int64_t expire_ms; /* when its time is over (job_row.expire_at); 0: never */
    bool fresh;
    bool later; /* a message begins it at its time: until then it waits */
    int64_t out_job;
    bool out_owner;
};

enum job_set_what {
    JOB_SET_CANCELLED = 1,
    JOB_SET_PARKED = 2,
    JOB_SET_ERROR = 4,
    JOB_SET_EXPIRE = 8,
};

/* Sets what `what` names; its status follows (job_word). Compares: the job is open (else QP_E_CLOSED). parked none
 * means "not parked". Journal entry: the job was set, or, with CANCELLED, it was asked to end, for `reason`. */
struct op_job_set {
    struct job_ref ref;
    int what;
    int64_t cancelled;
    qp_str reason;
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

/* No new claims: messages of a paused job are set aside when a claim meets them, and born aside; with
 * `tasks` those alone that are not in the stream of engines. Duplicate: nothing. */
struct op_job_pause {
    struct job_ref ref;
    bool tasks;
};

/* Claims go on: brings back up to `limit` messages; out_more says that there are others, and the
 * caller comes again. */
struct op_job_resume {
    struct job_ref ref;
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
 * ledger). Journal entry. `waits` is ACT_WAITS for a row that waits from its birth, which the job counts; else
 * ACT_BUSY. Here and in act_add and act_notify: an activity of a job that is not open yet cannot wait (QP_E_INVALID), since
 * the count of such a job is about its beginning. */
struct op_act_create {
    struct job_ref ref;
    qp_str addr;
    int64_t kind;
    int64_t category; /* 'A' .. 'D' */
    int64_t cyclic;
    int64_t version; /* of an event of a flow; 0: it is none */
    qp_str parent_guid;
    qp_str topic;
    qp_str policy;
    qp_str input;
    int64_t ledger;
    enum act_wait waits;
    qp_ms at; /* of one that is copied: when it was entered; 0: now */
    int64_t out_found;
};

/* ledger += weight, if all guards hold. Not there: QP_E_NOT_FOUND. A guard on a single digit stops
 * with QP_E_DIGIT, one on a counter (radix > 10) with QP_E_CEILING. attempt, error: written when
 * not -1 / not none. `waits`, when it is not ACT_BUSY: what its obligation is about from now on; the job counts it. `works`:
 * it waits no more, since something works on it.
 * `escalate` marks the activity: after that act_add and guid_enter refuse everything on it (QP_E_DIGIT, weight 0), so an
 * activity is escalated or completed, never both (H7). */
struct op_act_add {
    struct job_ref ref;
    qp_str addr;
    int64_t weight;
    struct guard guards[GUARDS_MAX];
    int guard_count;
    int64_t attempt;
    qp_str error;
    enum act_wait waits;
    bool works;
    bool escalate;
    int64_t out_ledger;
};

/* Of an activity that decides (a flow's): something that it can see has happened, or it has decided and rests. It has
 * one decision out, or it waits for the next notification; only the op that changes the one into the other says so
 * (out_task), and its caller puts the decision's task in the same bundle.
 *
 *   rests false  base becomes the job's last journal sequence. It waits, and the notification is urgent or the last that it
 *                waits for (`after`): it is busy, out_task. It waits for others still: one less. A decision is out: nothing more
 *   rests true   it has decided on all up to `seen`. If base is behind that, or it is urgent, it stays busy, out_task; so a
 *                notification that came meanwhile is never waited for again. Else it waits for `after` notifications, 0 being 1
 *
 * The caller gives `after` no larger than the number of works that are open: the op does not know them. Compares: the row is
 * there (else QP_E_NOT_FOUND) and cyclic, `after` and `seen` are not negative (else QP_E_INVALID). On a closed job, and on
 * an activity that was escalated, nothing happens. No journal entry. */
struct op_act_notify {
    struct job_ref ref;
    qp_str addr;
    bool rests;
    int64_t seen;
    int64_t after;
    bool urgent;
    bool out_task;
};

/* Leg2 entry (H8): the GUID's row is born with the activity's next ordinal, and the activity's
 * counter moves, in one; a GUID that is there already moves nothing. ordinal_ceiling 0 seeds
 * ordinal 0 and moves no counter (Leg1 GUIDs of categories B, C, D). Compares: the activity is
 * there and its guards hold; the count is below the ceiling. Duplicate: QP_E_DONE, out_ledger is
 * what the GUID's ledger says: resume by it. Its journal entry comes with step 2: until then it has
 * brought nothing, and may never do. */
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
    qp_ms at; /* of one that is copied: when it came; 0: now */
    int64_t out_ordinal;
    int64_t out_ledger;
};

/* ledger += weight on a GUID's row, if all guards hold; code and output are written when output is
 * not none. `journal`: the GUID's journal entry is made here, if it has none yet: step 2 follows in the same
 * bundle, behind an entry that is to come later. */
struct op_guid_add {
    struct job_ref ref;
    qp_str addr;
    qp_str guid;
    int64_t weight;
    struct guard guards[GUARDS_MAX];
    int guard_count;
    int64_t code;
    qp_str output;
    bool journal;
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
 * compared to be 0 there (H4). On scope 0 an activity that was tried again is so no more, one that waited waits no more if
 * the move takes its obligation (n - delta > 0), and a job that was to begin later has begun (open).
 *   edge  = before > threshold >= after, and nobody closed it before (H10)
 *   open  : the first move of scope 0, by the trigger; it also is an edge when it opens at or below
 *         the threshold
 *   scope > 0: the delta is stored in a row of its own beside the GUID's; the GUID's digits do not
 *   move
 * Compares: the guards on the GUID's ledger; count + delta >= 0 (else QP_E_UNDERFLOW); the GUID has
 * not moved this scope (else QP_E_DONE). A closed job still counts: later deltas are applied and
 * are no edge (H9); one that was closed before it was opened takes a move by nothing. On scope 0: journal
 * entry of the GUID. */
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
 * is written); the holder's run is not over (else QP_E_STALE).
 *
 * With by.token > 0: put by the commit that claims another message of this job, or in which that one is born claimed. The job's row
 * is not read, locked or changed, so that a claim waits for no job; that the job is there, and that no other commit puts the same
 * GUID, follows from the claim. Compares: `by` is HELD with this token (else QP_E_STALE), it is of this job and the message of no
 * schedule or system (else QP_E_INVALID). A job that closes meanwhile sweeps the new message with the claimed one, since it must
 * compare that one's revision; one that is delivered to a closed job all the same is late. */
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
    qp_str limits;    /* time limits of a task (time_limits.h); none: it has none */
    int64_t delay_ms;
    int64_t holder;
    int64_t lease_ms;
    qp_str worker; /* of a message that is born claimed; none: it has no name */
    bool once;
    struct msg_ref by;
    int64_t
        out_token; /* of a message that was born claimed; else 0: its lane is full, or its job paused */
    int64_t
        out_until; /* likewise: when its lease, or the first of its time limits, is over; 0: never */
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
    bool out_more; /* fewer than wanted came, and another claim may find more all the same */
};

/* The four that need a claim. All compare: the message is there, HELD, and its token is ours (else
 * QP_E_STALE).
 *   fence   nothing moves (a pending completion keeps its task), but for the tries: whoever claims
 *           more than it works on takes back a try, and gives it when it begins; and the name of the
 *           worker, where it is known after the claim only
 *   extend  the lease ends lease_ms from now; of a message that has a beat limit, that limit begins again instead. A
 *           message that a run holds has no lease: if it has time limits, lease_ms may be 0. The end of the attempt stays where it is, unless
 *           begun_at says that the attempt began later than its claim. QP_E_STALE too when the attempt's time is over. With
 *           `leases` a message that a run holds is held by this lease from now on, whatever becomes of the run
 *   ack     the message is gone
 *   retry   READY again, or DELAYED when delay_ms > 0; error is kept on it; untry gives the try
 *           back */
struct op_msg_fence {
    struct msg_ref ref;
    int64_t tries; /* is added to its tries */
    qp_str worker; /* that has it now; none: it stays as it is */
};
struct op_msg_extend {
    struct msg_ref ref;
    int64_t lease_ms;
    int64_t begun_at; /* 0: nothing new; at most now */
    bool leases;      /* needs lease_ms */
    int64_t out_until;
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
struct op_msg_dead_letter {
    struct msg_ref ref;
    qp_str error;
};

/* A dead letter goes back into its stream, with its tries at 0. Compares: it is DEAD (else
 * QP_E_CONFLICT). token unused. */
struct op_msg_revive {
    struct msg_ref ref;
};

/* Takes back a message that is not claimed: one that is READY, DELAYED or ASIDE goes, and out_gone says so. One that is HELD
 * or DEAD stays. Where there is no such message, nothing happens. Compares: the GUID is one (else QP_E_INVALID). token unused. */
struct op_msg_withdraw {
    struct msg_ref ref;
    bool out_gone;
};

/* What a dead epoch held is READY again: its next claim gives it a higher token and try. Pages
 * through all messages by key, `limit` at a time, since an index of holders would cost every task
 * two writes and serve only after a crash: begin with `after` zeroed, then with the out_after of
 * the last page, while out_more. */
struct op_msg_adopt {
    int64_t epoch;
    int64_t lost_kind;    /* as op_wake's */
    struct msg_ref after; /* its token is not used */
    int64_t limit;
    int64_t out_count;
    struct msg_ref out_after;
    bool out_more;
};

/* How many messages of (topic, limit key) may be held at once; 0: any number. limit_key "*" is for
 * all keys that have no setting of their own; it reaches a key with its next message or claim. With `forget` the
 * setting goes, and the key follows that for all keys again; max is not used. QP_E_NOT_FOUND: it had none. */
struct op_lane_limit {
    int64_t ns;
    qp_str topic;
    qp_str limit_key;
    int64_t max;
    bool forget;
};

/* ----------------------------------------------------------------------------- signals and keys */

/* Registration. Signals that wait at (topic, key) become messages to the activity in this commit,
 * the oldest first, until one ends the waiting: it and the registration both without `keep`. If
 * none does, the registration stays. A job that was forked from another, and those that it calls, do not
 * get what was kept before it was started. out_seq identifies the waiter; out_met: at least one signal
 * came.
 *
 * With names the activity listens for signals to its job (op_hook_signal.to): one registration per name, at the topic
 * `names[i]`, which begins with SIGNAL_NAME_MARK, and the key, which is the job's id. One message ends the waiting, and with it all
 * registrations of the activity go. Kept signals come first: the oldest of all names, up to `limit` of them (1 to
 * LIMIT_LISTEN_SIGNALS) and LIMIT_LISTEN_SIZE, become one message, and no registration is made. Its payload is
 * [{"name":..,"at":ms,"data":..}], also for one signal, and its code is 200. `topic` and `keep` are not used. More than
 * LIMIT_LISTEN_NAMES, or a name twice: QP_E_INVALID. */
struct op_hook_open {
    struct job_ref ref;
    qp_str topic;
    qp_str key;
    qp_str addr;
    qp_str parent_guid;
    qp_str msg_topic;
    bool keep;
    const qp_str *names;
    size_t name_count;
    int64_t limit;
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
 * message, whose GUID is of this delivery alone. None waits: kept for ttl_ms (0: not kept, out_delivered
 * and out_kept are false). Past LIMIT_SIGNALS_PENDING_PER_KEY: QP_E_LIMIT. With has_id the GUID stands for
 * (topic, key, id) and is remembered when it is delivered, as long as the job that got it is open, and
 * LIMIT_IDEM_MS more. Duplicate GUID, pending here, remembered, or on its way to this waiter: QP_E_EXISTS (with `once`, the bundle goes on
 * and nothing is sent); out_repeats, and what became of the first: out_delivered or out_kept.
 *
 * `to` (job 0: none): the signal is for this job, and reaches the activity of it that listens for the topic, which begins
 * with SIGNAL_NAME_MARK; the key is the job's id (else QP_E_INVALID). None listens: it is kept as long as the job is open; ttl_ms, seq, code and keep are not used, and
 * without an id no duplicate is looked for. Compares: the job is there (else QP_E_NOT_FOUND) and open (else QP_E_CLOSED);
 * with this signal no more than LIMIT_SIGNALS_KEPT_PER_JOB and LIMIT_SIGNALS_KEPT_SIZE are kept for it (else QP_E_LIMIT).
 * With `once` these codes do not end the bundle: out_refused has the code, and nothing is sent. */
struct op_hook_signal {
    int64_t ns;
    struct job_ref to;
    qp_str topic;
    qp_str key;
    qp_str guid;
    qp_str payload;
    int64_t code;
    int64_t ttl_ms;
    int64_t seq;
    bool keep;
    bool has_id;
    bool once;
    bool out_delivered;
    bool out_kept;
    bool out_repeats;
    int out_refused;
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
 * fit.
 *
 * With `all` nobody needs the key any more, since what it guarded is done: up to `limit` waiters, of every job and in the
 * order in which they came, leave the queue without becoming holders; each gets its message, without a payload, in this
 * commit. The hold goes with the last of them. out_more: there are others, and the caller comes again with the same token;
 * until then the key is held, so that a new asker waits. out_lost: the token does not hold, because a lease ended or the
 * key went on: nothing happens, and that is no error. */
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
    bool all;
    int64_t limit; /* of `all`: from 1 */
    bool out_lost;
    bool out_more;
};

/* Everything whose time has come by the store's clock, up to `limit` rows: timers and delayed
 * messages become READY, ended leases give their messages back, keys pass to their next waiters,
 * kept signals and idempotency records go. Each happens once: the row that says so changes in this
 * commit. A message of the kind `lost_kind` (0: none) that an ended lease gives back leaves a journal entry, EVENT_LOST,
 * while its job is open. out_more: come again at once.
 *
 * lost_ms > 0: a message whose lease ended at lost_from or later is not given back. Its lease is lost_ms from now, with the
 * same token, and who asked settles it. Time limits of tasks (time_limits.h) likewise: `beat` as a lease; `run` whenever it
 * ended; a READY message whose start limit is over is claimed for the caller, with a try and DEADLINE_UNSTARTED, whatever its
 * lane allows. With lost_ms 0 such a message is READY from now on. out_lost are all messages whose leases or limits have
 * ended, HELD or given back; they live until the commit is reset. */
struct lost_message {
    const struct msg_row *message;
    enum time_limit limit; /* that is over; TIME_LIMIT_NONE: its lease */
};
struct op_wake {
    int64_t limit;
    int64_t lost_kind;
    int64_t lost_from;
    int64_t lost_ms;
    int64_t out_count;
    int64_t out_leases; /* of messages, that have ended, and limits */
    struct lost_message *out_lost;
    bool out_more;
};

/* ------------------------------------------------------------------------------- what else goes */

/* Named data of a job; value none deletes. */
struct op_data_put {
    struct job_ref ref;
    qp_str name;
    qp_str value;
};

/* A journal entry that has no other row; the status that the job has now is kept with it (event.h). Kinds below
 * zero are the store's own (enum event_kind): job_set, job_close, job_pause and job_resume make one each, so that
 * no visible change is without its entry. */
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
 * QP_E_CONFLICT: what a version means never changes. One that was deleted and not collected yet is deployed again. */
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

/* The version is hidden: as if it were not there, but for jobs that began with it. Compares: it is there and not
 * deleted (else QP_E_NOT_FOUND), not active, and no topic leads to it (else QP_E_CONFLICT). */
struct op_app_delete {
    int64_t ns;
    qp_str app;
    qp_str version;
    qp_ms out_at; /* the commit's time, which app_collect compares */
};

/* The row of a deleted version goes. Compares: it is there (else QP_E_NOT_FOUND), and it was deleted at that time
 * (else QP_E_CONFLICT). Whether a job needs it is up to the caller. */
struct op_app_collect {
    int64_t ns;
    qp_str app;
    qp_str version;
    qp_ms at;
};

/* A topic leads to this version of an application. Compares: the version is there (else QP_E_NOT_FOUND), and
 * the topic is free or this application's (else QP_E_CONFLICT, out_app is whose). version none: the
 * topic leads nowhere any more; nothing happens when it is not this application's.
 *
 * Kind FLOW: the topic is the name of a flow from now on; app and version are not used. A name that starts jobs is a
 * graph's or a flow's: START and FLOW of one topic refuse each other (QP_E_CONFLICT, out_app as above; of a flow its
 * name). Duplicate: nothing happens. */
struct op_topic_put {
    int64_t ns;
    int64_t kind;
    qp_str topic;
    qp_str app;
    qp_str version;
    qp_str out_app;
};

/* The universe of this type and name, for an import: found, or made. `grows`: it never becomes current, and takes facts as
 * long as it is there. Compares: it is not being dropped, and it grows or fills as the caller says (else QP_E_CONFLICT).
 * Duplicate: out_universe and out_state are those of the one that is there: an import that was cut off goes on, one that
 * is through finds it CURRENT or FORMER. */
struct op_universe_open {
    int64_t ns;
    qp_str type;
    qp_str name;
    bool grows;
    int64_t out_universe;
    int64_t out_state;
};

/* A fact, until ttl_ms from now (0: without end); it replaces the one of this kind and name. Compares: the universe is
 * there (else QP_E_NOT_FOUND), and fills or grows (else QP_E_CONFLICT). Many make a page of an import: one bundle. */
struct op_fact_put {
    int64_t ns;
    int64_t universe;
    int64_t fact_kind;
    qp_str name;
    qp_str value;
    int64_t ttl_ms;
};

/* The universe is the current one of its type from now on; out_was is the one that was, 0: none was. Current already:
 * out_was is itself. Compares: it is there (else QP_E_NOT_FOUND), fills, is current or was, and has this many facts (else
 * QP_E_CONFLICT: the import is not whole). */
struct op_universe_seal {
    int64_t ns;
    int64_t universe;
    int64_t facts;
    int64_t out_was;
};

/* The universe is the current one of its type no more, and none is. One that was replaced stays as it is. Compares: it is there
 * (else QP_E_NOT_FOUND), and was current at some time (else QP_E_CONFLICT). */
struct op_universe_retire {
    int64_t ns;
    int64_t universe;
};

/* Up to `limit` facts of a universe go, and with the last its row. From the first page on nothing can be put into it.
 * Compares: it is there (else QP_E_NOT_FOUND), and not current (else QP_E_CONFLICT). Whether a job needs it is up to the
 * caller. out_more: come again. */
struct op_universe_drop {
    int64_t ns;
    int64_t universe;
    int64_t limit; /* 1 to LIMIT_BUNDLE_OPS */
    bool out_more;
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

/* ------------------------------------------------------------------------------------ any of them */

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

#endif
