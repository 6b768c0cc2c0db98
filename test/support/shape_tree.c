/* shape_tree.c - a program like a graph (see shapes.h)
 *
 *   trigger +- a1, a2, a3 --------------+
 *           +- pass - deep - far -------+- meet - loop +- left ----------+- again +- back (to loop)
 *           +- nap (timer) -------------+              +- right - right2 +        +- last
 *           +- alone - only (a join of one way)
 *
 * loop is a pivot, entered ROUNDS times; again is a join of its own in every dimension of it.
 */
#include "support/shapes.h"

#include <stdio.h>

#define ROUNDS 3
#define CHILDREN_MAX 6
#define NAP_MS 40

enum waits { FOR_NOTHING, FOR_TASK, FOR_TIME };

struct node {
    const char *name;
    int64_t category;
    enum cyclic cyclic;
    enum waits waits;
    const char *children[CHILDREN_MAX];
    const char *join; /* where it arrives */
    int64_t join_depth;
    int64_t ways;
};

static const struct node nodes[] = {
    {"trigger", 'D', .children = {"a1", "a2", "a3", "pass", "nap", "alone"}},
    {"a1", 'A', .waits = FOR_TASK, .join = "meet", .join_depth = 2, .ways = 5},
    {"a2", 'A', .waits = FOR_TASK, .join = "meet", .join_depth = 2, .ways = 5},
    {"a3", 'A', .waits = FOR_TASK, .join = "meet", .join_depth = 2, .ways = 5},
    {"pass", 'B', .children = {"deep"}},
    {"deep", 'B', .children = {"far"}},
    {"far", 'A', .waits = FOR_TASK, .join = "meet", .join_depth = 2, .ways = 5},
    {"nap", 'A', .waits = FOR_TIME, .join = "meet", .join_depth = 2, .ways = 5},
    {"alone", 'B', .join = "only", .join_depth = 2, .ways = 1},
    {"only", 'A', .waits = FOR_NOTHING},
    {"meet", 'A', .children = {"loop"}},
    {"loop", 'B', .cyclic = CYCLIC_PIVOT, .children = {"left", "right"}},
    {"left", 'A', .waits = FOR_TASK, .join = "again", .join_depth = 4, .ways = 2},
    {"right", 'B', .children = {"right2"}},
    {"right2", 'A', .waits = FOR_TASK, .join = "again", .join_depth = 4, .ways = 2},
    {"again", 'A', .children = {"back"}},
    {"back", 'C', .cyclic = CYCLIC_PIVOT},
    {"last", 'A', .waits = FOR_TASK},
};

static const struct node *node_of(const struct turn *t)
{
    for (size_t i = 0; i < ARRAY_COUNT(nodes); i++) {
        if (str_equal(str_from(nodes[i].name), t->at.name)) {
            return &nodes[i];
        }
    }
    return NULL;
}

static int tree_describe(struct turn *t, struct op_act_create *row)
{
    const struct node *node = node_of(t);
    QP_ASSERT(node != NULL);
    row->category = node->category;
    row->cyclic = node->cyclic;
    row->topic = node->waits == FOR_TASK ? QP_STR("tree") : QP_NONE;
    return QP_OK;
}

static int tree_enter(struct turn *t)
{
    const struct node *node = node_of(t);
    int rc = shape_add(t, "enters", 1);
    if (rc == QP_OK && node->waits == FOR_TASK) {
        rc = turn_task(t, QP_STR("tree"));
    } else if (rc == QP_OK && node->waits == FOR_TIME) {
        rc = turn_timer(t, QP_STR("nap"), NAP_MS);
    } else if (rc == QP_OK && node->category == 'C') {
        rc = turn_cycle(t, QP_STR("loop"), 3, t->act->input);
    }
    return rc;
}

static int tree_work(struct turn *t, struct work *work)
{
    int rc = shape_add(t, "steps", 1);
    if (rc == QP_OK && node_of(t)->waits == FOR_TASK) {
        rc = shape_add(t, "sum", shape_number(work->output));
    }
    return rc;
}

