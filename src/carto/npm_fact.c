/* npm_fact.c - the bytes of documents and relations of npm (see npm_fact.h) */
#include "carto/npm_fact.h"

#define FORMAT 1
#define HAS_TIMES 1
#define IS_DEPRECATED 1u
#define HAS_TIME 2u
#define HAS_BAD_TIME 4u
#define HAS_RELATIONS 8u
#define VERSION_FLAGS 15u

static_assert(LIMIT_GUID_SIZE == 16, "the hash of relations has 16 bytes");

const char *npm_kind_text(enum npm_kind kind)
{
    static const char *const texts[] = {"depends", "optional", "dev", "peer", "peer-optional"};
    static_assert(ARRAY_COUNT(texts) == NPM_KINDS, "a text for each kind");
    QP_ASSERT(kind < NPM_KINDS);
    return texts[kind];
}

/* ---------------------------------------------------------------------------------------- reading */

static int corrupt(struct qp_err *err)
{
    return err_set(err, QP_E_CORRUPT, "what is known of a package of npm is damaged");
}

static bool take_byte(qp_str *rest, unsigned *out_byte)
{
    if (rest->n == 0) {
        return false;
    }
    *out_byte = (unsigned char)rest->p[0];
    *rest = (qp_str){rest->p + 1, rest->n - 1};
    return true;
}

static bool take_number(qp_str *rest, uint64_t *out_number)
{
    uint64_t number = 0;
    unsigned byte = 0;
    for (unsigned shift = 0; shift < 63; shift += 7) {
        if (!take_byte(rest, &byte)) {
            return false;
        }
        number |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            *out_number = number;
            return true;
        }
    }
    return false;
}

static bool take_bytes(qp_str *rest, size_t size, qp_str *out_bytes)
{
    if (rest->n < size) {
        return false;
    }
    *out_bytes = (qp_str){rest->p, size};
    *rest = (qp_str){rest->p + size, rest->n - size};
    return true;
}

static bool take_text(qp_str *rest, qp_str *out_text)
{
    uint64_t size = 0;
    return take_number(rest, &size) && size <= rest->n && take_bytes(rest, (size_t)size, out_text);
}

int npm_document_read(qp_str value, struct npm_document *out, struct qp_err *err)
{
    unsigned format = 0;
    unsigned flags = 0;
    struct npm_document d = {0};
    if (!take_byte(&value, &format) || format != FORMAT || !take_byte(&value, &flags) ||
        flags > HAS_TIMES || !take_text(&value, &d.tags) || !take_text(&value, &d.versions) ||
        value.n > 0) {
        return corrupt(err);
    }
    d.has_times = flags == HAS_TIMES;
    *out = d;
    return QP_OK;
}

int npm_tag_next(qp_str *rest, qp_str *out_name, qp_str *out_version, struct qp_err *err)
{
    if (rest->n == 0) {
        return QP_E_NOT_FOUND;
    }
    return take_text(rest, out_name) && take_text(rest, out_version) ? QP_OK : corrupt(err);
}

static bool take_time(qp_str *rest, unsigned flags, qp_ms *out_time)
{
    uint64_t number = 0;
    *out_time = (flags & HAS_BAD_TIME) != 0 ? NPM_TIME_BAD : NPM_TIME_NONE;
    if ((flags & HAS_TIME) == 0) {
        return true;
    }
    if (!take_number(rest, &number) || number > INT64_MAX) {
        return false;
    }
    *out_time = (qp_ms)number;
    return true;
}

int npm_version_next(qp_str *rest, struct npm_version *out, struct qp_err *err)
{
    struct npm_version v = {.relations = QP_STR("")};
    unsigned flags = 0;
    if (rest->n == 0) {
        return QP_E_NOT_FOUND;
    }
    if (!take_text(rest, &v.version) || !take_byte(rest, &flags) || flags > VERSION_FLAGS ||
        !take_time(rest, flags, &v.time) ||
        ((flags & HAS_RELATIONS) != 0 && !take_bytes(rest, NPM_HASH_SIZE, &v.relations))) {
        return corrupt(err);
    }
    v.is_deprecated = (flags & IS_DEPRECATED) != 0;
    *out = v;
    return QP_OK;
}

