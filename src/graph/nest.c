/* nest.c - the activities of a job, nested (see nest.h)
 *
 * Rows come in the order of their addresses. They are kept without what they carry, found by address, and hung into the one
 * above, whose address follows from their own; siblings stand in the order in which they began.
 */
#include "graph/nest.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/omap.h"
#include "base/time.h"
#include "base/uuid.h"
#include "graph/draw.h"
#include "kernel/ledger.h"
#include "kernel/step.h"

struct answer {
    struct answer *next;
    struct guid_row guid; /* without its output */
};

struct nested {
    struct nested *next;  /* sibling */
    struct nested *first; /* child */
    struct nested *last;
    const struct activity *activity;
    struct act_row act; /* without what it carries */
    struct answer *answers;
    struct answer *last_answer;
    int64_t plane; /* of the one above */
    bool live;
    char first_in; /* of a gate: the first letter of its input */
};

struct nesting {
    struct arena *arena;
    const struct graph *graph;
    const struct job_row *job;
    struct omap by_address;
    struct nested **all;
    size_t count;
    size_t room;
    struct json_writer *w;
};

/* -------------------------------------------------------------------------------------------- reading */

static int grow(struct nesting *n)
{
    size_t room = n->room == 0 ? 64 : 2 * n->room;
    struct nested **more = arena_alloc(n->arena, room * sizeof(struct nested *));
    if (more == NULL) {
        return QP_E_NOMEM;
    }
    if (n->count > 0) {
        memcpy(more, n->all, n->count * sizeof(struct nested *));
    }
    n->all = more;
    n->room = room;
    return QP_OK;
}

static int add_answer(struct nesting *n, struct nested *x, const struct guid_row *guid)
{
    struct answer *answer = ARENA_NEW(n->arena, struct answer);
    if (answer == NULL || !arena_copy(n->arena, guid->guid, &answer->guid.guid)) {
        return QP_E_NOMEM;
    }
    answer->guid = (struct guid_row){.guid = answer->guid.guid,
                                     .ledger = guid->ledger,
                                     .n = guid->n,
                                     .delta = guid->delta,
                                     .code = guid->code,
                                     .at = guid->at,
                                     .seq = guid->seq};
    if (x->last_answer == NULL) {
        x->answers = answer;
    } else {
        x->last_answer->next = answer;
    }
    x->last_answer = answer;
    return QP_OK;
}

static int see_act(void *context, const void *row)
{
    struct nesting *n = context;
    const struct act_row *act = row;
    const struct activity *activity = view_activity(n->graph, act->addr);
    struct nested *x;
    struct guid_row guid;
    int rc = n->count == n->room ? grow(n) : QP_OK;
    if (rc != QP_OK || activity == NULL) {
        return rc;
    }
    x = ARENA_NEW(n->arena, struct nested);
    if (x == NULL || !arena_copy(n->arena, act->addr, &x->act.addr)) {
        return QP_E_NOMEM;
    }
    x->activity = activity;
    x->first_in = act->input.n > 0 ? act->input.p[0] : '\0';
    x->act = (struct act_row){.addr = x->act.addr,
                              .kind = act->kind,
                              .category = act->category,
                              .ledger = act->ledger,
                              .at = act->at,
                              .seq = act->seq};
    n->all[n->count++] = x;
    rc = omap_put(&n->by_address, x->act.addr, x, NULL);
    return rc == QP_OK && act_first_guid(act, &guid) ? add_answer(n, x, &guid) : rc;
}

static int see_guid(void *context, const void *row)
{
    struct nesting *n = context;
    const struct guid_row *guid = row;
    struct nested *x = omap_get(&n->by_address, guid->addr);
    return x == NULL ? QP_OK : add_answer(n, x, guid);
}

static int see_data(void *context, const void *row)
{
    struct nesting *n = context;
    qp_str name = ((const struct data_row *)row)->name;
    size_t prefix = sizeof ARRIVED_LIVE - 1;
    if (name.n > prefix && memcmp(name.p, ARRIVED_LIVE, prefix) == 0) {
        struct nested *x = omap_get(&n->by_address, (qp_str){name.p + prefix, name.n - prefix});
        if (x != NULL) {
            x->live = true;
        }
    }
    return QP_OK;
}

