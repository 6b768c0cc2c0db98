/* check_found.c - what a rule has found, and the evidence for it (see check_internal.h) */
#include "kernel/check_internal.h"

#include <stdarg.h>
#include <stdio.h>

const char *evidence(struct check *c, const char *format, ...)
{
    char *text = arena_bytes(&c->arena, LIMIT_CHECK_TEXT_SIZE);
    va_list arguments;
    if (text == NULL) {
        c->rc = err_set(c->err, QP_E_NOMEM, "check: out of memory");
        return "";
    }
    va_start(arguments, format);
    (void)vsnprintf(text, LIMIT_CHECK_TEXT_SIZE, format, arguments); /* a cut text is good enough */
    va_end(arguments);
    return text;
}

const char *evidence_ledger(struct check *c, int64_t ledger)
{
    return evidence(c, "ledger %015lld", (long long)ledger);
}

const char *evidence_guid(struct check *c, const struct guid_row *guid)
{
    char hex[2 * LIMIT_GUID_SIZE + 1] = "";
    for (size_t i = 0; i < guid->guid.n && i < LIMIT_GUID_SIZE; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", (unsigned char)guid->guid.p[i]); /* has room */
    }
    return evidence(c, "guid %s ledger %015lld n %lld delta %lld", hex, (long long)guid->ledger,
                    (long long)guid->n, (long long)guid->delta);
}

static void found_add(struct check *c, const struct check_found *f)
{
    struct check_found *place;
    qp_str jid;
    if (c->rc != QP_OK || (c->ns != 0 && c->ns != f->ns)) {
        return;
    }
    place = ARENA_NEW(&c->arena, struct check_found);
    if (place == NULL || !arena_copy(&c->arena, f->jid, &jid)) {
        c->rc = err_set(c->err, QP_E_NOMEM, "check: out of memory");
        return;
    }
    *place = *f;
    place->jid = jid;
    *(c->last == NULL ? &c->first : &c->last->next) = place;
    c->last = place;
}

QP_PRINTF(2, 0)
static const char *sentence(struct check *c, const char *format, va_list arguments)
{
    char text[LIMIT_CHECK_TEXT_SIZE];
    (void)vsnprintf(text, sizeof text, format, arguments); /* a cut text is good enough */
    return evidence(c, "%s", text);
}

void found(struct check *c, const char *evidence_text, const char *format, ...)
{
    struct check_found f = {
        .rule = c->rule, .ns = c->job->ns, .jid = c->job->jid, .evidence = evidence_text};
    va_list arguments;
    va_start(arguments, format);
    f.text = sentence(c, format, arguments);
    va_end(arguments);
    found_add(c, &f);
}

void found_on(struct check *c, const struct job_row *job, const char *evidence_text,
              const char *format, ...)
{
    struct check_found f = {
        .rule = c->rule, .ns = job->ns, .jid = job->jid, .evidence = evidence_text};
    va_list arguments;
    va_start(arguments, format);
    f.text = sentence(c, format, arguments);
    va_end(arguments);
    found_add(c, &f);
}

void found_in(struct check *c, int64_t ns, qp_str jid, const char *format, ...)
{
    struct check_found f = {.rule = c->rule, .ns = ns, .jid = jid, .evidence = ""};
    va_list arguments;
    va_start(arguments, format);
    f.text = sentence(c, format, arguments);
    va_end(arguments);
    found_add(c, &f);
}
