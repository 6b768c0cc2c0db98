/* echo.c - messages of the engine that come a second time (see echo.h) */
#include "echo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "store/rows.h"

#define NOTES_MAX 20000

struct note {
    struct msg_row *row;
    bool sent; /* again */
};
static struct note notes[NOTES_MAX];
static size_t note_count;
static int64_t sent_count;
static bool sends_all;
static struct testenv memory; /* of the notes: they outlive the store's own */

static bool is_noted(const struct msg_row *m)
{
    for (size_t i = note_count; i-- > 0;) {
        if (notes[i].row->job == m->job && str_equal(notes[i].row->guid, m->guid)) {
            return true;
        }
    }
    return false;
}

static int note(void *context, const void *row)
{
    const struct msg_row *m = row;
    (void)context;
    if (str_equal(m->topic, ENGINE_TOPIC) && !is_noted(m)) {
        assert_true(note_count < NOTES_MAX);
        notes[note_count] = (struct note){.row = row_clone(&memory.env, TABLE_msg, m)};
        assert_non_null(notes[note_count].row);
        note_count++;
    }
    return QP_OK;
}

static bool is_gone(struct graphrun *r, const struct msg_row *m)
{
    return storetest_row(&r->f, TABLE_msg, m) == NULL;
}

static void send_again(struct graphrun *r, struct note *n)
{
    const struct msg_row *m = n->row;
    struct op put = {.kind = OP_msg_put,
                     .msg_put = {.ref = {m->ns, m->job},
                                 .guid = m->guid,
                                 .owner = m->owner,
                                 .kind = m->kind,
                                 .topic = m->topic,
                                 .addr = m->addr,
                                 .parent_guid = m->parent_guid,
                                 .payload = m->payload,
                                 .code = m->code,
                                 .priority = m->priority}};
    n->sent = true;
    sent_count++;
    assert_int_equal(storetest_op(&r->f, &put), QP_OK);
    engine_look_again(r->e);
}

static void after_round(struct graphrun *r)
{
    struct scan scan = {.table = TABLE_msg, .index = -1, .limit = SIZE_MAX};
    struct qp_err err = {0};
    assert_int_equal(store_scan(r->f.s, &scan, NULL, note, &err), QP_OK);
    for (size_t i = 0; sends_all && i < note_count; i++) {
        if (!notes[i].sent && is_gone(r, notes[i].row)) {
            send_again(r, &notes[i]);
        }
    }
}

void echo_begin(struct graphrun *r, bool all)
{
    testenv_init(&memory, 1);
    note_count = 0;
    sent_count = 0;
    sends_all = all;
    r->after_round = after_round;
}

int64_t echo_end(struct graphrun *r)
{
    r->after_round = NULL;
    for (size_t i = 0; i < note_count; i++) {
        mem_free(&memory.env, notes[i].row);
    }
    testenv_done(&memory);
    return sent_count;
}

void echo_send(struct graphrun *r, enum message_kind kind, const char *addr)
{
    for (size_t i = 0; i < note_count; i++) {
        const struct msg_row *m = notes[i].row;
        if (m->kind == (int64_t)kind && str_equal(m->addr, str_from(addr))) {
            assert_true(is_gone(r, m));
            send_again(r, &notes[i]);
            return;
        }
    }
    fail_msg("no message of kind %d went to %s", (int)kind, addr);
}
