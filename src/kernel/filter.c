/* filter.c - a filter's text, compiled and asked (see filter.h) */
#include "kernel/filter.h"

#include <stdio.h>

#include "base/json.h"
#include "base/log.h"
#include "base/time.h"

/* --------------------------------------------------------------------------------------- statuses */

static const char *const status_words[STATUS_COUNT] = {"running", "retrying",  "waiting",
                                                       "parked",  "paused",    "completed",
                                                       "failed",  "cancelled", "interrupted"};

const char *status_word(int64_t status)
{
    return status >= 0 && status < STATUS_COUNT ? status_words[status] : "unknown";
}

enum job_status status_of_word(qp_str word)
{
    enum job_status status = STATUS_RUNNING;
    while (status < STATUS_COUNT && !str_equal(str_from(status_words[status]), word)) {
        status++;
    }
    return status;
}

/* ---------------------------------------------------------------------------------------- reading */

/* Where the reading is, and where it began: errors say the place. */
struct reader {
    struct arena *arena;
    qp_str text;
    size_t at;
    qp_ms now;
    struct qp_err *err;
};

static int refuse(struct reader *r, size_t at, const char *what)
{
    char shown[48];
    qp_str rest = {r->text.p + at, r->text.n - at};
    if (rest.n == 0) {
        return err_set(r->err, QP_E_INVALID, "filter: %s at its end", what);
    }
    rest.n = rest.n < 32 ? rest.n : 32;
    (void)log_escape(rest, shown, sizeof shown); /* its length does not matter */
    return err_set(r->err, QP_E_INVALID, "filter: %s at character %zu: '%s'", what, at + 1, shown);
}

static void skip_space(struct reader *r)
{
    while (r->at < r->text.n && (r->text.p[r->at] == ' ' || r->text.p[r->at] == '\t' ||
                                 r->text.p[r->at] == '\n' || r->text.p[r->at] == '\r')) {
        r->at++;
    }
}

static bool is_of_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._~:+-", c) != NULL);
}

static qp_str take_word(struct reader *r)
{
    size_t from = r->at;
    while (r->at < r->text.n && is_of_word(r->text.p[r->at])) {
        r->at++;
    }
    return (qp_str){r->text.p + from, r->at - from};
}

/* A text in quotes, double or single ones; the reader stands at the first of them. */
static int take_quoted(struct reader *r, qp_str *out_value)
{
    char quote = r->text.p[r->at];
    size_t from = r->at++;
    char *copy = arena_bytes(r->arena, r->text.n - from + 1);
    size_t n = 0;
    if (copy == NULL) {
        return err_set(r->err, QP_E_NOMEM, "filter: out of memory");
    }
    while (r->at < r->text.n && r->text.p[r->at] != quote) {
        if (r->text.p[r->at] == '\\') {
            r->at++;
            if (r->at == r->text.n || (r->text.p[r->at] != quote && r->text.p[r->at] != '\\')) {
                return refuse(r, r->at - 1, "after a backslash comes a quote or a backslash");
            }
        }
        copy[n++] = r->text.p[r->at++];
    }
    if (r->at == r->text.n) {
        return refuse(r, from, "a quote that does not end");
    }
    r->at++;
    *out_value = (qp_str){copy, n};
    return QP_OK;
}

static int take_value(struct reader *r, qp_str *out_value)
{
    skip_space(r);
    if (r->at < r->text.n && (r->text.p[r->at] == '"' || r->text.p[r->at] == '\'')) {
        return take_quoted(r, out_value);
    }
    *out_value = take_word(r);
    return out_value->n > 0 ? QP_OK : refuse(r, r->at, "a value is missing");
}

#define OPS_OF_TEXT ((1 << FILTER_EQUAL) | (1 << FILTER_OTHER))
#define OPS_OF_IDS (OPS_OF_TEXT | (1 << FILTER_BEGINS))
#define OPS_OF_TIMES                                                                               \
    (OPS_OF_TEXT | (1 << FILTER_LESS) | (1 << FILTER_AT_MOST) | (1 << FILTER_MORE) |               \
     (1 << FILTER_AT_LEAST))

/* "attr.NAME" or "properties.NAME"; false: neither. */
static bool take_named(qp_str word, struct filter_condition *c, int *out_ops)
{
    static const struct {
        qp_str prefix;
        enum filter_field field;
        int ops;
    } named[] = {{{"attr.", 5}, FILTER_ATTR, OPS_OF_IDS},
                 {{"properties.", 11}, FILTER_PROPERTY, OPS_OF_IDS | OPS_OF_TIMES}};
    for (size_t i = 0; i < ARRAY_COUNT(named); i++) {
        qp_str prefix = named[i].prefix;
        if (word.n > prefix.n && memcmp(word.p, prefix.p, prefix.n) == 0) {
            c->field = named[i].field;
            c->name = (qp_str){word.p + prefix.n, word.n - prefix.n};
            *out_ops = named[i].ops;
            return true;
        }
    }
    return false;
}

