/* ledger.c - ledgers as text */
#include "kernel/ledger.h"

void ledger_text(int64_t ledger, char out[16])
{
    QP_ASSERT(ledger >= 0 && ledger <= LIMIT_LEDGER);
    for (int i = 14; i >= 0; i--) {
        out[i] = (char)('0' + ledger % 10);
        ledger /= 10;
    }
    out[15] = '\0';
}
