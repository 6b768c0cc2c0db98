/* flowgen_read.c - the naive interpreter of generated flows: one step after the other, beside the text that came (flowgen.h) */
#include "support/flowgen.h"

#include <stdio.h>

#include "base/hash.h"

#define PATH_SIZE 24
#define KEY_SIZE 200

struct reading {
    const struct flowgen *gen;
    const char *jid;
    const struct flowgen_visit *visit;
    const char *p; /* the text that is left */
    const char *end;
};

static bool accept_list(struct reading *r, int version, const struct flowgen_step *first,
                        int64_t context, const char *path);

/* ---------------------------------------------------------------------------------------------- words */

static bool accept_byte(struct reading *r, char byte)
{
    if (r->p >= r->end || *r->p != byte) {
        return false;
    }
    r->p++;
    return true;
}

static bool accept_word(struct reading *r, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0) {
        return false;
    }
    r->p += n;
    return true;
}

static bool accept_number(struct reading *r, int64_t *out_number)
{
    const char *first = r->p;
    *out_number = 0;
    while (r->p < r->end && *r->p >= '0' && *r->p <= '9') {
        *out_number = *out_number * 10 + (*r->p++ - '0');
    }
    return r->p > first && r->p - first < 18;
}

/* Up to the semicolon. */
static bool take_value(struct reading *r, qp_str *out_value)
{
    const char *end = memchr(r->p, ';', (size_t)(r->end - r->p));
    if (end == NULL) {
        return false;
    }
    *out_value = (qp_str){r->p, (size_t)(end - r->p)};
    r->p = end + 1;
    return true;
}

/* --------------------------------------------------------------------------------------------- values */

/* Of the part of an input that its output follows from: behind the fate, before the bar. */
static int value_of(qp_str key, char out_value[FLOWGEN_VALUE_SIZE])
{
    return snprintf(out_value, FLOWGEN_VALUE_SIZE, "%06llx.",
                    (unsigned long long)(hash_bytes(7, key.p, key.n) & 0xffffff));
}

void flowgen_value(qp_str input, int64_t number, char out_value[FLOWGEN_VALUE_SIZE])
{
    const char *end = memchr(input.p, '|', input.n);
    qp_str key;
    int n;
    QP_ASSERT(end != NULL && end - input.p > 2);
    key = (qp_str){input.p + 2, (size_t)(end - input.p) - 2};
    n = value_of(key, out_value);
    (void)snprintf(out_value + n, FLOWGEN_VALUE_SIZE - (size_t)n, "%lld", (long long)number);
}

enum flowgen_fate flowgen_fate_of(qp_str input)
{
    QP_ASSERT(input.n > 2 && input.p[1] >= '0' && input.p[1] < '0' + FLOWGEN_FATES);
    return (enum flowgen_fate)(input.p[1] - '0');
}

/* A worker that is lost may be the end of any activity that one has. */
static bool error_may_be(enum flowgen_fate fate, qp_str error)
{
    static const char *const errors[FLOWGEN_FATES] = {
        [FLOWGEN_FATAL] = "404",   [FLOWGEN_UNSTARTED] = "408s", [FLOWGEN_SLOW] = "408r",
        [FLOWGEN_SILENT] = "408b", [FLOWGEN_BEATS] = "408b",     [FLOWGEN_KEYED] = "408s"};
    return (errors[fate] != NULL && qp_str_is(error, errors[fate])) ||
           (fate != FLOWGEN_UNSTARTED && qp_str_is(error, "504"));
}

static bool accept_result(struct reading *r, const struct flowgen_step *s, const char *path)
{
    char key[KEY_SIZE];
    char value[FLOWGEN_VALUE_SIZE];
    int64_t number;
    qp_str rest;
    int n =
        snprintf(key, sizeof key, "%s/%s/%s/%lld", r->jid, s->name, path, (long long)s->version);
    QP_ASSERT((size_t)n < sizeof key);
    if (accept_byte(r, 'E')) {
        if (!take_value(r, &rest) || !error_may_be(s->fate, rest)) {
            return false;
        }
        r->visit->error(r->visit->context, s->fate, rest);
        return true;
    }
    (void)value_of((qp_str){key, (size_t)n}, value);
    return s->fate != FLOWGEN_FATAL && s->fate != FLOWGEN_UNSTARTED && accept_word(r, value) &&
           accept_number(r, &number) && accept_byte(r, ';') &&
           r->visit->number(r->visit->context, number);
}

static bool accept_signal(struct reading *r, const struct flowgen_step *s)
{
    qp_str data;
    if (s->op == FLOWGEN_TIMED && accept_word(r, "T;")) {
        return true;
    }
    return take_value(r, &data) && r->visit->signal(r->visit->context, str_from(s->name), data);
}

static bool accept_closure(struct reading *r, int version, const struct flowgen_step *s,
                           const char *path)
{
    return accept_list(r, version, s->body, s->version, path);
}

/* What stands behind the name and the equals sign. */
static bool accept_simple(struct reading *r, int version, const struct flowgen_step *s,
                          const char *path)
{
    switch (s->op) {
    case FLOWGEN_ACTIVITY:
        return accept_result(r, s, path);
    case FLOWGEN_INLINE:
        return accept_word(r, "inline;");
    case FLOWGEN_SLEEP:
        return accept_word(r, "z;");
    case FLOWGEN_SIGNAL:
        return accept_word(r, "s;");
    case FLOWGEN_TELL:
        return accept_word(r, "own;");
    case FLOWGEN_LISTEN:
    case FLOWGEN_TIMED:
        return accept_signal(r, s);
    default: /* a closure that was begun */
        return accept_closure(r, version, s, path) && accept_byte(r, ';');
    }
}