static const struct {
    const char *name;
    enum filter_field field;
    int ops;
} fields[] = {
    {"status", FILTER_STATUS, OPS_OF_TEXT},    {"workflow", FILTER_WORKFLOW, OPS_OF_TEXT},
    {"topic", FILTER_WORKFLOW, OPS_OF_TEXT},   {"id", FILTER_ID, OPS_OF_IDS},
    {"started", FILTER_STARTED, OPS_OF_TIMES}, {"updated", FILTER_UPDATED, OPS_OF_TIMES},
    {"ended", FILTER_ENDED, OPS_OF_TIMES},
};

/* "no such field (nearest: status; ...)" */
static int refuse_field(struct reader *r, size_t from, qp_str word)
{
    char what[256];
    size_t nearest = 0;
    for (size_t i = 1; i < ARRAY_COUNT(fields); i++) {
        if (str_distance(word, str_from(fields[i].name)) <
            str_distance(word, str_from(fields[nearest].name))) {
            nearest = i;
        }
    }
    (void)snprintf(what, sizeof what,
                   "no such field (nearest: %s; there are status, workflow, topic, id, started, "
                   "updated, ended, attr.NAME, properties.NAME)",
                   fields[nearest].name);
    return refuse(r, from, what);
}

static int take_field(struct reader *r, struct filter_condition *c, int *out_ops)
{
    size_t from;
    qp_str word;
    skip_space(r);
    from = r->at;
    word = take_word(r);
    if (take_named(word, c, out_ops)) {
        return name_check(c->name, "attribute", NULL) == QP_OK
                   ? QP_OK
                   : refuse(r, from, "no name of an attribute or a property");
    }
    for (size_t i = 0; i < ARRAY_COUNT(fields); i++) {
        if (str_equal(word, str_from(fields[i].name))) {
            c->field = fields[i].field;
            *out_ops = fields[i].ops;
            return QP_OK;
        }
    }
    return refuse_field(r, from, word);
}

static int take_op(struct reader *r, int allowed, struct filter_condition *c)
{
    static const struct {
        const char *text;
        enum filter_op op;
    } ops[] = {{"<=", FILTER_AT_MOST}, {">=", FILTER_AT_LEAST}, {"!=", FILTER_OTHER},
               {"^=", FILTER_BEGINS},  {"=", FILTER_EQUAL},     {"<", FILTER_LESS},
               {">", FILTER_MORE}};
    skip_space(r);
    for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
        size_t n = strlen(ops[i].text);
        if (r->text.n - r->at >= n && memcmp(r->text.p + r->at, ops[i].text, n) == 0) {
            if ((allowed & (1 << ops[i].op)) == 0) {
                return refuse(r, r->at, "this field does not take this operator");
            }
            r->at += n;
            c->op = ops[i].op;
            return QP_OK;
        }
    }
    return refuse(r, r->at, "an operator is missing (there are = != ^= < <= > >=)");
}

static int read_value(struct reader *r, size_t at, qp_str value, struct filter_condition *c)
{
    enum job_status status;
    switch (c->field) {
    case FILTER_STATUS:
    case FILTER_OPEN:
        status = status_of_word(value);
        c->number = status;
        c->field = str_equal(value, QP_STR("open")) ? FILTER_OPEN : FILTER_STATUS;
        return status < STATUS_COUNT || c->field == FILTER_OPEN
                   ? QP_OK
                   : refuse(r, at, "no word for a status");
    case FILTER_STARTED:
    case FILTER_UPDATED:
    case FILTER_ENDED:
        return moment_parse(value, r->now, &c->number) == QP_OK
                   ? QP_OK
                   : refuse(r, at, "neither a time (2026-01-31T09:08:07Z) nor a span back (-2h)");
    case FILTER_WORKFLOW:
    case FILTER_ID:
    case FILTER_ATTR:
    case FILTER_PROPERTY:
        break;
    }
    c->text = value;
    return QP_OK;
}

static int take_condition(struct reader *r, struct filter_condition *c)
{
    qp_str value = QP_NONE;
    size_t at;
    int ops = 0;
    int rc = take_field(r, c, &ops);
    rc = rc == QP_OK ? take_op(r, ops, c) : rc;
    skip_space(r);
    at = r->at;
    rc = rc == QP_OK ? take_value(r, &value) : rc;
    return rc == QP_OK ? read_value(r, at, value, c) : rc;
}

