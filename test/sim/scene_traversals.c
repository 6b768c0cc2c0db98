/* scene_traversals.c - traversals of generated graphs, of a pure and of an ordered type, fused, split and served by workers
 *
 * The graph follows from the request: its options have a seed and a number of nodes, and the relationships of a node are a
 * function of both. Some carry exclusions, so that nodes are reached in several contexts, and some nodes cannot be selected.
 * What must come of it is what the stages give in memory, one level after the other (support/cartorun.h).
 */
#include <stdio.h>

#include "base/env.h"
#include "base/omap.h"
#include "carto/external.h"
#include "carto/face.h"
#include "carto/split.h"
#include "carto/traversal.h"
#include "kernel/single.h"
#include "sim/scene.h"
#include "support/cartorun.h"

#define JID "traversal"

/* ------------------------------------------------------------------------------------------- the types */

struct gen {
    int64_t seed;
    int64_t nodes;
    struct omap *memo; /* the history, of a run in memory; NULL: the request has one */
};

static uint64_t mix(int64_t seed, qp_str name, uint64_t salt)
{
    uint64_t h = (uint64_t)seed * UINT64_C(0x9E3779B97F4A7C15) + salt;
    for (size_t i = 0; i < name.n; i++) {
        h = (h ^ (unsigned char)name.p[i]) * UINT64_C(0x100000001B3);
    }
    h ^= h >> 29;
    h *= UINT64_C(0xBF58476D1CE4E5B9);
    return h ^ (h >> 32);
}

static int gen_options(struct arena *a, const struct json *given, enum carto_scope scope,
                       const void **out_options, struct qp_err *err)
{
    struct gen *g = ARENA_NEW(a, struct gen);
    (void)scope;
    (void)err;
    if (g == NULL) {
        return QP_E_NOMEM;
    }
    (void)(json_as_i64(json_get(given, QP_STR("seed")), &g->seed) &&
           json_as_i64(json_get(given, QP_STR("nodes")), &g->nodes)); /* another type's has none */
    *out_options = g;
    return QP_OK;
}

static int gen_name(qp_str name, bool is_pattern, struct qp_err *err)
{
    (void)name;
    (void)is_pattern;
    (void)err;
    return QP_OK;
}

static int gen_root(const struct carto_request *r, struct arena *a, qp_str text,
                    struct carto_item *out, struct qp_err *err)
{
    (void)r;
    (void)a;
    (void)err;
    out->target.name = text;
    return QP_OK;
}

static int gen_override(const struct carto_request *r, struct arena *a,
                        const struct carto_override *override, struct qp_err *err)
{
    (void)r;
    (void)a;
    (void) override;
    (void)err;
    return QP_OK;
}

static const struct gen *gen_of(const struct carto_request *r, qp_str type)
{
    return carto_use_of(r, type)->options;
}

static bool is_ordered(qp_str type)
{
    return str_equal(type, QP_STR("ord")) || str_equal(type, QP_STR("xord"));
}

/* What the history has of an ordered type; in memory that is the options' own. */
static int gen_chosen(const struct carto_request *r, const struct gen *g, qp_str name,
                      struct carto_selection *out, bool *out_chosen)
{
    const qp_str *kept = g->memo == NULL ? NULL : omap_get(g->memo, name);
    *out_chosen = kept != NULL;
    if (kept != NULL) {
        out->package.version = *kept;
    }
    return g->memo != NULL ? QP_OK : carto_chosen(r, out->package.id, out_chosen, &out->package);
}

static int gen_remember(const struct gen *g, struct arena *a, const struct carto_package *package)
{
    qp_str *kept = ARENA_NEW(a, qp_str);
    QP_ASSERT(kept != NULL);
    *kept = package->version;
    return omap_put(g->memo, package->id.name, kept, NULL);
}

/* Of an ordered type the version is the first advice, which the history keeps. */
static int gen_select(const struct carto_request *r, struct arena *a, const struct carto_item *item,
                      struct carto_selection *out, struct carto_outcome *outcome,
                      struct qp_err *err)
{
    const struct gen *g = gen_of(r, item->target.type);
    bool is_chosen = false;
    (void)err;
    *out = (struct carto_selection){.package = {item->target, QP_STR("1")}};
    if (is_ordered(item->target.type)) {
        QP_TRY(gen_chosen(r, g, item->target.name, out, &is_chosen));
    }
    if (is_chosen) {
        out->advice_ignored = !str_equal(out->package.version, item->advice);
        return QP_OK;
    }
    if (item->advice.n > 0 && mix(g->seed, item->target.name, 7) % 9 == 0) {
        *outcome = (struct carto_outcome){CARTO_FAILED, CARTO_METADATA_MISSING, QP_STR("not here")};
        return QP_OK;
    }
    if (is_ordered(item->target.type) && item->advice.n > 0) {
        out->package.version = item->advice;
    }
    return is_ordered(item->target.type) && g->memo != NULL ? gen_remember(g, a, &out->package)
                                                            : QP_OK;
}

