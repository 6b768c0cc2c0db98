/* bom.h - a result as a bill of materials: CycloneDX 1.5 and SPDX 2.3, both as JSON
 *
 * Both list real packages: a virtual name is no component, and an edge to it goes to its providers. Package URLs are the
 * ids (in SPDX external references, since its own ids may not have such characters). Serial number and namespace come from
 * the hash of the result, and there is no time of writing: equal results are equal bytes. SPDX requires a time, and gets
 * that of the epoch.
 *
 * Every package has an entry about what it needs, a leaf too. It is incomplete if the depth limit has cut relationships, the
 * package has an error, or it needs a name that no package has: CycloneDX says so in `compositions`, SPDX by an edge to
 * NOASSERTION. If the request excluded packages, what is not incomplete is of unknown completeness in CycloneDX.
 */
#ifndef QP_CARTO_BOM_H
#define QP_CARTO_BOM_H

#include "carto/result_graph.h"

/* What a package needs, by id, each once. */
struct bom_needs {
    const struct result_node **nodes;
    size_t count;
    bool is_complete;
};

struct bom {
    const struct result_graph *graph;
    struct arena memory;
    const struct result_node **found; /* node_count of each */
    size_t *stack;
    size_t *seen_by; /* per node: index + 1 of the package that was asked for last and needs it */
};

/* QP_E_NOMEM. To be closed in any case. */
int bom_open(struct bom *b, const struct result_graph *g) QP_MUST_USE;
void bom_close(struct bom *b);
/* Valid until the next question. Of a virtual name: its providers. */
struct bom_needs bom_needs_of(struct bom *b, const struct result_node *n);

/* "8-4-4-4-12" digits of the hash. */
#define BOM_UUID_SIZE 37
void bom_uuid(qp_str hash, char out_text[BOM_UUID_SIZE]);

#endif