static int read_rows(struct nesting *n, struct store *s, struct qp_err *err)
{
    struct act_row act = {.ns = n->job->ns, .job = n->job->job};
    struct guid_row guid = {.ns = n->job->ns, .job = n->job->job};
    struct data_row data = {.ns = n->job->ns, .job = n->job->job};
    struct scan acts = {
        .table = TABLE_act, .index = -1, .prefix = &act, .prefix_count = 2, .limit = SIZE_MAX};
    struct scan guids = {.table = TABLE_guid,
                         .index = -1,
                         .prefix = &guid,
                         .prefix_count = 2,
                         .limit = SIZE_MAX,
                         .slim = true};
    struct scan datas = {.table = TABLE_data,
                         .index = -1,
                         .prefix = &data,
                         .prefix_count = 2,
                         .limit = SIZE_MAX,
                         .slim = true};
    int rc = store_scan(s, &acts, n, see_act, err);
    rc = rc == QP_OK ? store_scan(s, &guids, n, see_guid, err) : rc;
    return rc == QP_OK ? store_scan(s, &datas, n, see_data, err) : rc;
}

/* ------------------------------------------------------------------------------------------- hanging */

static int64_t last_segment(qp_str dad)
{
    int64_t number = 0;
    size_t i = dad.n;
    while (i > 0 && dad.p[i - 1] != ',') {
        i--;
    }
    for (; i < dad.n; i++) {
        number = number * 10 + (dad.p[i] - '0');
    }
    return number;
}

/* ",0,1,0" stands below ",0,1", which is plane 1 of the one at ",0,0". */
static int hang(struct nesting *n, struct nested *x)
{
    qp_str plane = address_split(x->act.addr).dad;
    const struct activity *above = x->activity->dominator;
    struct nested *parent;
    qp_str dad;
    qp_str addr = TRIGGER_ADDRESS;
    int rc = QP_OK;
    if (above == NULL) {
        return QP_OK; /* the trigger */
    }
    while (plane.n > 0 && plane.p[plane.n - 1] != ',') {
        plane.n--;
    }
    plane.n -= plane.n > 0;
    x->plane = last_segment(plane);
    if (above != n->graph->trigger) {
        rc = dad_ancestor(n->arena, plane, dad_depth(plane), &dad);
        rc = rc == QP_OK ? address_make(n->arena, above->id, dad, &addr) : rc;
    }
    parent = rc == QP_OK ? omap_get(&n->by_address, addr) : NULL;
    if (parent != NULL && parent->last == NULL) {
        parent->first = x;
        parent->last = x;
    } else if (parent != NULL) {
        parent->last->next = x;
        parent->last = x;
    }
    return rc;
}

static int compare_seq(const void *a, const void *b)
{
    const struct nested *x = *(struct nested *const *)a;
    const struct nested *y = *(struct nested *const *)b;
    return x->act.seq < y->act.seq ? -1 : x->act.seq > y->act.seq;
}

/* ------------------------------------------------------------------------------------------- writing */

static void put_text(struct json_writer *w, const char *key, const char *text)
{
    json_key(w, str_from(key));
    json_put_str(w, str_from(text));
}

static void put_number(struct json_writer *w, const char *key, int64_t number)
{
    json_key(w, str_from(key));
    json_put_i64(w, number);
}

static void put_time(struct json_writer *w, const char *key, qp_ms at)
{
    char text[RFC3339_SIZE];
    rfc3339_format(at, text);
    put_text(w, key, text);
}

static void put_ledger(struct json_writer *w, int64_t ledger,
                       void (*say)(int64_t ledger, char out[LEDGER_WORDS_SIZE]))
{
    char digits[16];
    char words[LEDGER_WORDS_SIZE];
    ledger_text(ledger, digits);
    say(ledger, words);
    put_text(w, "ledger", digits);
    put_text(w, "says", words);
}