/* "again" stands below the plane of its loop: the third segment is the round. */
static bool is_last_round(const struct turn *t)
{
    qp_str dad = t->at.dad;
    int comma = 0;
    size_t i = 0;
    while (i < dad.n && (dad.p[i] != ',' || ++comma < 3)) {
        i++;
    }
    return shape_number((qp_str){dad.p + i + 1, dad.n - i - 1}) == ROUNDS - 1;
}

static int tree_arrive(struct turn *t, const struct node *node)
{
    qp_str dad;
    qp_str addr;
    int rc = dad_ancestor(turn_arena(t), t->at.dad, node->join_depth, &dad);
    rc = rc == QP_OK ? address_make(turn_arena(t), str_from(node->join), dad, &addr) : rc;
    return rc == QP_OK ? turn_arrive(t, &(struct arrival){.addr = addr,
                                                          .ways = node->ways,
                                                          .delta = -1,
                                                          .live = true,
                                                          .input = t->act->input})
                       : rc;
}

static int tree_spawn(struct turn *t, struct spawn *spawn)
{
    const struct node *node = node_of(t);
    int rc = shape_add(t, "spawns", 1);
    (void)spawn;
    if (rc == QP_OK && shape_is(t->at.name, "again") && is_last_round(t)) {
        return turn_child(t, QP_STR("last"), t->act->input);
    }
    for (size_t i = 0; i < CHILDREN_MAX && node->children[i] != NULL && rc == QP_OK; i++) {
        rc = turn_child(t, str_from(node->children[i]), t->act->input);
    }
    return rc == QP_OK && node->join != NULL ? tree_arrive(t, node) : rc;
}

static int tree_complete(struct turn *t, struct complete *complete)
{
    int64_t sum = 0;
    int64_t enters = 0;
    int64_t steps = 0;
    int64_t spawns = 0;
    int rc = shape_read(t, "sum", &sum);
    rc = rc == QP_OK ? shape_read(t, "enters", &enters) : rc;
    rc = rc == QP_OK ? shape_read(t, "steps", &steps) : rc;
    rc = rc == QP_OK ? shape_read(t, "spawns", &spawns) : rc;
    return rc == QP_OK
               ? shape_print(t, &complete->output, "sum %lld enters %lld steps %lld spawns %lld",
                             (long long)sum, (long long)enters, (long long)steps, (long long)spawns)
               : rc;
}

static const struct program tree_program = {.kind = 101,
                                            .name = "tree",
                                            .describe = tree_describe,
                                            .enter = tree_enter,
                                            .work = tree_work,
                                            .spawn = tree_spawn,
                                            .complete = tree_complete};

static int64_t value_at(const char *addr, int64_t input)
{
    return shape_value(str_from(addr)) + input;
}

static void tree_execute(qp_str addr, qp_str input, char out_text[SHAPE_TEXT_SIZE])
{
    (void)snprintf(out_text, SHAPE_TEXT_SIZE, "%lld",
                   (long long)(shape_value(addr) + shape_number(input)));
}

/* Written down from the drawing, not from the table above. */
static void tree_expect(int64_t input, char out_text[SHAPE_TEXT_SIZE])
{
    int64_t sum = value_at("a1,0,0", input) + value_at("a2,0,0", input) +
                  value_at("a3,0,0", input) + value_at("far,0,0,0,0", input);
    char addr[64];
    for (int i = 0; i < ROUNDS; i++) {
        (void)snprintf(addr, sizeof addr, "left,0,0,%d,0", i);
        sum += value_at(addr, input);
        (void)snprintf(addr, sizeof addr, "right2,0,0,%d,0,0", i);
        sum += value_at(addr, input);
    }
    (void)snprintf(addr, sizeof addr, "last,0,0,%d,0,0", ROUNDS - 1);
    sum += value_at(addr, input);
    (void)snprintf(out_text, SHAPE_TEXT_SIZE, "sum %lld enters %d steps %d spawns %d",
                   (long long)sum, 7 + 4 * ROUNDS, 11 + 5 * ROUNDS, 12 + 5 * ROUNDS);
}

static int64_t tree_tasks(int64_t input)
{
    (void)input;
    return 5 + 2 * ROUNDS;
}

const struct shape shape_tree = {.program = &tree_program,
                                 .topics = {"tree"},
                                 .input = "7",
                                 .execute = tree_execute,
                                 .expect = tree_expect,
                                 .task_count = tree_tasks};
