/* statetext.c - the whole state of a store as text (see statetext.h) */
#include "support/statetext.h"

#include <stdio.h>

struct printing {
    struct buf *out;
    enum table_id table;
    int without;
    void *context;
    statetext_translate translate;
};

static int print_row(void *context, const void *row)
{
    struct printing *p = context;
    const struct table *t = &tables[p->table];
    union {
        int64_t align;
        struct head_row head;
        char bytes[1024];
    } copy;
    QP_ASSERT(t->row_size <= sizeof copy);
    memcpy(&copy, row, t->row_size);
    if (p->translate != NULL) {
        p->translate(p->context, p->table, &copy);
    }
    if (p->table == TABLE_head && (p->without & STATETEXT_NO_MARK) != 0) {
        copy.head.clean = 0;
        copy.head.rev = 0;
    }
    if (p->table == TABLE_head && (p->without & STATETEXT_NO_CLOCK) != 0) {
        copy.head.clock = 0;
    }
    if (p->table == TABLE_head && (p->without & STATETEXT_NO_NUMBERS) != 0) {
        copy.head.pos = copy.head.ord = copy.head.next_id = 0;
    }
    if ((p->without & STATETEXT_NO_REV) != 0) {
        row_set_i64(&t->columns[t->column_count - 1], &copy, 0);
    }
    row_print(p->out, p->table, &copy);
    buf_byte(p->out, '\n');
    return QP_OK;
}

void statetext_print(struct store *s, int without, struct buf *out)
{
    statetext_print_as(s, without, NULL, NULL, out);
}

void statetext_print_as(struct store *s, int without, void *context, statetext_translate translate,
                        struct buf *out)
{
    struct qp_err err = {0};
    buf_reset(out);
    for (int table = 0; table < TABLE_COUNT; table++) {
        struct printing p = {out, (enum table_id)table, without, context, translate};
        struct scan all = {.table = p.table, .index = -1, .limit = SIZE_MAX};
        int rc = store_scan(s, &all, &p, print_row, &err);
        QP_ASSERT(rc == QP_OK);
    }
    buf_byte(out, '\0');
    QP_ASSERT(buf_rc(out) == QP_OK);
}

bool statetext_equal(const struct buf *a, const struct buf *b)
{
    return a->n == b->n && memcmp(a->p, b->p, a->n) == 0;
}

void statetext_show(const struct buf *a, const struct buf *b)
{
    size_t from = 0;
    size_t i = 0;
    while (i < a->n && i < b->n && a->p[i] == b->p[i]) {
        from = a->p[i] == '\n' ? i + 1 : from;
        i++;
    }
    if (from < a->n && from < b->n) {
        (void)fprintf(stderr, "  %.*s\n  %.*s\n", (int)strcspn(a->p + from, "\n"), a->p + from,
                      (int)strcspn(b->p + from, "\n"), b->p + from);
    }
}
