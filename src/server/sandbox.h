/* sandbox.h - calls of the system that a server never makes are refused to it
 *
 * Whoever finds a way to run code of his own in the server should find little to do there: no other
 * program can be started, no other process be looked into, nothing be mounted, no user be changed.
 */
#ifndef QP_SERVER_SANDBOX_H
#define QP_SERVER_SANDBOX_H

#include "base/base.h"

/* For the whole process, all of its threads, for good. From then on such a call ends the process
 * with SIGSYS. QP_E_UNSUPPORTED: the system cannot do this, and nothing has changed. */
int sandbox_enter(struct qp_err *err) QP_MUST_USE;

#endif
