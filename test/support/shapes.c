/* shapes.c - what the three shapes share (see shapes.h) */
#include "support/shapes.h"

#include <stdio.h>
#include <stdlib.h>

int64_t shape_value(qp_str name)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < name.n; i++) {
        hash = (hash ^ (unsigned char)name.p[i]) * 16777619u;
    }
    return 1 + (int64_t)(hash % 10007);
}

int64_t shape_number(qp_str text)
{
    char digits[32] = {0};
    memcpy(digits, text.p, text.n < sizeof digits ? text.n : sizeof digits - 1);
    return strtoll(digits, NULL, 10);
}

bool shape_is(qp_str name, const char *prefix)
{
    return name.n >= strlen(prefix) && memcmp(name.p, prefix, strlen(prefix)) == 0;
}

int shape_print(struct turn *t, qp_str *out_text, const char *format, ...)
{
    char text[SHAPE_TEXT_SIZE];
    va_list arguments;
    int n;
    va_start(arguments, format);
    n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    QP_ASSERT(n >= 0 && (size_t)n < sizeof text);
    return arena_copy(turn_arena(t), (qp_str){text, (size_t)n}, out_text) ? QP_OK : QP_E_NOMEM;
}

int shape_read(struct turn *t, const char *name, int64_t *out_number)
{
    const struct data_row *row = NULL;
    int rc = turn_data(t, str_from(name), &row);
    if (rc == QP_OK) {
        *out_number = row == NULL ? 0 : shape_number(row->value);
    }
    return rc;
}

int shape_add(struct turn *t, const char *name, int64_t more)
{
    int64_t number = 0;
    qp_str text;
    int rc = shape_read(t, name, &number);
    rc = rc == QP_OK ? shape_print(t, &text, "%lld", (long long)(number + more)) : rc;
    return rc == QP_OK ? turn_data_put(t, str_from(name), text) : rc;
}
