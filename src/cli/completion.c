/* completion.c - quipu completion: scripts for shells, from the table
 *
 * The scripts ask nobody: they know words and options, and leave files to the shell. Ids would
 * need a server, and a key that waits for one is worse than none.
 */
#include <string.h>

#include "cli/help.h"

/* First words, each once: those of two words share theirs. */
static bool is_first(size_t index)
{
    const char *words = command_at(index)->words;
    size_t n = strcspn(words, " ");
    for (size_t i = 0; i < index; i++) {
        const char *before = command_at(i)->words;
        if (strcspn(before, " ") == n && memcmp(before, words, n) == 0) {
            return false;
        }
    }
    return true;
}

static void print_first_words(FILE *out)
{
    const char *space = "";
    for (size_t i = 0; command_at(i) != NULL; i++) {
        const char *words = command_at(i)->words;
        if (is_first(i)) {
            (void)fprintf(out, "%s%.*s", space, (int)strcspn(words, " "), words);
            space = " ";
        }
    }
}

static void print_options(FILE *out, const struct command *command)
{
    char text[OPTION_TEXT_SIZE];
    const char *space = "";
    for (enum option i = 0; i < OPTION_COUNT; i++) {
        if (command_takes(command, i)) {
            (void)fprintf(out, "%s%s", space, option_text(option_at(i)->name, text));
            space = " ";
        }
    }
}

/* Second words of commands that have two. */
static void print_second_words(FILE *out, size_t index)
{
    const char *words = command_at(index)->words;
    size_t n = strcspn(words, " ");
    const char *space = "";
    for (size_t i = index; command_at(i) != NULL; i++) {
        const char *other = command_at(i)->words;
        if (strncmp(other, words, n) == 0 && other[n] == ' ') {
            (void)fprintf(out, "%s%s", space, other + n + 1);
            space = " ";
        }
    }
}

/* A case per command, by its words, for bash and zsh alike. */
static void print_cases(FILE *out)
{
    for (size_t i = 0; command_at(i) != NULL; i++) {
        const struct command *command = command_at(i);
        (void)fprintf(out, "    \"%s\") words=\"", command->words);
        print_options(out, command);
        (void)fputs("\" ;;\n", out);
    }
    for (size_t i = 0; command_at(i) != NULL; i++) {
        const char *words = command_at(i)->words;
        if (strchr(words, ' ') != NULL && is_first(i)) {
            (void)fprintf(out, "    \"%.*s \"*) words=\"", (int)strcspn(words, " "), words);
            print_second_words(out, i);
            (void)fputs("\" ;;\n", out);
        }
    }
}

/* The first words that have a second one, as a pattern of `case`. */
static void print_nouns(FILE *out)
{
    const char *bar = "";
    for (size_t i = 0; command_at(i) != NULL; i++) {
        const char *words = command_at(i)->words;
        if (strchr(words, ' ') != NULL && is_first(i)) {
            (void)fprintf(out, "%s%.*s", bar, (int)strcspn(words, " "), words);
            bar = " | ";
        }
    }
}

static void print_bash(FILE *out)
{
    (void)fputs("# quipu completion bash\n"
                "_quipu() {\n"
                "  local words=\"\" current=\"${COMP_WORDS[COMP_CWORD]}\"\n"
                "  local command=\"${COMP_WORDS[1]}\"\n"
                "  case \"$command\" in\n    ",
                out);
    print_nouns(out);
    (void)fputs(
        ") command=\"$command ${COMP_WORDS[2]}\" ;;\n  esac\n"
        "  [ \"$COMP_CWORD\" -gt 1 ] || command=\n  case \"$command\" in\n    \"\") words=\"",
        out);
    print_first_words(out);
    (void)fputs("\" ;;\n", out);
    print_cases(out);
    (void)fputs("  esac\n  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n}\n"
                "complete -o default -F _quipu quipu\n",
                out);
}

/* zsh runs the bash functions by its own bridge. */
static void print_zsh(FILE *out)
{
    (void)fputs("#compdef quipu\nautoload -Uz bashcompinit && bashcompinit\n", out);
    print_bash(out);
}

static void print_fish(FILE *out)
{
    char text[OPTION_TEXT_SIZE];
    for (size_t i = 0; command_at(i) != NULL; i++) {
        const struct command *command = command_at(i);
        const char *second = strchr(command->words, ' ');
        int first = (int)strcspn(command->words, " ");
        if (is_first(i)) {
            (void)fprintf(out, "complete -c quipu -n __fish_use_subcommand -a %.*s -d '%s'\n",
                          first, command->words, second == NULL ? command->summary : "");
        }
        if (second != NULL) {
            (void)fprintf(out,
                          "complete -c quipu -n '__fish_seen_subcommand_from %.*s' -a %s -d '%s'\n",
                          first, command->words, second + 1, command->summary);
        }
        for (enum option j = 0; j < OPTION_COUNT; j++) {
            if (command_takes(command, j)) {
                (void)fprintf(out,
                              "complete -c quipu -n '__fish_seen_subcommand_from %.*s' -l %s%s\n",
                              first, command->words, option_text(option_at(j)->name, text) + 2,
                              option_at(j)->value != NULL ? " -r" : "");
            }
        }
    }
}

int command_completion(struct cli *c)
{
    static const struct {
        const char *name;
        void (*print)(FILE *out);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    int status = cli_expect(c, 1, 1);
    for (size_t i = 0; i < ARRAY_COUNT(shells) && status == EXIT_OK; i++) {
        if (strcmp(c->arguments[0], shells[i].name) == 0) {
            shells[i].print(stdout);
            return EXIT_OK;
        }
    }
    return status != EXIT_OK ? status
                             : cli_usage("completion: the shell is bash, zsh or fish, not '%s'; "
                                         "see quipu help completion",
                                         c->arguments[0]);
}
