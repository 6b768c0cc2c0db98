/* type.c - the words of types, and what a request knows of them (see type.h) */
#include "carto/type.h"

#include <stdarg.h>
#include <stdio.h>

const char *carto_failure_text(enum carto_failure failure)
{
#define FAILURE_TEXT(name) #name,
    static const char *const texts[] = {"", CARTO_FAILURES(FAILURE_TEXT)};
#undef FAILURE_TEXT
    QP_ASSERT(failure < ARRAY_COUNT(texts));
    return texts[failure];
}

const char *carto_state_text(enum carto_state state)
{
    static const char *const texts[] = {"OPEN", "DONE", "DUPLICATE", "DEPTH_PRUNED", "FAILED"};
    QP_ASSERT(state < ARRAY_COUNT(texts));
    return texts[state];
}

int carto_print(struct arena *a, qp_str *out, const char *format, ...)
{
    va_list arguments;
    int size = 0;
    char *text = NULL;
    va_start(arguments, format);
    size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    QP_ASSERT(size >= 0);
    text = arena_bytes(a, (size_t)size + 1);
    if (text == NULL) {
        return QP_E_NOMEM;
    }
    va_start(arguments, format);
    (void)vsnprintf(text, (size_t)size + 1, format, arguments); /* it has room: measured above */
    va_end(arguments);
    *out = (qp_str){text, (size_t)size};
    return QP_OK;
}

const struct carto_use *carto_use_of(const struct carto_request *r, qp_str type)
{
    for (size_t i = 0; i < r->use_count; i++) {
        if (str_equal(str_from(r->uses[i].type->name), type)) {
            return &r->uses[i];
        }
    }
    return NULL;
}

int carto_known_types(const struct carto_request *r, struct arena *a, qp_str *out)
{
    qp_str text = QP_STR("");
    for (size_t i = 0; i < r->use_count; i++) {
        QP_TRY(carto_print(a, &text, "%.*s%s%s", STR_ARG(text), i > 0 ? ", " : "",
                           r->uses[i].type->name));
    }
    *out = text;
    return QP_OK;
}

int carto_chosen(const struct carto_request *r, struct carto_id id, bool *out_found,
                 struct carto_package *out)
{
    *out_found = true;
    for (size_t i = 0; i < r->override_count; i++) {
        if (str_equal(r->overrides[i].id.type, id.type) &&
            str_equal(r->overrides[i].id.name, id.name)) {
            *out = r->overrides[i].package;
            return QP_OK;
        }
    }
    *out_found = false;
    return r->history == NULL ? QP_OK : r->history(r->history_context, id, out_found, out);
}
