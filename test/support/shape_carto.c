/* shape_carto.c - a program like a traversal (see shapes.h)
 *
 *   trigger - level-0 +- batch-0 +- item-0 ..  - full-0 -+- barrier-0 - level-1 .. barrier-1 - format
 *                     +- batch-1 +- item-50 .. - full-1 -+
 *
 * The job's input is the number of items. A batch has at most 50, so that no bundle grows with it. An item
 * asks for a unit of its key in Leg1. If it gets one, its task is there at once; else the key comes
 * as an answer, which gives the task out and leaves the item open (pending). The answer of the task
 * releases the key. Keys are global or the job's, by turns.
 */
#include "support/shapes.h"

#include <stdio.h>

#define LEVELS 2
#define KEY_UNITS 3

/* Items of a batch, or batches of a level: from..to. */
struct span {
    int64_t from;
    int64_t to;
};

static int64_t number_in(qp_str name)
{
    const char *dash = memchr(name.p, '-', name.n);
    return dash == NULL ? 0
                        : shape_number((qp_str){dash + 1, name.n - (size_t)(dash + 1 - name.p)});
}

/* Small jobs have small batches, so that they too have several. */
static int64_t batch_size(int64_t total)
{
    return total < 1000 ? 7 : 50;
}

static struct span items_of_level(int64_t level, int64_t total)
{
    return (struct span){level * total / LEVELS, (level + 1) * total / LEVELS};
}

/* Batches have numbers of their own in every level. */
static struct span batches_of_level(int64_t level, int64_t total)
{
    struct span items = items_of_level(level, total);
    int64_t first = level * (total + 1);
    return (struct span){first, first + (items.to - items.from + batch_size(total) - 1) /
                                            batch_size(total)};
}

static struct span items_of_batch(int64_t batch, int64_t total)
{
    int64_t level = batch / (total + 1);
    struct span items = items_of_level(level, total);
    int64_t from = items.from + (batch - level * (total + 1)) * batch_size(total);
    int64_t to = from + batch_size(total);
    return (struct span){from, to < items.to ? to : items.to};
}

static int64_t level_of_item(int64_t item, int64_t total)
{
    int64_t level = 0;
    while (item >= items_of_level(level, total).to) {
        level++;
    }
    return level;
}

static int64_t batch_of_item(int64_t item, int64_t total)
{
    int64_t level = level_of_item(item, total);
    return level * (total + 1) + (item - items_of_level(level, total).from) / batch_size(total);
}

static int carto_describe(struct turn *t, struct op_act_create *row)
{
    bool works = shape_is(t->at.name, "item") || shape_is(t->at.name, "format");
    bool waits = works || shape_is(t->at.name, "full") || shape_is(t->at.name, "barrier");
    row->category = waits ? 'A' : 'B';
    row->topic = works ? QP_STR("carto") : QP_NONE;
    return QP_OK;
}

/* The key of an item; the more items, the more keys. */
static int key_of(struct turn *t, struct op_key_acquire *out_key)
{
    int64_t key = number_in(t->at.name) % (5 + shape_number(t->act->input) / 1000);
    *out_key = (struct op_key_acquire){.ns = t->site.ref.ns,
                                       .scope = key % 2 == 0 ? 0 : t->site.ref.job,
                                       .capacity = KEY_UNITS,
                                       .units = 1,
                                       .wait = true};
    return shape_print(t, &out_key->name, "host-%lld", (long long)key);
}

/* The key is ours: its token is kept where the answer finds it, and the task goes out. */
static int item_go(struct turn *t, int64_t token)
{
    qp_str text;
    int rc = shape_print(t, &text, "%lld", (long long)token);
    rc = rc == QP_OK ? turn_data_put(t, t->site.addr, text) : rc;
    return rc == QP_OK ? turn_task(t, QP_STR("carto")) : rc;
}

static int item_ask(struct turn *t)
{
    struct op_key_acquire key;
    int64_t token = 0;
    int rc = key_of(t, &key);
    rc = rc == QP_OK ? turn_key(t, &key, &token) : rc;
    return rc == QP_OK && token > 0 ? item_go(t, token) : rc;
}

static int carto_enter(struct turn *t)
{
    if (shape_is(t->at.name, "item")) {
        return item_ask(t);
    }
    return shape_is(t->at.name, "format") ? turn_task(t, QP_STR("carto")) : QP_OK;
}

/* The key's own message has no code; a worker's answer has. */
static bool is_key(int64_t code)
{
    return code == 0;
}

static int carto_work(struct turn *t, struct work *work)
{
    int rc;
    if (str_is_none(t->act->topic) || is_key(work->code)) {
        return QP_OK;
    }
    rc = shape_add(t, "sum", shape_number(work->output));
    return rc == QP_OK ? shape_add(t, "answers", 1) : rc;
}

