/* check_ledger.c - the rules about digits and semaphores: groups A, G, S, C and H of
 * check_rules.def
 *
 * What an obligation is, for S4, stands in check_work.h.
 */
#include "kernel/check_work.h"
#include "kernel/message.h"

static bool is_trigger(const struct act_row *act)
{
    return act->category == 'D';
}

static bool is_final(const struct act_row *act)
{
    return ledger_is_finalized(act->ledger);
}

static void found_act(struct check *c, const struct act_row *act, const char *what)
{
    found(c, evidence_ledger(c, act->ledger), "activity '%.*s': %s", CHECK_ECHO(act->addr), what);
}

static void found_guid(struct check *c, const struct guid_row *guid, const char *what)
{
    found(c, evidence_guid(c, guid), "a GUID of activity '%.*s': %s", CHECK_ECHO(guid->addr), what);
}

/* ----------------------------------------------------------------------------------- activities */

void rule_A1(struct check *c)
{
    EACH_ROW(c, act, act)
    {
        if (ledger_reserved(act->ledger) != 0) {
            found_act(c, act, "a digit of 5 to 7 is not 0");
        }
    }
}

void rule_A2(struct check *c)
{
    EACH_ROW(c, act, act)
    {
        bool sound = is_trigger(act)
                         ? act->ledger == LEDGER_TRIGGER
                         : ledger_is_open(act->ledger) || ledger_is_finalized(act->ledger);
        if (!sound) {
            found_act(c, act, "digit 1 is not what its category has");
        }
    }
}

void rule_A3(struct check *c)
{
    EACH_ROW(c, act, act)
    {
        if (ledger_digit(act->ledger, LEDGER_LEG1_DONE) > 1) {
            found_act(c, act, "Leg1 is complete more than once");
        }
    }
}

void rule_A4(struct check *c)
{
    EACH_ROW(c, act, act)
    {
        if (ledger_leg2_entries(act->ledger) > 0 && !ledger_leg1_is_done(act->ledger)) {
            found_act(c, act, "it has Leg2 entries, and Leg1 is not complete");
        }
    }
}

/* How many GUIDs of an activity have a ledger for which this holds. */
static int64_t count_guids(const struct check *c, qp_str addr, bool (*holds)(int64_t ledger))
{
    struct range range = guids_of(c, addr);
    int64_t count = 0;
    for (size_t i = range.from; i < range.to; i++) {
        count += holds(((const struct guid_row *)c->rows[TABLE_guid].rows[i])->ledger);
    }
    return count;
}

static bool has_ended(int64_t ledger)
{
    return guid_has_spawned(ledger) || guid_is_completed(ledger);
}

static bool has_ordinal(int64_t ledger)
{
    return guid_ordinal(ledger) > 0;
}

void rule_A5(struct check *c)
{
    EACH_ROW(c, act, act)
    {
        if (!is_trigger(act) && is_final(act) && act->folded_n == 0 &&
            count_guids(c, act->addr, has_ended) == 0) {
            found_act(c, act, "it is finalized, and no GUID of it has spawned");
        }
    }
}

void rule_A6(struct check *c)
{
    EACH_ROW(c, act, act)
    {
        if (act->cyclic != 0 && is_final(act)) {
            found_act(c, act, "it is a cycle, and finalized");
        }
    }
}

/* The highest ordinal of an activity's GUIDs, which come in its order; 0: none has one. */
static int64_t last_ordinal(const struct check *c, qp_str addr)
{
    struct range range = guids_of(c, addr);
    const struct guid_row *last =
        range.from < range.to ? c->rows[TABLE_guid].rows[range.to - 1] : NULL;
    return last == NULL ? 0 : guid_ordinal(last->ledger);
}

void rule_A7(struct check *c)
{
    EACH_ROW(c, act, act)
    {
        int64_t entries = ledger_leg2_entries(act->ledger);
        if (count_guids(c, act->addr, has_ordinal) > entries ||
            last_ordinal(c, act->addr) > entries) {
            found_act(c, act, "it has more GUIDs, or a higher ordinal, than Leg2 entries");
        }
    }
}

