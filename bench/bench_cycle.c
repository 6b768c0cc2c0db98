/* bench_cycle.c - a round of a graph's cycle with one worker: how long it takes, and whether that grows with the rounds before
 *
 * A job of one graph goes round 10,000 times: its pivot, a worker of this process, the cycle back. Measured are the mean of
 * the rounds 1,000 to 2,000 and of the rounds 9,000 to 10,000. SQLite with synchronous=FULL in $TMPDIR, or the PostgreSQL
 * server that BENCH_URL names (its schema `quipu` must be empty).
 *
 * BENCH_SMOKE=1 only shows that it runs.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "place.h"
#include "quipu.h"

#define ROUNDS 10000

static const char graph[] =
    "app:\n"
    "  id: bench\n"
    "  version: '1'\n"
    "  graphs:\n"
    "    - subscribes: cycle.start\n"
    "      activities:\n"
    "        t1: { type: trigger }\n"
    "        a1: { type: hook, cycle: true }\n"
    "        w1:\n"
    "          type: worker\n"
    "          topic: cycle.count\n"
    "          job:\n"
    "            maps: { more: '{$self.output.data.more}' }\n"
    "        c1: { type: cycle, ancestor: a1 }\n"
    "      transitions:\n"
    "        t1: [{ to: a1 }]\n"
    "        a1: [{ to: w1 }]\n"
    "        w1:\n"
    "          - to: c1\n"
    "            conditions:\n"
    "              match:\n"
    "                - { expected: true, actual: '{w1.output.data.more}' }\n";

struct cycle {
    int64_t rounds;
    int64_t done;
    double at[ROUNDS + 1]; /* when round i began */
};

static int count(void *context, qp_task *task)
{
    struct cycle *c = context;
    c->at[c->done++] = now_s();
    return qp_task_output(task, c->done < c->rounds ? QP_STR("{\"more\":true}")
                                                    : QP_STR("{\"more\":false}"));
}

static double mean_ms(const struct cycle *c, int64_t from, int64_t to)
{
    return (c->at[to - 1] - c->at[from - 1]) * 1000 / (double)(to - from);
}

static void run(const char *path, struct cycle *c)
{
    struct qp_options options;
    struct qp_err err;
    struct qp_job ended;
    qp *q;
    qp_options_init(&options);
    options.path = path;
    if (qp_open(&options, &q, &err) != QP_OK ||
        qp_worker_add(
            q, &(struct qp_worker){.topic = QP_STR("cycle.count"), .work = count, .context = c},
            &err) != QP_OK ||
        qp_deploy(q, &(struct qp_deploy){.text = str_from(graph), .activate = true}, NULL, &err) !=
            QP_OK ||
        qp_start_threads(q, 1, &err) != QP_OK ||
        qp_job_start(q,
                     &(struct qp_start){.topic = QP_STR("cycle.start"),
                                        .id = QP_STR("round"),
                                        .input = QP_STR("{}")},
                     NULL, &err) != QP_OK) {
        die("start", err.text);
    }
    if (qp_job_wait(q, QP_STR("round"), 600 * 1000, &ended, &err) != QP_OK ||
        qp_close(q, &err) != QP_OK) {
        die("wait", err.text);
    }
}

int main(void)
{
    static struct cycle c = {.rounds = ROUNDS};
    const char *url = getenv("BENCH_URL");
    struct place place;
    int64_t tenth;
    place_make(&place);
    if (getenv("BENCH_SMOKE") != NULL) {
        c.rounds = 100;
    }
    tenth = c.rounds / 10;
    run(url != NULL ? url : place.path, &c);
    printf("%s, one worker in this process\n",
           url != NULL ? "PostgreSQL" : "SQLite, synchronous=FULL");
    printf("rounds %6lld to %6lld: %6.2f ms each\n", (long long)tenth, (long long)(2 * tenth),
           mean_ms(&c, tenth, 2 * tenth));
    printf("rounds %6lld to %6lld: %6.2f ms each\n", (long long)(9 * tenth), (long long)c.rounds,
           mean_ms(&c, 9 * tenth, c.rounds));
    place_remove(&place);
    return 0;
}
