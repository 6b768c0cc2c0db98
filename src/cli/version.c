/* version.c - quipu version: what is running here
 *
 * The version is that of the library in use, not of the header the program was compiled with.
 */
#include "cli/cli.h"

#include <quipu.h>
#include <stdio.h>
#include <string.h>

int command_version(int argc, char **argv)
{
    const char *format = "text";
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        printf("usage: quipu version [-o text|json]\n");
        return EXIT_OK;
    }
    if (argc == 3 && strcmp(argv[1], "-o") == 0) {
        format = argv[2];
    } else if (argc != 1) {
        return cli_usage("usage: quipu version [-o text|json]");
    }

    if (strcmp(format, "text") == 0) {
        printf("quipu %s\n", qp_version());
    } else if (strcmp(format, "json") == 0) {
        printf("{\"version\":\"%s\"}\n", qp_version());
    } else {
        return cli_usage("version: output is text or json, not '%s'", format);
    }
    return EXIT_OK;
}
