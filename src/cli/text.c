/* text.c - texts that live as long as the command, and options as people read them */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* Some bytes of the arena: without them a program of a few kilobytes cannot go on, and nobody can
 * help. */
static char *room_for(struct cli *c, size_t size)
{
    char *room = arena_bytes(&c->arena, size);
    if (room == NULL) {
        (void)fputs("quipu: out of memory\n", stderr);
        exit(EXIT_ERROR);
    }
    return room;
}

const char *cli_text(struct cli *c, const char *format, ...)
{
    va_list arguments;
    char *text;
    int size;
    va_start(arguments, format);
    size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    QP_ASSERT(size >= 0);
    text = room_for(c, (size_t)size + 1);
    va_start(arguments, format);
    (void)vsnprintf(text, (size_t)size + 1, format, arguments); /* there is room */
    va_end(arguments);
    return text;
}

char *cli_copy(struct cli *c, const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(room_for(c, size), text, size);
}

const char *option_text(const char *name, char out_text[OPTION_TEXT_SIZE])
{
    (void)snprintf(out_text, OPTION_TEXT_SIZE, "--%s", name); /* names are short */
    for (char *p = out_text; *p != '\0'; p++) {
        *p = (char)(*p == '_' ? '-' : *p);
    }
    return out_text;
}

const char *cli_named(struct cli *c, enum option option)
{
    const char *origin = c->origins[option];
    char text[OPTION_TEXT_SIZE];
    (void)option_text(option_at(option)->name, text);
    return origin == NULL || strcmp(origin, text) == 0 ? cli_text(c, "%s", text)
                                                       : cli_text(c, "%s (%s)", text, origin);
}
