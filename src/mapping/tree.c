/* tree.c - YAML text as a tree that knows where everything stood (see tree.h)
 *
 * The only file that knows libyaml. Its parser is pulled event by event, and never further than the limits go: a text
 * that is nested too deeply is dropped at the bracket that is one too many. What concerns the bytes (size, UTF-8, control
 * characters) is checked before libyaml sees them, so that its lines and columns are those of an editor.
 *
 * The containers that are open lie on a stack of LIMIT_YAML_DEPTH; nothing recurses. Memory of the parser itself is
 * the libc's and is gone when the text has been read; the tree is the arena's.
 *
 * Two kinds of wrong: what breaks the shape of the text ends the reading; what does not (a key that is
 * there twice, an anchor, a tag, a number of several meanings) is told, and reading goes on.
 */
#include "mapping/tree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <yaml.h>

#include "base/json.h"
#include "base/log.h"

struct open_node {
    struct node *node;
    struct node *last; /* of its children */
};

struct reader {
    struct arena *arena;
    struct report *report;
    qp_str text;
    yaml_parser_t parser;
    struct open_node open[LIMIT_YAML_DEPTH];
    size_t depth;
    size_t node_count;
    struct node *root;
    struct node key; /* of the entry to come: its key, key_line, key_column */
    bool has_key;
    bool ended;  /* by an error, or by the end */
    bool whole;  /* the end was reached */
    size_t at;   /* in the text: where line `at_line` begins */
    int at_line; /* from 1 */
    int tab_line;
};

enum number_form { NUMBER_NONE, NUMBER_PLAIN, NUMBER_ODD };

static void check_bytes(struct reader *r);
static void read_events(struct reader *r);
static void take_event(struct reader *r, const yaml_event_t *event);
static void take_document(struct reader *r, const yaml_event_t *event);
static void take_alias(struct reader *r, const yaml_event_t *event);
static void take_scalar(struct reader *r, const yaml_event_t *event);
static void take_container(struct reader *r, const yaml_event_t *event, enum node_kind kind);
static void take_end(struct reader *r);

/* --------------------------------------------------------------------------------------- reports */

void report_init(struct report *r, struct arena *arena)
{
    *r = (struct report){.arena = arena};
}

static bool is_before(const struct finding *f, int line, int column)
{
    return f->line < line || (f->line == line && f->column <= column);
}

/* Into the order of the text, behind what was found at the same place; the last one goes when there are
 * too many. */
static void insert(struct finding **first, struct finding **last, struct finding *f)
{
    struct finding **place = first;
    size_t count = 1;
    while (*place != NULL && is_before(*place, f->line, f->column)) {
        place = &(*place)->next;
        count++;
    }
    f->next = *place;
    *place = f;
    *last = f;
    while ((*last)->next != NULL && count < LIMIT_FINDINGS) {
        *last = (*last)->next;
        count++;
    }
    (*last)->next = NULL;
}

static bool copy_escaped(struct report *r, const char *text, qp_str *out_copy)
{
    char escaped[LIMIT_FINDING_SIZE];
    size_t n = log_escape(str_from(text), escaped, sizeof escaped);
    return arena_copy(r->arena, (qp_str){escaped, n}, out_copy);
}

/* The finding with its place, in the report's memory; NULL: there is none. */
static struct finding *finding_make(struct report *r, const struct finding *as, const char *hint,
                                    const char *message)
{
    struct finding *f = ARENA_NEW(r->arena, struct finding);
    if (f != NULL) {
        *f = *as;
    }
    if (f == NULL || !copy_escaped(r, message, &f->message) ||
        (hint != NULL && !copy_escaped(r, hint, &f->hint))) {
        r->no_memory = true;
        return NULL;
    }
    return f;
}

