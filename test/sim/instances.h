/* instances.h - generated scripts of agent workflows, and a naive reading of what has become of an instance
 *
 * A DRAWN SCRIPT is a function of a seed, the name of its workflow, and the branch: handle asks for groups of works, step by step; some
 * hooks ask for one more. Each execution may change the properties, to a number that follows from those that it was handed, so that
 * properties tell in which order they were changed, and whether a change was lost.
 *
 * The READING knows the document and nothing of the engine: from the branches of an instance that is over, in their order, it
 * computes what every other array must be, and compares. It asks the scene whether results and events are those that were given.
 */
#ifndef QP_TEST_INSTANCES_H
#define QP_TEST_INSTANCES_H

#include "agent/draft.h"
#include "sim/scene.h"

#define DRAWN_NAME_SIZE 80
#define DRAWN_VALUE_SIZE 24
#define DRAWN_STEPS_MAX 4
#define DRAWN_ITEMS_MAX 3
#define DRAWN_EVENTS 2

struct drawn {
    uint64_t seed;
    qp_str workflow;
};

/* A group of works that are asked for at once. */
struct drawn_group {
    struct agent_work works[DRAWN_ITEMS_MAX];
    char names[DRAWN_ITEMS_MAX][DRAWN_NAME_SIZE];
    char positions[DRAWN_ITEMS_MAX][16];
    size_t count;
};

/* Any choice that depends on a name alone. */
uint64_t drawn_choice(uint64_t seed, qp_str name, uint64_t salt);
/* "E0", "E1", .. */
const char *drawn_event(int64_t number);
bool drawn_is_child(qp_str workflow);

int64_t drawn_steps(const struct drawn *s, const struct branch *branch);
void drawn_group(const struct drawn *s, const struct branch *branch, int64_t step,
                 struct drawn_group *out);
/* What an execution leaves behind that has passed so many steps. */
void drawn_value(const struct drawn *s, int64_t branch, int64_t passed, qp_str handed,
                 char out[DRAWN_VALUE_SIZE]);
/* One execution that is in hand. *out_properties, in out_value or handed, is what it posts; false: it is left. */
bool drawn_run(const struct drawn *s, struct draft *d, const struct branch *branch, qp_str given,
               char out_value[DRAWN_VALUE_SIZE]);

struct reading_facts {
    void *context;
    /* Whether a worker, or a child, gave this result (JSON) for this work. */
    bool (*result)(void *context, const struct agent_work *work, qp_str output);
    /* Whether a client sent this event; each is told once. */
    bool (*event)(void *context, qp_str name, qp_str input);
};

/* Of an instance that is completed. False: out_text says what differs. */
bool reading_agrees(const struct drawn *s, const struct instance *i,
                    const struct reading_facts *facts, char out_text[SCENE_TEXT_SIZE]);

#endif
