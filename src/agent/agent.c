/* agent.c - names of rows and addresses of works (see agent.h) */
#include "agent/agent.h"

#include <stdio.h>

#include "base/base.h"
#include "kernel/properties.h"

#define DIGITS_MAX 19
#define NUMBER_SIZE (DIGITS_MAX + 2)

static size_t number_put(char *out, int64_t number)
{
    int n = snprintf(out + 1, NUMBER_SIZE - 1, "%lld", (long long)number);
    QP_ASSERT(number >= 0);
    QP_ASSERT(n > 0 && n <= DIGITS_MAX);
    out[0] = (char)('a' + n - 1);
    return (size_t)n + 1;
}

static bool number_get(qp_str *rest, int64_t *out_number)
{
    int64_t number = 0;
    size_t digits = rest->n > 1 && rest->p[0] >= 'a' ? (size_t)(rest->p[0] - 'a') + 1 : 0;
    if (digits == 0 || digits >= DIGITS_MAX || rest->n < digits + 1) {
        return false;
    }
    for (size_t i = 1; i <= digits; i++) {
        if (rest->p[i] < '0' || rest->p[i] > '9') {
            return false;
        }
        number = number * 10 + (rest->p[i] - '0');
    }
    *rest = (qp_str){rest->p + digits + 1, rest->n - digits - 1};
    *out_number = number;
    return true;
}

qp_str agent_prefix(enum agent_row row)
{
    static const char *const prefixes[AGENT_ROWS] = {
        [AGENT_HEAD] = "quipu:agent",        [AGENT_BRANCH] = "quipu:branch:",
        [AGENT_EXECUTIONS] = "quipu:chunk:", [AGENT_WORK] = "quipu:work:",
        [AGENT_WAIT] = "quipu:wait:",        [AGENT_PROPERTY] = PROPERTIES_PREFIX,
        [AGENT_ACTION] = "quipu:action:"};
    QP_ASSERT((size_t)row < AGENT_ROWS);
    return str_from(prefixes[row]);
}

int agent_row_name(struct arena *arena, enum agent_row row, int64_t first, int64_t second,
                   qp_str *out_name)
{
    char text[32 + 2 * NUMBER_SIZE];
    qp_str prefix = agent_prefix(row);
    size_t n = prefix.n;
    memcpy(text, prefix.p, prefix.n);
    if (row != AGENT_HEAD) {
        n += number_put(text + n, first);
    }
    if (row == AGENT_WORK) {
        n += number_put(text + n, second);
    }
    return arena_copy(arena, (qp_str){text, n}, out_name) ? QP_OK : QP_E_NOMEM;
}

int agent_work_address(struct arena *arena, int64_t branch, int64_t number, qp_str *out_address)
{
    char text[1 + 2 * NUMBER_SIZE];
    size_t n = 1;
    text[0] = AGENT_WORK_MARK;
    n += number_put(text + n, branch);
    n += number_put(text + n, number);
    return arena_copy(arena, (qp_str){text, n}, out_address) ? QP_OK : QP_E_NOMEM;
}

bool agent_work_of(qp_str address, int64_t *out_branch, int64_t *out_number)
{
    qp_str rest = {address.p + 1, address.n - 1};
    return address.n > 1 && address.p[0] == AGENT_WORK_MARK && number_get(&rest, out_branch) &&
           number_get(&rest, out_number) && rest.n == 0;
}
