/* plot_text.c - generated graphs as YAML (see plot.h) */
#include <stdarg.h>
#include <stdio.h>

#include "sim/plot.h"

struct writing {
    const struct plot *plot;
    int version;
    char *text; /* of the app */
    size_t size;
    char ways[PLOT_ACTS_MAX][4096]; /* of each activity, as they come */
    char names[PLOT_ACTS_MAX][32];
    /* The rules of hooks, by topic. */
    char webs[8192];
    char boths[8192];
    char listens[8192];
};

void plot_name(char out_name[32], enum plot_kind kind, int act)
{
    (void)snprintf(out_name, 32, "%s%d", plot_kind_names[kind], act);
}

QP_PRINTF(2, 3) static void say(struct writing *w, const char *format, ...)
{
    va_list arguments;
    int n;
    va_start(arguments, format);
    n = vsnprintf(w->text + w->size, PLOT_TEXT_SIZE - w->size, format, arguments);
    va_end(arguments);
    QP_ASSERT(n >= 0 && (size_t)n < PLOT_TEXT_SIZE - w->size);
    w->size += (size_t)n;
}

/* ------------------------------------------------------------------------------------------ activities */

/* What every activity leaves: its sum, and which version it is. `brought` is added to the sum, too. */
static void say_job(struct writing *w, int act, const char *brought)
{
    say(w,
        ", job: { maps: { v: %d, s%d: { '@pipe': [{ '@pipe': [['{$job.data.s%d}', 0], "
        "['{@conditional.nullish}']] }, { '@pipe': [['{$self.output.data.x}', 0], "
        "['{@conditional.nullish}']] }, { '@pipe': [['%s', 0], ['{@conditional.nullish}']] }, "
        "['{@math.add}']] } } }",
        w->version, act, act, brought);
}

static void say_begin(struct writing *w, enum plot_kind kind, int act, const char *type)
{
    plot_name(w->names[act], kind, act);
    say(w, "        %s: { type: %s", w->names[act], type);
}

static void say_end(struct writing *w)
{
    say(w, " }\n");
}

/* output: x is a constant and the x of another. */
static void say_output(struct writing *w, int from, int64_t c)
{
    say(w,
        ", output: { maps: { x: { '@pipe': [['{%s.output.data.x}', %lld], ['{@math.add}']] } } }",
        w->names[from], (long long)c);
}

/* A hook that passes on. */
static void say_pass(struct writing *w, enum plot_kind kind, int act, int from, int64_t c,
                     const char *more)
{
    say_begin(w, kind, act, "hook");
    say(w, "%s", more);
    say_output(w, from, c);
    say_job(w, act, "{$self.hook.data.none}");
    say_end(w);
}

/* A hook whose output is what its signal brought, too. */
static void say_web(struct writing *w, const struct plot_part *part, int act, int from)
{
    say_begin(w, part->kind, act, "hook");
    say(w,
        ", output: { maps: { x: { '@pipe': [['{%s.output.data.x}', '{$self.hook.data.y}', %lld], "
        "['{@math.add}']] } } }",
        w->names[from], (long long)part->c);
    say_job(w, act, "{$self.hook.data.none}");
    say_end(w);
}

/* A hook that may get a signal or not: its sum says which. */
static void say_both(struct writing *w, const struct plot_part *part, int from)
{
    say_begin(w, part->kind, part->act, "hook");
    say(w, ", sleep: 0.0%lld", (long long)part->n * 2);
    say_output(w, from, part->c);
    say_job(w, part->act, "{$self.hook.data.y}");
    say_end(w);
}

static void say_worker(struct writing *w, const struct plot_part *part, int from, const char *more)
{
    say_begin(w, part->kind, part->act, "worker");
    say(w, ", topic: plot, input: { maps: { x: '{%s.output.data.x}', c: %lld, k: %s, n: %lld } }%s",
        w->names[from], (long long)part->c, plot_kind_names[part->kind], (long long)part->n, more);
    say_job(w, part->act, "{$self.hook.data.none}");
    say_end(w);
}

/* ---------------------------------------------------------------------------------------------- ways */

/* `more` are its conditions. */
static void way(struct writing *w, int from, int to, const char *more)
{
    char line[1024];
    int n = snprintf(line, sizeof line, "          - { to: %s%s }\n", w->names[to], more);
    QP_ASSERT(n > 0 && (size_t)n < sizeof line &&
              strlen(w->ways[from]) + (size_t)n < sizeof w->ways[from]);
    memcpy(w->ways[from] + strlen(w->ways[from]), line, (size_t)n + 1);
}

