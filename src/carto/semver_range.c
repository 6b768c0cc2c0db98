/* semver_range.c - ranges of versions become comparators (see semver_range.h)
 *
 * npm rewrites the text of a range until only comparators are left: it removes white space and builds, expands hyphens,
 * carets, tildes and x. This does the same in one pass per alternative, over a copy that has had its white space put in
 * order, and takes the same texts for ranges: what is left out there is left out here.
 */
#include "carto/semver_range.h"

/* A range while it is read. */
struct making {
    char *text; /* the alternative that is read */
    size_t n;
    struct semver_comparator *rows;
    size_t count;
    size_t room;
    bool is_inner; /* the token that is read is neither the first nor the last of its alternative */
    bool is_huge;  /* a number past the limit: the whole text is no range */
};

static char at(const struct making *m, size_t i)
{
    return i < m->n ? m->text[i] : '\0';
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_operator(char c)
{
    return c == '<' || c == '>' || c == '=';
}

static bool is_build(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
}

/* ------------------------------------------------------------------------------------ comparators */

static void push(struct making *m, enum semver_op op, struct semver version)
{
    QP_ASSERT(m->count < m->room);
    for (size_t i = 0; i < 3 && op != SEMVER_ANY; i++) {
        m->is_huge = m->is_huge || version.number[i] > SEMVER_NUMBER_MOST;
    }
    if (op == SEMVER_AT_LEAST && version.number[0] + version.number[1] + version.number[2] == 0 &&
        version.pre.n == 0) {
        op = SEMVER_ANY;
    }
    m->rows[m->count++] = (struct semver_comparator){.op = op, .version = version};
}

/* A star between others is no comparator: of what is left of it npm sees only a blank. */
static void push_any(struct making *m)
{
    if (!m->is_inner) {
        push(m, SEMVER_ANY, (struct semver){.pre = QP_STR("")});
    }
}

/* The numbers up to `index`, then zeros: 1.2.0 of (1.2.x, 1). */
static struct semver begin_of(const struct semver_parts *parts, size_t index)
{
    struct semver v = {.pre = QP_STR("")};
    for (size_t i = 0; i <= index; i++) {
        v.number[i] = parts->version.number[i];
    }
    return v;
}

/* The first version that differs in the number `index`: 1.3.0-0 of (1.2.x, 1). */
static struct semver next_of(const struct semver_parts *parts, size_t index)
{
    struct semver v = begin_of(parts, index);
    v.number[index]++;
    v.pre = QP_STR("0");
    return v;
}

/* At least what is given, and before the next one at `index`. */
static void push_between(struct making *m, const struct semver_parts *parts, size_t index)
{
    size_t given = parts->is_any[1] ? 0 : parts->is_any[2] ? 1 : 2;
    struct semver from = begin_of(parts, given);
    from.pre = given == 2 ? parts->version.pre : from.pre;
    push(m, SEMVER_AT_LEAST, from);
    push(m, SEMVER_BELOW, next_of(parts, index));
}

static void expand_caret(struct making *m, const struct semver_parts *parts)
{
    size_t index = 0;
    if (parts->is_any[0]) {
        push_any(m);
        return;
    }
    if (parts->is_zero[0] && !parts->is_any[1]) {
        index = parts->is_zero[1] && !parts->is_any[2] ? 2 : 1;
    }
    push_between(m, parts, index);
}

static void expand_tilde(struct making *m, const struct semver_parts *parts)
{
    if (parts->is_any[0]) {
        push_any(m);
        return;
    }
    push_between(m, parts, parts->is_any[1] ? 0 : 1);
}

/* One with x: `op` is what stands before it. */
static void expand_x(struct making *m, enum semver_op op, const struct semver_parts *parts)
{
    size_t index = parts->is_any[1] ? 0 : 1;
    struct semver none = {.pre = QP_STR("0")};
    struct semver v = begin_of(parts, index);
    if (parts->is_any[0]) {
        if (op == SEMVER_ABOVE || op == SEMVER_BELOW) {
            push(m, SEMVER_BELOW, none);
        } else {
            push_any(m);
        }
        return;
    }
    switch (op) {
    case SEMVER_ABOVE:
        v.number[index]++;
        push(m, SEMVER_AT_LEAST, v);
        return;
    case SEMVER_AT_MOST:
        push(m, SEMVER_BELOW, next_of(parts, index));
        return;
    case SEMVER_BELOW:
        v.pre = QP_STR("0");
        push(m, SEMVER_BELOW, v);
        return;
    case SEMVER_AT_LEAST:
        push(m, SEMVER_AT_LEAST, v);
        return;
    default:
        push_between(m, parts, index);
    }
}

/* x before a number, which npm takes for nothing. */
static bool is_disordered(const struct semver_parts *parts)
{
    return (parts->is_any[0] && !parts->is_any[1]) ||
           (parts->is_any[1] && !parts->is_missing[2] && !parts->is_any[2]);
}

static enum semver_op take_op(qp_str *text)
{
    static const enum semver_op plain[] = {SEMVER_EXACTLY, SEMVER_BELOW, SEMVER_ABOVE};
    static const enum semver_op equal[] = {SEMVER_EXACTLY, SEMVER_AT_MOST, SEMVER_AT_LEAST};
    size_t which = 0;
    bool is_equal;
    if (text->n > 0 && (text->p[0] == '<' || text->p[0] == '>')) {
        which = text->p[0] == '<' ? 1 : 2;
        *text = (qp_str){text->p + 1, text->n - 1};
    }
    is_equal = text->n > 0 && text->p[0] == '=';
    if (is_equal) {
        *text = (qp_str){text->p + 1, text->n - 1};
    }
    return is_equal ? equal[which] : plain[which];
}

/* [op]version; anything else is left out. */
static void take_comparator(struct making *m, qp_str token)
{
    struct semver_parts parts;
    enum semver_op op = take_op(&token);
    if (semver_parts_take(token, &parts) && !parts.is_any[0] && !parts.is_any[1] &&
        !parts.is_any[2]) {
        push(m, op, parts.version);
    }
}

/* npm removes the first star of what it could not read, with the operator before it. */
static void take_star(struct making *m, char *token, size_t n)
{
    char *star = memchr(token, '*', n);
    size_t from;
    size_t to;
    if (star == NULL) {
        return;
    }
    from = to = (size_t)(star - token);
    to++;
    from -= from > 0 && token[from - 1] == '=' ? 1 : 0;
    from -= from > 0 && (token[from - 1] == '<' || token[from - 1] == '>') ? 1 : 0;
    memmove(token + from, token + to, n - to);
    n -= to - from;
    if (n == 0) {
        push_any(m);
    } else {
        take_comparator(m, (qp_str){token, n});
    }
}

static void take_token(struct making *m, char *p, size_t n)
{
    struct semver_parts parts;
    qp_str token = {p, n};
    qp_str rest = {p + 1, n - 1};
    enum semver_op op;
    if (p[0] == '^') {
        if (semver_parts_take(rest, &parts)) {
            expand_caret(m, &parts);
        }
        return;
    }
    if (p[0] == '~') {
        rest = rest.n > 0 && rest.p[0] == '>' ? (qp_str){p + 2, n - 2} : rest;
        if (semver_parts_take(rest, &parts)) {
            expand_tilde(m, &parts);
        }
        return;
    }
    op = take_op(&token);
    if (!semver_parts_take(token, &parts) || is_disordered(&parts)) {
        take_star(m, p, n);
    } else if (parts.is_any[0] || parts.is_any[1] || parts.is_any[2]) {
        /* "=1.x" is 1.x */
        expand_x(m, op, &parts);
    } else {
        push(m, op, parts.version);
    }
}

/* ------------------------------------------------------------------------------------ white space */

static void cut(struct making *m, size_t from, size_t to)
{
    memmove(m->text + from, m->text + to, m->n - to);
    m->n -= to - from;
}

/* Copies an alternative: no white space at its ends, and one blank where there was some. */
static void tidy(struct making *m, qp_str text)
{
    m->n = 0;
    for (size_t i = 0; i < text.n; i++) {
        if (!is_blank(text.p[i])) {
            m->text[m->n++] = text.p[i];
        } else if (m->n > 0 && m->text[m->n - 1] != ' ') {
            m->text[m->n++] = ' ';
        }
    }
    m->n -= m->n > 0 && m->text[m->n - 1] == ' ' ? 1 : 0;
}

/* Removes every +build. */
static void remove_builds(struct making *m)
{
    for (size_t i = 0; i < m->n; i++) {
        size_t to = i + 1;
        while (m->text[i] == '+' && is_build(at(m, to))) {
            to++;
            to += at(m, to) == '.' && is_build(at(m, to + 1)) ? 1 : 0;
        }
        if (to > i + 1) {
            cut(m, i, to);
            i--;
        }
    }
}

/* Whether a version may begin here. */
static bool begins_version(const struct making *m, size_t i)
{
    char c;
    while (at(m, i) == 'v' || at(m, i) == '=' || at(m, i) == ' ') {
        i++;
    }
    c = at(m, i);
    return (c >= '0' && c <= '9') || c == 'x' || c == 'X' || c == '*';
}

/* ">= 1.2" becomes ">=1.2". Behind an operator and before a version npm skips one blank; further v, = and blanks belong
 * to the version. */
static void join_operators(struct making *m)
{
    for (size_t i = 0; i < m->n; i++) {
        size_t end = i;
        if (!is_operator(m->text[i])) {
            continue;
        }
        end += m->text[i] == '=' || at(m, i + 1) != '=' ? 1 : 2;
        if (!begins_version(m, end)) {
            continue;
        }
        if (at(m, end) == ' ') {
            cut(m, end, end + 1);
        }
        while (at(m, end) == 'v' || at(m, end) == '=' || at(m, end) == ' ') {
            end++;
        }
        i = end;
    }
}

/* "~ 1.2" and "~> 1.2" become "~1.2", "^ 1.2" becomes "^1.2". */
static void join_marks(struct making *m)
{
    for (size_t i = 0; i < m->n; i++) {
        size_t end = i + 1;
        if (m->text[i] != '~' && m->text[i] != '^') {
            continue;
        }
        end += m->text[i] == '~' && at(m, end) == '>' ? 1 : 0;
        if (at(m, end) == ' ') {
            cut(m, i + 1, end + 1);
        }
    }
}

/* ----------------------------------------------------------------------------------- alternatives */

/* "v 1.2.3": npm puts its operator before the v, and then takes the two for different comparators. */
static bool is_split(qp_str version)
{
    return version.n > 0 && memchr(version.p, ' ', version.n) != NULL;
}

/* "1.2 - 2.3": at least the one and at most the other. False: it is not of this form. */
static bool take_hyphen(struct making *m)
{
    const char *dash = m->n > 0 ? memmem(m->text, m->n, " - ", 3) : NULL;
    size_t before = dash == NULL ? 0 : (size_t)(dash - m->text);
    qp_str left = {m->text, before};
    qp_str right = {m->text + before + 3, dash == NULL ? 0 : m->n - before - 3};
    struct semver_parts from;
    struct semver_parts to;
    if (dash == NULL || !semver_parts_take(left, &from) || !semver_parts_take(right, &to)) {
        return false;
    }
    if (from.is_any[0]) {
        push_any(m);
    } else if (from.is_any[1] || from.is_any[2]) {
        push(m, SEMVER_AT_LEAST, begin_of(&from, from.is_any[1] ? 0 : 1));
    } else {
        push(m, is_split(left) ? SEMVER_EXACTLY : SEMVER_AT_LEAST, from.version);
    }
    if (to.is_any[0]) {
        return true;
    }
    if (to.is_any[1] || to.is_any[2]) {
        push(m, SEMVER_BELOW, next_of(&to, to.is_any[1] ? 0 : 1));
    } else {
        bool is_exact = is_split(right) && to.version.pre.n == 0;
        push(m, is_exact ? SEMVER_EXACTLY : SEMVER_AT_MOST, to.version);
    }
    return true;
}

static void take_tokens(struct making *m)
{
    size_t from = 0;
    for (size_t i = 0; i <= m->n; i++) {
        if (i < m->n && m->text[i] != ' ') {
            continue;
        }
        m->is_inner = from > 0 && i < m->n;
        if (i > from) {
            take_token(m, m->text + from, i - from);
        } else {
            push_any(m);
        }
        from = i + 1;
    }
    m->is_inner = false;
}

/* One alternative: its comparators; *out_any when it admits everything and so makes the others needless. */
static void take_alternative(struct making *m, qp_str text, bool *out_any)
{
    size_t first = m->count;
    *out_any = true;
    tidy(m, text);
    remove_builds(m);
    if (!take_hyphen(m)) {
        join_operators(m);
        join_marks(m);
        take_tokens(m);
    }
    for (size_t i = first; i < m->count; i++) {
        *out_any = *out_any && m->rows[i].op == SEMVER_ANY;
    }
    *out_any = *out_any && m->count > first;
    if (m->count > first) {
        m->rows[m->count - 1].is_last = true;
    }
}

/* The end of the alternative that begins a text. */
static size_t alternative_end(qp_str text)
{
    const char *bars = text.n > 1 ? memmem(text.p, text.n, "||", 2) : NULL;
    return bars == NULL ? text.n : (size_t)(bars - text.p);
}

static int making_init(struct making *m, struct arena *a, qp_str text)
{
    size_t tokens = 2;
    for (size_t i = 0; i < text.n; i++) {
        tokens += is_blank(text.p[i]) || text.p[i] == '|' ? 1 : 0;
    }
    *m = (struct making){.room = 2 * tokens};
    m->rows = arena_room(a, m->room * sizeof *m->rows);
    return m->rows == NULL ? QP_E_NOMEM : QP_OK;
}

int semver_range_read(struct arena *a, qp_str text, struct semver_range *out)
{
    struct making m;
    size_t any = SIZE_MAX; /* the first comparator of an alternative that admits everything */
    QP_TRY(making_init(&m, a, text));
    for (bool is_more = true; is_more;) {
        size_t end = alternative_end(text);
        size_t first = m.count;
        bool is_any = false;
        m.text = arena_bytes(a, end + 1); /* versions are slices of it */
        if (m.text == NULL) {
            return QP_E_NOMEM;
        }
        take_alternative(&m, (qp_str){text.p, end}, &is_any);
        any = is_any && any == SIZE_MAX ? first : any;
        is_more = end < text.n;
        text = is_more ? (qp_str){text.p + end + 2, text.n - end - 2} : text;
    }
    if (m.count == 0 || m.is_huge) {
        return QP_E_INVALID;
    }
    *out = (struct semver_range){m.rows, m.count};
    if (any != SIZE_MAX) {
        *out = (struct semver_range){m.rows + any, 1};
        m.rows[any].is_last = true;
    }
    return QP_OK;
}

/* ---------------------------------------------------------------------------------------- asking */

static bool holds(const struct semver_comparator *c, const struct semver *version)
{
    int order = c->op == SEMVER_ANY ? 0 : semver_compare(version, &c->version);
    switch (c->op) {
    case SEMVER_ANY:
        return true;
    case SEMVER_BELOW:
        return order < 0;
    case SEMVER_AT_MOST:
        return order <= 0;
    case SEMVER_EXACTLY:
        return order == 0;
    case SEMVER_AT_LEAST:
        return order >= 0;
    default:
        return order > 0;
    }
}

static bool names_pre(const struct semver_comparator *c, const struct semver *version)
{
    return c->op != SEMVER_ANY && c->version.pre.n > 0 &&
           memcmp(c->version.number, version->number, sizeof version->number) == 0;
}

bool semver_range_admits(const struct semver_range *range, const struct semver *version)
{
    bool is_held = true;
    bool is_named = version->pre.n == 0;
    for (size_t i = 0; i < range->count; i++) {
        const struct semver_comparator *c = &range->rows[i];
        is_held = is_held && holds(c, version);
        is_named = is_named || names_pre(c, version);
        if (c->is_last && is_held && is_named) {
            return true;
        }
        if (c->is_last) {
            is_held = true;
            is_named = version->pre.n == 0;
        }
    }
    return false;
}
