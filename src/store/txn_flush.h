/* txn_flush.h - writes of one table, for the files behind txn.h
 *
 * As txn_flush and txn_touch (txn.h) do for all tables. Each returns the code of t->rc when the commit cannot go on.
 */
#ifndef QP_STORE_TXN_FLUSH_H
#define QP_STORE_TXN_FLUSH_H

#include "store/txn.h"

int txn_table_flush(struct txn *t, enum table_id table) QP_MUST_USE;
int txn_table_touch(struct txn *t, enum table_id table) QP_MUST_USE;

#endif
