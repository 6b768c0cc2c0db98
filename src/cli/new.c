/* new.c - quipu new: a small project that runs at once */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

static const struct {
    const char *name;
    mode_t mode;
    const char *text;
} files[] = {
    {"hello.yaml", 0644,
     "# hello.yaml - who is named is greeted\n"
     "app:\n"
     "  id: hello\n"
     "  version: '1'\n"
     "  graphs:\n"
     "    - subscribes: hello\n"
     "      activities:\n"
     "        arrive:\n"
     "          type: trigger\n"
     "        greet:\n"
     "          type: worker\n"
     "          topic: hello.greet\n"
     "          input:\n"
     "            maps: { name: '{arrive.output.data.name}' }\n"
     "          job:\n"
     "            maps: { greeting: '{$self.output.data.greeting}' }\n"
     "      transitions:\n"
     "        arrive:\n"
     "          - to: greet\n"},
    {"greet.sh", 0755,
     "#!/bin/bash\n"
     "# greet.sh - a worker: the input of a task on stdin, its output on stdout, both JSON\n"
     "name=$(sed -nE 's/.*\"name\":\"([^\"]*)\".*/\\1/p')\n"
     "printf '{\"greeting\":\"Hello, %s\"}\\n' \"${name:-you}\"\n"},
    {"README.md", 0644,
     "# hello: a graph, `hello.yaml`, and its worker, `greet.sh`\n"
     "In one terminal:      quipu dev --exec hello.greet=./greet.sh\n"
     "In another one:       quipu start hello name=Ada --wait\n"
     "To see what it did:   quipu ls, quipu show JOB, quipu graph hello.yaml --job JOB -o text\n"
     "Change either file while it runs: the next job is done the new way.\n"},
};

/* Never over a file that is there. */
static int make_file(struct cli *c, const char *path, mode_t mode, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    size_t n = strlen(text);
    bool good = fd >= 0 && write(fd, text, n) == (ssize_t)n;
    int why = errno;
    good = (fd < 0 || close(fd) == 0) && good;
    return good ? EXIT_OK
                : cli_fail_next(c, why == EEXIST ? EXIT_CONFLICT : EXIT_ERROR,
                                "quipu new hello DIR, into another directory", "'%s': %s", path,
                                strerror(why));
}

int command_new(struct cli *c)
{
    const char *directory = "hello";
    int status = cli_expect(c, 1, 2);
    if (status == EXIT_OK && strcmp(c->arguments[0], "hello") != 0) {
        return cli_usage("new: there is a project 'hello', and none '%s'; see quipu help new",
                         c->arguments[0]);
    }
    directory = c->argument_count > 1 ? c->arguments[1] : directory;
    if (status == EXIT_OK && mkdir(directory, 0755) != 0 && errno != EEXIST) {
        return cli_fail(c, EXIT_ERROR, "'%s': %s", directory, strerror(errno));
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0] && status == EXIT_OK; i++) {
        const char *path = cli_text(c, "%s/%s", directory, files[i].name);
        status = make_file(c, path, files[i].mode, files[i].text);
        if (status == EXIT_OK) {
            printf("%s\n", path);
        }
    }
    if (status == EXIT_OK) {
        cli_say("next: quipu dev %s --exec hello.greet=%s/greet.sh", directory, directory);
    }
    return status;
}
