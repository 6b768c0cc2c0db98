/* feed.h - the list of journal entries that one commit made, as bytes of the feed row
 *
 * An entry is: the sizes of addr and guid plus one (0: none) and the numbers ns, job and seq, as
 * variable-length integers of seven bits a byte, lowest first, and then the bytes of addr and guid.
 * Positions are not written: the entries of a commit follow each other from `first` on. Times are
 * the row's.
 */
#ifndef QP_STORE_FEED_H
#define QP_STORE_FEED_H

#include "store/store.h"

void feed_write(struct buf *out, const struct feed_entry *entry);

/* Takes one entry off the front of *rest; false at the end, or when the bytes make no sense (then
 * *rest is not empty). pos and at are not touched; texts point into the bytes. */
bool feed_read(qp_str *rest, struct feed_entry *out_entry);

#endif
