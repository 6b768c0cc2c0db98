/* program.c - how a traversal moves: the trigger, REGISTER, gates, FORMAT (see program.h; items: item.c)
 *
 *   I1  the semaphore is the number of open rows: register, gates, items, format                           (fsck S4)
 *   I2  the gate of a level is there before its first item, and while an item of the level before it is open
 *   I3  every item is run by its gate, in the order of addresses, whatever the size of a page
 *   I4  FORMAT is made by the edge of the one gate that has no items, and by nothing else
 *   I5  sums = what the endings of all items add up to                                                     (fsck T2)
 *
 * ADR 46 says what stands there after each commit, and what follows. If we crash before a commit, its message comes again
 * and finds the same rows; stages are pure functions of them, so it decides the same.
 */
#include "carto/program.h"

#include <stdio.h>

#include "carto/item.h"

#define CODE_END 204 /* of the edge of a gate without items */

static const struct qp_env *env_of(const struct turn *t)
{
    return &((const struct traversals *)t->program->context)->env;
}

static bool is_trigger(const struct turn *t)
{
    return t->act->category == 'D';
}

static bool is_gate(const struct turn *t)
{
    return str_equal(address_gate(t->site.addr), t->site.addr);
}

static bool is_item(const struct turn *t)
{
    return t->site.addr.p[0] == GATE_MARK && !is_gate(t);
}

static bool is_format(const struct turn *t)
{
    return str_equal(t->site.addr, CARTO_FORMAT_ADDRESS);
}

/* --------------------------------------------------------------------------------------------- Leg1 */

static int describe(struct turn *t, struct op_act_create *row)
{
    row->category = 'A';
    row->kind = is_gate(t) ? CARTO_ROW_GATE : CARTO_ROW_OTHER;
    row->input = QP_NONE;
    return QP_OK;
}

/* REGISTER begins by itself; a gate waits for the ways to it, and while its level runs the job is running. */
static int enter(struct turn *t)
{
    if (is_format(t)) {
        return turn_task(t, CARTO_FORMAT_TOPIC);
    }
    return is_gate(t) ? QP_OK
                      : turn_send(t, t->site.addr, QP_STR("page"), CODE_PENDING, QP_STR("{}"));
}

/* ----------------------------------------------------------------------------------------- register */

/* How far the roots are made: {"root":N,"after":NAME,"ordinal":N}; of a root type:* `after` is the last name. */
struct place {
    int64_t root;
    qp_str after;
    int64_t ordinal;
};

static int place_read(struct turn *t, qp_str text, struct place *out)
{
    struct raw_walk w = {.rest = text};
    struct place place = {0};
    while (raw_each(&w)) {
        bool is_good = true;
        if (str_equal(w.key, QP_STR("root"))) {
            is_good = number_read(w.value, &place.root);
        } else if (str_equal(w.key, QP_STR("ordinal"))) {
            is_good = number_read(w.value, &place.ordinal);
        } else {
            is_good = raw_text(env_of(t), turn_arena(t), w.value, &place.after);
        }
        if (!is_good) {
            return QP_E_CORRUPT;
        }
    }
    *out = place;
    return QP_OK;
}

static int place_write(struct turn *t, const struct place *place, qp_str *out_text)
{
    if (place->after.n == 0) {
        return carto_print(turn_arena(t), out_text, "{\"root\":%lld,\"ordinal\":%lld}",
                           (long long)place->root, (long long)place->ordinal);
    }
    return carto_print(turn_arena(t), out_text,
                       "{\"root\":%lld,\"after\":\"%.*s\",\"ordinal\":%lld}",
                       (long long)place->root, STR_ARG(place->after), (long long)place->ordinal);
}

static int root_born(struct turn *t, const struct carto_plan *plan, struct place *place,
                     qp_str root)
{
    struct carto_item item;
    struct qp_err err = {0};
    qp_str sentence;
    int rc = stage_root(&plan->request, turn_arena(t), (uint64_t)place->ordinal, root, &item, &err);
    if (rc == QP_E_NOMEM || rc == QP_E_CORRUPT) {
        return rc;
    }
    place->ordinal++;
    if (rc == QP_OK) {
        return item_born(t, &item);
    }
    QP_TRY(carto_print(turn_arena(t), &sentence, "%s", err.text));
    return turn_refuse(t, QP_STR("ROOT"), sentence);
}

