/* face.c - the faces of a handle: opened, found by kind or by name, closed (see face.h) */
#include "kernel/face.h"

#include "base/mem.h"

/* -------------------------------------------------------------------------------------------- life */

static int face_add(struct faces *f, const struct face_options *options, const struct face *face)
{
    struct faced *of = &f->all[f->count];
    QP_ASSERT(f->count < ARRAY_COUNT(f->all));
    QP_ASSERT(faces_of(f, face->kind) == NULL);
    QP_ASSERT(face->program != NULL);
    of->face = face;
    if (face->open != NULL) {
        QP_TRY(face->open(options, &of->state));
    }
    f->count++;
    of->program = face->program(of->state);
    QP_ASSERT(of->program.kind == face->kind);
    return QP_OK;
}

static const struct faced *plain_face(const struct faces *f)
{
    const struct faced *plain = NULL;
    for (size_t i = 0; i < f->count; i++) {
        if (f->all[i].face->name_kind == NAMES_PLAIN) {
            QP_ASSERT(plain == NULL);
            plain = &f->all[i];
        }
    }
    return plain;
}

static int faces_fill(struct faces *f, const struct face_options *options,
                      const struct face *const *list, size_t count)
{
    QP_TRY(names_create(&f->env, f, &f->names));
    for (size_t i = 0; i < count; i++) {
        QP_TRY(face_add(f, options, list[i]));
    }
    QP_ASSERT(plain_face(f) != NULL);
    return QP_OK;
}

int faces_open(const struct face_options *options, const struct face *const *list, size_t count,
               struct faces **out_faces)
{
    struct faces *f = mem_alloc(options->env, sizeof *f);
    int rc;
    if (f == NULL) {
        return QP_E_NOMEM;
    }
    f->env = *options->env;
    rc = faces_fill(f, options, list, count);
    if (rc != QP_OK) {
        faces_close(f);
        return rc;
    }
    *out_faces = f;
    return QP_OK;
}

void faces_close(struct faces *f)
{
    struct qp_env env;
    if (f == NULL) {
        return;
    }
    for (size_t i = f->count; i > 0; i--) {
        const struct faced *of = &f->all[i - 1];
        if (of->face->close != NULL) {
            of->face->close(of->state);
        }
    }
    names_destroy(f->names);
    env = f->env;
    mem_free(&env, f);
}

const struct faced *faces_of(const struct faces *f, int64_t kind)
{
    for (size_t i = 0; i < f->count; i++) {
        if (f->all[i].face->kind == kind) {
            return &f->all[i];
        }
    }
    return NULL;
}

const struct faced *faces_announcing(const struct faces *f)
{
    for (size_t i = 0; i < f->count; i++) {
        if (f->all[i].face->announce != NULL) {
            return &f->all[i];
        }
    }
    return NULL;
}

void *faces_state(const struct faces *f, const struct face *face)
{
    const struct faced *of = faces_of(f, face->kind);
    QP_ASSERT(of != NULL && of->face == face);
    return of->state;
}

bool faces_need(const struct faces *f, const struct job_row *job, qp_str version)
{
    const struct faced *of = f == NULL ? NULL : faces_of(f, job->kind);
    return of == NULL || of->face->needs == NULL
               ? job->state == JOB_OPEN && str_equal(job->version, version)
               : of->face->needs(of->state, job, version);
}

void faces_stats(const struct faces *f, void *context, face_number number)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct faced *of = &f->all[i];
        if (of->face->stats != NULL) {
            of->face->stats(of->state, context, number);
        }
    }
}

/* ------------------------------------------------------------------------------------------- turns */

void faces_changed(struct faces *f, struct store *s)
{
    f->stale = names_refresh(f->names, s, NULL) != QP_OK;
}

/* A clock that was set back does not keep readers waiting. */
static bool look_is_due(const struct faces *f, qp_ms now, bool shared)
{
    return f->stale || (shared && (now >= f->look_at || now < f->look_at - LIMIT_LOOK_MS));
}

void faces_turn(struct faces *f, struct store *s, qp_ms now, bool shared)
{
    if (look_is_due(f, now, shared)) {
        faces_changed(f, s);
        f->look_at = f->stale ? now : now + LIMIT_LOOK_MS;
    }
    for (size_t i = 0; i < f->count; i++) {
        const struct faced *of = &f->all[i];
        if (of->face->turn != NULL) {
            of->face->turn(of->state);
        }
    }
}

/* ------------------------------------------------------------------------------------------- names */

