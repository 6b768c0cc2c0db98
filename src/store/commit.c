/* commit.c - filling a commit: bundles and their ops, in the commit's own memory */
#include "base/hash.h"
#include "store/feed.h"
#include "store/txn.h"

#define OPS_PER_CHUNK 8

struct op_chunk {
    struct op_chunk *next;
    size_t count;
    struct op ops[OPS_PER_CHUNK];
};

void commit_init(struct commit *c, struct store *s)
{
    *c = (struct commit){.store = s, .state = COMMIT_FILLING};
    arena_init(&c->arena, store_env(s), 0);
    buf_init(&c->journal, store_env(s), 0);
}

void commit_done(struct commit *c)
{
    QP_ASSERT(c->state != COMMIT_RUNNING);
    arena_done(&c->arena);
    buf_done(&c->journal);
}

void commit_reset(struct commit *c)
{
    struct store *s = c->store;
    struct arena arena = c->arena;
    QP_ASSERT(c->state != COMMIT_RUNNING);
    arena_reset(&arena);
    buf_done(&c->journal);
    *c = (struct commit){.store = s, .state = COMMIT_FILLING, .arena = arena};
    buf_init(&c->journal, store_env(s), 0);
}

void commit_journal(const struct commit *c, void *context,
                    void (*visit)(void *context, const struct feed_entry *entry))
{
    qp_str rest = buf_slice(&c->journal);
    struct feed_entry entry = {0};
    QP_ASSERT(c->state == COMMIT_DONE);
    while (feed_read(&rest, &entry)) {
        visit(context, &entry);
    }
    QP_ASSERT(rest.n == 0);
}

uint64_t topic_bit(qp_str topic)
{
    return UINT64_C(1) << (hash_bytes(0, topic.p, topic.n) & 63);
}

/* The first thing that went wrong while filling is what submit reports. */
static void *commit_fail(struct commit *c, int code, const char *text)
{
    if (c->rc == QP_OK) {
        c->rc = err_set(&c->err, code, "%s", text);
    }
    return NULL;
}

struct bundle *commit_bundle(struct commit *c, const char *label)
{
    struct bundle *b;
    QP_ASSERT(c->state == COMMIT_FILLING || c->state == COMMIT_RUNNING);
    if (c->bundle_count == LIMIT_COMMIT_BUNDLES) {
        return commit_fail(c, QP_E_LIMIT, "too many bundles in one commit");
    }
    b = ARENA_NEW(&c->arena, struct bundle);
    if (b == NULL) {
        return commit_fail(c, QP_E_NOMEM, "bundle: out of memory");
    }
    b->commit = c;
    b->label = label;
    b->rc = QP_E_BUSY;
    if (c->last == NULL) {
        c->first = b;
    } else {
        c->last->next = b;
    }
    c->last = b;
    c->bundle_count++;
    return b;
}

struct bundle *commit_decided(struct commit *c, const char *label, bundle_decide decide,
                              void *context)
{
    struct bundle *b = commit_bundle(c, label);
    if (b != NULL) {
        b->decide = decide;
        b->context = context;
    }
    return b;
}

/* Neither is zeroed: an op is when it is handed out. */
static struct op_chunk *chunk_new(struct commit *c)
{
    struct op_chunk *chunk = c->spare;
    if (chunk != NULL) {
        c->spare = chunk->next;
        return chunk;
    }
    return arena_room(&c->arena, sizeof *chunk);
}

static struct op_chunk *chunk_add(struct bundle *b)
{
    struct op_chunk *chunk = chunk_new(b->commit);
    if (chunk == NULL) {
        return commit_fail(b->commit, QP_E_NOMEM, "op: out of memory");
    }
    chunk->next = NULL;
    chunk->count = 0;
    if (b->last == NULL) {
        b->first = chunk;
    } else {
        b->last->next = chunk;
    }
    b->last = chunk;
    return chunk;
}

struct op *bundle_op(struct bundle *b, enum op_kind kind)
{
    struct op_chunk *chunk = b == NULL ? NULL : b->last;
    struct op *op;
    if (b == NULL) {
        return NULL;
    }
    if (b->op_count == LIMIT_BUNDLE_OPS) {
        return commit_fail(b->commit, QP_E_LIMIT, "too many ops in one bundle");
    }
    if (chunk == NULL || chunk->count == OPS_PER_CHUNK) {
        chunk = chunk_add(b);
        if (chunk == NULL) {
            return NULL;
        }
    }
    op = &chunk->ops[chunk->count++];
    *op = (struct op){.kind = kind};
    b->op_count++;
    b->host_call_count += kind == OP_host_call;
    return op;
}

struct op *bundle_take(struct bundle *b)
{
    struct op_place *place = &b->taken;
    if (place->chunk == NULL) {
        *place = (struct op_place){b->first, 0};
    } else if (place->index == OPS_PER_CHUNK && place->chunk->next != NULL) {
        *place = (struct op_place){place->chunk->next, 0};
    }
    if (place->chunk == NULL || place->index == place->chunk->count) {
        return NULL;
    }
    return &place->chunk->ops[place->index++];
}

void bundle_clear(struct bundle *b)
{
    if (b->last != NULL) {
        b->last->next = b->commit->spare;
        b->commit->spare = b->first;
    }
    b->first = NULL;
    b->last = NULL;
    b->op_count = 0;
    b->host_call_count = 0;
    b->taken = (struct op_place){NULL, 0};
}

struct op *bundle_first(const struct bundle *b, struct op_place *place)
{
    *place = (struct op_place){b->first, 0};
    return b->first == NULL ? NULL : &b->first->ops[0];
}

struct op *bundle_next(struct op_place *place)
{
    if (++place->index == place->chunk->count) {
        *place = (struct op_place){place->chunk->next, 0};
    }
    return place->chunk == NULL ? NULL : &place->chunk->ops[place->index];
}

struct op *bundle_op_at(const struct bundle *b, size_t index)
{
    struct op_chunk *chunk = b->first;
    QP_ASSERT(index < b->op_count);
    while (index >= OPS_PER_CHUNK) {
        chunk = chunk->next;
        index -= OPS_PER_CHUNK;
    }
    return &chunk->ops[index];
}
