/* test_err.c - error codes and the detail that travels with them */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"

/* Every row of the table is answered as it stands there, and its number is negative and unique. */
static void codes_answer_their_row(void **state)
{
    int seen[256] = {0};

    (void)state;
#define CHECK(name, number, http, class, word, text)                                               \
    assert_string_equal(qp_code_word(QP_E_##name), word);                                          \
    assert_string_equal(qp_code_text(QP_E_##name), text);                                          \
    assert_int_equal(qp_code_http(QP_E_##name), http);                                             \
    assert_int_equal(qp_code_class(QP_E_##name), QP_CLASS_##class);                                \
    assert_int_equal(QP_E_##name, -(number));                                                      \
    assert_int_equal(seen[number]++, 0);
    QP_ERROR_TABLE(CHECK)
#undef CHECK
}

/* A number that is no code is answered as INTERNAL, and zero is no error. */
static void unknown_codes_are_internal(void **state)
{
    static const int codes[] = {1, 29, -34, -1000, INT32_MAX, INT32_MIN};

    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(codes); i++) {
        assert_string_equal(qp_code_word(codes[i]), "internal");
        assert_string_equal(qp_code_text(codes[i]), "internal error");
        assert_int_equal(qp_code_http(codes[i]), 500);
        assert_int_equal(qp_code_class(codes[i]), QP_CLASS_FATAL);
    }
    assert_string_equal(qp_code_word(QP_OK), "ok");
    assert_int_equal(qp_code_http(QP_OK), 200);
    assert_int_equal(qp_code_class(QP_OK), QP_CLASS_OK);
}

/* The text reads from the outside in, and the code is the innermost one. */
static void wrapping_reads_from_the_outside_in(void **state)
{
    struct qp_err err = {0};

    (void)state;
    assert_int_equal(err_set(&err, QP_E_FULL, "write page %d", 7), QP_E_FULL);
    assert_int_equal(err_wrap(&err, QP_E_FULL, "insert %s", "lease"), QP_E_FULL);
    assert_int_equal(err_wrap(&err, QP_E_FULL, "claim"), QP_E_FULL);
    assert_int_equal(err.code, QP_E_FULL);
    assert_string_equal(err.text, "claim: insert lease: write page 7");
}

/* A detail that belongs to another failure, or none, is replaced by the code's own sentence. */
static void wrapping_without_detail_uses_the_sentence(void **state)
{
    struct qp_err err = {.code = QP_E_IO, .text = "an older failure"};

    (void)state;
    assert_int_equal(err_wrap(&err, QP_E_BUSY, "begin"), QP_E_BUSY);
    assert_string_equal(err.text, "begin: busy, try again");
    assert_int_equal(err.code, QP_E_BUSY);
}

/* A pointer grows from the inside out, stays when the text is wrapped, and belongs to one failure only. */
static void pointers_grow_from_the_inside(void **state)
{
    struct qp_err err = {.pointer = "/of/an/older/failure"};

    (void)state;
    assert_int_equal(err_set(&err, QP_E_INVALID, "no number"), QP_E_INVALID);
    assert_string_equal(err.pointer, "");
    assert_int_equal(err_point(&err, QP_E_INVALID, "/%d", 3), QP_E_INVALID);
    assert_int_equal(err_wrap(&err, QP_E_INVALID, "start"), QP_E_INVALID);
    assert_int_equal(err_point(&err, QP_E_INVALID, "/input"), QP_E_INVALID);
    assert_string_equal(err.pointer, "/input/3");
    assert_string_equal(err.text, "start: no number");
    assert_int_equal(err_wrap(&err, QP_E_BUSY, "begin"), QP_E_BUSY);
    assert_string_equal(err.pointer, "");
}

/* A pointer that is too long is cut, between characters. */
static void long_pointers_are_cut(void **state)
{
    char key[QP_ERR_POINTER_SIZE];
    struct qp_err err;

    (void)state;
    (void)memset(key, 'k', sizeof(key) - 3);
    (void)memcpy(key + sizeof(key) - 3, "\xC3\xA9", 3);
    (void)err_set(&err, QP_E_SHAPE, "x");
    (void)err_point(&err, QP_E_SHAPE, "/%s", key);
    assert_int_equal(strlen(err.pointer), sizeof(key) - 2);
    assert_int_equal(utf8_valid_prefix(str_from(err.pointer)), strlen(err.pointer));
}

/* Nobody has to ask for the detail. */
static void null_is_allowed(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, QP_E_IO, "%s", "x"), QP_E_IO);
    assert_int_equal(err_wrap(NULL, QP_E_IO, "%s", "x"), QP_E_IO);
    assert_int_equal(err_point(NULL, QP_E_IO, "%s", "/x"), QP_E_IO);
}

/* A long text is cut between characters, whatever their size and wherever the cut falls. */
static void long_text_is_cut_at_a_character(void **state)
{
    static const char *const characters[] = {"x", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\xA7\xB6"};
    char text[2 * QP_ERR_TEXT_SIZE];

    (void)state;
    for (size_t c = 0; c < ARRAY_COUNT(characters); c++) {
        for (size_t offset = 0; offset < 4; offset++) {
            struct qp_err err = {0};
            size_t n = offset;

            memset(text, 'a', sizeof(text));
            for (; n + 5 < sizeof(text); n += strlen(characters[c])) {
                memcpy(text + n, characters[c], strlen(characters[c]));
            }
            text[n] = '\0';
            (void)err_set(&err, QP_E_IO, "%s", text);
            assert_int_equal(utf8_valid_prefix(str_from(err.text)), strlen(err.text));
            assert_true(strlen(err.text) > QP_ERR_TEXT_SIZE - 5);
            (void)err_wrap(&err, QP_E_IO, "outer");
            assert_int_equal(utf8_valid_prefix(str_from(err.text)), strlen(err.text));
            (void)err_wrap(&err, QP_E_IO, "%s", text);
            assert_int_equal(utf8_valid_prefix(str_from(err.text)), strlen(err.text));
        }
    }
}

/* A foreign byte in the middle does not cost what follows it. */
static void foreign_bytes_do_not_cut(void **state)
{
    struct qp_err err = {0};

    (void)state;
    (void)err_set(&err, QP_E_IO, "%s", "a\xFF\x80\x80\x80\x80 tail");
    assert_string_equal(err.text, "a\xFF\x80\x80\x80\x80 tail");
}

/* A violated assertion says where and ends the process by SIGABRT, also in release. */
static void assertions_abort(void **state)
{
    int pipes[2];
    char text[512] = {0};
    int status = 0;
    pid_t child;

    (void)state;
    assert_int_equal(pipe(pipes), 0);
    child = fork();
    if (child == 0) {
        (void)dup2(pipes[1], STDERR_FILENO);
        (void)signal(SIGABRT, SIG_DFL);
        assert_failed("1 == 2", "some.c", 42);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_true(read(pipes[0], text, sizeof(text) - 1) > 0);
    assert_string_equal(text, "quipu: some.c:42: assertion failed: 1 == 2\n");
    (void)close(pipes[0]);
    (void)close(pipes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_answer_their_row),
        cmocka_unit_test(unknown_codes_are_internal),
        cmocka_unit_test(wrapping_reads_from_the_outside_in),
        cmocka_unit_test(wrapping_without_detail_uses_the_sentence),
        cmocka_unit_test(pointers_grow_from_the_inside),
        cmocka_unit_test(long_pointers_are_cut),
        cmocka_unit_test(null_is_allowed),
        cmocka_unit_test(long_text_is_cut_at_a_character),
        cmocka_unit_test(foreign_bytes_do_not_cut),
        cmocka_unit_test(assertions_abort),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