void report_add(struct report *r, const char *code, int line, int column, const char *hint,
                const char *format, ...)
{
    char message[LIMIT_FINDING_SIZE];
    struct finding *f;
    va_list args;
    QP_ASSERT(line >= 1 && column >= 1);
    r->count++;
    if (r->count > LIMIT_FINDINGS && is_before(r->last, line, column)) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args); /* what is quoted in it is short */
    va_end(args);
    f = finding_make(r, &(struct finding){.code = code, .line = line, .column = column}, hint,
                     message);
    if (f != NULL) {
        insert(&r->first, &r->last, f);
    }
}

void report_note(struct report *r, enum finding_level level, const char *code, int line, int column,
                 const char *hint, const char *format, ...)
{
    char message[LIMIT_FINDING_SIZE];
    struct finding *f;
    va_list args;
    QP_ASSERT(level != FINDING_WRONG && line >= 1 && column >= 1);
    r->note_count++;
    if (r->note_count > LIMIT_FINDINGS && is_before(r->last_note, line, column)) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(message, sizeof message, format, args); /* what is quoted in it is short */
    va_end(args);
    f = finding_make(
        r, &(struct finding){.level = level, .code = code, .line = line, .column = column}, hint,
        message);
    if (f != NULL) {
        insert(&r->first_note, &r->last_note, f);
    }
}

bool report_noted(const struct report *r, const char *code)
{
    const struct finding *f = r->first_note;
    while (f != NULL && strcmp(f->code, code) != 0) {
        f = f->next;
    }
    return f != NULL;
}

qp_str text_shown(qp_str text)
{
    return text.n <= LIMIT_LOG_ECHO_SIZE
               ? text
               : (qp_str){text.p, utf8_valid_prefix((qp_str){text.p, LIMIT_LOG_ECHO_SIZE})};
}

/* --------------------------------------------------------------------------------------- reading */

/* The end of reading: the text has no shape. */
static void stop(struct reader *r, const char *code, int line, int column, const char *hint,
                 const char *message)
{
    report_add(r->report, code, line, column, hint, "%s", message);
    r->ended = true;
}

int tree_read(struct arena *a, qp_str text, struct report *report, struct node **out_root)
{
    struct reader r = {.arena = a, .report = report, .text = text, .at_line = 1};
    size_t before = report->count;
    check_bytes(&r);
    if (!r.ended) {
        read_events(&r);
    }
    if (report->no_memory) {
        return QP_E_NOMEM;
    }
    *out_root = r.whole ? r.root : NULL;
    return report->count == before ? QP_OK : QP_E_MALFORMED;
}

static void count_lines(qp_str text, int *out_line, int *out_column)
{
    *out_line = 1;
    *out_column = 1;
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] == '\n') {
            *out_line += 1;
            *out_column = 1;
        } else if (((unsigned char)text.p[i] & 0xC0) != 0x80) {
            *out_column += 1;
        }
    }
}

static void stop_at_byte(struct reader *r, size_t at, const char *code, const char *hint,
                         const char *message)
{
    int line;
    int column;
    count_lines((qp_str){r->text.p, at}, &line, &column);
    stop(r, code, line, column, hint, message);
}

/* The length of what must not stand in a text by itself at `at`, or 0: control characters, and what libyaml
 * takes for the end of a line while editors do not (U+0085, U+2028, U+2029), or for a byte order mark. */