static int gen_resolve(const struct carto_request *r, struct arena *a,
                       const struct carto_item *item, struct carto_relations *out,
                       struct carto_outcome *outcome, struct qp_err *err)
{
    const struct gen *g = gen_of(r, item->selected.id.type);
    qp_str name = item->selected.id.name;
    qp_str type = item->selected.id.type;
    size_t count = mix(g->seed, name, 1) % 5;
    (void)err;
    outcome->result = CARTO_DONE;
    out->rows = arena_alloc(a, 5 * sizeof *out->rows);
    if (out->rows == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        struct carto_relation *to = &out->rows[out->count];
        *to = (struct carto_relation){
            .ordinal = out->count, .target.type = type, .kind = QP_STR("needs")};
        QP_TRY(carto_print(a, &to->target.name, "%llu",
                           (unsigned long long)(mix(g->seed, name, 10 + i) % (uint64_t)g->nodes)));
        QP_TRY(carto_print(a, &to->advice, "%llu",
                           (unsigned long long)(mix(g->seed, name, 20 + i) % 3 + 1)));
        if (mix(g->seed, name, 30 + i) % 3 == 0) {
            QP_TRY(
                carto_print(a, &to->exclusions, "%.*s:%llu\n", STR_ARG(type),
                            (unsigned long long)(mix(g->seed, name, 40 + i) % (uint64_t)g->nodes)));
        }
        out->count++;
    }
    return QP_OK;
}

#define GEN(type_name, type_mode)                                                                  \
    {                                                                                              \
        .name = type_name, .mode = type_mode, .options = gen_options, .check_name = gen_name,      \
        .root = gen_root, .check_override = gen_override, .select = gen_select,                    \
        .resolve = gen_resolve                                                                     \
    }
/* As their workers know them: xgen and xord are types that the engine has no functions of. */
static const struct carto_type gen = GEN("gen", CARTO_PURE);
static const struct carto_type ord = GEN("ord", CARTO_ORDERED);
static const struct carto_type xgen = GEN("xgen", CARTO_PURE);
static const struct carto_type xord = GEN("xord", CARTO_ORDERED);
static const struct carto_type *const types[] = {&gen, &ord, &xgen, &xord};
static const struct plan_types known = {types, ARRAY_COUNT(types)};

static const struct carto_type *external(struct arena *a, const char *name, const char *definition)
{
    const struct carto_external *e = NULL;
    int rc = external_read(a, str_from(name), str_from(definition), &e, NULL);
    QP_ASSERT(rc == QP_OK);
    return &e->type;
}

/* As the engine knows them; made once. */
static const struct plan_types *engine_types(void)
{
    static struct qp_env env;
    static struct arena arena;
    static const struct carto_type *list[ARRAY_COUNT(types)];
    static const struct plan_types all = {list, ARRAY_COUNT(types)};
    if (list[0] == NULL) {
        qp_env_init(&env);
        env_complete(&env);
        arena_init(&arena, &env, 0);
        list[2] = external(&arena, "xgen", "{\"mode\":\"pure\"}");
        list[3] = external(&arena, "xord", "{\"mode\":\"ordered\"}");
        list[1] = &ord;
        list[0] = &gen;
    }
    return &all;
}

static int open_known(const struct face_options *options, void **out_state)
{
    struct traversals *s = NULL;
    QP_TRY(traversals_open(options->env, engine_types(), &s));
    *out_state = s;
    return QP_OK;
}

/* ------------------------------------------------------------------------------------------- the world */

struct traversals_world {
    struct sim *sim;
    char body[256];
    struct face face;
    struct faces *faces[SIM_NODES_MAX];
};

