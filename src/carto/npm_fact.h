/* npm_fact.h - what is known of a package of npm, as compact values
 *
 *   document   = 0x01, flags (1: it has times), tags as one text, versions as one text
 *     tag      = name, version
 *     version  = version, flags (1 deprecated, 2 has a time, 4 its time is no time, 8 has relations), [time], [16 bytes:
 *                the hash of its relations]
 *   relations  = 0x01, then relation after relation
 *     relation = a byte, enum npm_kind; name; what is asked for
 *
 * Numbers stand in groups of 7 bits, the lowest first; a text is its size and its bytes; a time is milliseconds since 1970.
 * Versions stand in the order of the packument. Many versions have the same relations, which are one fact: its name is
 * their hash.
 *
 *   n:NAME    the document of a package in an import
 *   p:HASH    a document, by its hash, of the registry's universe (fetch.h says which one a traversal has seen)
 *   c:NAME    there: what the registry said last (fetch.h)
 *   d:HASH    relations
 *
 * Readers take slices of the value and allocate nothing. A value that is not one is QP_E_CORRUPT.
 */
#ifndef QP_CARTO_NPM_FACT_H
#define QP_CARTO_NPM_FACT_H

#include "base/hash.h"
#include "base/mem.h"

enum npm_kind { NPM_DEPENDS, NPM_OPTIONAL, NPM_DEV, NPM_PEER, NPM_PEER_OPTIONAL, NPM_KINDS };
const char *npm_kind_text(enum npm_kind kind); /* "depends", "optional", ... */

struct npm_relation {
    enum npm_kind kind;
    qp_str name; /* as the package calls it: of an alias the local name */
    qp_str spec;
};

#define NPM_TIME_NONE (-1)
#define NPM_TIME_BAD INT64_MAX /* later than any date */

struct npm_version {
    qp_str version;
    bool is_deprecated;
    qp_ms time;       /* or NPM_TIME_NONE, NPM_TIME_BAD */
    qp_str relations; /* the 16 bytes of their hash; empty: there are none */
};

struct npm_document {
    bool has_times;
    qp_str tags;     /* for npm_tag_next */
    qp_str versions; /* for npm_version_next */
};

int npm_document_read(qp_str value, struct npm_document *out, struct qp_err *err) QP_MUST_USE;
/* Take one off the slice; QP_E_NOT_FOUND, without a sentence, at its end. */
int npm_tag_next(qp_str *rest, qp_str *out_name, qp_str *out_version,
                 struct qp_err *err) QP_MUST_USE;
int npm_version_next(qp_str *rest, struct npm_version *out, struct qp_err *err) QP_MUST_USE;
/* Begins and goes on with a fact of relations. */
int npm_relations_read(qp_str value, qp_str *out_rest, struct qp_err *err) QP_MUST_USE;
int npm_relation_next(qp_str *rest, struct npm_relation *out, struct qp_err *err) QP_MUST_USE;

/* Writing: tags and versions go into buffers of their own, which npm_write_document puts together. */
void npm_write_tag(struct buf *tags, qp_str name, qp_str version);
void npm_write_version(struct buf *versions, const struct npm_version *version);
void npm_write_document(struct buf *out, const struct npm_document *document);
void npm_write_relations(struct buf *out); /* the beginning */
void npm_write_relation(struct buf *out, const struct npm_relation *relation);

/* The hash that names a fact: 16 bytes, and 32 hexadecimal digits with a NUL. */
#define NPM_HASH_SIZE LIMIT_GUID_SIZE
#define NPM_HASH_TEXT_SIZE (2 * NPM_HASH_SIZE + 1)
void npm_hash(qp_str value, unsigned char out_hash[NPM_HASH_SIZE]);
void npm_hash_text(const unsigned char hash[NPM_HASH_SIZE], char out_text[NPM_HASH_TEXT_SIZE]);

/* "n:NAME" and so on. */
int npm_fact_name(struct arena *a, char mark, qp_str text, qp_str *out_name) QP_MUST_USE;

#endif
