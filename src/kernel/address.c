/* address.c - dimensional addresses (see address.h) */
#include "kernel/address.h"

#include <inttypes.h>
#include <stdio.h>

#define INT64_DIGITS 19

struct address address_split(qp_str addr)
{
    const char *comma = addr.n > 0 ? memchr(addr.p, ',', addr.n) : NULL;
    size_t name_size = comma == NULL ? addr.n : (size_t)(comma - addr.p);
    return (struct address){{addr.p, name_size}, {addr.p + name_size, addr.n - name_size}};
}

/* a and b, one after the other. */
static int join(struct arena *arena, qp_str a, qp_str b, qp_str *out_text)
{
    char *p;
    if (a.n + b.n > LIMIT_ADDRESS_SIZE) {
        return QP_E_TOO_LARGE;
    }
    p = arena_bytes(arena, a.n + b.n + 1);
    if (p == NULL) {
        return QP_E_NOMEM;
    }
    memcpy(p, a.p, a.n);
    memcpy(p + a.n, b.p, b.n);
    *out_text = (qp_str){p, a.n + b.n};
    return QP_OK;
}

int address_make(struct arena *a, qp_str name, qp_str dad, qp_str *out_addr)
{
    return join(a, name, dad, out_addr);
}

/* The size of a number's digits, by the letter in front of them; 0: it is none. */
static size_t digits_of(char letter)
{
    return letter >= 'a' && letter < 'a' + INT64_DIGITS ? (size_t)(letter - 'a') + 1 : 0;
}

qp_str address_gate(qp_str addr)
{
    size_t digits = addr.n > 2 && addr.p[0] == GATE_MARK ? digits_of(addr.p[1]) : 0;
    if (digits == 0 || addr.n < 2 + digits) {
        return QP_NONE;
    }
    for (size_t i = 0; i < digits; i++) {
        if (addr.p[2 + i] < '0' || addr.p[2 + i] > '9') {
            return QP_NONE;
        }
    }
    return (qp_str){addr.p, 2 + digits};
}

int address_of_gate(struct arena *a, uint64_t number, qp_str *out_addr)
{
    char text[INT64_DIGITS + 3];
    int n = snprintf(text + 2, sizeof text - 2, "%" PRIu64, number);
    QP_ASSERT(number <= INT64_MAX && n > 0 && n <= INT64_DIGITS);
    text[0] = GATE_MARK;
    text[1] = (char)('a' + n - 1);
    return arena_copy(a, (qp_str){text, (size_t)n + 2}, out_addr) ? QP_OK : QP_E_NOMEM;
}

int64_t dad_depth(qp_str dad)
{
    int64_t depth = 0;
    for (size_t i = 0; i < dad.n; i++) {
        depth += dad.p[i] == ',';
    }
    return depth;
}

/* The first `count` segments. */
static qp_str segments(qp_str dad, int64_t count)
{
    size_t end = 0;
    while (end < dad.n && (dad.p[end] != ',' || count-- > 0)) {
        end++;
    }
    return (qp_str){dad.p, end};
}

int dad_plane(struct arena *a, qp_str dad, int64_t index, qp_str *out_dad)
{
    char last[24];
    int n = snprintf(last, sizeof last, ",%lld", (long long)index);
    QP_ASSERT(dad.n > 0 && index >= 0 && n > 0);
    return join(a, segments(dad, dad_depth(dad) - 1), (qp_str){last, (size_t)n}, out_dad);
}

int dad_below(struct arena *a, qp_str plane, qp_str *out_dad)
{
    return join(a, plane, QP_STR(",0"), out_dad);
}

int dad_ancestor(struct arena *a, qp_str dad, int64_t depth, qp_str *out_dad)
{
    QP_ASSERT(depth >= 1 && depth <= dad_depth(dad));
    return join(a, segments(dad, depth - 1), QP_STR(",0"), out_dad);
}
