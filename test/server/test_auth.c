/* test_auth.c - patterns, roles and tokens */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "server/auth.h"
#include "support/runtest.h"

/* A star stands for any text, and for nothing else does anything but itself. */
static void patterns(void **state)
{
    static const struct {
        const char *glob;
        const char *text;
        bool matches;
    } cases[] = {
        {"*", "", true},
        {"*", "anything", true},
        {"", "", true},
        {"", "a", false},
        {"a", "a", true},
        {"a", "ab", false},
        {"a*", "a", true},
        {"a*", "ba", false},
        {"*a", "bba", true},
        {"*a", "ab", false},
        {"a*b*c", "a-b-b-c", true},
        {"a*b*c", "a-c-b", false},
        {"mail.*", "mail", false},
        {"mail.*", "mail.out", true},
        {"*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
        {"a?", "ab", false},
        {"**", "x", true},
    };
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        if (glob_match(cases[i].glob, str_from(cases[i].text)) != cases[i].matches) {
            fail_msg("'%s' and '%s'", cases[i].glob, cases[i].text);
        }
    }
}

static void roles(void **state)
{
    (void)state;
    assert_int_equal(role_scopes(QP_STR("admin")), SCOPE_ALL);
    assert_int_equal(role_scopes(QP_STR("viewer")), SCOPE_READ);
    assert_int_equal(role_scopes(QP_STR("worker")), SCOPE_WORK);
    assert_int_equal(role_scopes(QP_STR("trigger")), SCOPE_START | SCOPE_SIGNAL);
    assert_int_equal(role_scopes(QP_STR("root")), 0);
    assert_int_equal(role_scopes(QP_NONE), 0);
    assert_string_equal(scope_word(SCOPE_DEPLOY), "deploy");
}

/* Known, or asked for; not when a character of it is another, it is over, or it was revoked and
 * forgotten. */
static void tokens(void **state)
{
    static const char *const none[] = {"",
                                       "Bearer",
                                       "Bearer ",
                                       "Basic x",
                                       "Bearer qp",
                                       "Bearer qp_",
                                       "Bearer qp_admin",
                                       "Bearer qp_admin__x",
                                       "Bearer xx_admin_id_secret"};
    char header[TOKEN_TEXT_SIZE + 16] = "Bearer ";
    char id[LIMIT_TOKEN_ID_SIZE + 1];
    struct principal who;
    struct auth *a = NULL;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    assert_int_equal(auth_create(q, &rt.env, 0, &a), QP_OK);
    for (size_t i = 0; i < ARRAY_COUNT(none); i++) {
        assert_int_equal(auth_known(a, str_from(none[i]), &who), QP_E_NOT_FOUND);
        assert_int_equal(auth_ask(a, str_from(none[i]), &who), QP_E_NOT_FOUND);
    }
    struct token_wish wish = {.role = QP_STR("operator"),
                              .namespaces = QP_STR("team-*"),
                              .expires_at = rt.now_ms + 60000};
    assert_int_equal(auth_issue(a, &wish, header + 7, id, NULL), QP_OK);
    assert_int_equal(auth_known(a, str_from(header), &who), QP_E_BUSY);
    assert_int_equal(auth_ask(a, str_from(header), &who), QP_OK);
    assert_int_equal(auth_known(a, str_from(header), &who), QP_OK);
    assert_string_equal(who.token, id);
    assert_string_equal(who.namespaces, "team-*");
    assert_string_equal(who.topics, "*");
    assert_int_equal(who.scopes, role_scopes(QP_STR("operator")));
    for (size_t i = strlen(header) - 64; i < strlen(header); i += 7) {
        char kept = header[i];
        header[i] = kept == 'a' ? 'b' : 'a';
        assert_int_equal(auth_known(a, str_from(header), &who), QP_E_NOT_FOUND);
        header[i] = kept;
    }
    auth_forget(a, str_from(id));
    assert_int_equal(auth_known(a, str_from(header), &who), QP_E_BUSY);
    assert_int_equal(auth_ask(a, str_from(header), &who), QP_OK);
    testenv_advance_ms(&rt, 61000);
    assert_int_equal(auth_ask(a, str_from(header), &who), QP_E_NOT_FOUND);
    wish.role = QP_STR("emperor");
    assert_int_equal(auth_issue(a, &wish, header + 7, id, NULL), QP_E_INVALID);
    auth_destroy(a);
    rt_close(q);
    rt_end();
}