static void way_code(struct writing *w, int from, int to, int code)
{
    char more[64];
    (void)snprintf(more, sizeof more, ", conditions: { code: %d }", code);
    way(w, from, to, more);
}

static void way_when(struct writing *w, int from, int to, enum plot_when when)
{
    char more[256];
    if (when == WHEN_ALWAYS) {
        way_code(w, from, to, 200);
        return;
    }
    (void)snprintf(more, sizeof more,
                   ", conditions: { match: [{ expected: true, actual: { '@pipe': "
                   "[['{%s.output.data.x}'], ['{@number.%s}']] } }] }",
                   w->names[from], when == WHEN_EVEN ? "isEven" : "isOdd");
    way(w, from, to, more);
}

static void hook_rule(char *list, size_t size, const char *name)
{
    size_t n = strlen(list);
    n += (size_t)snprintf(list + n, size - n,
                          "          - { to: %s, conditions: { match: [{ expected: "
                          "'{$job.metadata.jid}', actual: '{$self.hook.data.job}' }, { expected: "
                          "%s, actual: '{$self.hook.data.act}' }] } }\n",
                          name, name);
    QP_ASSERT(n < size);
}

/* --------------------------------------------------------------------------------------------- parts */

static int write_list(struct writing *w, int part, int from, enum plot_when when);

static void write_errors(struct writing *w, const struct plot_part *part, int from)
{
    int act = part->act;
    say_worker(w, part, from, "");
    say_pass(w, part->kind, act + 1, from, part->c, "");
    say_pass(w, part->kind, act + 2, act, 1, "");
    say_begin(w, part->kind, act + 3, "hook");
    say(w,
        ", output: { maps: { x: { '@pipe': [{ '@pipe': [['{%s.output.data.x}', 0], "
        "['{@conditional.nullish}']] }, { '@pipe': [['{%s.output.data.x}', 0], "
        "['{@conditional.nullish}']] }, { '@pipe': [[1]] }, ['{@math.add}']] } } }",
        w->names[act + 1], w->names[act + 2]);
    say_job(w, act + 3, "{$self.hook.data.none}");
    say_end(w);
    way_code(w, act, act + 1, 500);
    way_code(w, act, act + 2, 200);
    way(w, act + 1, act + 3, "");
    way(w, act + 2, act + 3, "");
}

static void write_pending(struct writing *w, const struct plot_part *part, int from)
{
    int act = part->act;
    say_worker(w, part, from, "");
    say_pass(w, part->kind, act + 1, act, 1, "");
    say_pass(w, part->kind, act + 2, act, 1, "");
    way_code(w, act, act + 1, 202);
    way_code(w, act, act + 2, 200);
    if (part->joined) {
        say_pass(w, part->kind, act + 3, from, 1, "");
        say_pass(w, part->kind, act + 4, act + 2, 1, "");
        way_code(w, from, act + 3, 200);
        way(w, act + 1, act + 4, "");
        way(w, act + 2, act + 4, "");
        way(w, act + 3, act + 4, "");
    }
}

static void write_keep(struct writing *w, const struct plot_part *part, int from)
{
    int act = part->act;
    say_web(w, part, act, from);
    say_pass(w, part->kind, act + 1, act, 1, "");
    say_pass(w, part->kind, act + 2, act, 1, "");
    way_code(w, act, act + 1, 202);
    way_code(w, act, act + 2, 200);
    hook_rule(w->webs, sizeof w->webs, w->names[act]);
}

static void write_fed(struct writing *w, const struct plot_part *part, int from)
{
    int act = part->act;
    plot_name(w->names[act + 1], part->kind, act + 1);
    say_begin(w, part->kind, act, "signal");
    say(w, ", topic: plot.web, signal: { maps: { job: '{$job.metadata.jid}', act: %s, y: 3 } }",
        w->names[act + 1]);
    say_output(w, from, part->c);
    say_job(w, act, "{$self.hook.data.none}");
    say_end(w);
    say_web(w, part, act + 1, from);
    hook_rule(w->webs, sizeof w->webs, w->names[act + 1]);
}

