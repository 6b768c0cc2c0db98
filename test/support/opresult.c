/* opresult.c - what a commit said, and how often (see opresult.h) */
#include "support/opresult.h"

#include <stdio.h>

enum out_kind { OUT_I64, OUT_BOOL, OUT_STR, OUT_JOB, OUT_MSG };

/* Every field of every op that the store writes to, but the rows of a claim. */
static const struct {
    enum op_kind op;
    const char *name;
    enum out_kind kind;
    size_t offset;
} outs[] = {
#define OUT(op, field, kind)                                                                       \
    {                                                                                              \
        OP_##op, #field, OUT_##kind, offsetof(struct op_##op, out_##field)                         \
    }
    OUT(space_create, ns, I64),
    OUT(ids_reserve, first, I64),
    OUT(node_put, epoch, I64),
    OUT(job_create, job, I64),
    OUT(job_create, owner, BOOL),
    OUT(job_resume, more, BOOL),
    OUT(job_sweep, more, BOOL),
    OUT(job_delete, more, BOOL),
    OUT(act_create, found, I64),
    OUT(act_add, ledger, I64),
    OUT(act_notify, task, BOOL),
    OUT(guid_enter, ordinal, I64),
    OUT(guid_enter, ledger, I64),
    OUT(guid_add, ledger, I64),
    OUT(sem_move, edge, BOOL),
    OUT(sem_move, count, I64),
    OUT(msg_put, token, I64),
    OUT(msg_put, until, I64),
    OUT(msg_extend, until, I64),
    OUT(msg_adopt, count, I64),
    OUT(msg_adopt, more, BOOL),
    OUT(msg_adopt, after, MSG),
    OUT(hook_open, seq, I64),
    OUT(hook_open, met, BOOL),
    OUT(hook_signal, delivered, BOOL),
    OUT(hook_signal, kept, BOOL),
    OUT(hook_signal, repeats, BOOL),
    OUT(hook_signal, job, JOB),
    OUT(key_acquire, token, I64),
    OUT(wake, count, I64),
    OUT(wake, more, BOOL),
    OUT(wake, leases, I64),
    OUT(event_add, seq, I64),
    OUT(feed_trim, more, BOOL),
    OUT(idem_put, status, I64),
    OUT(idem_put, answer, STR),
    OUT(app_activate, was, STR),
    OUT(topic_put, app, STR),
    OUT(universe_open, universe, I64),
    OUT(universe_open, state, I64),
    OUT(universe_seal, was, I64),
    OUT(universe_drop, more, BOOL),
#undef OUT
};

static const char *const op_names[OP_COUNT] = {
#define OP(name) #name,
#include "store/ops.def"
#undef OP
};

const char *op_name(enum op_kind kind)
{
    return op_names[kind];
}

static void print_out(struct buf *out, enum out_kind kind, const char *at)
{
    struct job_ref ref;
    struct msg_ref msg;
    qp_str text;
    int64_t number;
    switch (kind) {
    case OUT_I64:
        memcpy(&number, at, sizeof number);
        buf_printf(out, "%lld", (long long)number);
        break;
    case OUT_BOOL:
        buf_text(out, *(const bool *)at ? "yes" : "no");
        break;
    case OUT_STR:
        memcpy(&text, at, sizeof text);
        buf_text(out, text.p == NULL ? "-" : "=");
        buf_str(out, text);
        break;
    case OUT_JOB:
        memcpy(&ref, at, sizeof ref);
        buf_printf(out, "%lld/%lld", (long long)ref.ns, (long long)ref.job);
        break;
    case OUT_MSG:
        memcpy(&msg, at, sizeof msg);
        buf_printf(out, "%lld/%lld/", (long long)msg.ns, (long long)msg.job);
        buf_str(out, msg.guid);
        break;
    }
}

static void print_op(struct buf *out, const struct op *op)
{
    const char *fields = (const char *)&op->space_create; /* all members of the union begin here */
    buf_printf(out, "    %s", op_names[op->kind]);
    for (size_t i = 0; i < ARRAY_COUNT(outs); i++) {
        if (outs[i].op == op->kind) {
            buf_printf(out, " %s ", outs[i].name);
            print_out(out, outs[i].kind, fields + outs[i].offset);
        }
    }
    buf_byte(out, '\n');
    for (size_t i = 0; op->kind == OP_msg_claim && i < op->msg_claim.out_count; i++) {
        buf_text(out, "        ");
        row_print(out, TABLE_msg, op->msg_claim.out_messages[i]);
        buf_byte(out, '\n');
    }
}

void opresult_print(struct buf *out, const struct commit *c)
{
    buf_printf(out, "commit %s\n", c->rc == QP_OK ? "ok" : qp_code_word(c->rc));
    for (const struct bundle *b = c->first; b != NULL; b = b->next) {
        buf_printf(out, "  bundle %s op %zu weight %lld found %lld\n",
                   b->rc == QP_OK ? "ok" : qp_code_word(b->rc), b->stop.op_index,
                   (long long)b->stop.weight, (long long)b->stop.found);
        for (size_t i = 0; i < b->op_count; i++) {
            print_op(out, bundle_op_at(b, i));
        }
    }
}

/* ------------------------------------------------------------------------------------- coverage */

void opcover_add(struct opcover *o, const struct commit *c)
{
    o->commits++;
    for (const struct bundle *b = c->first; b != NULL; b = b->next) {
        o->bundles++;
        o->bundles_fine += b->rc == QP_OK;
        for (size_t i = 0; b->rc == QP_OK && i < b->op_count; i++) {
            o->fine[bundle_op_at(b, i)->kind]++;
        }
        if (b->rc != QP_OK && b->op_count > 0) {
            QP_ASSERT(-b->rc > 0 && -b->rc < OPRESULT_CODES);
            o->stopped[bundle_op_at(b, b->stop.op_index)->kind][-b->rc]++;
        }
    }
}

/* What is wrong with an op's row of the table, or NULL. */
static const char *op_missing(const struct opcover *o, size_t op)
{
    int64_t stops = 0;
    int64_t damage = 0;
    for (int code = 1; code < OPRESULT_CODES; code++) {
        stops += o->stopped[op][code];
        damage += qp_code_class(-code) == QP_CLASS_FATAL ? o->stopped[op][code] : 0;
    }
    /* An audit row is appended whatever it says: there is nothing that could stop it. */
    return o->fine[op] == 0                   ? "never succeeded"
           : stops == 0 && op != OP_audit_add ? "never stopped a bundle"
           : damage > 0                       ? "stopped a bundle as if the store were damaged"
                                              : NULL;
}

int opcover_missing(const struct opcover *o)
{
    int missing = 0;
    for (size_t op = 0; op < OP_COUNT; op++) {
        missing += op_missing(o, op) != NULL;
    }
    return missing;
}

void opcover_print(const struct opcover *o)
{
    printf("%lld commits, %lld bundles, %lld of them fine\n", (long long)o->commits,
           (long long)o->bundles, (long long)o->bundles_fine);
    for (size_t op = 0; op < OP_COUNT; op++) {
        const char *missing = op_missing(o, op);
        printf("  %-13s fine %6lld, stopped by", op_names[op], (long long)o->fine[op]);
        for (int code = 1; code < OPRESULT_CODES; code++) {
            if (o->stopped[op][code] > 0) {
                printf(" %s %lld", qp_code_word(-code), (long long)o->stopped[op][code]);
            }
        }
        printf("%s%s\n", missing == NULL ? "" : " <- ", missing == NULL ? "" : missing);
    }
}
