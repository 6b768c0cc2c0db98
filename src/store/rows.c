/* rows.c - the descriptors made from rows.def, and the generic code over them */
#include "store/rows.h"

#include "store/time_limits.h"

#define COLUMN(table, column, kind, role)                                                          \
    {#column, KIND_##kind, ROLE_##role, offsetof(struct table##_row, column)},
#define COLUMNS(table, list)                                                                       \
    static const struct column table##_columns[] = {                                               \
        {"ns", KIND_I64, ROLE_KEY, offsetof(struct table##_row, ns)},                              \
        list(COLUMN, table){"rev", KIND_I64, ROLE_REV, offsetof(struct table##_row, rev)},         \
    };
STORE_TABLES(COLUMNS)

/* The offsets of the texts; the 0 at the end is no offset: it is there for tables without any. */
#define TEXTS_I64(table, column)
#define TEXTS_TEXT(table, column) offsetof(struct table##_row, column),
#define TEXTS_BLOB(table, column) offsetof(struct table##_row, column),
#define TEXT_OFFSET(table, column, kind, role) TEXTS_##kind(table, column)
#define TEXTS(table, list) static const size_t table##_texts[] = {list(TEXT_OFFSET, table) 0};
STORE_TABLES(TEXTS)

#define COUNT_KEY 1
#define COUNT_FIXED 0
#define COUNT_RARE 0
#define COUNT_NUMBER 0
#define COUNT_HOT 0
#define COUNT_LATER 0
#define COUNT_SELDOM 0
#define COUNT_UNUSUAL 0
#define COUNT_INDEXED 0
#define COUNT_SUM 0
#define KEY_COUNT(table, column, kind, role) +COUNT_##role
/* The tables whose first key column is the job's number, and so hold nothing of a job that is not
 * born yet. */
#define KEYED_BY_JOB(table)                                                                        \
    (TABLE_##table == TABLE_job || TABLE_##table == TABLE_attr || TABLE_##table == TABLE_act ||    \
     TABLE_##table == TABLE_guid || TABLE_##table == TABLE_sem || TABLE_##table == TABLE_move ||   \
     TABLE_##table == TABLE_msg || TABLE_##table == TABLE_event || TABLE_##table == TABLE_data)
/* The place of each column among the others. */
#define COLUMN_PLACE(table, column, kind, role) PLACE_##table##_##column,
#define COLUMN_PLACES(table, list) enum { PLACE_##table##_ns, list(COLUMN_PLACE, table) };
STORE_TABLES(COLUMN_PLACES)
#define IS_NUMBER_KEY 0
#define IS_NUMBER_FIXED 0
#define IS_NUMBER_RARE 0
#define IS_NUMBER_NUMBER 1
#define IS_NUMBER_HOT 0
#define IS_NUMBER_LATER 0
#define IS_NUMBER_SELDOM 0
#define IS_NUMBER_UNUSUAL 0
#define IS_NUMBER_INDEXED 0
#define IS_NUMBER_SUM 0
#define NUMBER(table, column, kind, role) +IS_NUMBER_##role *PLACE_##table##_##column
#define DESCRIBE(table, list)                                                                      \
    {#table,                                                                                       \
     table##_columns,                                                                              \
     ARRAY_COUNT(table##_columns),                                                                 \
     1 list(KEY_COUNT, table),                                                                     \
     sizeof(struct table##_row),                                                                   \
     table##_texts,                                                                                \
     ARRAY_COUNT(table##_texts) - 1,                                                               \
     KEYED_BY_JOB(table),                                                                          \
     (TABLE_##table == TABLE_job) * PLACE_job_job list(NUMBER, table),                             \
     TABLE_##table == TABLE_counter || TABLE_##table == TABLE_lane ||                              \
         TABLE_##table == TABLE_definition},

const struct table tables[TABLE_COUNT] = {STORE_TABLES(DESCRIBE)};

#define HOLDS(name, table, columns, sql, condition)                                                \
    static bool name##_holds(const void *row)                                                      \
    {                                                                                              \
        const struct table##_row *r = row;                                                         \
        (void)r;                                                                                   \
        return condition;                                                                          \
    }
STORE_INDEXES(HOLDS, HOLDS)

#define INDEX_PLAIN(name, table, columns, sql, condition)                                          \
    {#name, TABLE_##table, columns, false, name##_holds},
#define INDEX_UNIQUE(name, table, columns, sql, condition)                                         \
    {#name, TABLE_##table, columns, true, name##_holds},
const struct index indexes[INDEX_COUNT] = {STORE_INDEXES(INDEX_PLAIN, INDEX_UNIQUE)};

static size_t column_find(const struct table *t, qp_str name)
{
    size_t i = 0;
    while (i < t->column_count && !str_equal(str_from(t->columns[i].name), name)) {
        i++;
    }
    QP_ASSERT(i < t->column_count);
    return i;
}

static void columns_add(struct index_columns *c, size_t column)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->column[i] == column) {
            return;
        }
    }
    QP_ASSERT(c->count < INDEX_COLUMNS_MAX);
    c->column[c->count++] = column;
}

struct index_columns index_columns(enum index_id index)
{
    struct index_columns c = {0};
    const struct table *t = &tables[indexes[index].table];
    const char *p = indexes[index].column_names;
    while (*p != '\0') {
        size_t n = strcspn(p, ",");
        columns_add(&c, column_find(t, (qp_str){p, n}));
        p += n + (p[n] == ',');
    }
    c.own_count = c.count;
    for (size_t i = 0; i < t->key_count; i++) {
        columns_add(&c, i);
    }
    return c;
}

/* Big-endian with the sign bit turned, so that bytes order as numbers do. */
static char *encode_i64(char *out, int64_t value)
{
    uint64_t bits = __builtin_bswap64((uint64_t)value ^ (UINT64_C(1) << 63));
    static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "written for little-endian machines");
    memcpy(out, &bits, sizeof bits);
    return out + sizeof bits;
}

/* 0 for none; else 1, the bytes with 0 written as 0 1, and 0 0 as the end: a prefix orders before
 * what it begins. */
static char *encode_str(char *out, qp_str value)
{
    if (str_is_none(value)) {
        *out++ = 0;
        return out;
    }
    *out++ = 1;
    while (value.n > 0) {
        const char *zero = memchr(value.p, 0, value.n);
        size_t n = zero == NULL ? value.n : (size_t)(zero - value.p) + 1;
        memcpy(out, value.p, n);
        out += n;
        if (zero != NULL) {
            *out++ = 1;
        }
        value = (qp_str){value.p + n, value.n - n};
    }
    *out++ = 0;
    *out++ = 0;
    return out;
}

/* At most this many bytes come out of encoding. */
static size_t encoded_size_max(const struct table *t, const void *row, const size_t *columns,
                               size_t count)
{
    size_t size = 0;
    for (size_t i = 0; i < count; i++) {
        const struct column *c = &t->columns[columns[i]];
        size += c->kind == KIND_I64 ? sizeof(int64_t) : 2 * row_str(c, row).n + 3;
    }
    return size;
}

void row_encode(struct buf *out, const struct table *t, const void *row, const size_t *columns,
                size_t count)
{
    char *from = buf_room(out, encoded_size_max(t, row, columns, count));
    char *p = from;
    for (size_t i = 0; i < count && p != NULL; i++) {
        const struct column *c = &t->columns[columns[i]];
        p = c->kind == KIND_I64 ? encode_i64(p, row_i64(c, row)) : encode_str(p, row_str(c, row));
    }
    if (p != NULL) {
        buf_took(out, (size_t)(p - from));
    }
}

void row_encode_key(struct buf *out, enum table_id table, const void *row)
{
    static const size_t first[INDEX_COLUMNS_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};
    QP_ASSERT(tables[table].key_count <= INDEX_COLUMNS_MAX);
    row_encode(out, &tables[table], row, first, tables[table].key_count);
}

/* What the store itself counts, one by one, never comes near the end of its type. */
static bool count_is_sound(int64_t count)
{
    return count >= 0 && count < INT64_C(1) << 62;
}

static bool head_is_sound(const struct head_row *r)
{
    return count_is_sound(r->pos) && count_is_sound(r->ord) && count_is_sound(r->next_id) &&
           r->clock < INT64_C(1) << 62 && r->clean >= HEAD_IN_USE && r->clean <= HEAD_MOVED;
}

static bool job_is_sound(const struct job_row *r)
{
    return r->state >= JOB_OPEN && r->state < JOB_STATES && r->status >= 0 &&
           r->status < STATUS_COUNT && r->sem >= 0 && count_is_sound(r->seq) &&
           count_is_sound(r->waits) && count_is_sound(r->retries);
}

int64_t job_word(const struct job_row *job)
{
    static const int64_t ends[JOB_STATES] = {[JOB_COMPLETED] = STATUS_COMPLETED,
                                             [JOB_FAILED] = STATUS_FAILED,
                                             [JOB_CANCELLED] = STATUS_CANCELLED,
                                             [JOB_INTERRUPTED] = STATUS_INTERRUPTED};
    int64_t open = job->opened != 0 ? job->sem : 1; /* not begun yet: its trigger */
    QP_ASSERT(job->state >= JOB_OPEN && job->state < JOB_STATES);
    if (job->state != JOB_OPEN) {
        return ends[job->state];
    }
    if (job->paused != 0) {
        return STATUS_PAUSED;
    }
    if (!str_is_none(job->parked)) {
        return STATUS_PARKED;
    }
    if (job->retries > 0) {
        return STATUS_RETRYING;
    }
    return job->waits > 0 && job->waits == open ? STATUS_WAITING : STATUS_RUNNING;
}

/* A held message has a lease or a holder, a delayed one a time, the others neither. Time limits give a READY message a
 * time, and a HELD one with a holder another. */
static bool msg_times_are_sound(const struct msg_row *r, bool limited)
{
    if (r->state == MSG_HELD) {
        return limited ? r->wake_at > 0 || r->holder > 0 : (r->wake_at > 0) != (r->holder > 0);
    }
    if (r->state == MSG_DELAYED) {
        return r->wake_at > 0 && r->holder == 0;
    }
    return (r->wake_at == 0 || (limited && r->state == MSG_READY)) && r->holder == 0;
}

static bool msg_is_sound(const struct msg_row *r)
{
    struct time_limits limits;
    bool limited = !str_is_none(r->limits);
    if (limited && time_limits_parse(r->limits, &limits) != QP_OK) {
        return false;
    }
    if (r->deadline < DEADLINE_UNSTARTED || (r->deadline != 0 && r->state != MSG_HELD)) {
        return false;
    }
    if (r->state <= MSG_NONE || r->state >= MSG_STATES || r->wake_at < 0 || r->holder < 0 ||
        !count_is_sound(r->token) || !count_is_sound(r->tries)) {
        return false;
    }
    return msg_times_are_sound(r, limited);
}

static bool lane_is_sound(const struct lane_row *r)
{
    return count_is_sound(r->ready) && count_is_sound(r->held);
}

static bool hook_is_sound(const struct hook_row *r)
{
    return count_is_sound(r->waiting) && count_is_sound(r->pending);
}

/* Half a hash would be compared as if it were a whole one. */
static bool access_is_sound(const struct access_row *r)
{
    return r->id.n > 0 && r->hash.n == LIMIT_ACCESS_HASH_SIZE && r->role.n > 0 &&
           r->expire_at >= 0 && r->revoked_at >= 0;
}

static bool app_is_sound(const struct app_row *r)
{
    return r->app.n > 0 && r->version.n > 0 && r->hash.n > 0 && r->activated_at >= 0 &&
           r->state >= APP_DEPLOYED && r->state <= APP_DELETED;
}

static bool app_topic_is_sound(const struct app_topic_row *r)
{
    return r->kind >= APP_TOPIC_START && r->kind < APP_TOPIC_KINDS && r->topic.n > 0 &&
           r->app.n > 0 && r->version.n > 0;
}

static bool universe_is_sound(const struct universe_row *r)
{
    return r->type.n > 0 && r->name.n > 0 && count_is_sound(r->facts) &&
           r->state >= UNIVERSE_FILLING && r->state < UNIVERSE_STATES;
}

static bool fact_is_sound(const struct fact_row *r)
{
    return r->kind >= FACT_VALUE && r->kind < FACT_KINDS && r->name.n > 0 && r->expire_at >= 0;
}

static bool ledger_is_sound(int64_t ledger)
{
    return ledger >= 0 && ledger <= LIMIT_LEDGER;
}

bool row_is_sound(enum table_id table, const void *row)
{
    const struct table *t = &tables[table];
    if (!count_is_sound(row_i64(&t->columns[t->column_count - 1], row))) {
        return false;
    }
    switch ((int)table) {
    case TABLE_head:
        return head_is_sound(row);
    case TABLE_job:
        return job_is_sound(row);
    case TABLE_act:
        return ledger_is_sound(((const struct act_row *)row)->ledger) &&
               ledger_is_sound(((const struct act_row *)row)->guid_ledger) &&
               ((const struct act_row *)row)->waits >= ACT_BUSY &&
               ((const struct act_row *)row)->waits < ACT_WAIT_COUNT;
    case TABLE_guid:
        return ledger_is_sound(((const struct guid_row *)row)->ledger);
    case TABLE_msg:
        return msg_is_sound(row);
    case TABLE_lane:
        return lane_is_sound(row);
    case TABLE_access:
        return access_is_sound(row);
    case TABLE_app:
        return app_is_sound(row);
    case TABLE_app_topic:
        return app_topic_is_sound(row);
    case TABLE_universe:
        return universe_is_sound(row);
    case TABLE_fact:
        return fact_is_sound(row);
    case TABLE_hook:
        return hook_is_sound(row);
    case TABLE_key:
        return count_is_sound(((const struct key_row *)row)->waiting) &&
               ((const struct key_row *)row)->held >= 0;
    default:
        return true;
    }
}

static qp_str text_at(const void *row, size_t offset)
{
    qp_str text;
    memcpy(&text, (const char *)row + offset, sizeof text);
    return text;
}

bool column_is_payload(const struct column *c)
{
    static const char *const names[] = {"input", "output", "payload", "detail",
                                        "value", "error",  "source"};
    for (size_t i = 0; c->kind != KIND_I64 && i < ARRAY_COUNT(names); i++) {
        if (c->name[0] == names[i][0] && strcmp(c->name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

void row_slim(enum table_id table, void *row)
{
    const struct table *t = &tables[table];
    for (size_t i = t->key_count; i < t->column_count; i++) {
        if (!column_is_none(&t->columns[i], row) && column_is_payload(&t->columns[i])) {
            row_set_str(&t->columns[i], row, QP_NONE);
        }
    }
}

static bool is_none_at_birth(enum column_role role)
{
    return role == ROLE_RARE || role == ROLE_LATER || role == ROLE_SELDOM || role == ROLE_UNUSUAL;
}

/* One function for each table: every new row is asked, and most of its columns do not matter. */
#define NONE_I64(value) ((value) == 0)
#define NONE_TEXT(value) str_is_none(value)
#define NONE_BLOB(value) str_is_none(value)
#define PLAIN_COLUMN(table, column, kind, role)                                                    \
    &&(!is_none_at_birth(ROLE_##role) || NONE_##kind(r->column))
#define IS_PLAIN(table, list)                                                                      \
    static bool table##_is_plain(const void *row)                                                  \
    {                                                                                              \
        const struct table##_row *r = row;                                                         \
        return r != NULL list(PLAIN_COLUMN, table);                                                \
    }
STORE_TABLES(IS_PLAIN)

bool row_is_plain(enum table_id table, const void *row)
{
#define IS_PLAIN_OF(table, list) table##_is_plain,
    static bool (*const is_plain[TABLE_COUNT])(const void *row) = {STORE_TABLES(IS_PLAIN_OF)};
#undef IS_PLAIN_OF
    return is_plain[table](row);
}

size_t row_text_size(enum table_id table, const void *row)
{
    const struct table *t = &tables[table];
    size_t size = 0;
    for (size_t i = 0; i < t->text_count; i++) {
        size += text_at(row, t->texts[i]).n;
    }
    return size;
}

/* One byte more, so that an empty text at the end still points into the block. */
size_t row_copy_size(enum table_id table, const void *row)
{
    return tables[table].row_size + row_text_size(table, row) + 1;
}

void *row_copy_into(void *memory, enum table_id table, const void *row)
{
    const struct table *t = &tables[table];
    char *end = (char *)memory + t->row_size;
    memcpy(memory, row, t->row_size);
    for (size_t i = 0; i < t->text_count; i++) {
        qp_str text = text_at(row, t->texts[i]);
        if (str_is_none(text)) {
            continue;
        }
        memcpy(end, text.p, text.n);
        text.p = end;
        memcpy((char *)memory + t->texts[i], &text, sizeof text);
        end += text.n;
    }
    return memory;
}

void *row_clone(const struct qp_env *env, enum table_id table, const void *row)
{
    void *memory = mem_alloc(env, row_copy_size(table, row));
    return memory == NULL ? NULL : row_copy_into(memory, table, row);
}

void *row_copy(struct arena *a, enum table_id table, const void *row)
{
    void *memory = arena_room(a, row_copy_size(table, row));
    return memory == NULL ? NULL : row_copy_into(memory, table, row);
}

bool act_first_guid(const struct act_row *act, struct guid_row *out_guid)
{
    *out_guid = (struct guid_row){.ns = act->ns,
                                  .job = act->job,
                                  .addr = act->addr,
                                  .guid = act->guid,
                                  .at = act->guid_at,
                                  .seq = act->guid_seq,
                                  .pos = act->guid_pos,
                                  .ledger = act->guid_ledger,
                                  .n = act->n,
                                  .delta = act->delta,
                                  .code = act->code,
                                  .output = act->output,
                                  .rev = act->rev};
    return !str_is_none(act->guid);
}

/* Whole stores are printed to compare them: without printf, which takes most of the time then. */
static void print_bytes(struct buf *out, qp_str s)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < s.n; i++) {
        unsigned char byte = (unsigned char)s.p[i];
        buf_byte(out, digits[byte >> 4]);
        buf_byte(out, digits[byte & 15]);
    }
}

static void print_value(struct buf *out, const struct column *c, const void *row)
{
    if (c->kind == KIND_I64) {
        buf_i64(out, row_i64(c, row));
    } else if (str_is_none(row_str(c, row))) {
        buf_text(out, "-");
    } else if (c->kind == KIND_TEXT) {
        buf_byte(out, '"');
        buf_str(out, row_str(c, row));
        buf_byte(out, '"');
    } else {
        print_bytes(out, row_str(c, row));
    }
}

void row_print(struct buf *out, enum table_id table, const void *row)
{
    const struct table *t = &tables[table];
    buf_text(out, t->name);
    buf_text(out, "{");
    for (size_t i = 0; i < t->column_count; i++) {
        buf_text(out, i > 0 ? " " : "");
        buf_text(out, t->columns[i].name);
        buf_byte(out, '=');
        print_value(out, &t->columns[i], row);
    }
    buf_text(out, "}");
}

int64_t row_due_at(enum table_id table, const void *row)
{
    switch (table) {
    case TABLE_msg:
        return ((const struct msg_row *)row)->wake_at;
    case TABLE_key_hold:
        return ((const struct key_hold_row *)row)->lease_until;
    case TABLE_hook_sig:
        return ((const struct hook_sig_row *)row)->expire_at;
    case TABLE_idem:
        return ((const struct idem_row *)row)->expire_at;
    case TABLE_job:
        return ((const struct job_row *)row)->expire_at;
    default:
        return 0;
    }
}
