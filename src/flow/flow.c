/* flow.c - addresses, data names and the seed of flows (see flow.h) */
#include "flow/flow.h"

#include "kernel/retry.h"
#include "store/error.h"

#include <stdio.h>

/* Two texts as one. */
static int joined(struct arena *a, qp_str first, qp_str second, qp_str *out_text)
{
    char *p = arena_bytes(a, first.n + second.n);
    if (p == NULL) {
        return QP_E_NOMEM;
    }
    memcpy(p, first.p, first.n);
    memcpy(p + first.n, second.p, second.n);
    *out_text = (qp_str){p, first.n + second.n};
    return QP_OK;
}

int flow_topic(struct arena *a, qp_str name, qp_str *out_topic)
{
    static const char mark = FLOW_TOPIC_MARK;
    QP_ASSERT(name.n > 0);
    return joined(a, (qp_str){&mark, 1}, name, out_topic);
}

int flow_loop_name(struct arena *a, qp_str addr, qp_str *out_name)
{
    QP_ASSERT(flow_is_event(addr));
    return joined(a, QP_STR(FLOW_LOOP), (qp_str){addr.p + 1, addr.n - 1}, out_name);
}

bool flow_loop_key(qp_str name, qp_str *out_key)
{
    size_t n = sizeof FLOW_LOOP - 1;
    if (name.n <= n || memcmp(name.p, FLOW_LOOP, n) != 0) {
        return false;
    }
    *out_key = (qp_str){name.p + n, name.n - n};
    return true;
}

int flow_input(struct arena *a, uint64_t seed, qp_str *out_input)
{
    char text[sizeof "{\"seed\":\"0123456789abcdef\"}"];
    int n = snprintf(text, sizeof text, "{\"seed\":\"%016llx\"}", (unsigned long long)seed);
    QP_ASSERT(n > 0 && (size_t)n < sizeof text);
    return arena_copy(a, (qp_str){text, (size_t)n}, out_input) ? QP_OK : QP_E_NOMEM;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

uint64_t flow_seed(qp_str input)
{
    const qp_str begin = QP_STR("{\"seed\":\"");
    uint64_t seed = 0;
    if (input.n < begin.n + 16 || memcmp(input.p, begin.p, begin.n) != 0) {
        return 0;
    }
    for (size_t i = 0; i < 16; i++) {
        int digit = hex_digit(input.p[begin.n + i]);
        if (digit < 0) {
            return 0;
        }
        seed = seed << 4 | (uint64_t)digit;
    }
    return seed;
}

qp_str flow_member(qp_str object, const char *name)
{
    struct raw_walk w = {.rest = object};
    while (!str_is_none(object) && raw_each(&w)) {
        if (str_equal(w.key, str_from(name))) {
            return w.value;
        }
    }
    return QP_NONE;
}

bool flow_is_shielded(qp_str policy)
{
    struct retry retry;
    return !str_is_none(policy) && retry_parse(policy, &retry, NULL) == QP_OK && retry.shield != 0;
}

bool flow_cancels(const struct job_row *job, const struct act_row *act)
{
    return job->cancelled > 0 && act->seq < job->cancelled && act->category == 'A' &&
           !flow_is_shielded(act->policy);
}

static const char *const close_words[CLOSE_POLICIES] = {
    [CLOSE_ABANDON] = "abandon", [CLOSE_CANCEL] = "cancel", [CLOSE_KILL] = "kill"};

const char *flow_close_word(enum close_policy close)
{
    QP_ASSERT(close >= CLOSE_ABANDON && close < CLOSE_POLICIES);
    return close_words[close];
}

/* The words have no escapes: the decision that was read has written them itself. */
static enum close_policy close_of(qp_str text)
{
    for (enum close_policy close = CLOSE_ABANDON; close < CLOSE_POLICIES; close++) {
        if (str_equal((qp_str){text.p + 1, text.n - 2}, str_from(close_words[close]))) {
            return close;
        }
    }
    return CLOSE_ABANDON;
}

int flow_child(const struct qp_env *env, struct arena *arena, qp_str text,
               struct flow_child *out_child)
{
    struct flow_child child = {.input = flow_member(text, "input")};
    qp_str id = flow_member(text, "id");
    qp_str close = flow_member(text, "close");
    child.close = close.n > 2 ? close_of(close) : CLOSE_ABANDON;
    child.detached = !str_is_none(flow_member(text, "detached"));
    if (!str_is_none(id) && !raw_text(env, arena, id, &child.id)) {
        return QP_E_NOMEM;
    }
    *out_child = child;
    return QP_OK;
}

int flow_cancel_error(struct arena *arena, qp_str addr, qp_str *out_error)
{
    struct error e = {
        .code = ERROR_CODE_CANCELLED, .message = QP_STR("the flow was cancelled"), .addr = addr};
    return error_write(arena, &e, out_error);
}
