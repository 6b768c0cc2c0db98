/* option_notes.h - what an option means to one command, where options.def says it for all */
#ifndef QP_CLI_OPTION_NOTES_H
#define QP_CLI_OPTION_NOTES_H

#include "cli/cli.h"

/* The sentence about it in the help of the command, in the manual and in docs/cli.md. */
const char *option_about(const struct command *command, enum option option);

#endif
