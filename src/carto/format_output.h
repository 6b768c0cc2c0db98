/* format_output.h - text of a format that goes on in pieces: to a sink, or into a hash
 *
 * A format writes into `text`, by itself or through `json`, and calls format_output_full now and then. The first failure
 * sticks, and format_output_end returns it. The members below write one key and its value.
 */
#ifndef QP_CARTO_FORMAT_OUTPUT_H
#define QP_CARTO_FORMAT_OUTPUT_H

#include "carto/format.h"

struct format_output {
    struct buf text;
    struct json_writer json;
    struct hash_stream *hash; /* NULL: to the sink */
    void *context;
    carto_sink sink;
    int rc;
};

/* `hash`, or `context` and `sink`, are set before. */
void format_output_begin(struct format_output *o, const struct qp_env *env);
void format_output_full(struct format_output *o);
int format_output_end(struct format_output *o) QP_MUST_USE;

void member_put_text(struct json_writer *w, const char *key, qp_str text);
void member_put_some(struct json_writer *w, const char *key, qp_str text); /* unless it is empty */
void member_put_number(struct json_writer *w, const char *key, int64_t number);
void member_put_flag(struct json_writer *w, const char *key, bool truth);
void member_put_true(struct json_writer *w, const char *key, bool truth); /* unless it is false */

#endif