/* Between two conditions stands `and`, or `or`, which begins an alternative. */
static int take_joint(struct reader *r, bool *out_or)
{
    size_t from = r->at;
    qp_str word = take_word(r);
    *out_or = str_equal(word, QP_STR("or"));
    return *out_or || str_equal(word, QP_STR("and")) ? QP_OK
                                                     : refuse(r, from, "`and` or `or` is missing");
}

int filter_compile(struct arena *arena, qp_str where, qp_ms now, struct filter *out_filter,
                   struct qp_err *err)
{
    struct reader r = {.arena = arena, .text = where, .now = now, .err = err};
    struct filter f = {.count = 0};
    int rc = QP_OK;
    if (where.n > LIMIT_FILTER_SIZE) {
        return err_set(err, QP_E_INVALID, "filter: %zu bytes, the limit is %d", where.n,
                       LIMIT_FILTER_SIZE);
    }
    skip_space(&r);
    while (rc == QP_OK && r.at < where.n) {
        bool first = true;
        if (f.count == LIMIT_FILTER_CONDITIONS) {
            return refuse(&r, r.at, "too many conditions");
        }
        rc = f.count > 0 ? take_joint(&r, &first) : QP_OK;
        f.conditions[f.count].is_first = first;
        rc = rc == QP_OK ? take_condition(&r, &f.conditions[f.count++]) : rc;
        skip_space(&r);
    }
    if (rc == QP_OK) {
        *out_filter = f;
    }
    return rc;
}

/* ----------------------------------------------------------------------------------------- asking */

static bool begins_with(qp_str text, qp_str with)
{
    return text.n >= with.n && (with.n == 0 || memcmp(text.p, with.p, with.n) == 0);
}

static bool text_fits(const struct filter_condition *c, qp_str text)
{
    return c->op == FILTER_BEGINS
               ? !str_is_none(text) && begins_with(text, c->text)
               : (!str_is_none(text) && str_equal(text, c->text)) == (c->op == FILTER_EQUAL);
}

static bool number_fits(const struct filter_condition *c, int64_t number)
{
    switch (c->op) {
    case FILTER_LESS:
        return number < c->number;
    case FILTER_AT_MOST:
        return number <= c->number;
    case FILTER_MORE:
        return number > c->number;
    case FILTER_AT_LEAST:
        return number >= c->number;
    case FILTER_EQUAL:
    case FILTER_OTHER:
    case FILTER_BEGINS:
        break;
    }
    return (number == c->number) == (c->op == FILTER_EQUAL);
}

static bool condition_fits(const struct filter_condition *c, const struct job_row *job)
{
    switch (c->field) {
    case FILTER_STATUS:
        return number_fits(c, job->status);
    case FILTER_OPEN:
        return (job->status <= STATUS_PAUSED) == (c->op == FILTER_EQUAL);
    case FILTER_WORKFLOW:
        return text_fits(c, job->workflow);
    case FILTER_ID:
        return text_fits(c, job->jid);
    case FILTER_STARTED:
        return number_fits(c, job->created_at);
    case FILTER_UPDATED:
        return number_fits(c, job->updated_at);
    case FILTER_ENDED:
        return job->closed_at == 0 ? c->op == FILTER_OTHER : number_fits(c, job->closed_at);
    case FILTER_ATTR:
    case FILTER_PROPERTY:
        break;
    }
    return true;
}

bool filter_next(const struct filter *f, struct filter_range *r)
{
    bool any = r->to < f->count || (f->count == 0 && r->from == 0);
    r->from = f->count == 0 ? 1 : r->to;
    for (r->to = r->from; r->to < f->count; r->to++) {
        if (r->to > r->from && f->conditions[r->to].is_first) {
            break;
        }
    }
    return any;
}

bool filter_range_takes(const struct filter *f, const struct filter_range *r,
                        const struct job_row *job)
{
    for (size_t i = r->from; i < r->to; i++) {
        if (!condition_fits(&f->conditions[i], job)) {
            return false;
        }
    }
    return true;
}

bool filter_takes(const struct filter *f, const struct job_row *job)
{
    struct filter_range r = {0};
    while (filter_next(f, &r)) {
        if (filter_range_takes(f, &r, job)) {
            return true;
        }
    }
    return false;
}

bool filter_takes_attr(const struct filter_condition *c, qp_str value)
{
    QP_ASSERT(c->field == FILTER_ATTR);
    return text_fits(c, value);
}

