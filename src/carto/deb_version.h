/* deb_version.h - versions of Debian packages: what is one, and which of two is later
 *
 *   [epoch:]upstream[-revision]        1:2.36-9+deb12u14
 *
 * The order is that of Debian policy 5.6.12: epochs are numbers; upstream and revision are compared in turns, a part
 * without digits, then a number. Letters sort before other characters, '~' before everything, even the end. A missing
 * epoch or revision is 0. Two versions with different texts may be equal: 1.0 and 1.00, 1 and 1-0.
 *
 * Pure functions without memory; any thread.
 */
#ifndef QP_CARTO_DEB_VERSION_H
#define QP_CARTO_DEB_VERSION_H

#include "base/base.h"

/* QP_E_INVALID: not a version; the sentence names the byte, counted from 0, and what is allowed there. */
int deb_version_check(qp_str version, struct qp_err *err) QP_MUST_USE;

/* Below, at or above 0 as a is earlier than b, equal, or later. Both have passed deb_version_check. */
int deb_version_compare(qp_str a, qp_str b);

enum deb_op { DEB_ANY, DEB_EARLIER, DEB_AT_MOST, DEB_EXACTLY, DEB_AT_LEAST, DEB_LATER, DEB_OPS };

/* "", "<<", "<=", "=", ">=", ">>" */
const char *deb_op_text(enum deb_op op);

/* Whether `version` satisfies (op wanted). DEB_ANY takes every version, also none; the others take no missing one. */
bool deb_version_satisfies(qp_str version, enum deb_op op, qp_str wanted);

#endif
