/* toyface.h - a third kind of job, for tests: it uses every function of a face, and nothing in src knows of it
 *
 * A toy is started by the name "toy", or by a name that a row of definitions gives to a version of it. It has two steps,
 * "one" and "two", each a task at the topic "toy.work". What step one brings is kept as data of the job; a fork of a toy
 * takes that over and begins with step two. A cancelled toy is not ended: it ends itself, with another output. Its
 * input and what its workers bring must be JSON objects. Signals to its hooks are for the key "toys".
 */
#ifndef QP_TEST_TOYFACE_H
#define QP_TEST_TOYFACE_H

#include "kernel/face.h"

#define TOY_KIND 77

extern const struct face toy_face;
/* The same for a set of faces without graphs: rows of definitions are its own. */
extern const struct face toy_defined_face;

#endif
