/* deb_fact.c - the bytes of a fact (see deb_fact.h) */
#include "carto/deb_fact.h"

#define FIELD_SHIFT 5
#define OP_SHIFT 2
#define OP_MASK 7
#define HAS_ARCH 2
#define HAS_MORE 1

static_assert(DEB_RELATION_FIELDS <= 8, "a field has three bits");
static_assert(DEB_OPS <= OP_MASK + 1, "an operator has three bits");

static int corrupt(struct qp_err *err)
{
    return err_set(err, QP_E_CORRUPT, "the fact of a package is damaged: import the lists again");
}

/* ---------------------------------------------------------------------------------------- writing */

void deb_write_number(struct buf *out, uint64_t number)
{
    while (number >= 128) {
        buf_byte(out, (char)(number % 128 + 128));
        number /= 128;
    }
    buf_byte(out, (char)number);
}

void deb_write_text(struct buf *out, qp_str text)
{
    deb_write_number(out, text.n);
    buf_str(out, text);
}

void deb_write_relation(struct buf *out, const struct deb_relation *relation)
{
    const struct deb_atom *a = &relation->atom;
    unsigned head = (unsigned)relation->field << FIELD_SHIFT | (unsigned)a->op << OP_SHIFT;
    QP_ASSERT(relation->field < DEB_RELATION_FIELDS);
    head |= (a->arch.n > 0 ? HAS_ARCH : 0u) | (a->more ? HAS_MORE : 0u);
    buf_byte(out, (char)head);
    deb_write_text(out, a->name);
    if (a->arch.n > 0) {
        deb_write_text(out, a->arch);
    }
    if (a->op != DEB_ANY) {
        deb_write_text(out, a->version);
    }
}

/* ---------------------------------------------------------------------------------------- reading */

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
    unsigned byte = 128;
    for (unsigned shift = 0; byte >= 128; shift += 7) {
        if (shift > 56 || !take_byte(rest, &byte)) {
            return false;
        }
        number |= (uint64_t)(byte % 128) << shift;
    }
    *out_number = number;
    return true;
}

static bool take_text(qp_str *rest, qp_str *out_text)
{
    uint64_t size = 0;
    if (!take_number(rest, &size) || size > rest->n) {
        return false;
    }
    *out_text = (qp_str){rest->p, (size_t)size};
    *rest = (qp_str){rest->p + size, rest->n - (size_t)size};
    return true;
}

int deb_relation_next(qp_str *relations, struct deb_relation *out, struct qp_err *err)
{
    struct deb_relation r = {0};
    unsigned head = 0;
    if (!take_byte(relations, &head) || !take_text(relations, &r.atom.name)) {
        return corrupt(err);
    }
    r.field = (enum deb_field)(head >> FIELD_SHIFT);
    r.atom.op = (enum deb_op)(head >> OP_SHIFT & OP_MASK);
    r.atom.more = (head & HAS_MORE) != 0;
    if (r.atom.op >= DEB_OPS) {
        return corrupt(err);
    }
    if ((head & HAS_ARCH) != 0 && !take_text(relations, &r.atom.arch)) {
        return corrupt(err);
    }
    if (r.atom.op != DEB_ANY && !take_text(relations, &r.atom.version)) {
        return corrupt(err);
    }
    *out = r;
    return QP_OK;
}

int deb_fact_packages(struct deb_fact *f, qp_str value, struct qp_err *err)
{
    unsigned format = 0;
    *f = (struct deb_fact){.rest = value};
    if (!take_byte(&f->rest, &format) || format != DEB_FACT_FORMAT ||
        !take_number(&f->rest, &f->left)) {
        return corrupt(err);
    }
    return QP_OK;
}

int deb_fact_package(struct deb_fact *f, bool *out_found, struct deb_package *out,
                     struct qp_err *err)
{
    struct deb_package p = {0};
    unsigned multi_arch = 0;
    *out_found = f->left > 0;
    if (f->left == 0) {
        return QP_OK;
    }
    if (!take_text(&f->rest, &p.arch) || !take_text(&f->rest, &p.version) ||
        !take_byte(&f->rest, &multi_arch) || multi_arch > DEB_MULTI_ALLOWED ||
        !take_number(&f->rest, &p.relation_count) || !take_text(&f->rest, &p.relations)) {
        return corrupt(err);
    }
    p.multi_arch = (enum deb_multi_arch)multi_arch;
    f->left--;
    *out = p;
    return QP_OK;
}

int deb_fact_providers(struct deb_fact *f, struct qp_err *err)
{
    struct deb_package skipped;
    bool is_found = true;
    while (is_found) {
        QP_TRY(deb_fact_package(f, &is_found, &skipped, err));
    }
    return take_number(&f->rest, &f->left) ? QP_OK : corrupt(err);
}

int deb_fact_provider(struct deb_fact *f, bool *out_found, struct deb_provider *out,
                      struct qp_err *err)
{
    struct deb_provider p = {0};
    *out_found = f->left > 0;
    if (f->left == 0) {
        return QP_OK;
    }
    if (!take_text(&f->rest, &p.name) || !take_text(&f->rest, &p.arch) ||
        !take_text(&f->rest, &p.version)) {
        return corrupt(err);
    }
    f->left--;
    *out = p;
    return QP_OK;
}