static void write_tell(struct writing *w, const struct plot_part *part, int from)
{
    say_begin(w, part->kind, part->act, "signal");
    say(w, ", subtype: all, topic: plot.all, key_name: color, key_value: red, "
           "signal: { maps: { y: 3 } }");
    say_output(w, from, part->c);
    say_job(w, part->act, "{$self.hook.data.none}");
    say_end(w);
}

/* The child's id is that of this plane: the address of the one before has no round of its own when it is the
 * pivot, so the round is in it, too. */
static void write_call(struct writing *w, const struct plot_part *part, int from)
{
    const char *topic = part->kind == PLOT_again   ? "again"
                        : part->kind == PLOT_early ? "early"
                                                   : w->plot->child->topic;
    bool again = part->kind == PLOT_again;
    say_begin(w, part->kind, part->act, "await");
    say(w,
        ", topic: %s, input: { maps: { x: '{%s.output.data.x}', color: blue, n: %lld, %s: { "
        "'@pipe': [['{$job.metadata.jid}', '.', %s, '{%s.output.metadata.dad}', '.', "
        "'{%s.output.data.n}'], "
        "['{@string.concat}']] } } }%s%s",
        topic, w->names[from], (long long)part->n, again ? "who" : "id", w->names[part->act],
        w->names[from], w->names[part->pivot >= 0 ? part->pivot : from],
        again ? ", retry: { maximumAttempts: 9, initialInterval: 0.01, backoffCoefficient: 1, "
                "maximumInterval: 1 }"
              : "",
        part->kind == PLOT_detach ? ", await: false" : "");
    if (part->kind == PLOT_detach) {
        say_output(w, from, part->c);
    } else {
        say(w,
            ", output: { maps: { x: { '@pipe': [{ '@pipe': [['{$self.output.data.x}', 0], "
            "['{@conditional.nullish}']] }, { '@pipe': [[%lld]] }, ['{@math.add}']] } } }",
            (long long)part->c);
    }
    say_job(w, part->act, "{$self.hook.data.none}");
    say_end(w);
}

static void write_end(struct writing *w, const struct plot_part *part, int from)
{
    say_begin(w, part->kind, part->act, "interrupt");
    say(w, ", target: %s, descend: %s", w->plot->other, part->joined ? "true" : "false");
    say_output(w, from, part->c);
    say_job(w, part->act, "{$self.hook.data.none}");
    say_end(w);
}

static void write_skip(struct writing *w, const struct plot_part *part, int from)
{
    int act = part->act;
    say_pass(w, part->kind, act, from, 0, ", statusThreshold: 9999");
    say_pass(w, part->kind, act + 1, act, 0, "");
    say_pass(w, part->kind, act + 2, from, part->c, "");
    say_pass(w, part->kind, act + 3, act + 2, 1, "");
    way_code(w, from, act, 200);
    way(w, act, act + 1, "");
    way(w, act + 1, act + 3, "");
    way(w, act + 2, act + 3, "");
}

static void write_branches(struct writing *w, const struct plot_part *part, int from)
{
    int exits[PLOT_BRANCHES_MAX];
    for (int i = 0; i < part->branch_count; i++) {
        exits[i] = write_list(w, part->branches[i], from, part->when[i]);
    }
    if (part->kind == PLOT_any) {
        say_pass(w, part->kind, part->act, from, part->c, ", join: any");
    } else {
        say_begin(w, part->kind, part->act, "hook");
        say(w, ", output: { maps: { x: { '@pipe': [");
        for (int i = 0; i < part->branch_count; i++) {
            say(w, "{ '@pipe': [['{%s.output.data.x}', 0], ['{@conditional.nullish}']] }, ",
                w->names[exits[i]]);
        }
        say(w, "{ '@pipe': [[%lld]] }, ['{@math.add}']] } } }", (long long)part->c);
        say_job(w, part->act, "{$self.hook.data.none}");
        say_end(w);
    }
    for (int i = 0; i < part->branch_count; i++) {
        way_code(w, exits[i], part->act, 200);
    }
}

