/* new.c - quipu new: a small project that runs at once
 *
 * A project is a list of files. In their names and texts @ stands for the name of the project, which is that of its
 * workflow, too. Files that are longer are those of docs and examples, as tools/templates has them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/templates.h"

#define NAME_MARK '@'

struct file {
    const char *name;
    mode_t mode;
    const char *text;
    const char *const *lines; /* in place of a text */
    const char *word; /* of the lines: what stands for the project's name; NULL: nothing does */
};

static const struct file hello_files[] = {
    {"@.yaml", 0644,
     "# @.yaml - a graph of one step: a worker greets\n"
     "app:\n"
     "  id: @\n"
     "  version: '1'\n"
     "  graphs:\n"
     "    - subscribes: @\n"
     "      activities:\n"
     "        arrive:\n"
     "          type: trigger\n"
     "        greet:\n"
     "          type: worker\n"
     "          topic: @.greet\n"
     "          input:\n"
     "            maps: { name: '{arrive.output.data.name}' }\n"
     "          job:\n"
     "            maps: { greeting: '{$self.output.data.greeting}' }\n"
     "      transitions:\n"
     "        arrive:\n"
     "          - to: greet\n",
     NULL, NULL},
    {"greet.sh", 0755,
     "#!/bin/bash\n"
     "# greet.sh - a worker: the input of a task on stdin, its output on stdout, both JSON\n"
     "name=$(sed -nE 's/.*\"name\":\"([^\"]*)\".*/\\1/p')\n"
     "printf '{\"greeting\":\"Hello, %s\"}\\n' \"${name:-you}\"\n",
     NULL, NULL},
    {"README.md", 0644,
     "# @: a graph, `@.yaml`, and its worker, `greet.sh`\n"
     "In one terminal:      quipu dev --exec @.greet=./greet.sh\n"
     "In another one:       quipu start @ name=Ada --wait\n"
     "To see what it did:   quipu ls, quipu show JOB, quipu graph @.yaml --job JOB -o text\n"
     "Change either file while it runs: the next job is done the new way.\n",
     NULL, NULL},
};

static const struct file approval_files[] = {
    {"@.yaml", 0644, NULL, template_approval, "approval"},
    {"README.md", 0644,
     "# @: a graph that waits for a person, `@.yaml`\n"
     "In one terminal:      quipu dev\n"
     "In another one:       quipu start @.asked request=holiday seconds:=600\n"
     "It waits:             quipu show holiday\n"
     "The answer:           quipu signal @.given request=holiday answer=yes\n"
     "What came of it:      quipu wait holiday\n",
     NULL, NULL},
};

static const struct file flow_c_files[] = {
    {"@.c", 0644,
     "/* @.c - a flow: an ordinary function that survives the end of its process\n"
     " *\n"
     " * usage: @ FILE ID    starts the flow ID, or goes on with it, until it has ended\n"
     " */\n"
     "#include <quipu.h>\n"
     "#include <stdio.h>\n"
     "#include <string.h>\n"
     "\n"
     "static int greet(void *context, qp_task *task) /* an activity: what it does happens outside */\n"
     "{\n"
     "    (void)context;\n"
     "    return qp_task_output(task, QP_STR(\"\\\"Hello, Ada\\\"\"));\n"
     "}\n"
     "\n"
     "static int run(qp_flow *flow, qp_str input, void *context)\n"
     "{\n"
     "    qp_str greeting;\n"
     "    (void)context;\n"
     "    QP_TRY(qp_activity(flow, \"@.greet\", input, NULL, &greeting)); /* done once */\n"
     "    QP_TRY(qp_sleep(flow, QP_SECONDS(5))); /* kill the process here, and start it again */\n"
     "    return qp_return(flow, greeting);\n"
     "}\n"
     "\n"
     "static int work(qp *q, qp_str id, struct qp_err *err)\n"
     "{\n"
     "    struct qp_job job;\n"
     "    QP_TRY(qp_worker_add(q, &(struct qp_worker){.topic = QP_STR(\"@.greet\"), .work = greet}, err));\n"
     "    QP_TRY(qp_flow_add(q, &(struct qp_flow_kind){.name = QP_STR(\"@\"), .function = run}, err));\n"
     "    QP_TRY(qp_start_threads(q, 1, err));\n"
     "    QP_TRY(qp_job_start(q, &(struct qp_start){.topic = QP_STR(\"@\"), .id = id, .input = QP_STR(\"{}\")}, NULL, err));\n"
     "    QP_TRY(qp_job_wait(q, id, -1, &job, err));\n"
     "    printf(\"%s: %.*s\\n\", job.status, (int)job.output.n, job.output.p);\n"
     "    qp_job_done(q, &job);\n"
     "    return QP_OK;\n"
     "}\n"
     "\n"
     "int main(int argc, char **argv)\n"
     "{\n"
     "    struct qp_options options;\n"
     "    struct qp_err err = {0};\n"
     "    qp *q = NULL;\n"
     "    int rc;\n"
     "    if (argc != 3) {\n"
     "        return fprintf(stderr, \"usage: @ FILE ID\\n\"), 2;\n"
     "    }\n"
     "    qp_options_init(&options);\n"
     "    options.path = argv[1];\n"
     "    rc = qp_open(&options, &q, &err);\n"
     "    rc = rc == QP_OK ? work(q, (qp_str){argv[2], strlen(argv[2])}, &err) : rc;\n"
     "    if (rc != QP_OK) {\n"
     "        fprintf(stderr, \"%s\\n\", err.text);\n"
     "    }\n"
     "    return qp_close(q, &err) != QP_OK || rc != QP_OK;\n"
     "}\n",
     NULL, NULL},
    {"Makefile", 0644,
     "@: @.c\n"
     "\t$(CC) $(CFLAGS) $< $$(pkg-config --cflags --libs quipu) -o $@\n",
     NULL, NULL},
    {"README.md", 0644,
     "# @: a flow in C, `@.c`\n"
     "Build it:             make\n"
     "Run it:               ./@ @.db first\n"
     "Kill it while it sleeps, and run the same again: it goes on, and greets once.\n"
     "What it did:          quipu history first --db @.db\n",
     NULL, NULL},
};

