/* tree.h - YAML text as a tree that knows where everything stood
 *
 * libyaml's events become nodes: scalars, lists and maps, each with line and column (from 1), so that
 * whatever is found wrong later can be shown where it was written. What is taken of YAML is what graphs
 * need: one document, block and flow style, plain and quoted scalars. Anchors, aliases, merge keys and tags
 * are refused, so that no text is larger than it looks; so are tabs as indentation, duplicate keys, bytes that
 * are not UTF-8, NUL, a byte order mark, and whatever is past the limits (size, depth, nodes).
 *
 * A plain scalar is what it looks like (null, a boolean, a number); a quoted one is a string. Numbers are those of
 * JSON: what YAML knows beside them (0x1f, 010, .5, .inf) is refused, since its versions read it differently.
 * Keys are texts, quoted or not.
 *
 * All of a tree lives in the arena that it was read into; so do the report's sentences.
 */
#ifndef QP_MAPPING_TREE_H
#define QP_MAPPING_TREE_H

#include "base/mem.h"

enum node_kind { NODE_NULL, NODE_BOOL, NODE_NUMBER, NODE_STRING, NODE_LIST, NODE_MAP };

struct node {
    enum node_kind kind;
    int line;
    int column;
    bool truth;         /* NODE_BOOL */
    qp_str text;        /* of a scalar, as it was written, without quotes */
    struct node *next;  /* in its list or map */
    struct node *first; /* of a list or map: what is in it, in order */
    size_t count;
    qp_str key; /* in a map: its key, and where that stands */
    int key_line;
    int key_column;
};

enum finding_level {
    FINDING_WRONG,   /* nothing of the text is deployed */
    FINDING_WARNING, /* the text has something that is ignored */
    FINDING_NOTE,    /* something is accepted and not checked */
    FINDING_STRICT   /* nothing is wrong, and it may be a mistake: told when it is asked for */
};

/* One thing that is wrong, or that should be known. `code` is stable (docs/graph-errors.md), the message is a sentence with the limit in it where
 * there is one, the hint says what to do next. */
struct finding {
    struct finding *next;
    enum finding_level level;
    const char *code;
    int line;
    int column;
    qp_str message;
    qp_str hint; /* none: there is none */
};

/* What was found wrong with a text, in the order of the text: everything at once, up to a limit. What stops nothing is a list
 * of its own, with the same limit. */
struct report {
    struct arena *arena;
    struct finding *first;
    struct finding *last;
    size_t count; /* of all, also of those past the limit */
    struct finding *first_note;
    struct finding *last_note;
    size_t note_count;
    bool no_memory;
};

void report_init(struct report *r, struct arena *arena);
/* `hint` may be NULL. */
void report_add(struct report *r, const char *code, int line, int column, const char *hint,
                const char *format, ...) QP_PRINTF(6, 7);
/* The same of what stops nothing. */
void report_note(struct report *r, enum finding_level level, const char *code, int line, int column,
                 const char *hint, const char *format, ...) QP_PRINTF(7, 8);
/* Whether a note of this code was left before. */
bool report_noted(const struct report *r, const char *code);

/* Foreign text for a sentence: as much of it as may be shown, cut at a character. For
 * report_add("%.*s", STR_ARG(text_shown(s))), which escapes what a terminal should not see. */
qp_str text_shown(qp_str text);

/* QP_OK, or QP_E_MALFORMED when it is not YAML as we take it (the report says why), QP_E_NOMEM. With
 * QP_E_MALFORMED *out_root is NULL, or, when the text could be read to its end all the same (a key that is there twice,
 * an anchor), its tree: so that whatever else is wrong is found in the same go. */
int tree_read(struct arena *a, qp_str text, struct report *report,
              struct node **out_root) QP_MUST_USE;

/* The entry of a map; NULL: there is none, or the node is no map (or NULL). */
const struct node *node_get(const struct node *map, const char *key);
/* A number as an integer or as a double; false: it is no such number. */
bool node_as_i64(const struct node *node, int64_t *out_number);
bool node_as_real(const struct node *node, double *out_number);

#endif