static void create(void *world, struct sim *sim, struct sim_random *r)
{
    struct traversals_world *w = world;
    const char *type = types[random_below(r, ARRAY_COUNT(types))]->name;
    bool is_split = random_below(r, 2) == 0;
    static const int pages[] = {1, 2, 3, 7, 500};
    w->sim = sim;
    w->face = carto_face;
    w->face.open = open_known;
    (void)snprintf(
        w->body, sizeof w->body,
        "{\"roots\":[\"%s:0\",\"%s:1\"],\"%s\":{\"seed\":%lld,\"nodes\":%lld},\"split\":%s,"
        "\"page\":%d,\"depth\":%lld}",
        type, type, type, (long long)random_below(r, 1000000), (long long)(3 + random_below(r, 8)),
        is_split ? "true" : "false", pages[random_below(r, ARRAY_COUNT(pages))],
        (long long)(1 + random_below(r, 4)));
    sim_cover(type[0] == 'x' ? "traversal.external"
              : is_split     ? "traversal.split"
                             : "traversal.fused");
    sim_cover(is_ordered(str_from(type)) ? "traversal.ordered" : "traversal.pure");
    scene_start(sim, random_below(r, 50),
                &(struct scene_job){
                    .jid = JID, .kind = CARTO_KIND, .workflow = CARTO_NAME, .input = w->body});
}

static struct faces *open_faces(void *world, int node, const struct qp_env *env)
{
    struct traversals_world *w = world;
    const struct face *kinds[] = {&single_face, &w->face};
    int rc =
        faces_open(&(struct face_options){.env = env}, kinds, ARRAY_COUNT(kinds), &w->faces[node]);
    QP_ASSERT(rc == QP_OK);
    return w->faces[node];
}

static void leave(void *world, int node)
{
    struct traversals_world *w = world;
    faces_close(w->faces[node]);
    w->faces[node] = NULL;
}

/* ------------------------------------------------------------------------------------------ its workers */

static enum carto_step step_of(qp_str topic)
{
    return memmem(topic.p, topic.n, ".select.", 8) != NULL    ? CARTO_STEP_SELECT
           : memmem(topic.p, topic.n, ".resolve.", 9) != NULL ? CARTO_STEP_RESOLVE
                                                              : CARTO_STEP_TRAVERSE;
}

