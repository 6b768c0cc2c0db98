/* work_token.h - tokens of tasks that are given to workers elsewhere (see work.h, Tokens)
 *
 * Pure functions.
 */
#ifndef QP_RUN_WORK_TOKEN_H
#define QP_RUN_WORK_TOKEN_H

#include "run/work.h"
#include "store/ops.h"

void token_write(const struct work_caller *caller, const struct msg_ref *ref,
                 char out_token[WORK_TOKEN_SIZE]);
/* False: it was not given to this caller. */
bool token_read(const struct work_caller *caller, qp_str token, struct msg_ref *out_ref,
                unsigned char out_guid[LIMIT_GUID_SIZE]);

#endif
