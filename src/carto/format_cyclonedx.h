/* format_cyclonedx.h - a result as a bill of materials of CycloneDX 1.5 (bom.h says what both formats share)
 *
 * Pure; the caller owns the graph and the output. QP_E_NOMEM, or what the output's sink returned.
 */
#ifndef QP_CARTO_FORMAT_CYCLONEDX_H
#define QP_CARTO_FORMAT_CYCLONEDX_H

#include "carto/format_output.h"
#include "carto/result_graph.h"

int format_cyclonedx(const struct result_graph *g, const struct format_of *of,
                     struct format_output *o) QP_MUST_USE;

#endif