static size_t bad_character(qp_str text, size_t at)
{
    static const char *const others[] = {"\xE2\x80\xA8", "\xE2\x80\xA9", "\xEF\xBB\xBF"};
    unsigned char byte = (unsigned char)text.p[at];
    if ((byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t') || byte == 0x7F) {
        return 1;
    }
    if (byte == 0xC2 && (unsigned char)text.p[at + 1] < 0xA0) {
        return 2;
    }
    for (size_t i = 0; byte >= 0xE2 && i < ARRAY_COUNT(others); i++) {
        if (text.n - at >= 3 && memcmp(text.p + at, others[i], 3) == 0) {
            return 3;
        }
    }
    return 0;
}

static void check_bytes(struct reader *r)
{
    size_t valid;
    if (r->text.n > LIMIT_YAML_SIZE) {
        report_add(r->report, "yaml_size", 1, 1, "split it into several applications",
                   "the text has %zu bytes, the limit is %d", r->text.n, LIMIT_YAML_SIZE);
        r->ended = true;
        return;
    }
    valid = utf8_valid_prefix(r->text);
    if (valid < r->text.n) {
        stop_at_byte(r, valid, "yaml_bytes", "save the file as UTF-8", "these bytes are not UTF-8");
        return;
    }
    for (size_t i = 0; i < r->text.n && !r->ended; i++) {
        size_t size = bad_character(r->text, i);
        if (size == 3 && i == 0 && (unsigned char)r->text.p[0] == 0xEF) {
            stop_at_byte(r, i, "yaml_bytes", "save the file as UTF-8 without one",
                         "the text begins with a byte order mark");
        } else if (size > 0) {
            stop_at_byte(r, i, "yaml_bytes", "write it as an escape, in double quotes",
                         "a control character");
        }
    }
}

static int mark_line(yaml_mark_t mark)
{
    return (int)mark.line + 1;
}

static int mark_column(yaml_mark_t mark)
{
    return (int)mark.column + 1;
}

static void tell_problem(struct reader *r)
{
    const yaml_parser_t *p = &r->parser;
    const char *problem = p->problem != NULL ? p->problem : "it cannot be read";
    r->ended = true;
    if (p->error == YAML_MEMORY_ERROR) {
        r->report->no_memory = true;
    } else if (p->context != NULL) {
        report_add(r->report, "yaml_syntax", mark_line(p->problem_mark),
                   mark_column(p->problem_mark), NULL, "not YAML: %s, %s from %d:%d on", problem,
                   p->context, mark_line(p->context_mark), mark_column(p->context_mark));
    } else {
        report_add(r->report, "yaml_syntax", mark_line(p->problem_mark),
                   mark_column(p->problem_mark), NULL, "not YAML: %s", problem);
    }
}

static void read_events(struct reader *r)
{
    yaml_event_t event;
    if (yaml_parser_initialize(&r->parser) == 0) {
        r->report->no_memory = true;
        return;
    }
    yaml_parser_set_encoding(&r->parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)r->text.p, r->text.n);
    while (!r->ended && !r->report->no_memory) {
        if (yaml_parser_parse(&r->parser, &event) == 0) {
            tell_problem(r);
        } else {
            take_event(r, &event);
            yaml_event_delete(&event);
        }
    }
    yaml_parser_delete(&r->parser);
}

static void take_event(struct reader *r, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        take_document(r, event);
        break;
    case YAML_ALIAS_EVENT:
        take_alias(r, event);
        break;
    case YAML_SCALAR_EVENT:
        take_scalar(r, event);
        break;
    case YAML_SEQUENCE_START_EVENT:
        take_container(r, event, NODE_LIST);
        break;
    case YAML_MAPPING_START_EVENT:
        take_container(r, event, NODE_MAP);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        take_end(r);
        break;
    case YAML_STREAM_END_EVENT:
        r->ended = true;
        r->whole = r->root != NULL;
        if (!r->whole) {
            stop(r, "yaml_empty", 1, 1, "begin with app:", "the text is empty");
        }
        break;
    default: /* the beginning of the stream, the end of the document */
        break;
    }
}

static void take_document(struct reader *r, const yaml_event_t *event)
{
    int line = mark_line(event->start_mark);
    int column = mark_column(event->start_mark);
    if (r->root != NULL) {
        stop(r, "yaml_documents", line, column, "write one application per file",
             "a second document begins here");
    } else if (event->data.document_start.version_directive != NULL ||
               event->data.document_start.tag_directives.start !=
                   event->data.document_start.tag_directives.end) {
        stop(r, "yaml_directive", line, column, "leave out the lines that begin with %",
             "directives are not taken");
    }
}

/* --------------------------------------------------------------------------------------- nodes */

static bool wants_key(const struct reader *r)
{
    return r->depth > 0 && r->open[r->depth - 1].node->kind == NODE_MAP && !r->has_key;
}

/* Lines that begin with a tab before something of the tree: libyaml takes them inside of brackets. Lines only
 * go forwards, so the text is gone over once. */
