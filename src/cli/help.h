/* help.h - how to use the commands, from the table */
#ifndef QP_CLI_HELP_H
#define QP_CLI_HELP_H

#include <stdio.h>

#include "cli/cli.h"

void help_list(FILE *out);
void help_command(FILE *out, const struct command *command);

/* The two manuals (manual.c). */
void manual_man(FILE *out);
void manual_markdown(FILE *out);

#endif
