/* check_file.c - qp_check: the rules of kernel/check.h on a file, opened for reading only
 *
 * Opening checks what comes before all rules: that the file is ours, of a schema that this version
 * knows, and that every page of it is sound.
 */
#include "base/env.h"
#include "kernel/check.h"
#include "run/kinds.h"

void qp_check_options_init(struct qp_check_options *options)
{
    if (options != NULL) {
        *options = (struct qp_check_options){.size = sizeof *options};
    }
}

static int visit_nobody(void *context, const struct qp_finding *finding)
{
    (void)context;
    (void)finding;
    return QP_OK;
}

static int options_check(const struct qp_check_options *options, struct qp_err *err)
{
    int rc = size_check(options->size, sizeof *options, "qp_check_options", err);
    if (rc == QP_OK && options->env != NULL) {
        rc = size_check(options->env->size, sizeof *options->env, "qp_env", err);
    }
    if (rc != QP_OK) {
        return err_wrap(err, rc, "qp_check");
    }
    if (options->path == NULL) {
        return err_set(err, QP_E_INVALID, "qp_check: name the file in options.path");
    }
    return QP_OK;
}

int qp_check(const struct qp_check_options *options, void *context, qp_check_visit visit,
             struct qp_check_result *out_result, struct qp_err *err)
{
    struct check_options of_check = {0};
    struct store_options of_store = {.read_only = true, .must_exist = true, .full_check = true};
    struct qp_env env;
    struct store *store = NULL;
    struct faces *faces = NULL;
    int rc;
    if (options == NULL || out_result == NULL) {
        return err_set(err, QP_E_INVALID,
                       "qp_check: an argument is NULL, it needs options and "
                       "out_result");
    }
    QP_TRY(options_check(options, err));
    of_check.namespace_name = str_from(options->namespace_name);
    of_check.job = str_from(options->job);
    of_check.rules = str_from(options->rules);
    of_check.limit = options->limit;
    of_check.max_tries = options->max_tries;
    of_store.path = options->path;
    of_store.accept_loss = options->accept_loss;
    qp_env_init(&env);
    env = options->env != NULL ? *options->env : env;
    env_complete(&env);
    rc = store_open(&env, &of_store, &store, err);
    if (rc != QP_OK) {
        return rc;
    }
    rc = kinds_open(&(struct face_options){.env = &env, .read_only = true}, NULL, 0, &faces);
    if (rc == QP_OK) {
        of_check.faces = faces;
        rc = check_run(store, &of_check, context, visit != NULL ? visit : visit_nobody, out_result,
                       err);
    } else {
        (void)err_set(err, rc, "qp_check: %s", qp_code_text(rc));
    }
    (void)store_close(store, NULL); /* nothing was written */
    faces_close(faces);
    return rc;
}