/* One more package of a root type:*; *out_made false: there is none left. */
static int next_of_all(struct turn *t, const struct carto_plan *plan, struct place *place,
                       bool *out_made)
{
    qp_str root = plan->roots[place->root];
    struct carto_id id;
    const struct carto_use *use;
    qp_str name = QP_NONE;
    struct qp_err err = {0};
    bool is_id = id_read(root, &id);
    QP_ASSERT(is_id);
    use = carto_use_of(&plan->request, id.type);
    QP_ASSERT(use != NULL);
    QP_TRY(use->type->next_root(&plan->request, place->after.n > 0 ? place->after : QP_NONE,
                                out_made, &name, &err));
    if (!*out_made) {
        place->root++;
        place->after = QP_NONE;
        return QP_OK;
    }
    place->after = name;
    QP_TRY(carto_print(turn_arena(t), &root, "%.*s:%.*s", STR_ARG(id.type), STR_ARG(name)));
    return root_born(t, plan, place, root);
}

static int next_root(struct turn *t, const struct carto_plan *plan, struct place *place,
                     bool *out_made)
{
    qp_str root = plan->roots[place->root];
    if (plan_is_all(root)) {
        return next_of_all(t, plan, place, out_made);
    }
    *out_made = true;
    place->root++;
    return root_born(t, plan, place, root);
}

static int register_spawn(struct turn *t, struct spawn *spawn)
{
    const struct carto_plan *plan = NULL;
    struct place place;
    int64_t made = 0;
    qp_str next;
    bool is_first = guid_ordinal(t->guid.ledger) == 1;
    QP_TRY(turn_plan(t, &plan));
    QP_TRY(place_read(t, t->guid.output, &place));
    if (is_first) { /* the gate is there before its first item */
        QP_TRY(gate_arrive(t, &(struct gate_visit){.ways = 2, .delta = -1}));
    }
    while (made < plan->page && place.root < (int64_t)plan->root_count && !t->ends &&
           (made == 0 || turn_has_time(t))) {
        bool is_made = false;
        QP_TRY(next_root(t, plan, &place, &is_made));
        made += is_made ? 1 : 0;
    }
    if (t->ends) {
        return QP_OK;
    }
    QP_TRY(turn_count(t, &(struct carto_counts){0}, made));
    spawn->pending = place.root < (int64_t)plan->root_count;
    if (t->ends || !spawn->pending) {
        return t->ends ? QP_OK : gate_arrive(t, &(struct gate_visit){.ways = 2, .delta = -1});
    }
    QP_TRY(place_write(t, &place, &next));
    return turn_send(t, t->site.addr, QP_STR("page"), CODE_PENDING, next);
}

/* -------------------------------------------------------------------------------------------- gates */

static uint64_t level_of(qp_str gate)
{
    int64_t level = 0;
    bool is_number = number_read((qp_str){gate.p + 2, gate.n - 2}, &level);
    QP_ASSERT(is_number && level >= 0);
    return (uint64_t)level;
}

/* END-DETECT with DONE: the reason, and the row of FORMAT. */
static int end_detect(struct turn *t, struct work *work)
{
    struct carto_sums sums;
    struct op_act_create row = {.addr = CARTO_FORMAT_ADDRESS,
                                .category = 'A',
                                .kind = CARTO_ROW_FORMAT,
                                .topic = CARTO_FORMAT_TOPIC};
    QP_TRY(turn_sums(t, &sums));
    QP_TRY(turn_row(t, &row));
    work->code = CODE_END;
    return carto_print(turn_arena(t), &work->output,
                       "{\"end-detect-result\":\"DONE\",\"end-detect-reason\":\"%s\"}",
                       stage_end(&sums.counts));
}