/* What SELECT has answered before, as it is committed. */
static int pending_of(struct traversals_world *w, struct arena *a, const struct task *task,
                      qp_str *out_pending)
{
    struct data_row key = {.ns = STORE_NS_DEFAULT, .job = scene_job_number(w->sim, JID)};
    const void *row = NULL;
    int rc;
    QP_TRY(pending_name(a, 'p', path_of(task->addr), &key.name));
    rc = store_get(scene_store(w->sim), a, TABLE_data, &key, &row, NULL);
    *out_pending = rc == QP_OK ? ((const struct data_row *)row)->value : QP_NONE;
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

/* A set of exclusions as a list. */
static void put_exclusions(struct json_writer *j, qp_str set)
{
    json_key(j, QP_STR("exclusions"));
    json_begin_array(j);
    while (set.n > 0) {
        const char *end = memchr(set.p, '\n', set.n);
        size_t n = (size_t)(end - set.p);
        json_put_str(j, (qp_str){set.p, n});
        set = (qp_str){end + 1, set.n - n - 1};
    }
    json_end_array(j);
}

/* What RESOLVE answers of an external type. */
static int tell_relations(struct arena *a, const struct carto_relations *relations,
                          qp_str *out_answer)
{
    struct buf text;
    struct json_writer j;
    bool is_copied;
    buf_init(&text, a->env, 0);
    json_writer_init(&j, &text);
    json_begin_object(&j);
    json_key(&j, QP_STR("relations"));
    json_begin_array(&j);
    for (size_t i = 0; i < relations->count; i++) {
        const struct carto_relation *to = &relations->rows[i];
        qp_str target;
        QP_TRY(package_write(a, &(struct carto_package){.id = to->target}, &target));
        json_begin_object(&j);
        json_key(&j, QP_STR("target"));
        json_put_str(&j, target);
        json_key(&j, QP_STR("advice"));
        json_put_str(&j, to->advice);
        put_exclusions(&j, to->exclusions);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
    is_copied = json_writer_done(&j) == QP_OK && arena_copy(a, buf_slice(&text), out_answer);
    buf_done(&text);
    return is_copied ? QP_OK : QP_E_NOMEM;
}

static int tell(const struct split_item *item, struct arena *a, enum carto_step step,
                qp_str *out_answer)
{
    struct carto_relations relations;
    struct carto_outcome outcome;
    qp_str kept;
    QP_TRY(split_run(item, a, step, &kept, NULL));
    if (item->item.target.type.p[0] != 'x' || step == CARTO_STEP_SELECT) {
        *out_answer = kept;
        return QP_OK;
    }
    QP_TRY(split_relations(a->env, a, kept, &relations, &outcome));
    return tell_relations(a, &relations, out_answer);
}

static int run_step(struct traversals_world *w, struct arena *a, const struct task *task,
                    qp_str *out_answer)
{
    const struct qp_env *env = scene_env(w->sim);
    struct carto_plan plan;
    struct split_item item = {.env = env, .request = &plan.request};
    QP_TRY(plan_read(env, a, &known, str_from(w->body), &plan, NULL));
    QP_TRY(item_read(env, a, path_of(task->addr), task->input, &item.item));
    QP_TRY(pending_of(w, a, task, &item.pending));
    return tell(&item, a, step_of(task->topic), out_answer);
}

static void execute(void *world, int node, const struct task *task, struct scene_answer *out)
{
    struct traversals_world *w = world;
    struct arena a;
    qp_str answer = QP_STR("{\"hash\":\"h\"}");
    int rc = QP_OK;
    (void)node;
    *out = (struct scene_answer){.kind = RESULT_DONE};
    arena_init(&a, scene_env(w->sim), 0);
    if (!str_equal(task->topic, CARTO_FORMAT_TOPIC)) {
        rc = run_step(w, &a, task, &answer);
    }
    if (rc != QP_OK) { /* the item has gone on since: this delivery is late */
        answer = QP_STR("{}");
    }
    QP_ASSERT(answer.n < sizeof out->output);
    memcpy(out->output, answer.p, answer.n);
    out->output[answer.n] = '\0';
    arena_done(&a);
}

/* ------------------------------------------------------------------------------------ what must come of it */

static int expect(struct traversals_world *w, struct arena *a, char out_text[SCENE_TEXT_SIZE])
{
    const struct qp_env *env = scene_env(w->sim);
    struct carto_plan plan;
    struct carto_run memory;
    struct carto_sums sums;
    struct omap memo;
    struct gen options;
    qp_str counts;
    int rc;
    QP_TRY(plan_read(env, a, &known, str_from(w->body), &plan, NULL));
    omap_init(&memo, env);
    for (size_t i = 0; i < known.count; i++) {
        options = *(const struct gen *)plan.uses[i].options;
        if (options.nodes > 0) {
            break;
        }
    }
    options.memo = &memo;
    for (size_t i = 0; i < known.count; i++) {
        plan.uses[i].options = &options;
    }
    cartorun_init(&memory, env, &plan.request);
    rc = cartorun_traverse(&memory, plan.roots, plan.root_count, NULL);
    sums = (struct carto_sums){memory.counts, memory.counts.items};
    if (rc == QP_OK) {
        rc = sums_write(a, &sums, &counts);
    }
    if (rc == QP_OK) {
        (void)snprintf(
            out_text, SCENE_TEXT_SIZE,
            "{\"end-detect-result\":\"DONE\",\"end-detect-reason\":\"%s\",\"counts\":%.*s,"
            "\"result\":{\"hash\":\"h\"}}",
            stage_end(&memory.counts), STR_ARG(counts));
    }
    cartorun_done(&memory);
    omap_done(&memo);
    return rc;
}

static bool verify(void *world, struct sim *sim, char out_text[SCENE_TEXT_SIZE])
{
    struct traversals_world *w = world;
    char expected[SCENE_TEXT_SIZE];
    struct scene_end end;
    struct arena a;
    int rc;
    arena_init(&a, scene_env(sim), 0);
    rc = expect(w, &a, expected);
    arena_done(&a);
    QP_ASSERT(rc == QP_OK);
    scene_outcome(sim, JID, &end);
    if (end.ended && scene_was_ended(sim, JID)) {
        sim_cover("traversal.ended");
        return true;
    }
    if (end.ended && end.state == JOB_COMPLETED && strcmp(end.output, expected) == 0) {
        sim_cover("traversal.completed");
        return true;
    }
    (void)snprintf(out_text, SCENE_TEXT_SIZE, "ended %d as %d with '%.400s', not '%.400s' of %s",
                   end.ended, (int)end.state, end.output, expected, w->body);
    return false;
}

static const char *const topics[] = {"carto.format",
                                     "carto.select.gen",
                                     "carto.resolve.gen",
                                     "carto.traverse.gen",
                                     "carto.resolve.ord",
                                     "carto.traverse.ord",
                                     "carto.select.xgen",
                                     "carto.resolve.xgen",
                                     "carto.select.xord",
                                     "carto.resolve.xord",
                                     NULL};

static const char *const needs[] = {"model.alone",         "model.serial",
                                    "model.rows",          "traversal.split",
                                    "traversal.fused",     "traversal.pure",
                                    "traversal.ordered",   "traversal.external",
                                    "traversal.completed", NULL};

const struct scene scene_traversals = {.name = "traversals",
                                       .size = sizeof(struct traversals_world),
                                       .create = create,
                                       .faces = open_faces,
                                       .leave = leave,
                                       .topics = topics,
                                       .stays_young = true,
                                       .execute = execute,
                                       .verify = verify,
                                       .needs = needs};