static void write_cycle(struct writing *w, const struct plot_part *part, int from)
{
    int act = part->act;
    int exit;
    say_begin(w, part->kind, act, "hook");
    say(w,
        ", cycle: true, output: { maps: { n: 1, x: { '@pipe': [['{%s.output.data.x}', %lld], "
        "['{@math.add}']] } } }",
        w->names[from], (long long)part->c);
    say_job(w, act, "{$self.hook.data.none}");
    say_end(w);
    exit = write_list(w, part->branches[0], act, WHEN_ALWAYS);
    say_pass(w, part->kind, act + 1, exit, 1, "");
    say_begin(w, part->kind, act + 2, "cycle");
    say(w,
        ", ancestor: %s, input: { maps: { x: '{%s.output.data.x}', n: { '@pipe': "
        "[['{%s.output.data.n}', 1], ['{@math.add}']] } } }",
        w->names[act], w->names[act + 1], w->names[act]);
    say_end(w);
    say_pass(w, part->kind, act + 3, act + 1, 1, "");
    way_code(w, exit, act + 1, 200);
    for (int i = 0; i < 2; i++) {
        char more[256];
        (void)snprintf(more, sizeof more,
                       ", conditions: { match: [{ expected: %s, actual: { '@pipe': "
                       "[['{%s.output.data.n}', %lld], ['{@conditional.less_than}']] } }] }",
                       i == 0 ? "true" : "false", w->names[act], (long long)part->n);
        way(w, act + 1, act + 2 + i, more);
    }
}

static int exit_of(const struct plot_part *part)
{
    switch (part->kind) {
    case PLOT_errors:
    case PLOT_skip:
    case PLOT_cycle:
        return part->act + 3;
    case PLOT_pending:
        return part->act + (part->joined ? 4 : 2);
    case PLOT_keep:
        return part->act + 2;
    case PLOT_fed:
    case PLOT_stop:
        return part->act + 1;
    default:
        return part->act;
    }
}

static void write_part(struct writing *w, const struct plot_part *part, int from)
{
    char more[64];
    switch (part->kind) {
    case PLOT_emit:
        say_pass(w, part->kind, part->act, from, part->c, ", emit: true");
        break;
    case PLOT_sleep:
        (void)snprintf(more, sizeof more, ", sleep: 0.0%lld", (long long)part->n);
        say_pass(w, part->kind, part->act, from, part->c, more);
        break;
    case PLOT_work:
    case PLOT_fail:
        say_worker(w, part, from, "");
        break;
    case PLOT_flaky:
        say_worker(w, part, from,
                   ", retry: { maximumAttempts: 9, initialInterval: 0.01, backoffCoefficient: 2, "
                   "maximumInterval: 0.1 }");
        break;
    case PLOT_errors:
        write_errors(w, part, from);
        break;
    case PLOT_pending:
        write_pending(w, part, from);
        break;
    case PLOT_web:
        say_web(w, part, part->act, from);
        hook_rule(w->webs, sizeof w->webs, w->names[part->act]);
        break;
    case PLOT_keep:
        write_keep(w, part, from);
        break;
    case PLOT_fed:
        write_fed(w, part, from);
        break;
    case PLOT_both:
        say_both(w, part, from);
        hook_rule(w->boths, sizeof w->boths, w->names[part->act]);
        break;
    case PLOT_listen:
        say_both(w, part, from);
        hook_rule(w->listens, sizeof w->listens, w->names[part->act]);
        break;
    case PLOT_tell:
        write_tell(w, part, from);
        break;
    case PLOT_call:
    case PLOT_again:
    case PLOT_detach:
    case PLOT_early:
        write_call(w, part, from);
        break;
    case PLOT_stop:
        say_begin(w, part->kind, part->act, "interrupt");
        say_end(w);
        say_pass(w, part->kind, part->act + 1, from, part->c, "");
        break;
    case PLOT_end:
        write_end(w, part, from);
        break;
    case PLOT_skip:
        write_skip(w, part, from);
        break;
    case PLOT_all:
    case PLOT_any:
        write_branches(w, part, from);
        break;
    case PLOT_cycle:
        write_cycle(w, part, from);
        break;
    default:
        say_pass(w, part->kind, part->act, from, part->c, "");
        break;
    }
}

/* The ways that lead into a part from the activity before it; those of branches are written with them. */
static void write_entry(struct writing *w, const struct plot_part *part, int from,
                        enum plot_when when)
{
    switch (part->kind) {
    case PLOT_all:
    case PLOT_any:
        break;
    case PLOT_skip:
        way_when(w, from, part->act + 2, when);
        break;
    case PLOT_fed:
    case PLOT_stop:
        way_when(w, from, part->act, when);
        way_when(w, from, part->act + 1, when);
        break;
    default:
        way_when(w, from, part->act, when);
        break;
    }
}

