/* note.c - where the server on the default port is (see note.h) */
#include "cli/note.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOTE_SIZE 4096

/* The directory of the note; NULL: there is none. */
static const char *directory(struct cli *c, const char *part)
{
    const char *base = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    if (base != NULL && *base == '/') {
        return cli_text(c, "%s%s", base, part);
    }
    return home != NULL && *home == '/' ? cli_text(c, "%s/.local/state%s", home, part) : NULL;
}

const char *note_read(struct cli *c)
{
    const char *path = directory(c, "/quipu/server");
    char text[NOTE_SIZE] = "";
    struct stat info = {0};
    int fd = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 || fstat(fd, &info) != 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) {
        (void)close(fd);
    }
    if (n <= 0 || info.st_uid != geteuid() || (info.st_mode & 022) != 0 || text[0] != '/') {
        return NULL;
    }
    text[strcspn(text, "\n")] = '\0';
    return cli_text(c, "%s", text);
}

/* The directories that XDG names may be missing. */
static void make_directories(struct cli *c)
{
    static const char *const parts[] = {"", "/quipu"};
    const char *local = getenv("HOME");
    if (local != NULL) {
        (void)mkdir(cli_text(c, "%s/.local", local), 0700); /* opening the file says the rest */
    }
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        (void)mkdir(directory(c, parts[i]), 0700); /* likewise */
    }
}

void note_write(struct cli *c, const char *socket)
{
    const char *path = directory(c, "/quipu/server");
    char *whole = realpath(socket, NULL);
    const char *line = whole == NULL ? "" : cli_text(c, "%s\n", whole);
    ssize_t n = (ssize_t)strlen(line);
    int fd = -1;
    free(whole);
    if (path != NULL && n > 0) {
        make_directories(c);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    if (fd >= 0 && write(fd, line, (size_t)n) != n) {
        (void)unlink(path); /* half a path is none */
    }
    if (fd >= 0) {
        (void)close(fd);
    }
}