static void check_tab(struct reader *r, yaml_mark_t mark)
{
    int line = mark_line(mark);
    while (r->at_line < line && r->at < r->text.n) {
        char byte = r->text.p[r->at++];
        bool pair = byte == '\r' && r->at < r->text.n && r->text.p[r->at] == '\n';
        r->at += pair;
        r->at_line += byte == '\n' || byte == '\r';
    }
    for (size_t i = r->at; i < r->text.n && i < r->at + mark.column && r->tab_line != line; i++) {
        if (r->text.p[i] == '\t') {
            r->tab_line = line;
            report_add(r->report, "yaml_tab", line, (int)(i - r->at) + 1, "indent with spaces",
                       "a tab as indentation");
        } else if (r->text.p[i] != ' ') {
            break;
        }
    }
}

/* A node at the place of an event, in the tree: in its list, under its key, or as the root. NULL: there is none. */
static struct node *add_node(struct reader *r, yaml_mark_t mark, enum node_kind kind)
{
    struct open_node *parent = r->depth > 0 ? &r->open[r->depth - 1] : NULL;
    struct node *node;
    if (r->node_count == LIMIT_YAML_NODES) {
        report_add(r->report, "yaml_nodes", mark_line(mark), mark_column(mark),
                   "split it into several applications", "more values than the limit of %d",
                   LIMIT_YAML_NODES);
        r->ended = true;
        return NULL;
    }
    node = ARENA_NEW(r->arena, struct node);
    if (node == NULL) {
        r->report->no_memory = true;
        return NULL;
    }
    r->node_count++;
    *node = r->key; /* its key and the place of that; all else is zero */
    r->key = (struct node){0};
    r->has_key = false;
    node->kind = kind;
    node->line = mark_line(mark);
    node->column = mark_column(mark);
    if (parent == NULL) {
        r->root = node;
        return node;
    }
    *(parent->last == NULL ? &parent->node->first : &parent->last->next) = node;
    parent->last = node;
    parent->node->count++;
    return node;
}

static void refuse_extras(struct reader *r, const yaml_event_t *event, const yaml_char_t *anchor,
                          const yaml_char_t *tag)
{
    int line = mark_line(event->start_mark);
    int column = mark_column(event->start_mark);
    if (anchor != NULL) {
        report_add(r->report, "yaml_anchor", line, column, "write it out where it is needed",
                   "anchors (&name) are not taken");
    }
    if (tag != NULL) {
        report_add(r->report, "yaml_tag", line, column, "quote what has to be a string",
                   "tags (!name) are not taken");
    }
}

static void take_alias(struct reader *r, const yaml_event_t *event)
{
    report_add(r->report, "yaml_anchor", mark_line(event->start_mark),
               mark_column(event->start_mark), "write it out where it is needed",
               "aliases (*name) are not taken");
    if (wants_key(r)) {
        r->ended = true;
    } else {
        (void)add_node(r, event->start_mark, NODE_NULL); /* what is wrong is known to the reader */
    }
}

static bool is_word(qp_str text, const char *lower, const char *title, const char *upper)
{
    return str_equal(text, str_from(lower)) || str_equal(text, str_from(title)) ||
           str_equal(text, str_from(upper));
}

static size_t skip_digits(qp_str text, size_t at)
{
    while (at < text.n && text.p[at] >= '0' && text.p[at] <= '9') {
        at++;
    }
    return at;
}

/* 0x1f, 0o17 and the like: a letter after a zero, and digits */
static bool is_based(qp_str text)
{
    static const char digits[] = "0123456789abcdefABCDEF_";
    size_t at = text.n > 0 && (text.p[0] == '-' || text.p[0] == '+');
    if (text.n < at + 3 || text.p[at] != '0' || strchr("xob", text.p[at + 1]) == NULL) {
        return false;
    }
    for (at += 2; at < text.n; at++) {
        if (memchr(digits, text.p[at], sizeof digits - 1) == NULL) {
            return false;
        }
    }
    return true;
}

