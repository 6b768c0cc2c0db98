/* result.c - items out of rows (see result.h) */
#include "carto/result.h"

#include "kernel/address.h"

#define PAGE_ROWS 512

/* One level: a page of it, and how far it is. */
struct page {
    struct arena arena;
    struct carto_item *items;
    size_t count;
    size_t first; /* index of items[0] in its level */
    qp_str after; /* address of the last row that was read; none: nothing was */
    bool is_last;
};

struct result_source {
    const struct qp_env *env;
    struct store *store;
    struct job_ref job;
    struct qp_err *err;
    struct page *pages[LIMIT_CARTO_LEVELS + 2];
};

int result_open(const struct qp_env *env, struct store *s, const struct job_row *job,
                struct qp_err *err, struct result_source **out_source)
{
    struct result_source *r = mem_alloc(env, sizeof *r);
    if (r == NULL) {
        return QP_E_NOMEM;
    }
    *r = (struct result_source){.env = env, .store = s, .job = {job->ns, job->job}, .err = err};
    *out_source = r;
    return QP_OK;
}

void result_close(struct result_source *r)
{
    if (r == NULL) {
        return;
    }
    for (size_t i = 0; i < ARRAY_COUNT(r->pages); i++) {
        if (r->pages[i] != NULL) {
            arena_done(&r->pages[i]->arena);
            mem_free(r->env, r->pages[i]);
        }
    }
    mem_free(r->env, r);
}

/* ------------------------------------------------------------------------------------------- reading */

/* A row while its page is read. */
struct found {
    qp_str addr;
    qp_str input;
    qp_str output;
    bool is_elsewhere; /* it was answered more than once: its ending is with a GUID of its own */
};

struct reading {
    struct page *page;
    qp_str gate;
    struct found *rows;
    size_t count;
    bool is_over; /* the range has ended */
};

static int read_row(void *context, const void *row)
{
    struct reading *r = context;
    const struct act_row *act = row;
    struct found *f = &r->rows[r->count];
    if (act->addr.n < r->gate.n || memcmp(act->addr.p, r->gate.p, r->gate.n) != 0) {
        r->is_over = true;
        return QP_E_ABORTED; /* ends the scan */
    }
    if (!arena_copy(&r->page->arena, act->addr, &f->addr) ||
        !arena_copy(&r->page->arena, act->input, &f->input) ||
        !arena_copy(&r->page->arena, act->output, &f->output)) {
        return QP_E_NOMEM;
    }
    f->is_elsewhere = act->guid_rows > 0;
    r->count++;
    return QP_OK;
}

static bool is_ending(qp_str output)
{
    static const char mark[] = "{\"state\":";
    return output.n > sizeof mark && memcmp(output.p, mark, sizeof mark - 1) == 0;
}

struct ending {
    struct arena *arena;
    qp_str text;
};

static int find_ending(void *context, const void *row)
{
    struct ending *e = context;
    const struct guid_row *guid = row;
    return !is_ending(guid->output) || arena_copy(e->arena, guid->output, &e->text) ? QP_OK
                                                                                    : QP_E_NOMEM;
}

static int ending_of(struct result_source *r, struct page *p, const struct found *f, qp_str *out)
{
    struct guid_row of = {.ns = r->job.ns, .job = r->job.job, .addr = f->addr};
    struct scan scan = {
        .table = TABLE_guid, .index = -1, .prefix = &of, .prefix_count = 3, .limit = SIZE_MAX};
    struct ending e = {.arena = &p->arena};
    *out = is_ending(f->output) ? f->output : QP_NONE;
    if (!f->is_elsewhere || !str_is_none(*out)) {
        return QP_OK;
    }
    QP_TRY(store_scan(r->store, &scan, &e, find_ending, r->err));
    *out = e.text;
    return QP_OK;
}

static int make_items(struct result_source *r, struct page *p, const struct reading *reading)
{
    p->items = arena_alloc(&p->arena, (reading->count + 1) * sizeof *p->items);
    if (p->items == NULL) {
        return QP_E_NOMEM;
    }
    for (size_t i = 0; i < reading->count; i++) {
        const struct found *f = &reading->rows[i];
        qp_str ending;
        QP_TRY(ending_of(r, p, f, &ending));
        QP_TRY(item_read(r->env, &p->arena, path_of(f->addr), f->input, &p->items[i]));
        QP_TRY(ending_read(r->env, &p->arena, ending, &p->items[i]));
    }
    p->count = reading->count;
    return QP_OK;
}

