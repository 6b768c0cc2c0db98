/* address.c - dimensional addresses (see address.h) */
#include "kernel/address.h"

#include <stdio.h>

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
