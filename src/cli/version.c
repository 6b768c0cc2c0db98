/* version.c - quipu version: what is running here
 *
 * The version is that of the library in use, not of the header the program was compiled with.
 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

int command_version(struct cli *c)
{
    const char *format = cli_has(c, OPT_output) ? c->values[OPT_output] : "text";
    int status = cli_expect(c, 0, 0);
    if (status != EXIT_OK) {
        return status;
    }
    if (strcmp(format, "text") == 0) {
        printf("quipu %s\n", qp_version());
    } else if (strcmp(format, "json") == 0) {
        printf("{\"version\":\"%s\"}\n", qp_version());
    } else {
        return cli_usage("version: --output must be text or json, got '%s'; see quipu help version",
                         format);
    }
    return EXIT_OK;
}
