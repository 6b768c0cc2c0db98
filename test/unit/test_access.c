/* test_access.c - records of access tokens and the audit, on every kind of store */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "run/access.h"
#include "support/runtest.h"

#define HASH QP_STR("0123456789abcdef0123456789abcdef")

#define ON_ALL_KINDS                                                                               \
    for (int kind = 0; kind < rt_kinds(); kind++) {                                                \
        qp *q;                                                                                     \
        rt_begin_on(kind);                                                                         \
        q = rt_open(rt_place);
#define END_KIND                                                                                   \
    rt_close(q);                                                                                   \
    rt_end();                                                                                      \
    }

struct seen {
    char text[512];
    qp_ms revoked_at;
    qp_ms used_at;
};

static int see_token(void *context, const struct access_token *t)
{
    struct seen *s = context;
    assert_true(str_equal(t->hash, HASH));
    assert_true(t->created_at > 0);
    s->revoked_at = t->revoked_at;
    s->used_at = t->used_at;
    (void)snprintf(s->text + strlen(s->text), sizeof s->text - strlen(s->text), "%.*s:%.*s:%.*s ",
                   STR_ARG(t->id), STR_ARG(t->role), STR_ARG(t->spaces));
    return QP_OK;
}

/* Proves that a record is made once, found, listed in pages, revoked and used. */
static void test_tokens(void **state)
{
    ON_ALL_KINDS
    struct access_token t = {.hash = HASH,
                             .role = QP_STR("worker"),
                             .name = QP_STR("a name"),
                             .spaces = QP_STR("team*")};
    struct seen seen = {.text = ""};
    struct qp_err err = {0};
    bool more = false;
    qp_ms first;
    for (int i = 0; i < 3; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "t%d", i);
        t.id = str_from(id);
        assert_int_equal(access_create(q, &t, &err), QP_OK);
    }
    t.id = QP_STR("t1");
    assert_int_equal(access_create(q, &t, &err), QP_E_EXISTS);
    assert_int_equal(access_list(q, QP_NONE, 2, &seen, see_token, &more, &err), QP_OK);
    assert_true(more);
    assert_string_equal(seen.text, "t0:worker:team* t1:worker:team* ");
    seen.text[0] = '\0';
    assert_int_equal(access_list(q, QP_STR("t1"), 2, &seen, see_token, &more, &err), QP_OK);
    assert_false(more);
    assert_string_equal(seen.text, "t2:worker:team* ");
    assert_int_equal(access_get(q, QP_STR("t1"), &seen, see_token, &err), QP_OK);
    assert_int_equal(seen.revoked_at, 0);
    assert_int_equal(seen.used_at, 0);
    assert_int_equal(access_used(q, QP_STR("t1"), &err), QP_OK);
    assert_int_equal(access_revoke(q, QP_STR("t1"), &err), QP_OK);
    assert_int_equal(access_get(q, QP_STR("t1"), &seen, see_token, &err), QP_OK);
    assert_true(seen.used_at > 0);
    first = seen.revoked_at;
    assert_true(first > 0);
    assert_int_equal(access_revoke(q, QP_STR("t1"), &err), QP_OK);
    assert_int_equal(access_get(q, QP_STR("t1"), &seen, see_token, &err), QP_OK);
    assert_int_equal(seen.revoked_at, first);
    assert_int_equal(access_get(q, QP_STR("none"), &seen, see_token, &err), QP_E_NOT_FOUND);
    assert_int_equal(access_revoke(q, QP_STR("none"), &err), QP_E_NOT_FOUND);
    END_KIND
}

/* Proves that what is no record is refused. */
static void test_refused(void **state)
{
    struct access_token good = {.id = QP_STR("t"), .hash = HASH, .role = QP_STR("r")};
    struct access_token bad[6];
    struct qp_err err;
    qp *q;
    rt_begin(RT_REAL);
    q = rt_open(NULL);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        bad[i] = good;
    }
    bad[0].id = QP_STR("no id");
    bad[1].hash.n--;
    bad[2].role = QP_NONE;
    bad[3].name = QP_STR("\n");
    bad[4].expire_at = 1;
    bad[5].expire_at = INT64_MAX;
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_int_equal(access_create(q, &bad[i], &err), QP_E_INVALID);
    }
    good.expire_at = rt.env.wall_ms == NULL ? 4000000000000 : 0;
    assert_int_equal(access_create(q, &good, &err), QP_E_INVALID); /* more than ten years */
    good.expire_at = 0;
    assert_int_equal(access_create(q, &good, &err), QP_OK);
    rt_close(q);
    rt_end();
}

static int see_line(void *context, const struct audit_entry *e)
{
    struct seen *s = context;
    assert_true(e->at > 0 && e->id > 0);
    s->used_at = e->id;
    (void)snprintf(s->text + strlen(s->text), sizeof s->text - strlen(s->text), "%.*s ",
                   STR_ARG(e->audit.action));
    return QP_OK;
}

/* Proves that the audit is read the newest first, in pages, per namespace, and that lines that were queued are
 * written. */
static void test_audit(void **state)
{
    ON_ALL_KINDS
    struct seen seen = {.text = ""};
    struct qp_err err = {0};
    bool more = false;
    for (int i = 0; i < 5; i++) {
        char action[8];
        struct audit line = {.ns = QP_STR("default"),
                             .actor = QP_STR("t1"),
                             .target = QP_STR("j"),
                             .outcome = QP_STR("ok")};
        (void)snprintf(action, sizeof action, "a%d", i);
        line.action = str_from(action);
        assert_int_equal(i == 4 ? audit_put(q, &line, &err) : audit_add(q, &line, &err), QP_OK);
        memset(action, 'X', sizeof action); /* copied */
    }
    assert_int_equal(audit_put(q, &(struct audit){.action = QP_STR("of-all")}, &err), QP_OK);
    rt_poll(q);
    assert_int_equal(audit_list(q, QP_STR("default"), 0, 3, &seen, see_line, &more, &err), QP_OK);
    assert_true(more);
    assert_string_equal(seen.text, "a4 a3 a2 ");
    seen.text[0] = '\0';
    assert_int_equal(
        audit_list(q, QP_STR("default"), seen.used_at, 3, &seen, see_line, &more, &err), QP_OK);
    assert_false(more);
    assert_string_equal(seen.text, "a1 a0 ");
    seen.text[0] = '\0';
    assert_int_equal(audit_list(q, QP_NONE, 0, 0, &seen, see_line, &more, &err), QP_OK);
    assert_string_equal(seen.text, "of-all ");
    assert_int_equal(audit_add(q, &(struct audit){.ns = QP_STR("nowhere")}, &err), QP_E_NOT_FOUND);
    assert_int_equal(audit_add(q, &(struct audit){.actor = QP_STR("\xff")}, &err), QP_E_INVALID);
    END_KIND
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_audit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