/* The number of the activity that the list is left at. */
static int write_list(struct writing *w, int part, int from, enum plot_when when)
{
    for (; part >= 0; part = w->plot->parts[part].next) {
        write_part(w, &w->plot->parts[part], from);
        write_entry(w, &w->plot->parts[part], from, when);
        from = exit_of(&w->plot->parts[part]);
        when = WHEN_ALWAYS;
    }
    return from;
}

/* -------------------------------------------------------------------------------------------- graphs */

static void write_trigger(struct writing *w)
{
    int act = w->plot->trigger;
    (void)snprintf(w->names[act], sizeof w->names[act], "trigger%d", act);
    say(w,
        "        %s: { type: trigger, stats: { id: '{$self.output.data.id}', measures: [{ measure: "
        "index, target: '{$self.output.data.color}' }] }, job: { maps: { u: %d, v: %d, s%d: "
        "'{$self.output.data.x}' } } }\n",
        w->names[act], w->version, w->version, act);
}

static void write_last(struct writing *w, int from)
{
    int act = w->plot->last;
    (void)snprintf(w->names[act], sizeof w->names[act], "last%d", act);
    say(w,
        "        %s: { type: hook, output: { maps: { x: '{%s.output.data.x}' } }, job: { maps: { v: "
        "%d, x: '{$self.output.data.x}', s%d: '{$self.output.data.x}' } } }\n",
        w->names[act], w->names[from], w->version, act);
    way_code(w, from, act, 200);
}

static void write_ways(struct writing *w)
{
    say(w, "      transitions:\n");
    for (int i = 0; i < PLOT_ACTS_MAX; i++) {
        if (w->ways[i][0] != '\0') {
            say(w, "        %s:\n%s", w->names[i], w->ways[i]);
        }
    }
}

static void write_hooks(struct writing *w)
{
    const struct {
        const char *topic;
        const char *rules;
    } all[] = {{"plot.web", w->webs}, {"plot.both", w->boths}, {"plot.all", w->listens}};
    bool any = false;
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        if (all[i].rules[0] != '\0') {
            say(w, "%s        %s:\n%s", any ? "" : "      hooks:\n", all[i].topic, all[i].rules);
            any = true;
        }
    }
}

static void write_plot(struct writing *w, const struct plot *p)
{
    w->plot = p;
    memset(w->ways, 0, sizeof w->ways);
    w->webs[0] = w->boths[0] = w->listens[0] = '\0';
    say(w, "    - subscribes: %s\n      activities:\n", p->topic);
    write_trigger(w);
    write_last(w, write_list(w, p->first, p->trigger, WHEN_ALWAYS));
    write_ways(w);
    write_hooks(w);
}

/* A child that fails a few times, and one that answers before it is done. */
static const char fixed[] =
    "    - subscribes: again\n"
    "      activities:\n"
    "        again_begin: { type: trigger }\n"
    "        again_work: { type: worker, topic: plot, input: { maps: { k: again, c: 1, x: "
    "'{again_begin.output.data.x}', n: '{again_begin.output.data.n}', who: "
    "'{again_begin.output.data.who}' } } }\n"
    "        again_end: { type: hook, job: { maps: { x: '{again_work.output.data.x}' } } }\n"
    "      transitions:\n"
    "        again_begin: [{ to: again_work }]\n"
    "        again_work: [{ to: again_end, conditions: { code: 200 } }]\n"
    "    - subscribes: early\n"
    "      activities:\n"
    "        early_begin: { type: trigger, stats: { id: '{$self.output.data.id}' } }\n"
    "        early_tell: { type: hook, persist: true, job: { maps: { x: { '@pipe': "
    "[['{early_begin.output.data.x}', 1], ['{@math.add}']] } } } }\n"
    "        early_end: { type: hook, sleep: 0.05, job: { maps: { x: 0 } } }\n"
    "      transitions:\n"
    "        early_begin: [{ to: early_tell }]\n"
    "        early_tell: [{ to: early_end }]\n";

void plot_write(const struct plot *const *plots, size_t count, int version,
                char out_text[PLOT_TEXT_SIZE])
{
    static struct writing w; /* large */
    w = (struct writing){.version = version, .text = out_text};
    say(&w, "app:\n  id: plots\n  version: '%d'\n  graphs:\n", version);
    for (size_t i = 0; i < count; i++) {
        write_plot(&w, plots[i]);
    }
    say(&w, "%s", fixed);
}
