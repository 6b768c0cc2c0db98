/* deb.h - the package type `deb`
 *
 * A request says which closure it wants, and for which architecture:
 *
 *   closure  fields                   alternatives        a name that packages provide
 *   A        Pre-Depends, Depends     all                 is a node, and so is every provider that satisfies
 *   F        the same                 the first           as A
 *   FR       + Recommends             the first           as A
 *   R        Pre-Depends, Depends     all                 is a leaf; `perl:any` is a name of its own
 *   S        Pre-Depends, Depends     first satisfiable   the real package if its version matches, else the first
 *                                                         provider by name that satisfies
 *
 * In A, F, FR and R a node is a name with its highest version; advice that this version does not satisfy is recorded
 * as ignored. A name with neither a package nor a provider is virtual, and when nothing else could stand in its place
 * (no alternative, not recommended) the item fails with METADATA_MISSING. In S a node is the package that is chosen;
 * an item fails with METADATA_MISSING when no alternative is known at all, else with OVERCONSTRAINED_VERSION.
 *
 * Architecture: packages of the requested one and of `all` are seen. `name:arch` means the package of that
 * architecture, `name:any` one that says Multi-Arch: allowed. Packages of other architectures do not satisfy a plain
 * name.
 *
 * Ordinals count the relationships of the closure in the order of the list, a name before its providers.
 */
#ifndef QP_CARTO_DEB_H
#define QP_CARTO_DEB_H

#include "carto/deb_fact.h"
#include "carto/type.h"

extern const struct carto_type deb_type;

enum deb_closure { DEB_CLOSURE_A, DEB_CLOSURE_F, DEB_CLOSURE_FR, DEB_CLOSURE_R, DEB_CLOSURE_S };

struct deb_options {
    enum deb_closure closure;
    qp_str arch;
};

/* "A", "F", "FR", "R", "S" */
bool deb_closure_parse(qp_str text, enum deb_closure *out);

/* Which fields count for rdepends: 1 << enum deb_field. */
#define DEB_FIELDS_NEEDED (1u << DEB_PRE_DEPENDS | 1u << DEB_DEPENDS)
#define DEB_FIELDS_ALL ((1u << DEB_RELATION_FIELDS) - 1u)

/* Reverse dependencies: the first package behind `after`, by name, that names `target` literally in one of the fields.
 * QP_E_NOT_FOUND at the end. */
int deb_dependent(const struct carto_facts *facts, const struct deb_options *options, qp_str target,
                  unsigned fields, qp_str after, qp_str *out_name, struct qp_err *err) QP_MUST_USE;

#endif
