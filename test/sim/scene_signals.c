/* scene_signals.c - signals with ids, which clients repeat at any time, also when they were delivered
 *
 *   trigger - first - second - loop (pivot) - round +- back (to loop)
 *                                                   +- (nothing, when the job has had all its signals)
 *
 * first, second and every round are hooks, all at one topic and key, and so are those of every other job. Each job needs
 * so many signals as its input says, and there are as many as all of them need. What a hook got stands in the
 * job's output.
 *
 * In some worlds the signals go to one job each, by one of two names, and the activities listen for both: what is kept
 * comes up to two at once, and the job ends with the listen that has brought the last one.
 * The rule: each id that was acknowledged is in the outputs exactly once, and none is kept in the end.
 */
#include <stdio.h>

#include "sim/scene.h"
#include "support/shapes.h"

#define KIND 350
#define NAMED_KIND 351
#define TOPIC "repeat"
#define KEY "k"
#define JOBS_MOST 2
#define ROUNDS_MOST 4
#define SIGNALS_MOST (JOBS_MOST * (2 + ROUNDS_MOST))
#define LOOP_DEPTH 4 /* segments of the pivot's address */

struct signals_world {
    const struct program *programs[2];
    bool named; /* signals go to a job */
    int job_count;
    int signal_count;
};

/* ----------------------------------------------------------------------------------------- the program */

static bool is_hook(const struct turn *t)
{
    return shape_is(t->at.name, "first") || shape_is(t->at.name, "second") ||
           shape_is(t->at.name, "round");
}

static int signals_describe(struct turn *t, struct op_act_create *row)
{
    bool loop = shape_is(t->at.name, "loop");
    bool back = shape_is(t->at.name, "back");
    row->category = is_hook(t) ? 'A' : loop ? 'B' : back ? 'C' : 'D';
    row->cyclic = loop || back ? CYCLIC_PIVOT : CYCLIC_NO;
    return QP_OK;
}

static int signals_enter(struct turn *t)
{
    static const qp_str names[] = {{"even", 4}, {"odd", 3}};
    if (t->program->takes_signals && is_hook(t)) {
        return turn_listen(t, &(struct turn_listen){names, ARRAY_COUNT(names), 2});
    }
    return shape_is(t->at.name, "back") ? turn_cycle(t, QP_STR("loop"), LOOP_DEPTH, t->act->input)
                                        : turn_hook(t, QP_STR(TOPIC), QP_STR(KEY), false);
}

/* What came is written down: `words`, each with a semicolon behind it. */
static int note_signals(struct turn *t, qp_str words, int64_t count)
{
    const struct data_row *row = NULL;
    qp_str list;
    QP_TRY(turn_data(t, QP_STR("list"), &row));
    QP_TRY(shape_print(t, &list, "%.*s%.*s", STR_ARG(row == NULL ? QP_STR("") : row->value),
                       STR_ARG(words)));
    QP_TRY(turn_data_put(t, QP_STR("list"), list));
    return shape_add(t, "got", count);
}

/* All signals of an envelope; their payloads are words. */
static int note_envelope(struct turn *t, qp_str text)
{
    static const char mark[] = "\"data\":";
    qp_str words = QP_STR("");
    int64_t count = 0;
    for (size_t i = 0; i + sizeof mark - 1 < text.n; i++) {
        size_t n = i + sizeof mark - 1;
        if (memcmp(text.p + i, mark, sizeof mark - 1) != 0) {
            continue;
        }
        for (i = n; i < text.n && text.p[i] != '}'; i++) {}
        QP_TRY(shape_print(t, &words, "%.*s%.*s;", STR_ARG(words), (int)(i - n), text.p + n));
        count++;
    }
    return note_signals(t, words, count);
}

/* Step 1 of a hook: what it got is written down. */
static int signals_work(struct turn *t, struct work *work)
{
    qp_str word;
    if (!is_hook(t)) {
        return QP_OK;
    }
    if (t->program->takes_signals) {
        return note_envelope(t, work->output);
    }
    QP_TRY(shape_print(t, &word, "%.*s;", STR_ARG(work->output)));
    return note_signals(t, word, 1);
}

static int signals_spawn(struct turn *t, struct spawn *spawn)
{
    static const char *const next[][2] = {
        {"trigger", "first"}, {"first", "second"}, {"second", "loop"}, {"loop", "round"}};
    int64_t got = 0;
    (void)spawn;
    QP_TRY(shape_read(t, "got", &got));
    if (t->program->takes_signals && is_hook(t) && got >= shape_number(t->act->input)) {
        return QP_OK;
    }
    for (size_t i = 0; i < ARRAY_COUNT(next); i++) {
        if (shape_is(t->at.name, next[i][0])) {
            return turn_child(t, str_from(next[i][1]), t->act->input);
        }
    }
    return got < shape_number(t->act->input) ? turn_child(t, QP_STR("back"), t->act->input) : QP_OK;
}