/* What JSON takes for a number is PLAIN; what some YAML does, ODD. */
static enum number_form number_form(qp_str text)
{
    size_t sign = text.n > 0 && (text.p[0] == '-' || text.p[0] == '+');
    size_t whole = skip_digits(text, sign);
    bool odd = (sign == 1 && text.p[0] == '+') || whole == sign;
    bool digits = whole > sign;
    size_t at = whole;
    qp_str rest = {text.p + sign, text.n - sign};
    if (is_based(text) || is_word(rest, ".inf", ".Inf", ".INF") ||
        is_word(rest, ".nan", ".NaN", ".NAN")) {
        return NUMBER_ODD;
    }
    odd = odd || (whole - sign > 1 && text.p[sign] == '0');
    if (at < text.n && text.p[at] == '.') {
        at = skip_digits(text, at + 1);
        odd = odd || at == whole + 1;
        digits = digits || at > whole + 1;
    }
    if (digits && at < text.n && (text.p[at] == 'e' || text.p[at] == 'E')) {
        size_t from = at + 1;
        from += from < text.n && (text.p[from] == '-' || text.p[from] == '+');
        at = skip_digits(text, from);
        digits = at > from;
    }
    if (!digits || at != text.n) {
        return NUMBER_NONE;
    }
    return odd ? NUMBER_ODD : NUMBER_PLAIN;
}

/* What a plain scalar looks like. */
static enum node_kind plain_kind(struct reader *r, const yaml_event_t *event, qp_str text)
{
    enum number_form form = number_form(text);
    bool large =
        form == NUMBER_PLAIN && (text.n > LIMIT_JSON_NUMBER_SIZE || isinf(real_parse(text)) != 0);
    if (text.n == 0 || str_equal(text, QP_STR("~")) || is_word(text, "null", "Null", "NULL")) {
        return NODE_NULL;
    }
    if (is_word(text, "true", "True", "TRUE") || is_word(text, "false", "False", "FALSE")) {
        return NODE_BOOL;
    }
    if (form == NUMBER_ODD || large) {
        report_add(r->report, "yaml_number", mark_line(event->start_mark),
                   mark_column(event->start_mark), "quote it, or write it as JSON does",
                   large ? "the number %.*s is too large"
                         : "%.*s is a number in some kinds of YAML and none in others",
                   STR_ARG(text_shown(text)));
    }
    return form == NUMBER_NONE ? NODE_STRING : NODE_NUMBER;
}

static void take_key(struct reader *r, const yaml_event_t *event, qp_str text, bool plain)
{
    int line = mark_line(event->start_mark);
    int column = mark_column(event->start_mark);
    if (plain && text.n == 0) {
        stop(r, "yaml_key", line, column, "give it a name", "a key without a name");
        return;
    }
    if (plain && str_equal(text, QP_STR("<<"))) {
        report_add(r->report, "yaml_anchor", line, column, "write out what is to be merged",
                   "merge keys (<<) are not taken");
    }
    r->key = (struct node){.key = text, .key_line = line, .key_column = column};
    r->has_key = true;
}

static void take_scalar(struct reader *r, const yaml_event_t *event)
{
    qp_str text = {(const char *)event->data.scalar.value, event->data.scalar.length};
    bool plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    struct node *node;
    check_tab(r, event->start_mark);
    refuse_extras(r, event, event->data.scalar.anchor, event->data.scalar.tag);
    if (memchr(text.p, '\0', text.n) != NULL) {
        report_add(r->report, "yaml_bytes", mark_line(event->start_mark),
                   mark_column(event->start_mark), "no store can keep it", "a NUL in a string");
    }
    if (!arena_copy(r->arena, text, &text)) {
        r->report->no_memory = true;
        return;
    }
    if (wants_key(r)) {
        take_key(r, event, text, plain);
        return;
    }
    node = add_node(r, event->start_mark, plain ? plain_kind(r, event, text) : NODE_STRING);
    if (node != NULL) {
        node->text = text;
        node->truth = node->kind == NODE_BOOL && (text.p[0] == 't' || text.p[0] == 'T');
    }
}

