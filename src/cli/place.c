/* place.c - where a store is, as it is typed and as it is shown */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool cli_place_is_url(const char *place)
{
    return strncmp(place, "postgres://", 11) == 0 || strncmp(place, "postgresql://", 13) == 0;
}

const char *cli_place_path(const char *place)
{
    return strncmp(place, "sqlite:", 7) == 0 ? place + 7 : place;
}

/* Between the user's name and the host lies a password, which nobody may read in an error or in the
 * source's note. It may have been typed with a sign that ends what comes before a host: rather too
 * much is left out than too little. */
static void name_url(const char *url, char *out_name, size_t size)
{
    const char *host = strstr(url, "://") + 3;
    const char *at = memrchr(host, '@', strcspn(host, "?"));
    const char *colon;
    const char *query = strchr(host, '?'); /* it may have one too */
    bool secret = query != NULL && strstr(query, "password") != NULL;
    const char *rest;
    int rest_size;
    at = at != NULL ? at : strrchr(host, '@');
    colon = at == NULL ? NULL : memchr(host, ':', (size_t)(at - host));
    rest = colon == NULL ? url : at;
    rest_size = (int)(secret && query > rest ? (size_t)(query - rest) : strlen(rest));
    (void)snprintf(out_name, size, "%.*s%.*s", (int)(colon == NULL ? 0 : colon - url), url,
                   rest_size, rest);
}

/* Of a file that is not there yet, the name of its directory is resolved. What cannot be resolved
 * stays as it is: opening it will complain. */
static void name_file(const char *path, char *out_name, size_t size)
{
    const char *slash = strrchr(path, '/');
    char *real = realpath(path, NULL);
    char *directory;
    (void)snprintf(out_name, size, "%s", real != NULL ? real : path);
    free(real);
    if (real != NULL) {
        return;
    }
    directory = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    real = directory == NULL ? NULL : realpath(directory, NULL);
    if (real != NULL) {
        (void)snprintf(out_name, size, "%s/%s", strcmp(real, "/") == 0 ? "" : real,
                       slash != NULL ? slash + 1 : path);
    }
    free(real);
    free(directory);
}

void cli_place_name(const char *place, char *out_name, size_t size)
{
    if (cli_place_is_url(place)) {
        name_url(place, out_name, size);
    } else {
        name_file(cli_place_path(place), out_name, size);
    }
}
