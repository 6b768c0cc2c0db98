/* fuzz_filter.c - any text is a filter or is refused with its place; times and spans that are read, too
 *
 * A filter that is taken can be asked about any job without a fault, and has a way in that is one of its own
 * conditions. A time that is read is written and read back as the same.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/env.h"
#include "base/time.h"
#include "kernel/filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct job_row jobs[] = {
    {.jid = {"a", 1}, .workflow = {"w", 1}, .status = STATUS_RUNNING, .created_at = 1000},
    {.jid = {"b", 1}, .workflow = {"x", 1}, .status = STATUS_FAILED, .closed_at = 5},
};

static void ask(const struct filter *f)
{
    const struct filter_condition *way = filter_way_in(f);
    QP_ASSERT(f->count <= LIMIT_FILTER_CONDITIONS);
    QP_ASSERT(way == NULL || (way >= f->conditions && way < f->conditions + f->count));
    for (size_t i = 0; i < ARRAY_COUNT(jobs); i++) {
        (void)filter_takes(f, &jobs[i]);
        (void)filter_is_past(f, &jobs[i], true);
        (void)filter_is_past(f, &jobs[i], false);
    }
    for (size_t i = 0; i < f->count; i++) {
        if (f->conditions[i].field == FILTER_ATTR) {
            /* A value is the same as itself, or it is not asked for. */
            bool same = filter_takes_attr(&f->conditions[i], f->conditions[i].text);
            QP_ASSERT(same == (f->conditions[i].op != FILTER_OTHER));
        }
    }
}

static void times(qp_str text)
{
    char written[RFC3339_SIZE];
    qp_ms at = 0;
    qp_ms back = 1;
    qp_ms span = 0;
    if (rfc3339_parse(text, &at, NULL) == QP_OK && at >= INT64_C(-62135596800000) &&
        at <= INT64_C(253402300799999)) {
        rfc3339_format(at, written);
        QP_ASSERT(rfc3339_parse(str_from(written), &back, NULL) == QP_OK && back == at);
    }
    if (span_parse(text, &span, NULL) == QP_OK) {
        QP_ASSERT(span >= 0 && span <= LIMIT_TIMER_MS);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    qp_str text = {(const char *)data, size};
    struct qp_env env;
    struct arena arena;
    struct filter f;
    struct qp_err err = {0};
    int rc;
    qp_env_init(&env);
    env_complete(&env);
    arena_init(&arena, &env, 0);
    rc = filter_compile(&arena, text, 1769850487000, &f, &err);
    if (rc == QP_OK) {
        ask(&f);
    } else {
        QP_ASSERT(rc == QP_E_INVALID && err.code == rc && err.text[0] != '\0');
        for (const char *p = err.text; *p != '\0'; p++) {
            QP_ASSERT((unsigned char)*p >= 0x20 && *p != 0x7F);
        }
    }
    times(text);
    arena_done(&arena);
    return 0;
}
