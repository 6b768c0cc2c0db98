/* note.h - where the server of this user on the default port is, for commands of the same user
 *
 * A line in the file quipu/server of XDG_STATE_HOME, or of ~/.local/state: the whole path of its Unix socket. A note that is
 * behind its server does no harm: what reads it asks the socket first.
 */
#ifndef QP_CLI_NOTE_H
#define QP_CLI_NOTE_H

#include "cli/cli.h"

/* The path; NULL: there is no note, or others may have written it. */
const char *note_read(struct cli *c);
/* What cannot be written is left out: the server can be named. */
void note_write(struct cli *c, const char *socket);

#endif
