/* buf.c - a growing byte buffer whose first error sticks
 *
 *   I1  n < capacity <= limit + 1, once there is memory: one byte is spare for the NUL of vsnprintf
 *   I2  once rc is not QP_OK, the bytes do not change until buf_reset
 */
#include <stdio.h>

#include "base/mem.h"

#define BUF_FIRST_SIZE ((size_t)256)

static char *reserve(struct buf *b, size_t size);
static size_t capacity_for(const struct buf *b, size_t need);

void buf_init(struct buf *b, const struct qp_env *env, size_t limit)
{
    QP_ASSERT(limit < PTRDIFF_MAX);
    *b = (struct buf){.env = env, .limit = limit == 0 ? LIMIT_BUFFER_SIZE : limit};
}

void buf_done(struct buf *b)
{
    mem_free(b->env, b->p);
    b->p = NULL;
    b->n = 0;
    b->capacity = 0;
}

void buf_reset(struct buf *b)
{
    b->n = 0;
    b->rc = QP_OK;
}

void buf_add(struct buf *b, const void *bytes, size_t size)
{
    char *room = reserve(b, size);

    if (room != NULL && size > 0) {
        memcpy(room, bytes, size);
        b->n += size;
    }
}

char *buf_room(struct buf *b, size_t size)
{
    return reserve(b, size);
}

void buf_took(struct buf *b, size_t size)
{
    QP_ASSERT(size < b->capacity - b->n);
    b->n += size;
}

void buf_str(struct buf *b, qp_str s)
{
    buf_add(b, s.p, s.n);
}

void buf_text(struct buf *b, const char *text)
{
    buf_add(b, text, strlen(text));
}

void buf_byte(struct buf *b, char byte)
{
    buf_add(b, &byte, 1);
}

void buf_i64(struct buf *b, int64_t number)
{
    char text[20]; /* of INT64_MIN */
    size_t at = sizeof text;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    do {
        text[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0) {
        text[--at] = '-';
    }
    buf_add(b, text + at, sizeof text - at);
}

void buf_printf(struct buf *b, const char *format, ...)
{
    va_list args;
    va_list again;
    char *room;
    int n;

    va_start(args, format);
    va_copy(again, args);
    n = vsnprintf(NULL, 0, format, args);
    QP_ASSERT(n >= 0);
    room = reserve(b, (size_t)n);
    if (room != NULL) {
        (void)vsnprintf(room, (size_t)n + 1, format, again); /* writes n bytes, as it said */
        b->n += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

int buf_rc(const struct buf *b)
{
    return b->rc;
}

/* Room for `size` more bytes and a NUL at the end, or NULL with rc set. */
static char *reserve(struct buf *b, size_t size)
{
    size_t capacity;
    size_t need;
    char *p;

    if (b->rc != QP_OK) {
        return NULL;
    }
    if (b->p != NULL && size < b->capacity - b->n) {
        return b->p + b->n;
    }
    if (!size_add(b->n, size, &need) || need > b->limit) {
        b->rc = QP_E_TOO_LARGE;
        return NULL;
    }
    capacity = capacity_for(b, need + 1);
    p = mem_resize(b->env, b->p, capacity);
    if (p == NULL) {
        b->rc = QP_E_NOMEM;
        return NULL;
    }
    b->p = p;
    b->capacity = capacity;
    return p + b->n;
}

/* Doubling keeps the cost of n appends at O(n); the limit cuts it. */
static size_t capacity_for(const struct buf *b, size_t need)
{
    size_t capacity = b->capacity < BUF_FIRST_SIZE ? BUF_FIRST_SIZE : b->capacity;

    QP_ASSERT(need <= b->limit + 1);
    while (capacity < need) {
        capacity *= 2;
    }
    return capacity <= b->limit ? capacity : b->limit + 1;
}
