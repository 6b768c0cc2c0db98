/* scene_faces.c - the faces that each node of a world has (see scene_faces.h) */
#include "sim/scene_faces.h"

#include "flow/face.h"
#include "graph/face.h"
#include "kernel/single.h"

#define LOOK_MS 100

struct faces *scene_faces_open(struct scene_faces *f, const struct qp_env *env)
{
    static const struct face *const kinds[] = {&single_face, &graph_face, &flow_face};
    *f = (struct scene_faces){.env = env};
    QP_ASSERT(faces_open(&(struct face_options){.env = env}, kinds, ARRAY_COUNT(kinds),
                         &f->faces) == QP_OK);
    return f->faces;
}

void scene_faces_turn(struct scene_faces *f, struct store *store)
{
    qp_ms now = f->env->monotonic_us(f->env->context) / 1000;
    struct qp_err err = {0};
    if (now >= f->look_at && names_refresh(f->faces->names, store, &err) == QP_OK) {
        f->look_at = now + LOOK_MS;
    }
    library_tidy(graph_library(f->faces));
}

void scene_faces_close(struct scene_faces *f)
{
    faces_close(f->faces);
    f->faces = NULL;
}