int npm_relations_read(qp_str value, qp_str *out_rest, struct qp_err *err)
{
    unsigned format = 0;
    if (!take_byte(&value, &format) || format != FORMAT) {
        return corrupt(err);
    }
    *out_rest = value;
    return QP_OK;
}

int npm_relation_next(qp_str *rest, struct npm_relation *out, struct qp_err *err)
{
    struct npm_relation r = {0};
    unsigned kind = 0;
    if (rest->n == 0) {
        return QP_E_NOT_FOUND;
    }
    if (!take_byte(rest, &kind) || kind >= NPM_KINDS || !take_text(rest, &r.name) ||
        !take_text(rest, &r.spec)) {
        return corrupt(err);
    }
    r.kind = (enum npm_kind)kind;
    *out = r;
    return QP_OK;
}

/* ---------------------------------------------------------------------------------------- writing */

static void write_number(struct buf *out, uint64_t number)
{
    while (number >= 128) {
        buf_byte(out, (char)(unsigned char)(number % 128 + 128));
        number /= 128;
    }
    buf_byte(out, (char)number);
}

static void write_text(struct buf *out, qp_str text)
{
    write_number(out, text.n);
    buf_str(out, text);
}

void npm_write_tag(struct buf *tags, qp_str name, qp_str version)
{
    write_text(tags, name);
    write_text(tags, version);
}

void npm_write_version(struct buf *versions, const struct npm_version *version)
{
    bool has_time = version->time != NPM_TIME_NONE && version->time != NPM_TIME_BAD;
    unsigned flags = (version->is_deprecated ? IS_DEPRECATED : 0) | (has_time ? HAS_TIME : 0) |
                     (version->time == NPM_TIME_BAD ? HAS_BAD_TIME : 0) |
                     (version->relations.n > 0 ? HAS_RELATIONS : 0);
    QP_ASSERT(version->relations.n == 0 || version->relations.n == NPM_HASH_SIZE);
    write_text(versions, version->version);
    buf_byte(versions, (char)flags);
    if (has_time) {
        QP_ASSERT(version->time >= 0);
        write_number(versions, (uint64_t)version->time);
    }
    buf_str(versions, version->relations);
}

void npm_write_document(struct buf *out, const struct npm_document *document)
{
    buf_byte(out, FORMAT);
    buf_byte(out, document->has_times ? HAS_TIMES : 0);
    write_text(out, document->tags);
    write_text(out, document->versions);
}

void npm_write_relations(struct buf *out)
{
    buf_byte(out, FORMAT);
}

void npm_write_relation(struct buf *out, const struct npm_relation *relation)
{
    QP_ASSERT(relation->kind < NPM_KINDS);
    buf_byte(out, (char)relation->kind);
    write_text(out, relation->name);
    write_text(out, relation->spec);
}

/* ------------------------------------------------------------------------------------------- names */

void npm_hash(qp_str value, unsigned char out_hash[NPM_HASH_SIZE])
{
    hash_guid("npm", 3, value.p, value.n, out_hash);
}

void npm_hash_text(const unsigned char hash[NPM_HASH_SIZE], char out_text[NPM_HASH_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < NPM_HASH_SIZE; i++) {
        out_text[2 * i] = digits[hash[i] >> 4];
        out_text[2 * i + 1] = digits[hash[i] & 15];
    }
    out_text[NPM_HASH_TEXT_SIZE - 1] = '\0';
}

int npm_fact_name(struct arena *a, char mark, qp_str text, qp_str *out_name)
{
    char *name = arena_bytes(a, text.n + 2);
    if (name == NULL) {
        return QP_E_NOMEM;
    }
    name[0] = mark;
    name[1] = ':';
    memcpy(name + 2, text.p, text.n);
    *out_name = (qp_str){name, text.n + 2};
    return QP_OK;
}
