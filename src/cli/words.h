/* words.h - spans, ages and colours, as people read them */
#ifndef QP_CLI_WORDS_H
#define QP_CLI_WORDS_H

#include "cli/cli.h"

/* "50ms", "1.2s", "12s", "3m 5s", "2h 5m", "3d 4h". */
#define SPAN_TEXT_SIZE 32
const char *span_text(qp_ms ms, char out_text[SPAN_TEXT_SIZE]);
/* "3m ago", "now"; and of a time to come "59m left", "due". */
const char *age_text(qp_ms now, qp_ms at, char out_text[SPAN_TEXT_SIZE]);
const char *left_text(qp_ms now, qp_ms at, char out_text[SPAN_TEXT_SIZE]);
qp_ms cli_now(const struct cli *c);
/* The colour of a status or a mark, and back; empty where colours are not wanted. */
const char *color_of(bool colors, qp_str word);
const char *color_end(bool colors);

/* The columns of the terminal that stdout is, and its rows. */
int terminal_size(int *out_width);

/* Ends a line that is at `column` with a text: on a terminal broken at spaces, and indented to the column. */
void print_wrapped(qp_str text, int column);

#endif
