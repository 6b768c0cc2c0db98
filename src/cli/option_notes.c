/* option_notes.c - what an option means to one command (see option_notes.h) */
#include "cli/option_notes.h"

#include <string.h>

/* An option that means something else, or something closer, to one command. */
static const struct {
    const char *words;
    enum option option;
    const char *about;
} notes[] = {
    {"signal", OPT_id,
     "of the signal; sent again with it to the same topic and key, it changes nothing"},
    {"signal", OPT_key, "the key that a job waits for at the topic, in place of JOB"},
    {"signal", OPT_workflow, "then JOB is the custom id of an open job of this workflow"},
    {"limits set", OPT_key, "the limit key of jobs; '*': every key that has no limit of its own"},
    {"limits rm", OPT_key, "the limit key of jobs; '*': every key that has no limit of its own"},
    {"start", OPT_workflow, "a graph's topic or a flow's name, in place of TOPIC"},
    {"new", OPT_from, "hello (default), approval, flow-c, flow-python or carto"},
    {"carto", OPT_id, "of the traversal; the same id and request again mean the same one"},
    {"sql", OPT_limit, "the most rows (default 1000)"},
    {"sql", OPT_timeout, "of the question (default 10s)"},
    {"sql", OPT_output, "text (or table), csv, jsonl, json or yaml"},
    {"graph", OPT_output, "text, dot, mermaid, or json for what was compiled"},
    {"graph", OPT_job, "draw it as this job stands"},
    {"graph", OPT_strict, "warn of keys that are mapped and that no schema declares, too"},
    {"fsck", OPT_output, "text or json"},
    {"fsck", OPT_limit, "the most findings"},
    {"help", OPT_output, "text, man or markdown"},
    {"version", OPT_output, "text or json"},
    {"migrate", OPT_output, "text or json"},
    {"export", OPT_output, "json (default) or yaml"},
    {"carto", OPT_output, "json (default), jsonl, tree, dot, mermaid, cyclonedx or spdx"},
    {"carto result", OPT_output, "json (default), jsonl, tree, dot, mermaid, cyclonedx or spdx"},
};

const char *option_about(const struct command *command, enum option option)
{
    for (size_t i = 0; i < ARRAY_COUNT(notes); i++) {
        if (notes[i].option == option && strcmp(notes[i].words, command->words) == 0) {
            return notes[i].about;
        }
    }
    return option_at(option)->about;
}