/* The next page of a level; the one before it is gone. */
static int page_next(struct result_source *r, struct page *p, uint64_t level)
{
    struct act_row from = {.ns = r->job.ns, .job = r->job.job};
    struct reading reading = {.page = p};
    struct scan scan = {.table = TABLE_act,
                        .index = -1,
                        .prefix = &from,
                        .prefix_count = 2,
                        .after = &from,
                        .limit = PAGE_ROWS};
    char after[LIMIT_ADDRESS_SIZE];
    int rc;
    if (!str_is_none(p->after)) {
        QP_ASSERT(p->after.n <= sizeof after);
        memcpy(after, p->after.p, p->after.n);
        from.addr = (qp_str){after, p->after.n};
    }
    arena_reset(&p->arena);
    QP_TRY(address_of_gate(&p->arena, level, &reading.gate));
    if (str_is_none(p->after)) {
        from.addr = reading.gate;
    }
    reading.rows = arena_alloc(&p->arena, PAGE_ROWS * sizeof *reading.rows);
    if (reading.rows == NULL) {
        return QP_E_NOMEM;
    }
    rc = store_scan(r->store, &scan, &reading, read_row, r->err);
    if (rc != QP_OK && !(rc == QP_E_ABORTED && reading.is_over)) {
        return rc;
    }
    p->first += p->count;
    p->is_last = reading.count < PAGE_ROWS;
    QP_TRY(make_items(r, p, &reading));
    p->after = reading.count > 0 ? reading.rows[reading.count - 1].addr : QP_NONE;
    return QP_OK;
}

static int page_of(struct result_source *r, uint64_t level, struct page **out_page)
{
    struct page *p = r->pages[level];
    if (p == NULL) {
        p = mem_alloc(r->env, sizeof *p);
        if (p == NULL) {
            return QP_E_NOMEM;
        }
        *p = (struct page){0};
        arena_init(&p->arena, r->env, 0);
        r->pages[level] = p;
        QP_TRY(page_next(r, p, level));
    }
    *out_page = p;
    return QP_OK;
}

static int get(void *context, uint64_t level, size_t index, const struct carto_item **out)
{
    struct result_source *r = context;
    struct page *p = NULL;
    if (level >= ARRAY_COUNT(r->pages)) {
        return QP_E_NOT_FOUND;
    }
    QP_TRY(page_of(r, level, &p));
    QP_ASSERT(index >= p->first);
    while (index >= p->first + p->count && !p->is_last) {
        QP_TRY(page_next(r, p, level));
    }
    if (index >= p->first + p->count) {
        return QP_E_NOT_FOUND;
    }
    *out = &p->items[index - p->first];
    return QP_OK;
}

struct carto_items result_items(struct result_source *r)
{
    return (struct carto_items){.context = r, .get = get};
}

/* --------------------------------------------------------------------------------------------- state */

static int read_act(struct store *s, struct arena *a, const struct job_row *job, qp_str addr,
                    const struct act_row **out_act, struct qp_err *err)
{
    struct act_row key = {.ns = job->ns, .job = job->job, .addr = addr};
    const void *row = NULL;
    int rc = store_get(s, a, TABLE_act, &key, &row, err);
    *out_act = rc == QP_OK ? row : NULL;
    return rc == QP_E_NOT_FOUND ? QP_OK : rc;
}

/* The last gate that is there: a gate is made when the level before it begins. */
static int read_level(struct store *s, struct arena *a, const struct job_row *job,
                      struct result_state *out, struct qp_err *err)
{
    const struct act_row *gate = NULL;
    for (uint64_t level = 0; level <= LIMIT_CARTO_LEVELS + 1; level++) {
        qp_str addr;
        QP_TRY(address_of_gate(a, level, &addr));
        QP_TRY(read_act(s, a, job, addr, &gate, err));
        if (gate == NULL) {
            break;
        }
        out->has_ended = gate->code == 204;
        out->level = level > 0 ? level - 1 : 0;
    }
    return QP_OK;
}

static int read_sums(struct store *s, struct arena *a, const struct job_row *job,
                     struct result_state *out, struct qp_err *err)
{
    struct data_row key = {.ns = job->ns, .job = job->job, .name = CARTO_COUNTS};
    const void *row = NULL;
    int rc = store_get(s, a, TABLE_data, &key, &row, err);
    if (rc != QP_OK) {
        return rc == QP_E_NOT_FOUND ? QP_OK : rc;
    }
    return sums_read(((const struct data_row *)row)->value, &out->sums);
}

static int read_format(struct store *s, struct arena *a, const struct job_row *job,
                       struct result_state *out, struct qp_err *err)
{
    const struct act_row *format = NULL;
    struct raw_walk w;
    QP_TRY(read_act(s, a, job, CARTO_FORMAT_ADDRESS, &format, err));
    if (format == NULL || format->code != 200) {
        return QP_OK;
    }
    out->formatted = format->output;
    w = (struct raw_walk){.rest = format->output};
    while (raw_each(&w)) {
        if (str_equal(w.key, QP_STR("hash")) && !raw_text(a->env, a, w.value, &out->hash)) {
            return QP_E_CORRUPT;
        }
    }
    return QP_OK;
}

int result_state(struct store *s, struct arena *a, const struct job_row *job,
                 struct result_state *out_state, struct qp_err *err)
{
    struct result_state state = {0};
    QP_TRY(read_level(s, a, job, &state, err));
    QP_TRY(read_sums(s, a, job, &state, err));
    QP_TRY(read_format(s, a, job, &state, err));
    state.head = (struct carto_result_head){.universe = job->version,
                                            .reason = stage_end(&state.sums.counts),
                                            .counts = state.sums.counts};
    state.waiting = job->waits;
    *out_state = state;
    return QP_OK;
}