static const struct file flow_python_files[] = {
    {"flow.py", 0755,
     "#!/usr/bin/env python3\n"
     "# flow.py - a flow, and a worker for it and its activity\n"
     "import worker\n"
     "\n"
     "\n"
     "def flow(ctx, input):\n"
     "    greeting = yield ctx.activity(\"greet\", input)          # done once\n"
     "    yield ctx.sleep(5)                                     # stop the worker here, and start it again\n"
     "    answer = yield from ctx.listen(\"approved\", timeout=600)\n"
     "    return {\"greeting\": greeting, \"approved\": answer is not None}\n"
     "\n"
     "\n"
     "worker.flows[\"@\"] = flow\n"
     "worker.activities[\"greet\"] = lambda input, task: \"Hello, %s\" % input[\"name\"]\n"
     "worker.main(\"@-1\", build=\"1\")\n",
     NULL, NULL},
    {"worker.py", 0644, NULL, template_worker_py, NULL},
    {"README.md", 0644,
     "# @: a flow in Python, `flow.py`; `worker.py` speaks to the server\n"
     "In one terminal:      quipu serve\n"
     "In a second one:      QUIPU_TOKEN=$(cat quipu-data/admin.token) python3 flow.py\n"
     "In a third one:       quipu start --workflow @ name=Ada --id first\n"
     "It waits:             quipu show first\n"
     "The answer:           quipu signal first approved by=Ada\n"
     "What came of it:      quipu wait first\n",
     NULL, NULL},
};

static const struct file carto_files[] = {
    {"Packages", 0644,
     "Package: @\nVersion: 1\nArchitecture: amd64\nDepends: libc6 (>= 2), libz1 | libz2\n\n"
     "Package: libc6\nVersion: 2\nArchitecture: amd64\n\n"
     "Package: libz1\nVersion: 1\nArchitecture: amd64\nDepends: libc6\n\n",
     NULL, NULL},
    {"README.md", 0644,
     "# @: what a package needs, as a graph\n"
     "What is known of packages:   quipu carto import --db @.db Packages\n"
     "What one of them needs:      quipu carto deb:@ --db @.db -o tree\n"
     "What needs another one:      quipu carto rdepends deb:libc6 --db @.db\n"
     "Without Packages, `quipu carto import --db @.db` takes the lists that apt has on this machine.\n",
     NULL, NULL},
};

static const struct project {
    const char *name;
    const struct file *files;
    size_t count;
    const char *next; /* what to type; %N and %D stand for name and directory */
} projects[] = {
    {"hello", hello_files, ARRAY_COUNT(hello_files), "quipu dev %D --exec %N.greet=%D/greet.sh"},
    {"approval", approval_files, ARRAY_COUNT(approval_files), "quipu dev %D"},
    {"flow-c", flow_c_files, ARRAY_COUNT(flow_c_files), "make -C %D"},
    {"flow-python", flow_python_files, ARRAY_COUNT(flow_python_files), "quipu serve"},
    {"carto", carto_files, ARRAY_COUNT(carto_files),
     "quipu carto import --db %D/%N.db %D/Packages"},
};