/* The face whose jobs begin by this name wherever it is used; NULL: none. */
static const struct faced *built_in(const struct faces *f, qp_str name)
{
    for (size_t i = 0; i < f->count; i++) {
        const char *start_name = f->all[i].face->start_name;
        if (start_name != NULL && str_equal(str_from(start_name), name)) {
            return &f->all[i];
        }
    }
    return NULL;
}

/* The one face that the start belongs to; NULL: it is a plain topic, unless the caller's version knows it. */
static int start_face(struct faces *f, struct bundle *b, struct naming *n,
                      const struct faced **out_face)
{
    struct meaning meaning;
    if (!str_is_none(n->pinned)) {
        n->version = n->pinned;
        *out_face = faces_of(f, n->pinned_kind);
        return *out_face == NULL ? QP_E_UNSUPPORTED : QP_OK;
    }
    *out_face = built_in(f, n->name);
    if (*out_face != NULL) {
        return QP_OK;
    }
    QP_TRY(names_find(f->names, b, &b->commit->arena, n->ns, NAME_START, n->name, &meaning));
    n->version = meaning.version;
    *out_face = meaning.kind == MEANS_NOTHING ? NULL : faces_of(f, meaning.kind);
    return QP_OK;
}

static int face_ask(const struct faced *of, struct bundle *b, struct naming *n, struct qp_err *err)
{
    n->kind = of->face->kind;
    return of->face->resolve_start == NULL ? QP_OK : of->face->resolve_start(of->state, b, n, err);
}

/* A name that is not in the table: the version of the caller may know it, else it is a plain topic. */
static int unnamed_start(struct faces *f, struct bundle *b, struct naming *n, struct qp_err *err)
{
    const struct faced *caller = str_is_none(n->caller) ? NULL : faces_of(f, n->caller_kind);
    if (caller != NULL) {
        QP_TRY(face_ask(caller, b, n, err));
    }
    return caller != NULL && !str_is_none(n->version) ? QP_OK : face_ask(plain_face(f), b, n, err);
}

/* A fork keeps its version. If that is gone, it gets the one that its name means now, of the same kind. */
static int pinned_start(struct faces *f, struct bundle *b, struct naming *n, const struct faced *of,
                        struct qp_err *err)
{
    struct meaning meaning;
    int rc = face_ask(of, b, n, err);
    if (rc != QP_E_NOT_FOUND || !str_is_none(n->wanted)) {
        return rc;
    }
    QP_TRY(names_find(f->names, b, &b->commit->arena, n->ns, NAME_START, n->name, &meaning));
    if (meaning.kind != n->pinned_kind) {
        return rc; /* the error says that it is gone */
    }
    n->pinned = QP_NONE;
    n->version = meaning.version;
    return face_ask(of, b, n, err);
}

int faces_start(struct faces *f, struct bundle *b, struct naming *n, struct qp_err *err)
{
    const struct faced *of = NULL;
    int rc;
    QP_ASSERT(b != NULL);
    QP_ASSERT(n->name.n > 0);
    n->version = QP_NONE;
    n->jid = QP_NONE;
    n->announced = false;
    rc = start_face(f, b, n, &of);
    if (rc == QP_OK && !str_is_none(n->pinned)) {
        return pinned_start(f, b, n, of, err);
    }
    if (rc != QP_OK) {
        return err_set(err, rc, "'%.*s': %s", STR_ARG(n->name), qp_code_text(rc));
    }
    if (of == NULL && n->announces) {
        of = faces_announcing(f);
        QP_ASSERT(of != NULL);
        QP_TRY(of->face->announce(of->state, f, b, n->ns, n->name, &n->announced, err));
        f->stale = f->stale || n->announced;
    }
    return of != NULL ? face_ask(of, b, n, err) : unnamed_start(f, b, n, err);
}

int faces_signal_key(struct faces *f, struct bundle *b, const struct op_hook_signal *signal,
                     qp_str *out_key, struct qp_err *err)
{
    const struct faced *of;
    struct meaning meaning;
    int rc =
        names_find(f->names, b, &b->commit->arena, signal->ns, NAME_HOOK, signal->topic, &meaning);
    QP_ASSERT(str_is_none(signal->key));
    if (rc != QP_OK) {
        return err_set(err, rc, "%s", qp_code_text(rc));
    }
    of = meaning.kind == MEANS_NOTHING ? NULL : faces_of(f, meaning.kind);
    if (of == NULL || of->face->signal_key == NULL) {
        return err_set(err, QP_E_NOT_FOUND,
                       "no deployed graph has a hook at '%.*s'; name the key of the waiter",
                       STR_ARG(signal->topic));
    }
    return of->face->signal_key(of->state, b, signal, meaning.version, out_key, err);
}