static void take_container(struct reader *r, const yaml_event_t *event, enum node_kind kind)
{
    bool is_list = kind == NODE_LIST;
    struct node *node;
    int line = mark_line(event->start_mark);
    int column = mark_column(event->start_mark);
    check_tab(r, event->start_mark);
    refuse_extras(r, event,
                  is_list ? event->data.sequence_start.anchor : event->data.mapping_start.anchor,
                  is_list ? event->data.sequence_start.tag : event->data.mapping_start.tag);
    if (wants_key(r)) {
        stop(r, "yaml_key", line, column, "quote it when it is meant as a text",
             "a list or map as a key");
        return;
    }
    if (r->depth == LIMIT_YAML_DEPTH) {
        report_add(r->report, "yaml_depth", line, column, NULL,
                   "nested deeper than the limit of %d", LIMIT_YAML_DEPTH);
        r->ended = true;
        return;
    }
    node = add_node(r, event->start_mark, kind);
    if (node != NULL) {
        r->open[r->depth++] = (struct open_node){.node = node};
    }
}

static int key_compare(const void *a, const void *b)
{
    const struct node *x = *(const struct node *const *)a;
    const struct node *y = *(const struct node *const *)b;
    int order = str_compare(x->key, y->key);
    if (order == 0) {
        order = (x->key_line > y->key_line) - (x->key_line < y->key_line);
    }
    return order != 0 ? order : (x->key_column > y->key_column) - (x->key_column < y->key_column);
}

static void tell_twice(struct reader *r, const struct node *first, const struct node *second)
{
    char hint[64];
    (void)snprintf(hint, sizeof hint, "the first one is at %d:%d", first->key_line,
                   first->key_column);
    report_add(r->report, "yaml_twice", second->key_line, second->key_column, hint,
               "the key '%.*s' is there twice", STR_ARG(text_shown(second->key)));
}

/* Sorted, a key that is there twice is next to itself. */
static void check_twice(struct reader *r, const struct node *map)
{
    const struct node **keys = arena_room(r->arena, map->count * sizeof(const struct node *));
    size_t n = 0;
    if (keys == NULL) {
        r->report->no_memory = true;
        return;
    }
    for (const struct node *entry = map->first; entry != NULL; entry = entry->next) {
        keys[n++] = entry;
    }
    qsort(keys, n, sizeof keys[0], key_compare);
    for (size_t i = 1; i < n; i++) {
        if (str_equal(keys[i - 1]->key, keys[i]->key)) {
            tell_twice(r, keys[i - 1], keys[i]);
        }
    }
}

static void take_end(struct reader *r)
{
    const struct node *node = r->open[--r->depth].node;
    if (node->kind == NODE_MAP && node->count > 1) {
        check_twice(r, node);
    }
}

/* --------------------------------------------------------------------------------------- looking */

const struct node *node_get(const struct node *map, const char *key)
{
    const struct node *entry = map != NULL && map->kind == NODE_MAP ? map->first : NULL;
    while (entry != NULL && !str_equal(entry->key, str_from(key))) {
        entry = entry->next;
    }
    return entry;
}

bool node_as_i64(const struct node *node, int64_t *out_number)
{
    size_t at;
    bool negative;
    int64_t number = 0;
    if (node == NULL || node->kind != NODE_NUMBER) {
        return false;
    }
    negative = node->text.p[0] == '-';
    at = negative;
    for (; at < node->text.n; at++) {
        int64_t digit = node->text.p[at] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, negative ? -digit : digit, &number)) {
            return false;
        }
    }
    *out_number = number;
    return true;
}

bool node_as_real(const struct node *node, double *out_number)
{
    double number;
    if (node == NULL || node->kind != NODE_NUMBER || number_form(node->text) != NUMBER_PLAIN ||
        node->text.n > LIMIT_JSON_NUMBER_SIZE) {
        return false;
    }
    number = real_parse(node->text);
    if (isinf(number)) {
        return false;
    }
    *out_number = number;
    return true;
}