static int item_release(struct turn *t)
{
    const struct data_row *token = NULL;
    struct op_key_acquire key;
    struct op op = {.kind = OP_key_release};
    int rc = turn_data(t, t->site.addr, &token);
    rc = rc == QP_OK ? key_of(t, &key) : rc;
    if (rc != QP_OK || token == NULL) {
        return rc != QP_OK ? rc : QP_E_INTERNAL;
    }
    op.key_release = (struct op_key_release){
        .ns = key.ns, .scope = key.scope, .name = key.name, .token = shape_number(token->value)};
    rc = turn_op(t, &op);
    return rc == QP_OK ? turn_data_put(t, t->site.addr, QP_NONE) : rc;
}

/* Arrives at a join that stands `up` generations above. */
static int arrive(struct turn *t, const char *name, int64_t number, int64_t up, int64_t ways)
{
    qp_str text;
    qp_str dad;
    qp_str addr;
    int rc = shape_print(t, &text, "%s-%lld", name, (long long)number);
    rc = rc == QP_OK ? dad_ancestor(turn_arena(t), t->at.dad, dad_depth(t->at.dad) - up, &dad) : rc;
    rc = rc == QP_OK ? address_make(turn_arena(t), text, dad, &addr) : rc;
    return rc == QP_OK ? turn_arrive(t, &(struct arrival){.addr = addr,
                                                          .ways = ways,
                                                          .delta = -1,
                                                          .live = true,
                                                          .input = t->act->input})
                       : rc;
}

static int spawn_span(struct turn *t, const char *name, struct span span)
{
    int rc = QP_OK;
    for (int64_t i = span.from; i < span.to && rc == QP_OK; i++) {
        qp_str text;
        rc = shape_print(t, &text, "%s-%lld", name, (long long)i);
        rc = rc == QP_OK ? turn_child(t, text, t->act->input) : rc;
    }
    return rc;
}

static int item_spawn(struct turn *t, struct spawn *spawn, int64_t total)
{
    int64_t batch = batch_of_item(number_in(t->at.name), total);
    struct span items = items_of_batch(batch, total);
    int rc;
    if (is_key(t->guid.code)) {
        spawn->pending = true; /* the answer is still to come */
        return item_go(t, shape_number(t->guid.output));
    }
    rc = item_release(t);
    return rc == QP_OK ? arrive(t, "full", batch, 0, items.to - items.from) : rc;
}

static int full_spawn(struct turn *t, int64_t total)
{
    int64_t level = number_in(t->at.name) / (total + 1);
    struct span batches = batches_of_level(level, total);
    return arrive(t, "barrier", level, 1, batches.to - batches.from);
}

static int carto_spawn(struct turn *t, struct spawn *spawn)
{
    int64_t total = shape_number(t->act->input);
    int64_t number = number_in(t->at.name);
    if (t->act->category == 'D') {
        return spawn_span(t, "level", (struct span){0, 1});
    }
    if (shape_is(t->at.name, "level")) {
        return spawn_span(t, "batch", batches_of_level(number, total));
    }
    if (shape_is(t->at.name, "batch")) {
        return spawn_span(t, "item", items_of_batch(number, total));
    }
    if (shape_is(t->at.name, "item")) {
        return item_spawn(t, spawn, total);
    }
    if (shape_is(t->at.name, "full")) {
        return full_spawn(t, total);
    }
    if (shape_is(t->at.name, "barrier")) {
        return number + 1 < LEVELS ? spawn_span(t, "level", (struct span){number + 1, number + 2})
                                   : turn_child(t, QP_STR("format"), t->act->input);
    }
    return turn_spawn_nothing(t);
}

static int carto_complete(struct turn *t, struct complete *complete)
{
    int64_t sum = 0;
    int64_t answers = 0;
    int rc = shape_read(t, "sum", &sum);
    rc = rc == QP_OK ? shape_read(t, "answers", &answers) : rc;
    return rc == QP_OK ? shape_print(t, &complete->output, "sum %lld answers %lld", (long long)sum,
                                     (long long)answers)
                       : rc;
}

static const struct program carto_program = {.kind = 103,
                                             .name = "carto",
                                             .describe = carto_describe,
                                             .enter = carto_enter,
                                             .work = carto_work,
                                             .spawn = carto_spawn,
                                             .complete = carto_complete};

static void carto_execute(qp_str addr, qp_str input, char out_text[SHAPE_TEXT_SIZE])
{
    (void)input;
    (void)snprintf(out_text, SHAPE_TEXT_SIZE, "%lld",
                   (long long)shape_value(address_split(addr).name));
}

static void carto_expect(int64_t input, char out_text[SHAPE_TEXT_SIZE])
{
    int64_t sum = shape_value(QP_STR("format"));
    for (int64_t i = 0; i < input; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "item-%lld", (long long)i);
        sum += shape_value(str_from(name));
    }
    (void)snprintf(out_text, SHAPE_TEXT_SIZE, "sum %lld answers %lld", (long long)sum,
                   (long long)(input + 1));
}

static int64_t carto_tasks(int64_t input)
{
    return input + 1;
}

const struct shape shape_carto = {.program = &carto_program,
                                  .topics = {"carto"},
                                  .input = "2000",
                                  .execute = carto_execute,
                                  .expect = carto_expect,
                                  .task_count = carto_tasks};
