/* deb_fact.h - all that a universe knows of one name, as one compact value
 *
 * The fact of a name holds its packages, one per architecture (the highest version of all lists), and who provides the
 * name. So a work item reads one fact to select, and one to resolve.
 *
 *   fact     = 0x01, packages, providers          each a count, then that many
 *   package  = arch, version, multi-arch (a byte), count of relations, their bytes as one text
 *   relation = a byte: field << 5 | op << 2 | 2 if an arch follows | 1 if an alternative follows;
 *              name, [arch], [version unless op is DEB_ANY]
 *   provider = name, arch, provided version (empty: none)
 *
 * A count or size is a number in groups of 7 bits, the lowest first; a text is its size and its bytes. Packages stand
 * in the order of their architectures, relations in the order of the list (fields in the order of enum deb_field),
 * providers in the order of (name, arch, version). Equal packages give equal bytes, so the hash of all facts names the
 * universe.
 *
 * Readers take slices of the value and allocate nothing. A value that is not one is QP_E_CORRUPT.
 */
#ifndef QP_CARTO_DEB_FACT_H
#define QP_CARTO_DEB_FACT_H

#include "carto/deb_packages.h"
#include "carto/deb_relation.h"

enum deb_multi_arch { DEB_MULTI_NO, DEB_MULTI_SAME, DEB_MULTI_FOREIGN, DEB_MULTI_ALLOWED };

struct deb_package {
    qp_str arch;
    qp_str version;
    enum deb_multi_arch multi_arch;
    uint64_t relation_count;
    qp_str relations; /* for deb_relation_next */
};

struct deb_relation {
    enum deb_field field;
    struct deb_atom atom;
};

struct deb_provider {
    qp_str name;
    qp_str arch;
    qp_str version; /* empty: provided without a version, which satisfies no (op version) */
};

/* A cursor over a value: begin, then next until it finds none. */
struct deb_fact {
    qp_str rest;
    uint64_t left; /* packages, later providers */
};

int deb_fact_packages(struct deb_fact *f, qp_str value, struct qp_err *err) QP_MUST_USE;
int deb_fact_package(struct deb_fact *f, bool *out_found, struct deb_package *out,
                     struct qp_err *err) QP_MUST_USE;
/* Reads over the packages that are left. */
int deb_fact_providers(struct deb_fact *f, struct qp_err *err) QP_MUST_USE;
int deb_fact_provider(struct deb_fact *f, bool *out_found, struct deb_provider *out,
                      struct qp_err *err) QP_MUST_USE;

/* Takes the next relation off a slice that began as deb_package.relations. */
int deb_relation_next(qp_str *relations, struct deb_relation *out, struct qp_err *err) QP_MUST_USE;

void deb_write_number(struct buf *out, uint64_t number);
void deb_write_text(struct buf *out, qp_str text);
void deb_write_relation(struct buf *out, const struct deb_relation *relation);

#define DEB_FACT_FORMAT 1

#endif
