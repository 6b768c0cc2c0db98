/* scene_faces.h - the faces of single jobs, graphs and flows that each node of a world has, as a process would
 *
 * They live in the node's memory: when the node dies, they are gone, and nothing is closed. A node sees what others have
 * activated by looking; commits look by themselves when the number of definitions says so.
 */
#ifndef QP_TEST_SCENE_FACES_H
#define QP_TEST_SCENE_FACES_H

#include "kernel/face.h"
#include "sim/scene.h"

struct scene_faces {
    struct faces *faces;
    const struct qp_env *env;
    qp_ms look_at; /* the next look at the table of names */
};

/* For the scene's `faces`, `turn` and `leave`. */
struct faces *scene_faces_open(struct scene_faces *f, const struct qp_env *env);
void scene_faces_turn(struct scene_faces *f, struct store *store);
void scene_faces_close(struct scene_faces *f);

#endif
