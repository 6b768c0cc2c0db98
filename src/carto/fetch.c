/* fetch.c - pins of fetched facts, and which items need one (see fetch.h) */
#include "carto/fetch.h"

int fetch_topic(struct arena *a, qp_str type, qp_str *out_topic)
{
    return carto_print(a, out_topic, "carto.fetch.%.*s", STR_ARG(type));
}

int pin_name(struct arena *a, struct carto_id id, qp_str *out_name)
{
    qp_str text;
    QP_TRY(package_write(a, &(struct carto_package){.id = id}, &text));
    return pending_name(a, 'k', text, out_name);
}

int pin_read(const struct qp_env *env, struct arena *a, qp_str text, struct carto_pin *out)
{
    struct raw_walk w = {.rest = text};
    struct carto_item failed = {0};
    struct carto_pin pin = {.is_known = true};
    if (str_is_none(text) || str_equal(text, PIN_ASKED)) {
        *out = (struct carto_pin){0};
        return QP_OK;
    }
    if (raw_first(text) != '{') {
        return QP_E_CORRUPT;
    }
    while (raw_each(&w)) {
        if (str_equal(w.key, QP_STR("fact")) && !raw_text(env, a, w.value, &pin.fact)) {
            return QP_E_CORRUPT;
        }
    }
    if (str_is_none(pin.fact)) {
        QP_TRY(ending_read(env, a, text, &failed));
        pin.failure = failed.failure;
        pin.message = failed.error;
    }
    if (str_is_none(pin.fact) && pin.failure == CARTO_NO_FAILURE) {
        return QP_E_CORRUPT;
    }
    *out = pin;
    return QP_OK;
}

int pin_write(struct arena *a, const struct carto_pin *pin, qp_str *out_text)
{
    struct carto_item failed = {.failure = pin->failure, .error = pin->message};
    if (str_is_none(pin->fact)) {
        return failure_write(a, &failed, out_text);
    }
    return carto_print(a, out_text, "{\"fact\":\"%.*s\"}", STR_ARG(pin->fact));
}

int fetch_wants(const struct carto_request *r, struct arena *a, const struct carto_item *item,
                struct carto_id *out_id)
{
    const struct carto_use *use = carto_use_of(r, item->target.type);
    *out_id = (struct carto_id){0};
    return use == NULL || !use->is_fetched || use->type->wants == NULL
               ? QP_OK
               : use->type->wants(r, a, item, out_id);
}
