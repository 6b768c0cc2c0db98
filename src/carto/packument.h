/* packument.h - packuments of npm become facts (npm_fact.h)
 *
 *   {"name": "express", "dist-tags": {"latest": "4.18.2"}, "time": {"4.18.2": "2022-10-08T20:11:29.412Z"},
 *    "versions": {"4.18.2": {"dependencies": {"accepts": "~1.3.8"}, "deprecated": "...", ...}}}
 *
 * Of a version its four maps of dependencies, `peerDependenciesMeta` and `deprecated` are read; everything else, however
 * it may look, is passed over. A package stands in one map at most: optionalDependencies come before dependencies, those
 * before devDependencies and peerDependencies.
 *
 * The text is JSON of any size; slices of it are read where they stand. The facts are handed to a sink in any order, the
 * same relations once per packument, and the document as the last one. Not thread-safe.
 */
#ifndef QP_CARTO_PACKUMENT_H
#define QP_CARTO_PACKUMENT_H

#include "base/json.h"
#include "base/omap.h"
#include "carto/npm_fact.h"

/* One fact: `mark` is 'd' or 'p', `hash` names it. */
typedef int (*npm_sink)(void *context, char mark, const char hash[NPM_HASH_TEXT_SIZE],
                        qp_str value);

/* What is said about the whole. */
struct packument {
    qp_str name;     /* lives in the arena; none: it does not say */
    qp_ms modified;  /* or NPM_TIME_NONE */
    size_t versions; /* how many it has */
    bool has_times;
    char document[NPM_HASH_TEXT_SIZE];
};

/* QP_E_MALFORMED: no JSON; QP_E_SHAPE: no packument; QP_E_TOO_LARGE: a version with more than LIMIT_CARTO_RELATIONS, or a
 * document above LIMIT_CARTO_FACT_SIZE. */
int packument_read(struct arena *a, qp_str text, void *context, npm_sink sink,
                   struct packument *out, struct qp_err *err) QP_MUST_USE;

/* The relations of one version, or of a package.json: a fact in `out`; empty: there are none. */
int npm_manifest_relations(struct arena *a, qp_str manifest, struct buf *out,
                           struct qp_err *err) QP_MUST_USE;

/* "2024-01-31" or a whole RFC 3339 time. */
bool npm_date_read(qp_str text, qp_ms *out_at);

#endif