/* ---------------------------------------------------------------------------------------- GUIDs */

/* It ended the job by interrupt, failure or cancellation, which no step has to come before (H9). */
static bool is_out_of_turn(const struct check *c, const struct guid_row *guid)
{
    return c->job->state > JOB_COMPLETED && str_equal(c->job->closed_by, guid->guid);
}

static bool above_is_0(const struct check *c, const struct guid_row *guid)
{
    (void)c;
    return guid_reserved(guid->ledger) == 0;
}

static bool digits_are_flags(const struct check *c, const struct guid_row *guid)
{
    (void)c;
    return ledger_digit(guid->ledger, GUID_CLOSED) <= 1 &&
           ledger_digit(guid->ledger, GUID_WORK) <= 1 &&
           ledger_digit(guid->ledger, GUID_SPAWNED) <= 1 &&
           ledger_digit(guid->ledger, GUID_COMPLETED) <= 1;
}

/* `later` is set only when `earlier` is. */
static bool follows(int64_t ledger, int64_t later, int64_t earlier)
{
    return ledger_digit(ledger, later) == 0 || ledger_digit(ledger, earlier) != 0;
}

static bool spawned_after_work(const struct check *c, const struct guid_row *guid)
{
    (void)c;
    return follows(guid->ledger, GUID_SPAWNED, GUID_WORK);
}

static bool closed_after_spawn(const struct check *c, const struct guid_row *guid)
{
    return follows(guid->ledger, GUID_CLOSED, GUID_SPAWNED) || is_out_of_turn(c, guid);
}

static bool completed_after_spawn(const struct check *c, const struct guid_row *guid)
{
    return follows(guid->ledger, GUID_COMPLETED, GUID_SPAWNED) || is_out_of_turn(c, guid);
}

static bool spawn_is_audited(const struct check *c, const struct guid_row *guid)
{
    (void)c;
    return !guid_has_spawned(guid->ledger) || guid->n >= 0;
}

static bool audit_is_marked(const struct check *c, const struct guid_row *guid)
{
    (void)c;
    return guid_has_spawned(guid->ledger) || (guid->n < 0 && guid->delta == 0);
}

static void each_guid(struct check *c, bool (*holds)(const struct check *, const struct guid_row *),
                      const char *what)
{
    EACH_ROW(c, guid, guid)
    {
        if (!holds(c, guid)) {
            found_guid(c, guid, what);
        }
    }
}

void rule_G1(struct check *c)
{
    each_guid(c, above_is_0, "a digit of 1 to 3 is not 0");
}

void rule_G2(struct check *c)
{
    each_guid(c, digits_are_flags, "a step is marked more than once");
}

void rule_G3(struct check *c)
{
    each_guid(c, spawned_after_work, "it has spawned, and its work is not done");
}

void rule_G4(struct check *c)
{
    each_guid(c, closed_after_spawn, "it closed the job, and has not spawned");
}

void rule_G5(struct check *c)
{
    each_guid(c, completed_after_spawn, "it ran completion, and has not spawned");
}

void rule_G6(struct check *c)
{
    const struct guid_row *former = NULL;
    EACH_ROW(c, guid, guid) /* by address and ordinal */
    {
        int64_t ordinal = guid_ordinal(guid->ledger);
        if (former != NULL && ordinal > 0 && str_equal(former->addr, guid->addr) &&
            guid_ordinal(former->ledger) == ordinal) {
            found_guid(c, guid, "another one has the same ordinal");
        }
        former = guid;
    }
}

void rule_G7(struct check *c)
{
    each_guid(c, spawn_is_audited, "it has spawned, and does not say how many");
}

void rule_G8(struct check *c)
{
    each_guid(c, audit_is_marked, "it says what it moved, and has not spawned");
}