static bool accept_member(struct reading *r, int version, const struct flowgen_step *s,
                          const char *path)
{
    return accept_word(r, s->name) && accept_byte(r, '=') && accept_simple(r, version, s, path);
}

/* ------------------------------------------------------------------------------------------ structure */

static const struct flowgen_step *find_step(const struct flowgen_step *first, const char *name)
{
    for (const struct flowgen_step *s = first; s != NULL; s = s->next) {
        const struct flowgen_step *below = find_step(s->body, name);
        if (strcmp(s->name, name) == 0) {
            return s;
        }
        if (below != NULL) {
            return below;
        }
    }
    return NULL;
}

/* A loop that was over is not entered again: it is what the version made of it that ended it, which may also be a later one
 * of another node. */
static bool accept_loop(struct reading *r, const struct flowgen_step *now, const char *path)
{
    const struct flowgen_step *s;
    int64_t ended = 0;
    if (!accept_byte(r, '(') || !accept_number(r, &ended) || ended >= r->gen->count ||
        !accept_byte(r, ':')) {
        return false;
    }
    s = find_step(r->gen->programs[ended], now->name);
    for (int64_t i = 0; s != NULL && i < s->times; i++) {
        char inner[PATH_SIZE];
        (void)snprintf(inner, sizeof inner, "%.*s.%d", PATH_SIZE - 6, path, (int)i);
        if (!accept_list(r, (int)ended, s->body, s->version, inner) || !accept_byte(r, '|')) {
            return false;
        }
    }
    return s != NULL && accept_byte(r, ')');
}

static bool accept_all(struct reading *r, int version, const struct flowgen_step *s,
                       const char *path)
{
    for (const struct flowgen_step *m = s->body; m != NULL; m = m->next) {
        if (!accept_member(r, version, m, path)) {
            return false;
        }
    }
    return accept_byte(r, ']');
}

static bool accept_any(struct reading *r, int version, const struct flowgen_step *s,
                       const char *path)
{
    const struct flowgen_step *m = s->body;
    int64_t index = 0;
    if (!accept_number(r, &index) || !accept_byte(r, ':')) {
        return false;
    }
    while (m != NULL && index-- > 0) {
        m = m->next;
    }
    return m != NULL && accept_member(r, version, m, path) && accept_byte(r, '>');
}

/* The history has the old step, or none from here on. */
static bool accept_check(struct reading *r, int version, const struct flowgen_step *s,
                         int64_t context, const char *path)
{
    int64_t found = 0;
    if (!accept_number(r, &found) || !accept_byte(r, ':')) {
        return false;
    }
    if (found == s->body->version - context + 1) {
        return accept_list(r, version, s->body, context, path);
    }
    return found == s->version - context + 1 && accept_list(r, version, s->fast, context, path);
}

static bool accept_step(struct reading *r, int version, const struct flowgen_step *s,
                        int64_t context, const char *path)
{
    if (s->removed) {
        return true;
    }
    if (s->op < FLOWGEN_CLOSURE) {
        return accept_member(r, version, s, path);
    }
    if (!accept_word(r, s->name)) {
        return false;
    }
    switch (s->op) {
    case FLOWGEN_CLOSURE:
        return accept_byte(r, '{') && accept_closure(r, version, s, path) && accept_byte(r, '}');
    case FLOWGEN_LOOP:
        return accept_loop(r, s, path);
    case FLOWGEN_CHECK:
        return accept_byte(r, '?') && accept_check(r, version, s, context, path);
    case FLOWGEN_ANY:
        return accept_byte(r, '<') && accept_any(r, version, s, path);
    default:
        return accept_byte(r, '[') && accept_all(r, version, s, path);
    }
}

static bool accept_list(struct reading *r, int version, const struct flowgen_step *first,
                        int64_t context, const char *path)
{
    for (const struct flowgen_step *s = first; s != NULL; s = s->next) {
        if (!accept_step(r, version, s, context, path)) {
            return false;
        }
    }
    return true;
}

static struct reading reading_of(qp_str output)
{
    bool quoted = output.n >= 2 && output.p[0] == '"';
    return (struct reading){.p = output.p + quoted, .end = output.p + output.n - quoted};
}

int flowgen_version_of(qp_str output)
{
    struct reading r = reading_of(output);
    int64_t version = 0;
    return accept_number(&r, &version) && accept_byte(&r, ':') ? (int)version : -1;
}

bool flowgen_accepts(const struct flowgen *g, const char *jid, qp_str output,
                     const struct flowgen_visit *visit, const char **out_why)
{
    struct reading r = reading_of(output);
    int64_t version = 0;
    bool good;
    r.gen = g;
    r.jid = jid;
    r.visit = visit;
    good = accept_number(&r, &version) && version < g->count && accept_byte(&r, ':') &&
           accept_list(&r, (int)version, g->programs[version], 1, "") && r.p == r.end;
    *out_why = r.p;
    return good;
}