/* An edge has no payload: it begins the level, unless that has no items at all. */
static int gate_work(struct turn *t, struct work *work)
{
    struct bundle_rows first;
    const struct carto_plan *plan = NULL;
    bool is_selected = true;
    if (!str_is_none(t->payload)) {
        return QP_OK;
    }
    QP_TRY(turn_plan(t, &plan));
    if (plan_selects_apart(
            plan)) { /* SELECT is a phase of its own, and its scope has the second edge */
        QP_TRY(turn_is_edge(t, CARTO_PHASE_SELECT, &is_selected));
    }
    QP_TRY(turn_range(t, t->site.addr, QP_NONE, 1, &first));
    if (first.count == 0) {
        return end_detect(t, work);
    }
    work->code = CODE_PENDING;
    return carto_print(
        turn_arena(t), &work->output,
        "{\"phase\":\"%.*s\",\"after\":\"%.*s\",\"end-detect-result\":\"IN_PROGRESS\"}",
        STR_ARG(is_selected ? CARTO_PHASE_RUN : CARTO_PHASE_SELECT), STR_ARG(t->site.addr));
}

static int page_read(struct turn *t, struct level_page *page)
{
    struct raw_walk w = {.rest = t->guid.output};
    while (raw_each(&w)) {
        qp_str *into = str_equal(w.key, QP_STR("phase"))   ? &page->phase
                       : str_equal(w.key, QP_STR("after")) ? &page->after
                                                           : NULL;
        if (into != NULL && !raw_text(env_of(t), turn_arena(t), w.value, into)) {
            return QP_E_CORRUPT;
        }
    }
    return page->phase.n > 0 && page->after.n > 0 ? QP_OK : QP_E_CORRUPT;
}

static int gate_spawn(struct turn *t, struct spawn *spawn)
{
    struct level_page page = {0};
    struct gate_visit select = {
        .level = level_of(t->site.addr), .purpose = CARTO_PHASE_SELECT, .ways = 1, .delta = -1};
    struct gate_visit next = {.level = level_of(t->site.addr) + 1, .ways = 2, .delta = -1};
    const struct carto_plan *plan = NULL;
    if (t->guid.code == CODE_END) {
        return turn_child_at(t, CARTO_FORMAT_ADDRESS);
    }
    QP_TRY(page_read(t, &page));
    if (t->guid.code == 200 && str_equal(page.phase, CARTO_PHASE_SELECT)) {
        spawn->pending = true;
        return gate_arrive(t, &select);
    }
    if (t->guid.code == 200) { /* the last page is through */
        return gate_arrive(t, &next);
    }
    if (guid_ordinal(t->guid.ledger) == 1) { /* the next gate is there before its first item */
        QP_TRY(gate_arrive(t, &next));
    }
    QP_TRY(turn_plan(t, &plan));
    page.limit = (size_t)plan->page;
    return turn_level(t, &page);
}

/* ------------------------------------------------------------------------------------------- program */

static int work(struct turn *t, struct work *work)
{
    if (is_item(t)) {
        return item_work(t, work);
    }
    return is_gate(t) ? gate_work(t, work) : QP_OK;
}

static int spawn(struct turn *t, struct spawn *spawn)
{
    if (is_item(t)) {
        return item_spawn(t, spawn);
    }
    if (is_gate(t)) {
        return gate_spawn(t, spawn);
    }
    if (is_trigger(t)) {
        return turn_child(t, CARTO_REGISTER, QP_NONE);
    }
    return is_format(t) ? turn_spawn_nothing(t) : register_spawn(t, spawn);
}

/* The job's output: what FORMAT has answered, the reason and the sums. */
static int complete(struct turn *t, struct complete *complete)
{
    struct carto_sums sums;
    qp_str counts;
    if (t->job->state != JOB_COMPLETED) {
        return QP_OK;
    }
    QP_TRY(turn_sums(t, &sums));
    QP_TRY(sums_write(turn_arena(t), &sums, &counts));
    return carto_print(turn_arena(t), &complete->output,
                       "{\"end-detect-result\":\"DONE\",\"end-detect-reason\":\"%s\","
                       "\"counts\":%.*s,\"result\":%.*s}",
                       stage_end(&sums.counts), STR_ARG(counts), STR_ARG(t->guid.output));
}

struct program carto_program(struct traversals *state)
{
    return (struct program){.kind = CARTO_KIND,
                            .name = CARTO_NAME,
                            .context = state,
                            .describe = describe,
                            .enter = enter,
                            .work = work,
                            .spawn = spawn,
                            .complete = complete};
}