void rule_G9(struct check *c)
{
    size_t counted = 0;
    EACH_ROW(c, act, act)
    {
        struct range range = guids_of(c, act->addr);
        size_t on_row = str_is_none(act->guid) ? 0 : 1;
        counted += range.to - range.from;
        if (act->guid_rows < 0 || range.to - range.from != (size_t)act->guid_rows + on_row) {
            found(c,
                  evidence(c, "counted %lld, found %zu", (long long)act->guid_rows,
                           range.to - range.from - on_row),
                  "activity '%.*s': it does not count its further GUIDs", CHECK_ECHO(act->addr));
        }
    }
    if (counted < c->rows[TABLE_guid].count) {
        found(c, evidence(c, "%zu GUIDs", c->rows[TABLE_guid].count - counted),
              "GUIDs have no activity");
    }
}

/* ----------------------------------------------------------------------------------- semaphores */

/* Overflow cannot be what an op wrote: the sum then differs from every count. */
static int64_t sum_add(int64_t sum, int64_t delta)
{
    int64_t out = INT64_MIN;
    return sum != INT64_MIN && i64_add(sum, delta, &out) ? out : INT64_MIN;
}

static int order_by_scope(const void *a, const void *b)
{
    int64_t x = ((const struct move_row *)a)->scope;
    int64_t y = ((const struct move_row *)b)->scope;
    return (x > y) - (x < y);
}

/* The moves are loaded in the order of their scopes. */
static void check_scope(struct check *c, const struct sem_row *sem)
{
    const struct check_rows *moves = &c->rows[TABLE_move];
    size_t at = rows_seek(moves, &(struct move_row){.scope = sem->scope}, order_by_scope);
    int64_t sum = sem->opening;
    for (; at < moves->count; at++) {
        const struct move_row *move = moves->rows[at];
        if (move->scope != sem->scope) {
            break;
        }
        sum = sum_add(sum, move->delta);
    }
    if (sum != sem->count) {
        found(c,
              evidence(c, "count %lld, opening and moves %lld", (long long)sem->count,
                       (long long)sum),
              "scope %lld: its count is not what its GUIDs moved", (long long)sem->scope);
    }
}

void rule_S1(struct check *c)
{
    int64_t sum = 0;
    EACH_ROW(c, act, act)
    {
        sum = sum_add(sum, act->folded_delta);
    }
    EACH_ROW(c, guid, guid)
    {
        sum = sum_add(sum, guid->delta);
    }
    if (sum != c->job->sem) {
        found(c, evidence(c, "semaphore %lld, deltas %lld", (long long)c->job->sem, (long long)sum),
              "the semaphore is not the sum of what the job's GUIDs moved");
    }
    EACH_ROW(c, sem, sem)
    {
        check_scope(c, sem);
    }
}

static void found_open(struct check *c, int64_t scope, int64_t count, int64_t threshold)
{
    found(c, evidence(c, "count %lld, threshold %lld", (long long)count, (long long)threshold),
          "scope %lld is open at or below its threshold: nobody will close it", (long long)scope);
}

void rule_S2(struct check *c)
{
    const struct job_row *job = c->job;
    if (job->state == JOB_OPEN && job->opened != 0 && job->sem <= job->threshold) {
        found_open(c, 0, job->sem, job->threshold);
    }
    EACH_ROW(c, sem, sem)
    {
        if (str_is_none(sem->closed_by) && sem->count <= sem->threshold) {
            found_open(c, sem->scope, sem->count, sem->threshold);
        }
    }
}

void rule_S3(struct check *c)
{
    const struct job_row *job = c->job;
    if (job->state != JOB_OPEN && job_took_its_turn(c) && job->sem > job->threshold) {
        found(c,
              evidence(c, "semaphore %lld, threshold %lld", (long long)job->sem,
                       (long long)job->threshold),
              "the job closed by its semaphore, which is above the threshold");
    }
}

void rule_S4(struct check *c)
{
    int64_t open;
    if (!job_took_its_turn(c)) {
        return;
    }
    open = obligations_open(c);
    if (open != c->job->sem) {
        found(c,
              evidence(c, "semaphore %lld, obligations %lld", (long long)c->job->sem,
                       (long long)open),
              "the semaphore is not the number of open obligations");
    }
}

