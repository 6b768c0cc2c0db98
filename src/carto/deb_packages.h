/* deb_packages.h - reading lists of Debian packages (Packages, dpkg's status) in pieces
 *
 * A list is stanzas with an empty line behind each; a stanza is lines "Field: value", where a line that begins with a
 * space goes on with the field before. The reader keeps the stanza that is not complete yet and hands every complete
 * one to its sink; so a list of any size needs the memory of its longest stanza.
 *
 *   deb_packages_init .. deb_packages_feed, any number of times .. deb_packages_end .. deb_packages_done
 *
 * Errors are QP_E_MALFORMED with the line, counted from 1: a line that is no field, a field twice, a stanza without
 * Package, Version or Architecture, a value that is not one. A list that ends inside a stanza is truncated: every tool
 * that writes lists ends each stanza with an empty line. After an error the reader is of no further use.
 *
 * Not thread-safe.
 */
#ifndef QP_CARTO_DEB_PACKAGES_H
#define QP_CARTO_DEB_PACKAGES_H

#include "base/mem.h"

/* The relationship fields come first, in the order in which the relationships of a package are numbered. */
enum deb_field {
    DEB_PRE_DEPENDS,
    DEB_DEPENDS,
    DEB_RECOMMENDS,
    DEB_SUGGESTS,
    DEB_ENHANCES,
    DEB_CONFLICTS,
    DEB_BREAKS,
    DEB_REPLACES,
    DEB_RELATION_FIELDS,
    DEB_PROVIDES = DEB_RELATION_FIELDS,
    DEB_PACKAGE,
    DEB_VERSION,
    DEB_ARCHITECTURE,
    DEB_MULTI_ARCH,
    DEB_STATUS,
    DEB_FIELDS
};

/* Slices of the reader's memory, valid inside the sink. A field that is not there is none. */
struct deb_stanza {
    int64_t line; /* of its first field */
    qp_str fields[DEB_FIELDS];
    int64_t lines[DEB_FIELDS]; /* where each field begins */
};

typedef int (*deb_stanza_sink)(void *context, const struct deb_stanza *stanza, struct qp_err *err);

struct deb_packages {
    struct buf
        stanza; /* complete lines of the stanza that is being read, and the beginning of the next line */
    size_t line_start; /* of the line that is not complete yet */
    int64_t line;      /* its number */
    int64_t first;     /* the number of the stanza's first line */
    void *context;
    deb_stanza_sink sink;
};

void deb_packages_init(struct deb_packages *p, const struct qp_env *env, void *context,
                       deb_stanza_sink sink);
void deb_packages_done(struct deb_packages *p);
int deb_packages_feed(struct deb_packages *p, qp_str bytes, struct qp_err *err) QP_MUST_USE;
int deb_packages_end(struct deb_packages *p, struct qp_err *err) QP_MUST_USE;

/* "Pre-Depends" and so on. */
const char *deb_field_name(enum deb_field field);

#endif