/* ------------------------------------------------------------------------------------------ texts */

/* A text with the name wherever the mark stands. In a Makefile "$@" is make's own. */
static const char *with_name(struct cli *c, const char *text, const char *name)
{
    struct buf out;
    const char *made;
    buf_init(&out, &c->env, 0);
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == NAME_MARK && (p == text || p[-1] != '$')) {
            buf_text(&out, name);
        } else {
            buf_byte(&out, *p);
        }
    }
    made = out.n > 0 ? cli_text(c, "%.*s", (int)out.n, out.p) : "";
    buf_done(&out);
    return made;
}

/* Lines of a file of ours, with the name wherever the word stands. */
static const char *from_lines(struct cli *c, const struct file *f, const char *name)
{
    struct buf out;
    const char *made;
    buf_init(&out, &c->env, 0);
    for (size_t i = 0; f->lines[i] != NULL; i++) {
        const char *rest = f->lines[i];
        const char *word;
        while (f->word != NULL && (word = strstr(rest, f->word)) != NULL) {
            buf_str(&out, (qp_str){rest, (size_t)(word - rest)});
            buf_text(&out, name);
            rest = word + strlen(f->word);
        }
        buf_text(&out, rest);
    }
    made = cli_text(c, "%.*s", (int)out.n, out.p);
    buf_done(&out);
    return made;
}

/* "quipu dev %D" with what stands for it. */
static const char *next_of(struct cli *c, const struct project *p, const char *name,
                           const char *directory)
{
    struct buf out;
    const char *made;
    buf_init(&out, &c->env, 0);
    for (const char *at = p->next; *at != '\0'; at++) {
        if (at[0] == '%') {
            buf_text(&out, at[1] == 'N' ? name : directory);
            at++;
        } else {
            buf_byte(&out, *at);
        }
    }
    made = cli_text(c, "%.*s", (int)out.n, out.p);
    buf_done(&out);
    return made;
}

/* ------------------------------------------------------------------------------------------ files */

/* Never over a file that is there. */
static int make_file(struct cli *c, const char *path, mode_t mode, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    size_t n = strlen(text);
    bool good = fd >= 0 && write(fd, text, n) == (ssize_t)n;
    int why = errno;
    good = (fd < 0 || close(fd) == 0) && good;
    return good ? EXIT_OK
                : cli_fail_next(c, why == EEXIST ? EXIT_CONFLICT : EXIT_ERROR, "quipu help new",
                                "'%s': %s", path, strerror(why));
}

static int make_files(struct cli *c, const struct project *p, const char *name,
                      const char *directory)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct file *f = &p->files[i];
        const char *path = cli_text(c, "%s/%s", directory, with_name(c, f->name, name));
        int status =
            make_file(c, path, f->mode,
                      f->lines != NULL ? from_lines(c, f, name) : with_name(c, f->text, name));
        if (status != EXIT_OK) {
            return status;
        }
        printf("%s\n", path);
    }
    return EXIT_OK;
}

static const struct project *project_of(const char *name)
{
    for (size_t i = 0; i < ARRAY_COUNT(projects); i++) {
        if (strcmp(projects[i].name, name) == 0) {
            return &projects[i];
        }
    }
    return NULL;
}

/* It becomes the name of a workflow and of files. */
static bool is_name(const char *name)
{
    struct qp_err err;
    return name_check(str_from(name), "name", &err) == QP_OK && name[0] != '.' && name[0] != '-';
}

int command_new(struct cli *c)
{
    const char *from = cli_has(c, OPT_from) ? c->values[OPT_from] : "hello";
    const struct project *p = project_of(from);
    const char *name;
    const char *directory;
    int status = cli_expect(c, 1, 2);
    if (status != EXIT_OK) {
        return status;
    }
    if (p == NULL) {
        return cli_usage(
            "new: --from is hello, approval, flow-c, flow-python or carto, not '%s'; see "
            "quipu help new",
            from);
    }
    name = c->arguments[0];
    directory = c->argument_count > 1 ? c->arguments[1] : name;
    if (!is_name(name)) {
        return cli_usage(
            "new: a name is made of letters, digits and ._~:-, not '%s'; see quipu help "
            "new",
            name);
    }
    if (mkdir(directory, 0755) != 0 && errno != EEXIST) {
        return cli_fail(c, EXIT_ERROR, "'%s': %s", directory, strerror(errno));
    }
    status = make_files(c, p, name, directory);
    if (status == EXIT_OK) {
        cli_say("next: %s", next_of(c, p, name, directory));
    }
    return status;
}