static bool has_task(const struct check *c, qp_str addr)
{
    EACH_ROW(c, msg, m)
    {
        if (m->kind == MESSAGE_TASK && str_equal(m->addr, addr)) {
            return true;
        }
    }
    return false;
}

/* One that was tried before is no timer: it is delivered again. */
static bool has_timer(const struct check *c, qp_str addr)
{
    EACH_ROW(c, msg, m)
    {
        if (m->kind == MESSAGE_ANSWER && m->state == MSG_DELAYED && m->tries == 0 &&
            str_equal(m->addr, addr)) {
            return true;
        }
    }
    return false;
}

/* A hook, a timer or a child of the activity is there. */
static bool waits_for_something(const struct check *c, qp_str addr)
{
    EACH_ROW(c, hook_wait, w)
    {
        if (str_equal(w->addr, addr)) {
            return true;
        }
    }
    EACH_ROW(c, job, child)
    {
        if (child->state == JOB_OPEN && !str_is_none(child->parent_guid) &&
            str_equal(child->parent_addr, addr)) {
            return true;
        }
    }
    return has_timer(c, addr);
}

/* What the row says of the activity's obligation, and what stands there. */
static void check_wait(struct check *c, const struct act_row *act)
{
    bool owes = act_owes(c, act);
    bool task = owes && has_task(c, act->addr);
    if (act->waits != ACT_BUSY && !owes) {
        found(c, evidence_ledger(c, act->ledger),
              "activity '%.*s' is counted as one that waits, and it owes no answer",
              CHECK_ECHO(act->addr));
    } else if (act->waits == ACT_WAITS && task) {
        found(c, evidence_ledger(c, act->ledger),
              "activity '%.*s' is counted as one that waits, and a worker has its task",
              CHECK_ECHO(act->addr));
    } else if (act->waits == ACT_BUSY && owes && !task && waits_for_something(c, act->addr)) {
        found(c, evidence_ledger(c, act->ledger),
              "activity '%.*s' waits for a time, a signal or a child, and is not counted",
              CHECK_ECHO(act->addr));
    }
}

/* Of the words that follow from counts. Other flags have others, and C2 asks whether those fit. */
static bool word_is_counted(const struct job_row *job)
{
    return job->paused == 0 && str_is_none(job->parked) && job->status <= STATUS_WAITING;
}

void rule_S5(struct check *c)
{
    const struct job_row *job = c->job;
    int64_t waits = 0;
    int64_t retries = 0;
    if (job->state != JOB_OPEN) {
        return;
    }
    EACH_ROW(c, act, act)
    {
        waits += act->waits == ACT_WAITS;
        retries += act->waits == ACT_RETRIES;
        check_wait(c, act);
    }
    waits += job->opened == 0 && job->waits == 1; /* it begins later: nothing else says so */
    if (waits != job->waits || retries != job->retries) {
        found(c,
              evidence(c, "waits %lld, retries %lld; recounted %lld, %lld", (long long)job->waits,
                       (long long)job->retries, (long long)waits, (long long)retries),
              "the job does not count what it waits for");
    } else if (word_is_counted(job) && job->status != job_word(job)) {
        found(c,
              evidence(c, "status %lld, waits %lld, retries %lld, semaphore %lld",
                       (long long)job->status, (long long)waits, (long long)retries,
                       (long long)job->sem),
              "the job's status is not what follows from what it waits for");
    }
}

/* ----------------------------------------------------------------------------------- completion */

/* GUIDs of the job that have both digits. */
static int64_t count_with(const struct check *c, int64_t first, int64_t second)
{
    int64_t count = 0;
    EACH_ROW(c, guid, guid)
    {
        count += ledger_digit(guid->ledger, first) != 0 && ledger_digit(guid->ledger, second) != 0;
    }
    return count;
}