static int signals_complete(struct turn *t, struct complete *complete)
{
    const struct data_row *row = NULL;
    QP_TRY(turn_data(t, QP_STR("list"), &row));
    complete->output = row == NULL ? QP_STR("") : row->value;
    return QP_OK;
}

static const struct program signals_program = {.kind = KIND,
                                               .name = "signals",
                                               .describe = signals_describe,
                                               .enter = signals_enter,
                                               .work = signals_work,
                                               .spawn = signals_spawn,
                                               .complete = signals_complete};

static const struct program named_program = {.kind = NAMED_KIND,
                                             .name = "named signals",
                                             .takes_signals = true,
                                             .describe = signals_describe,
                                             .enter = signals_enter,
                                             .work = signals_work,
                                             .spawn = signals_spawn,
                                             .complete = signals_complete};

/* ------------------------------------------------------------------------------------------- the scene */

#define NAME_ROOM 24

static void name_job(char out[NAME_ROOM], int number)
{
    (void)snprintf(out, NAME_ROOM, "signals-%d", number);
}

static void name_signal(char out[NAME_ROOM], int number)
{
    (void)snprintf(out, NAME_ROOM, "s%d", number);
}

static void plan_signal(const struct signals_world *w, struct sim *sim, struct sim_random *r,
                        const char *jid, int number)
{
    char name[NAME_ROOM];
    name_signal(name, number);
    if (w->named) {
        scene_signal_job(sim, random_below(r, 300), jid, number % 2 == 0 ? "even" : "odd", name,
                         (int)random_below(r, 5));
        return;
    }
    scene_signal_with_id(sim, random_below(r, 300), TOPIC, KEY, name, (int)random_below(r, 5));
}

static void signals_create(void *world, struct sim *sim, struct sim_random *r)
{
    struct signals_world *w = world;
    w->named = random_chance(r, 40);
    w->programs[0] = w->named ? &named_program : &signals_program;
    w->job_count = 1 + (int)random_below(r, JOBS_MOST);
    for (int i = 0; i < w->job_count; i++) {
        int needs = 2 + 1 + (int)random_below(r, ROUNDS_MOST);
        char jid[NAME_ROOM];
        char input[NAME_ROOM];
        name_job(jid, i);
        (void)snprintf(input, sizeof input, "%d", needs);
        scene_start(
            sim, random_below(r, 50),
            &(struct scene_job){
                .jid = jid, .kind = w->programs[0]->kind, .workflow = "signals", .input = input});
        for (int k = 0; k < needs; k++) {
            plan_signal(w, sim, r, jid, w->signal_count++);
        }
    }
}

static const struct program *const *signals_programs(void *world, int node,
                                                     const struct qp_env *env)
{
    struct signals_world *w = world;
    (void)node;
    (void)env;
    return w->programs;
}

static void signals_execute(void *world, int node, const struct task *task,
                            struct scene_answer *out)
{
    (void)node;
    (void)world;
    (void)task;
    *out = (struct scene_answer){.kind = RESULT_DONE};
}

/* How often the list has the name, which ends with a semicolon. */
static int count_name(const char *list, const char *name)
{
    int count = 0;
    char word[18];
    int n = snprintf(word, sizeof word, "%s;", name);
    for (const char *p = list; *p != '\0'; p = strchr(p, ';') + 1) {
        count += strncmp(p, word, (size_t)n) == 0;
    }
    return count;
}

static bool signals_verify(void *world, struct sim *sim, char out_text[SCENE_TEXT_SIZE])
{
    const struct signals_world *w = world;
    struct scene_end ends[JOBS_MOST];
    bool given_up = false;
    for (int i = 0; i < w->job_count; i++) {
        char jid[NAME_ROOM];
        name_job(jid, i);
        scene_outcome(sim, jid, &ends[i]);
        given_up = given_up || scene_was_ended(sim, jid);
    }
    for (int i = 0; i < w->signal_count; i++) {
        char name[NAME_ROOM];
        int count = 0;
        name_signal(name, i);
        for (int k = 0; k < w->job_count; k++) {
            count += ends[k].state == JOB_COMPLETED ? count_name(ends[k].output, name) : 0;
        }
        if (count > 1 || (count == 0 && !given_up)) {
            (void)snprintf(out_text, SCENE_TEXT_SIZE, "the signal %s was delivered %d times", name,
                           count);
            return false;
        }
    }
    if (!given_up && scene_rows(sim, TABLE_hook_sig) > 0) {
        (void)snprintf(out_text, SCENE_TEXT_SIZE, "a signal is kept that was delivered");
        return false;
    }
    sim_cover(given_up ? "signals.given up" : w->named ? "signals.named" : "signals.once");
    return true;
}

static const char *const signals_topics[] = {NULL};

const struct scene scene_signals = {.name = "signals",
                                    .size = sizeof(struct signals_world),
                                    .create = signals_create,
                                    .programs = signals_programs,
                                    .topics = signals_topics,
                                    .stays_young = true,
                                    .execute = signals_execute,
                                    .verify = signals_verify};
