/* record.c - what clients were told, held against what came of it (see record.h) */
#include "e2e/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/httpclient.h"

#define PRINTED_MOST 20 /* violations that are printed; all are counted */

int record_output(int input)
{
    return input * 7 + 3;
}

static void violation(struct verdict *v, const char *rule, const char *id, const char *what,
                      const char *found)
{
    if (++v->violations <= PRINTED_MOST) {
        (void)printf("%s: job '%s': %s: %.400s\n", rule, id, what,
                     found == NULL ? "nothing" : found);
    }
}

/* A node may have no reader free for a moment: the question is harmless, so it is asked again. */
static struct hc_answer look(const struct record *r, const char *path)
{
    for (int i = 0;; i++) {
        struct hc_answer a =
            hc_call(r->nodes->node[i % r->nodes->count].port, NULL, "GET", path, NULL);
        if (a.status == 200 || a.status == 404 || i == 50) {
            return a;
        }
        hc_done(&a);
        nap_ms(100);
    }
}

/* R1, R2: the job is there and completed; false: it is not, which is counted. */
static bool completed(const struct hc_answer *a, const char *id, struct verdict *v)
{
    char *status;
    if (a->status != 200) {
        violation(v, "R1", id, "its start was acknowledged, but it is not there", a->body);
        v->lost++;
        return false;
    }
    status = hc_member(a, "status");
    if (status == NULL || strcmp(status, "completed") != 0) {
        violation(v, "R2", id, "it was acknowledged and has not completed", a->body);
        free(status);
        return false;
    }
    free(status);
    return true;
}

static void expect_number(const struct hc_answer *a, const char *id, const char *member, int wanted,
                          struct verdict *v)
{
    char *found = hc_member(a, member);
    if (found == NULL || strtol(found, NULL, 10) != wanted) {
        violation(v, "R2", id, member, a->body);
    }
    free(found);
}

static void check_calls(const struct record *r, const char *id, int calls, struct verdict *v)
{
    if (calls < 1 || calls > 1 + atomic_load(&r->faults)) {
        char text[48];
        (void)snprintf(text, sizeof text, "%d calls, %d faults", calls, atomic_load(&r->faults));
        violation(v, "R5", id, "calls of workers", text);
    }
}

static void check_plain(const struct record *r, int i, struct verdict *v)
{
    char id[24];
    char path[64];
    struct hc_answer a;
    (void)snprintf(id, sizeof id, "p%d", i);
    (void)snprintf(path, sizeof path, "/v1/jobs/%s", id);
    a = look(r, path);
    if (completed(&a, id, v)) {
        expect_number(&a, id, "output", record_output(i), v);
        check_calls(r, id, atomic_load(&r->plain_calls[i]), v);
    }
    hc_done(&a);
}

/* R3: the two marks are those of its two signals, in order. */
static void check_marks(const struct hc_answer *a, const char *id, int i, struct verdict *v)
{
    static const char *const members[2] = {"output.first", "output.second"};
    for (int k = 0; k < 2; k++) {
        char wanted[24];
        char *found = hc_member(a, members[k]);
        (void)snprintf(wanted, sizeof wanted, "%c%d", 'a' + k, i);
        if (found == NULL || strcmp(found, wanted) != 0) {
            violation(v, "R3", id, members[k], a->body);
        }
        free(found);
    }
}

/* R4. */
static void check_version(const struct record *r, const struct hc_answer *a, const char *id,
                          int least, struct verdict *v)
{
    char *found = hc_member(a, "output.version");
    long version = found == NULL ? -1 : strtol(found, NULL, 10);
    if (version < least || version > atomic_load(&r->deploying)) {
        char text[96];
        (void)snprintf(text, sizeof text, "it ran version %ld, and %d was active before", version,
                       least);
        violation(v, "R4", id, "its version", text);
    }
    free(found);
}

static void check_order(const struct record *r, int i, struct verdict *v)
{
    const struct order *o = &r->orders[i];
    char id[24];
    char path[64];
    struct hc_answer a;
    (void)snprintf(id, sizeof id, "g%d", i);
    (void)snprintf(path, sizeof path, "/v1/jobs/%s", id);
    a = look(r, path);
    if (completed(&a, id, v)) {
        expect_number(&a, id, "output.done", record_output(i), v);
        check_marks(&a, id, i, v);
        check_version(r, &a, id, o->version, v);
        check_calls(r, id, atomic_load(&r->order_calls[i]), v);
    }
    hc_done(&a);
}

/* R1: how many jobs there are, by id. Every id of ours is counted once at most by its key; what must not be there is a
 * job that no client has asked for. */
static void check_number(const struct record *r, struct verdict *v)
{
    struct hc_answer a = look(r, "/v1/jobs?limit=1&count=exact");
    char *found = hc_member(&a, "count");
    long jobs = found == NULL ? -1 : strtol(found, NULL, 10);
    int asked = atomic_load(&r->plain_count) + atomic_load(&r->order_count);
    int acked = 0;
    for (int i = 0; i < atomic_load(&r->plain_count); i++) {
        acked += atomic_load(&r->plain_started[i]);
    }
    for (int i = 0; i < atomic_load(&r->order_count); i++) {
        acked += r->orders[i].started;
    }
    if (jobs < acked || jobs > asked) {
        char text[400];
        (void)snprintf(text, sizeof text, "%ld jobs, %d acknowledged, %d asked for; %d %.300s",
                       jobs, acked, asked, a.status, a.body == NULL ? "" : a.body);
        violation(v, "R1", "*", "the number of jobs", text);
    }
    free(found);
    hc_done(&a);
}

struct verdict record_check(struct record *r)
{
    struct verdict v = {0};
    int orders = 0;
    for (int i = 0; i < atomic_load(&r->plain_count); i++) {
        if (atomic_load(&r->plain_started[i])) {
            check_plain(r, i, &v);
        }
    }
    for (int i = 0; i < atomic_load(&r->order_count); i++) {
        if (r->orders[i].started && r->orders[i].sent[0] && r->orders[i].sent[1]) {
            check_order(r, i, &v);
            orders++;
        }
    }
    check_number(r, &v);
    if (atomic_load(&r->refused) > 0) {
        violation(&v, "R6", "*", "answers that must not be", "see above");
    }
    (void)printf(
        "%d plain jobs, %d orders with two signals each, %d signals sent again, versions up "
        "to %d, %d faults: %d violations\n",
        atomic_load(&r->plain_count), orders, atomic_load(&r->resent), atomic_load(&r->activated),
        atomic_load(&r->faults), v.violations);
    return v;
}
