/* task.c - steps of external types as tasks (see task.h) */
#include "carto/task.h"

#include "carto/format_output.h"
#include "carto/split.h"

/* A row of the job's data; none: there is none. */
static int read_row(const struct sight *sight, char step, qp_str path, qp_str *out_text)
{
    struct data_row key = {.ns = sight->job->ns, .job = sight->job->job};
    const void *row = NULL;
    int rc;
    QP_TRY(pending_name(sight->arena, step, path, &key.name));
    rc = store_get(sight->store, sight->arena, TABLE_data, &key, &row, NULL);
    *out_text = rc == QP_OK ? ((const struct data_row *)row)->value : QP_NONE;
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

static int read_input(const struct sight *sight, qp_str address, qp_str *out_input)
{
    struct act_row key = {.ns = sight->job->ns, .job = sight->job->job, .addr = address};
    const void *row = NULL;
    QP_TRY(store_get(sight->store, sight->arena, TABLE_act, &key, &row, sight->err));
    *out_input = ((const struct act_row *)row)->input;
    return QP_OK;
}

/* The member of the request that has the type's name. */
static int write_options(const struct sight *sight, qp_str type, struct json_writer *w)
{
    struct raw_walk walk = {0};
    QP_TRY(read_input(sight, TRIGGER_ADDRESS, &walk.rest));
    while (raw_each(&walk)) {
        if (str_equal(walk.key, type)) {
            json_key(w, QP_STR("options"));
            json_put_raw(w, walk.value);
        }
    }
    return QP_OK;
}

/* What SELECT has answered; *out_word is the step. */
static int read_step(const struct sight *sight, struct carto_item *item, const char **out_word)
{
    struct carto_outcome outcome;
    qp_str text;
    QP_TRY(read_row(sight, 's', item->path, &text));
    *out_word = str_is_none(text) ? "select" : "select-sync";
    QP_TRY(read_row(sight, 'r', item->path, &text));
    if (str_is_none(text)) {
        return QP_OK;
    }
    *out_word = "resolve";
    QP_TRY(read_row(sight, 'p', item->path, &text));
    return split_selected(sight->arena->env, sight->arena, text, item, &outcome);
}

int carto_task(void *state, const struct sight *sight, qp_str address, struct json_writer *w)
{
    struct carto_item item;
    const char *word;
    qp_str input;
    qp_str package;
    (void)state;
    if (str_is_none(path_of(address))) { /* FORMAT */
        return QP_OK;
    }
    QP_TRY(read_input(sight, address, &input));
    QP_TRY(item_read(sight->arena->env, sight->arena, path_of(address), input, &item));
    QP_TRY(read_step(sight, &item, &word));
    member_put_text(w, "step", str_from(word));
    if (strcmp(word, "resolve") != 0) {
        return write_options(sight, item.target.type, w);
    }
    QP_TRY(package_write(sight->arena, &item.selected, &package));
    member_put_text(w, "package", package);
    return write_options(sight, item.selected.id.type, w);
}
