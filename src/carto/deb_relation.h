/* deb_relation.h - the grammar of relationship fields: Depends, Provides and the like
 *
 *   field = group { "," group }       group = atom { "|" atom }
 *   atom  = name [":" arch] ["(" op version ")"] ["[" { ["!"] arch } "]"]
 *   op    = "<<" | "<=" | "=" | ">=" | ">>"      "<" and ">" are read as "<=" and ">="
 *
 * A reader takes one atom after the other; slices point into the field. An atom whose architecture list does not name
 * the reader's architecture is left out, with its group when nothing else is in it; a wildcard `any`, `linux-any` or
 * `any-amd64` names what it matches. Empty groups (", ,") are skipped, as dpkg does. Build profiles (<!nocheck>) stand
 * in source lists only and are refused.
 *
 * Pure functions without memory; any thread.
 */
#ifndef QP_CARTO_DEB_RELATION_H
#define QP_CARTO_DEB_RELATION_H

#include "base/mem.h"
#include "carto/deb_version.h"

struct deb_atom {
    qp_str name;
    qp_str arch; /* behind the colon; none: not given */
    enum deb_op op;
    qp_str version; /* none when op is DEB_ANY */
    bool more;      /* an alternative of the same group follows */
};

struct deb_reader {
    qp_str field;
    qp_str arch; /* none: architecture lists are not looked at */
    size_t at;
};

/* Reads the next atom; *out_found is false at the end. QP_E_INVALID: the sentence names the byte of the field, counted
 * from 0, and what was expected there. */
int deb_reader_next(struct deb_reader *r, bool *out_found, struct deb_atom *out_atom,
                    struct qp_err *err) QP_MUST_USE;

/* A name of a package: [a-z0-9][a-z0-9+.-]+ as policy 5.6.7 has it; capitals and '_' of old lists are taken too. */
bool deb_name_is_valid(qp_str name);
/* An architecture: letters, digits and '-'. */
bool deb_arch_is_valid(qp_str arch);

/* "libc6 (>= 2.34)", "perl:any": the canonical text of an atom, which the reader takes again. */
void deb_atom_write(struct buf *out, const struct deb_atom *atom);

#endif