static void put_answer(struct json_writer *w, const struct guid_row *guid)
{
    char text[UUID_TEXT_SIZE];
    QP_ASSERT(guid->guid.n == UUID_SIZE);
    uuid_format((const unsigned char *)guid->guid.p, text);
    json_begin_object(w);
    json_key(w, QP_STR("guid"));
    json_put_str(w, (qp_str){text, sizeof text});
    put_number(w, "plane", step_dimension(guid->ledger));
    put_ledger(w, guid->ledger, guid_words);
    if (guid->code != 0) {
        put_number(w, "code", guid->code);
    }
    put_time(w, "at", guid->at);
    if (guid->n >= 0) {
        put_number(w, "children", guid->n);
        put_number(w, "delta", guid->delta);
    }
    json_end_object(w);
}

static const struct guid_row *latest_of(const struct nested *x)
{
    const struct guid_row *latest = NULL;
    for (const struct answer *a = x->answers; a != NULL; a = a->next) {
        latest = latest == NULL || guid_is_later(&a->guid, latest) ? &a->guid : latest;
    }
    return latest;
}

static void put_facts(struct json_writer *w, struct nested *x)
{
    char digit[2] = {'\0', '\0'};
    char category[2] = {(char)x->act.category, '\0'};
    char dad[DAD_TEXT_SIZE];
    const struct activity *named =
        x->activity->type == ACTIVITY_GATE ? x->activity->joins : x->activity;
    x->act.input = (qp_str){&x->first_in, x->first_in != '\0'};
    digit[0] = view_digit(x->activity, &x->act, latest_of(x), x->live);
    json_key(w, QP_STR("activity"));
    json_put_str(w, named->id);
    put_text(w, "type", activity_type_name(x->activity->type));
    json_key(w, QP_STR("address"));
    json_put_str(w, x->act.addr);
    put_number(w, "plane", x->plane);
    view_dad(&x->act, latest_of(x), dad);
    put_text(w, "dad", dad);
    put_text(w, "digit", digit);
    put_text(w, "status", digit_word(digit[0]));
    put_text(w, "category", category);
    put_ledger(w, x->act.ledger, ledger_words);
    put_time(w, "entered_at", x->act.at);
    json_key(w, QP_STR("guids"));
    json_begin_array(w);
    for (const struct answer *a = x->answers; a != NULL; a = a->next) {
        put_answer(w, &a->guid);
    }
    json_end_array(w);
}

/* Of bounded depth. */
static void put_nested(struct json_writer *w, struct nested *x, int depth)
{
    json_begin_object(w);
    put_facts(w, x);
    if (depth == NEST_DEPTH && x->first != NULL) {
        json_key(w, QP_STR("deeper"));
        json_put_bool(w, true);
    } else if (x->first != NULL) {
        json_key(w, QP_STR("children"));
        json_begin_array(w);
        for (struct nested *child = x->first; child != NULL; child = child->next) {
            put_nested(w, child, depth + 1);
        }
        json_end_array(w);
    }
    json_end_object(w);
}

static int nest_all(struct nesting *n, struct store *s, struct qp_err *err)
{
    int rc = read_rows(n, s, err);
    if (rc == QP_OK && n->count > 0) {
        qsort(n->all, n->count, sizeof(struct nested *), compare_seq);
    }
    for (size_t i = 0; i < n->count && rc == QP_OK; i++) {
        rc = hang(n, n->all[i]);
    }
    return rc;
}

int nest_write(struct arena *a, struct store *s, const struct graph *g, const struct job_row *job,
               struct buf *out, struct qp_err *err)
{
    struct nesting n = {.arena = a, .graph = g, .job = job};
    struct json_writer w;
    struct nested *trigger;
    int rc;
    omap_init(&n.by_address, a->env);
    rc = nest_all(&n, s, err);
    trigger = rc == QP_OK ? omap_get(&n.by_address, TRIGGER_ADDRESS) : NULL;
    if (rc == QP_OK) {
        json_writer_init(&w, out);
        if (trigger == NULL) {
            json_put_null(&w);
        } else {
            put_nested(&w, trigger, 1);
        }
        rc = json_writer_done(&w);
    }
    omap_done(&n.by_address);
    return rc;
}