/* A token may ask so often per second, with two seconds' worth at once; then it is refused until
 * time has passed, whatever is forgotten of it meanwhile, and others are not. Wrong secrets cost it nothing. */
static void rates(void **state)
{
    char headers[2][TOKEN_TEXT_SIZE + 16] = {"Bearer ", "Bearer "};
    char wrong[TOKEN_TEXT_SIZE + 16];
    char id[LIMIT_TOKEN_ID_SIZE + 1];
    struct token_wish wish = {.role = QP_STR("admin")};
    struct principal who;
    struct auth *a = NULL;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    assert_int_equal(auth_create(q, &rt.env, 10, &a), QP_OK);
    for (int i = 1; i >= 0; i--) {
        assert_int_equal(auth_issue(a, &wish, headers[i] + 7, id, NULL), QP_OK);
    }
    memcpy(wrong, headers[0], sizeof wrong);
    wrong[strlen(wrong) - 1] ^= 1;
    assert_int_equal(auth_ask(a, str_from(headers[0]), &who), QP_OK);
    for (int i = 1; i < 10 * AUTH_BURST_S; i++) {
        assert_int_equal(auth_known(a, str_from(wrong), &who), QP_E_NOT_FOUND);
        assert_int_equal(auth_known(a, str_from(headers[0]), &who), QP_OK);
    }
    assert_int_equal(auth_known(a, str_from(headers[0]), &who), QP_E_LIMIT);
    auth_forget(a, str_from(id));
    assert_int_equal(auth_ask(a, str_from(headers[0]), &who), QP_E_LIMIT);
    assert_int_equal(auth_ask(a, str_from(headers[1]), &who), QP_OK);
    testenv_advance_ms(&rt, 100);
    assert_int_equal(auth_known(a, str_from(headers[0]), &who), QP_OK);
    assert_int_equal(auth_known(a, str_from(headers[0]), &who), QP_E_LIMIT);
    auth_destroy(a);
    rt_close(q);
    rt_end();
}

struct kept {
    char token[TOKEN_TEXT_SIZE];
    struct auth *auth;
    int rc; /* of keeping it */
};

static int keep(void *context, const char *token, struct qp_err *err)
{
    struct kept *k = context;
    struct principal who;
    char header[TOKEN_TEXT_SIZE + 8];
    (void)err;
    (void)snprintf(k->token, sizeof k->token, "%s", token);
    (void)snprintf(header, sizeof header, "Bearer %s", token);
    assert_int_equal(auth_ask(k->auth, str_from(header), &who), QP_E_NOT_FOUND); /* not yet */
    return k->rc;
}

/* The first token is made once: not while there is an administrator. It is good when it is kept, not before, and never when it
 * could not be. */
static void the_first(void **state)
{
    struct kept kept = {.rc = QP_E_IO};
    char header[TOKEN_TEXT_SIZE + 8];
    struct principal who;
    struct auth *a = NULL;
    qp *q;
    (void)state;
    rt_begin(RT_VIRTUAL);
    q = rt_open(NULL);
    assert_int_equal(auth_create(q, &rt.env, 0, &a), QP_OK);
    kept.auth = a;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(auth_first(a, &kept, keep, NULL), i == 0 ? QP_E_IO : QP_OK);
        assert_memory_equal(kept.token, "qp_admin_", 9);
        (void)snprintf(header, sizeof header, "Bearer %s", kept.token);
        assert_int_equal(auth_ask(a, str_from(header), &who), i == 0 ? QP_E_NOT_FOUND : QP_OK);
        kept.rc = QP_OK;
    }
    kept.token[0] = '\0';
    assert_int_equal(auth_first(a, &kept, keep, NULL), QP_OK);
    assert_string_equal(kept.token, "");
    auth_destroy(a);
    rt_close(q);
    rt_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns), cmocka_unit_test(roles),     cmocka_unit_test(tokens),
        cmocka_unit_test(rates),    cmocka_unit_test(the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