static size_t digits_at(qp_str text, size_t at)
{
    size_t end = at;
    while (end < text.n && text.p[end] >= '0' && text.p[end] <= '9') {
        end++;
    }
    return end - at;
}

/* How long the part is that begins with one of two marks and has digits behind it; 0: there is none. */
static size_t part_at(qp_str text, size_t at, const char *marks)
{
    bool marked = at < text.n && (text.p[at] == marks[0] || text.p[at] == marks[1]);
    size_t sign = marked && marks[0] != '.' && at + 1 < text.n &&
                          (text.p[at + 1] == '+' || text.p[at + 1] == '-')
                      ? 1
                      : 0;
    size_t digits = marked ? digits_at(text, at + 1 + sign) : 0;
    return digits == 0 ? 0 : 1 + sign + digits;
}

/* A JSON number, and nothing around it. */
static bool is_number(qp_str text)
{
    size_t at = text.n > 0 && text.p[0] == '-' ? 1 : 0;
    size_t digits = digits_at(text, at);
    at += digits;
    at += part_at(text, at, "..");
    at += part_at(text, at, "eE");
    return digits > 0 && at == text.n && text.n <= LIMIT_JSON_NUMBER_SIZE;
}

static bool reals_fit(enum filter_op op, double left, double right)
{
    switch (op) {
    case FILTER_LESS:
        return left < right;
    case FILTER_AT_MOST:
        return left <= right;
    case FILTER_MORE:
        return left > right;
    case FILTER_AT_LEAST:
        return left >= right;
    case FILTER_EQUAL:
        return left == right;
    case FILTER_OTHER:
        return left != right;
    case FILTER_BEGINS:
        break;
    }
    return false;
}

bool filter_takes_property(const struct filter_condition *c, qp_str value, qp_str text)
{
    bool orders = c->op == FILTER_LESS || c->op == FILTER_AT_MOST || c->op == FILTER_MORE ||
                  c->op == FILTER_AT_LEAST;
    QP_ASSERT(c->field == FILTER_PROPERTY);
    if (str_is_none(value)) {
        return c->op == FILTER_OTHER;
    }
    if (c->op != FILTER_BEGINS && is_number(value) && is_number(c->text)) {
        return reals_fit(c->op, real_parse(value), real_parse(c->text));
    }
    return !orders && text_fits(c, text);
}

/* How few rows it leads to, the fewer the higher; 0: it leads nowhere. */
static int rank(const struct filter_condition *c)
{
    if (c->op != FILTER_EQUAL) {
        return 0;
    }
    return c->field == FILTER_ID     ? 3
           : c->field == FILTER_ATTR ? 2
           : c->field == FILTER_STATUS && c->number != STATUS_RUNNING &&
                   c->number != STATUS_COMPLETED
               ? 1
               : 0;
}

const struct filter_condition *filter_way_in(const struct filter *f)
{
    const struct filter_condition *best = NULL;
    for (size_t i = 0; i < f->count; i++) {
        const struct filter_condition *c = &f->conditions[i];
        if (i > 0 && c->is_first) {
            return NULL; /* an alternative: what one of them finds is not all */
        }
        if (rank(c) > (best == NULL ? 0 : rank(best))) {
            best = c;
        }
    }
    return best;
}

bool filter_is_counted(const struct filter *f)
{
    for (size_t i = 0; i < f->count; i++) {
        enum filter_field field = f->conditions[i].field;
        if (field != FILTER_STATUS && field != FILTER_OPEN && field != FILTER_WORKFLOW) {
            return false;
        }
    }
    return true;
}

bool filter_takes_counter(const struct filter *f, const struct counter_row *counter)
{
    struct job_row like = {.status = counter->status, .workflow = counter->workflow};
    QP_ASSERT(filter_is_counted(f));
    return filter_takes(f, &like);
}

/* None of the alternative's can come after this one. */
static bool range_is_past(const struct filter *f, const struct filter_range *r,
                          const struct job_row *job, bool backwards)
{
    for (size_t i = r->from; i < r->to; i++) {
        const struct filter_condition *c = &f->conditions[i];
        bool later = c->op == FILTER_MORE || c->op == FILTER_AT_LEAST;
        bool earlier = c->op == FILTER_LESS || c->op == FILTER_AT_MOST;
        if (c->field == FILTER_STARTED && (backwards ? later : earlier) &&
            !number_fits(c, job->created_at)) {
            return true;
        }
    }
    return false;
}

bool filter_is_past(const struct filter *f, const struct job_row *job, bool backwards)
{
    struct filter_range r = {0};
    while (filter_next(f, &r)) {
        if (!range_is_past(f, &r, job, backwards)) {
            return false;
        }
    }
    return true;
}
