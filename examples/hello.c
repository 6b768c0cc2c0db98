/* hello.c - a job that survives: start it, do it, read its result (the example of the README) */
#include <quipu.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct qp_options options;
    struct qp_err err;
    struct qp_job job;
    qp_task *task;
    qp *q;

    qp_options_init(&options);
    options.path = argc > 1 ? argv[1] : "hello.db";
    if (qp_open(&options, &q, &err) != QP_OK ||
        qp_job_start(q,
                     &(struct qp_start){.topic = QP_STR("greet"),
                                        .id = QP_STR("greet-ada"),
                                        .input = QP_STR("{\"name\":\"Ada\"}")},
                     NULL, &err) != QP_OK) {
        return fprintf(stderr, "%s\n", err.text), 1;
    }
    while (qp_task_claim(q, QP_STR("greet"), &task, &err) == QP_OK) { /* the work goes here */
        if (qp_task_complete(task, QP_STR("\"Hello, Ada\""), &err) != QP_OK) {
            return fprintf(stderr, "%s\n", err.text), 1;
        }
    }
    if (qp_job_get(q, QP_STR("greet-ada"), &job, &err) != QP_OK) {
        return fprintf(stderr, "%s\n", err.text), 1;
    }
    printf("%s: %.*s\n", job.status, (int)job.output.n, job.output.p);
    qp_job_done(q, &job);
    return qp_close(q, &err) == QP_OK ? 0 : 1;
}