void rule_C1(struct check *c)
{
    int64_t owners = count_with(c, GUID_CLOSED, GUID_CLOSED);
    if (owners > 1) {
        found(c, evidence(c, "%lld GUIDs", (long long)owners),
              "more than one GUID says that it closed the job");
    }
}

static bool closer_is_marked(const struct check *c)
{
    EACH_ROW(c, guid, guid)
    {
        if (str_equal(guid->guid, c->job->closed_by) && guid_owns_edge(guid->ledger)) {
            return true;
        }
    }
    return false;
}

/* The word that a person sees is one of its state. */
static bool status_fits(const struct job_row *job)
{
    static const int64_t words[JOB_STATES] = {STATUS_RUNNING, STATUS_COMPLETED, STATUS_FAILED,
                                              STATUS_CANCELLED, STATUS_INTERRUPTED};
    return job->state == JOB_OPEN ? job->status <= STATUS_PAUSED : job->status == words[job->state];
}

void rule_C2(struct check *c)
{
    const struct job_row *job = c->job;
    const char *what =
        evidence(c, "state %lld, status %lld", (long long)job->state, (long long)job->status);
    if (job->state < JOB_OPEN || job->state >= JOB_STATES || !status_fits(job)) {
        found(c, what, "the job's state and its status contradict each other");
    } else if ((job->state == JOB_OPEN) != str_is_none(job->closed_by)) {
        found(c, what, "the job is open and closed, or closed by nobody");
    } else if (job->state != JOB_OPEN && !closer_is_marked(c)) {
        found(c, what, "the GUID that closed the job does not carry the closed digit");
    }
}

void rule_C3(struct check *c)
{
    int64_t markers = count_with(c, GUID_COMPLETED, GUID_CLOSED);
    if (markers != c->job->completions) {
        found(c,
              evidence(c, "completions %lld, marked %lld", (long long)c->job->completions,
                       (long long)markers),
              "completion effects and the GUIDs that say so differ");
    }
}

/* A trigger that closes its job may still be a message of the system's. */
static bool closer_will_come(struct check *c)
{
    struct msg_row key = {.ns = c->job->ns, .guid = c->job->closed_by};
    return check_message(c, c->job->closed_by) != NULL ||
           (!str_is_none(key.guid) && check_get(c, TABLE_msg, &key) != NULL);
}

void rule_C4(struct check *c)
{
    if (c->job->state != JOB_OPEN && c->job->completions == 0 && !closer_will_come(c)) {
        found(c, evidence(c, "state %lld", (long long)c->job->state),
              "the job is closed, completion has not run, and no message will run it");
    }
}

/* -------------------------------------------------------------------------------------- history */

static int order_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Every number is there once; folded GUIDs have taken theirs along. */
static bool journal_is_dense(const struct check_rows *seqs, int64_t folded, int64_t last)
{
    int64_t former = 0;
    for (size_t i = 0; i < seqs->count; i++) {
        int64_t seq = *(const int64_t *)seqs->rows[i];
        if (seq <= former || seq > last) {
            return false;
        }
        former = seq;
    }
    return (int64_t)seqs->count + folded == last;
}

void rule_H1(struct check *c)
{
    struct check_rows seqs = {0};
    int64_t folded = 0;
    EACH_ROW(c, act, act)
    {
        folded = sum_add(folded, act->folded_n);
        rows_push(c, &seqs, &act->seq);
    }
    EACH_ROW(c, guid, guid)
    {
        if (guid->seq != 0 || guid->n >= 0) { /* one that has not spawned may have none */
            rows_push(c, &seqs, &guid->seq);
        }
    }
    EACH_ROW(c, event, event)
    {
        rows_push(c, &seqs, &event->seq);
    }
    rows_sort(&seqs, order_numbers);
    if (!journal_is_dense(&seqs, folded, c->job->seq)) {
        found(c,
              evidence(c, "last %lld, entries %zu, folded %lld", (long long)c->job->seq, seqs.count,
                       (long long)folded),
              "the journal has a gap, or a number twice");
    }
}
