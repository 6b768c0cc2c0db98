/* workflows.h - deploying, for whoever does: quipu deploy and quipu dev */
#ifndef QP_CLI_WORKFLOWS_H
#define QP_CLI_WORKFLOWS_H

#include "cli/graph_file.h"
#include "cli/output.h"

/* Sends a text that was checked; as ask(): a refusal is a reply, too. */
int deploy_text(struct cli *c, qp_str text, bool activate, struct reply *out_reply);

/* The files *.yaml and *.yml of a directory, by name, as paths in the arena. */
int deploy_files(struct cli *c, const char *directory, const char *const **out_paths,
                 size_t *out_count);
/* Whether a text is an application: others are parts that applications refer to. What is no YAML at all is one, so that
 * somebody says what is wrong with it. */
bool deploy_is_app(struct cli *c, qp_str text);

#endif
