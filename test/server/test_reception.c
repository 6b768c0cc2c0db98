/* test_reception.c - who gets past the reception, and who does not */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "server/http.h"
#include "server/reception.h"
#include "support/httpclient.h"
#include "support/testenv.h"

#define HEAD_SIZE 200
#define GUESTS 64

/* What the reception did: whom it handed over, and what it told whom. */
static struct {
    struct testenv t;
    struct listener listener;
    struct reception *reception;
    int port;
    pthread_mutex_t lock;
    int handed[GUESTS];
    struct sockaddr_storage addresses[GUESTS];
    size_t handed_count;
    atomic_int faults[4];
    atomic_bool refuses;
} w = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool hand_over(void *context, int fd, const struct sockaddr *address, socklen_t size)
{
    bool taken;
    (void)context;
    (void)pthread_mutex_lock(&w.lock);
    taken = !atomic_load(&w.refuses);
    if (taken) {
        memcpy(&w.addresses[w.handed_count], address, size);
        w.handed[w.handed_count++] = fd;
    } else {
        (void)close(fd);
    }
    (void)pthread_mutex_unlock(&w.lock);
    return taken;
}

static void tell(void *context, int fd, enum guest_fault fault)
{
    static const char *const words[] = {"late", "line", "head", "form"};
    (void)context;
    assert_int_equal(write(fd, words[fault], 4), 4);
    atomic_fetch_add(&w.faults[fault], 1);
}

static void begin(unsigned most, unsigned most_of_one, size_t head_size)
{
    struct qp_err err = {0};
    struct reception_rules rules = {.most = most,
                                    .most_of_one = most_of_one,
                                    .head_size = head_size,
                                    .hand_over = hand_over,
                                    .tell = tell};
    testenv_init(&w.t, 1);
    w.handed_count = 0;
    for (size_t i = 0; i < ARRAY_COUNT(w.faults); i++) {
        atomic_store(&w.faults[i], 0);
    }
    atomic_store(&w.refuses, false);
    assert_int_equal(listener_open("127.0.0.1:0", &w.listener, &err), QP_OK);
    w.port = (int)strtol(strrchr(w.listener.name, ':') + 1, NULL, 10);
    rules.env = &w.t.env;
    rules.fd = w.listener.fd;
    assert_int_equal(reception_open(&rules, &w.reception, &err), QP_OK);
}

static size_t handed(void)
{
    size_t n;
    (void)pthread_mutex_lock(&w.lock);
    n = w.handed_count;
    (void)pthread_mutex_unlock(&w.lock);
    return n;
}

static void nap_ms(long ms)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static void expect_handed(size_t count)
{
    for (int i = 0; i < 1000 && handed() < count; i++) {
        nap_ms(5);
    }
    assert_int_equal(handed(), count);
}

/* Nobody goes on, though there was time for it. */
static void expect_no_more(size_t count)
{
    nap_ms(100);
    assert_int_equal(handed(), count);
}

static void leave(size_t i)
{
    (void)close(w.handed[i]);
    reception_left(w.reception, (struct sockaddr *)&w.addresses[i]);
    w.handed[i] = -1;
}

static void end(void)
{
    reception_stop(w.reception);
    for (size_t i = 0; i < w.handed_count; i++) {
        if (w.handed[i] >= 0) {
            leave(i);
        }
    }
    reception_close(w.reception);
    listener_close(&w.listener);
    testenv_done(&w.t);
}

static struct hc enter(const char *text)
{
    struct hc c;
    assert_true(hc_open(&c, w.port));
    assert_true(hc_text(&c, text));
    return c;
}

/* The connection ends, and this was said before; nothing: it is just closed. */
static void expect_told(struct hc *c, const char *words)
{
    while (c->size < strlen(words) && hc_more(c, 5000)) {}
    assert_int_equal(c->size, strlen(words));
    assert_memory_equal(c->in == NULL ? "" : c->in, words, strlen(words));
    assert_true(hc_closed(c, 5000));
    hc_close(c);
}

/* Time goes on until so many were told: whoever is let in late is late later. */
static void expect_faults(enum guest_fault fault, int count)
{
    for (int i = 0; i < 1000 && atomic_load(&w.faults[fault]) < count; i++) {
        testenv_advance_ms(&w.t, LIMIT_HEADER_MS + 1);
        nap_ms(20);
    }
    assert_int_equal(atomic_load(&w.faults[fault]), count);
}

/* ---------------------------------------------------------------------------------------- heads */

/* A head is whole where the library sees it end, however it is cut in pieces, and what is behind it
 * stays in the connection. */
static void whole_heads_go_on(void **state)
{
    static const char *const heads[] = {"GET / HTTP/1.1\r\nA: b\r\n\r\n",
                                        "GET / HTTP/1.1\nA: b\n\n",
                                        "\r\n\r\n\nGET / HTTP/1.1\r\nA: b\n\r\n", "X\n\n"};
    (void)state;
    for (size_t i = 0; i < ARRAY_COUNT(heads); i++) {
        for (size_t piece = 1; piece <= strlen(heads[i]); piece += 1 + piece / 2) {
            struct hc c;
            char got[HEAD_SIZE] = "";
            begin(10, 0, HEAD_SIZE);
            assert_true(hc_open(&c, w.port));
            for (size_t at = 0; at < strlen(heads[i]); at += piece) {
                size_t left = strlen(heads[i]) - at;
                assert_int_equal(handed(), 0);
                assert_true(hc_send(&c, heads[i] + at, left < piece ? left : piece));
                nap_ms(1);
            }
            expect_handed(1);
            assert_int_equal(read(w.handed[0], got, sizeof got - 1), strlen(heads[i]));
            assert_string_equal(got, heads[i]);
            hc_close(&c);
            end();
        }
    }
}

/* Empty lines, a line without an end, one line of several: none of it is a head. */
static void others_wait(void **state)
{
    struct hc c[4];
    (void)state;
    begin(10, 0, HEAD_SIZE);
    c[0] = enter("\r\n\r\n\r\n\n\n");
    c[1] = enter("GET / HTTP/1.1\r\n");
    c[2] = enter("GET / HTTP/1.1\r\nA: b\r\n\r");
    assert_true(hc_open(&c[3], w.port));
    expect_no_more(0);
    expect_faults(GUEST_LATE, ARRAY_COUNT(c));
    for (size_t i = 0; i < ARRAY_COUNT(c); i++) {
        expect_told(&c[i], "late");
    }
    end();
}

/* Who sends too much is told so, also while he goes on sending; then he is gone. */
static void too_large(void **state)
{
    char filler[HEAD_SIZE * 50];
    struct hc line, head;
    (void)state;
    memset(filler, 'a', sizeof filler);
    begin(10, 0, HEAD_SIZE);
    line = enter("GET /");
    assert_true(hc_send(&line, filler, sizeof filler));
    head = enter("GET / HTTP/1.1\r\nA: ");
    for (int i = 0; i < 20; i++) {
        assert_true(hc_send(&head, filler, sizeof filler));
        nap_ms(2);
    }
    expect_told(&line, "line");
    expect_told(&head, "head");
    assert_int_equal(handed(), 0);
    end();
}

/* What the library would see other lines in than we do is not for it. */
static void malformed(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
    } heads[] = {{"\0\n\n", 3},
                 {"GET / HTTP/1.1\r\n\0\r\nA", 20},
                 {"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", 29},
                 {"GET / HTTP/1.1\nA: b\n\t", 21}};
    static const char body[] = "P\n\n\0\n here it may stand";
    struct hc c;
    (void)state;
    begin(10, 0, HEAD_SIZE);
    for (size_t i = 0; i < ARRAY_COUNT(heads); i++) {
        assert_true(hc_open(&c, w.port));
        assert_true(hc_send(&c, heads[i].bytes, heads[i].size));
        expect_told(&c, "form");
    }
    assert_true(hc_open(&c, w.port));
    assert_true(hc_send(&c, body, sizeof body));
    expect_handed(1);
    hc_close(&c);
    end();
}

/* Whoever was told and does not go is not waited for longer than a second. */
static void leaves_at_last(void **state)
{
    char filler[HEAD_SIZE] = "";
    struct hc c;
    (void)state;
    begin(1, 0, HEAD_SIZE);
    memset(filler, 'a', sizeof filler);
    assert_true(hc_open(&c, w.port));
    assert_true(hc_send(&c, filler, sizeof filler));
    while (c.size < 4 && hc_more(&c, 5000)) {}
    assert_int_equal(c.size, 4);
    for (int i = 0; i < 1000 && hc_text(&c, "a"); i++) { /* it is taken until nobody is there */
        testenv_advance_ms(&w.t, 100);
        nap_ms(5);
    }
    assert_false(hc_text(&c, "a"));
    hc_close(&c);
    end();
}

/* A program that is being started has all descriptors for a moment, also those of guests that are gone. */
static void gone_but_open_elsewhere(void **state)
{
    char filler[HEAD_SIZE] = "";
    struct hc c[8];
    pid_t child;
    int status = 0;
    (void)state;
    begin(10, 0, HEAD_SIZE);
    memset(filler, 'a', sizeof filler);
    for (size_t i = 0; i < ARRAY_COUNT(c); i++) {
        c[i] = enter("GET /");
    }
    nap_ms(50);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    expect_faults(GUEST_LATE, ARRAY_COUNT(c));
    testenv_advance_ms(&w.t, 2000);
    nap_ms(700); /* all are swept out */
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < ARRAY_COUNT(c); i++) {
            (void)hc_send(&c[i], filler, sizeof filler);
        }
        nap_ms(5);
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    for (size_t i = 0; i < ARRAY_COUNT(c); i++) {
        hc_close(&c[i]);
    }
    c[0] = enter("A\n\n"); /* and it goes on */
    expect_handed(1);
    hc_close(&c[0]);
    end();
}

/* A head of exactly the size goes on. */
static void largest_head(void **state)
{
    char text[HEAD_SIZE + 1];
    struct hc c;
    (void)state;
    begin(10, 0, HEAD_SIZE);
    memset(text, 'a', HEAD_SIZE);
    memcpy(text + HEAD_SIZE - 4, "\r\n\r\n", 5);
    c = enter(text);
    expect_handed(1);
    hc_close(&c);
    end();
}

/* Who goes in the middle is not kept, and who has half closed after his head is heard. */
static void half_closed(void **state)
{
    struct hc gone, heard;
    (void)state;
    begin(1, 0, HEAD_SIZE);
    gone = enter("GET / HT");
    (void)shutdown(gone.fd, SHUT_WR);
    expect_told(&gone, "");
    heard = enter("GET / HTTP/1.1\r\n\r\n");
    (void)shutdown(heard.fd, SHUT_WR);
    expect_handed(1);
    hc_close(&heard);
    end();
}

/* Where heads cannot be looked at everybody goes on at once. */
static void nobody_waits(void **state)
{
    struct hc c;
    (void)state;
    begin(10, 0, 0);
    assert_true(hc_open(&c, w.port));
    expect_handed(1);
    hc_close(&c);
    end();
}

/* --------------------------------------------------------------------------------------- numbers */

static void *leaves_later(void *context)
{
    (void)context;
    nap_ms(50);
    leave(0);
    return NULL;
}

/* Who is one too many waits, and is let in when another has left, whatever thread says so; guests
 * count, too. */
static void full_house(void **state)
{
    struct hc c[3], guest;
    pthread_t thread;
    (void)state;
    begin(3, 0, HEAD_SIZE);
    for (size_t i = 0; i < 2; i++) {
        c[i] = enter("A\n\n");
        expect_handed(i + 1);
    }
    guest = enter("GET /");
    nap_ms(50);
    c[2] = enter("A\n\n");
    expect_no_more(2);
    assert_int_equal(pthread_create(&thread, NULL, leaves_later, NULL), 0);
    expect_handed(3);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (size_t i = 0; i < ARRAY_COUNT(c); i++) {
        hc_close(&c[i]);
    }
    hc_close(&guest);
    end();
}

/* One too many of an address is closed, before he says anything; when one has left there is room
 * again. What the taker of connections has refused does not count. */
static void of_one_address(void **state)
{
    struct hc a, b, late, again;
    (void)state;
    begin(10, 2, HEAD_SIZE);
    atomic_store(&w.refuses, true);
    for (int i = 0; i < 5; i++) {
        struct hc refused = enter("A\n\n");
        assert_true(hc_closed(&refused, 5000));
        hc_close(&refused);
    }
    atomic_store(&w.refuses, false);
    a = enter("A\n\n");
    expect_handed(1);
    b = enter("GET /");
    nap_ms(50);
    assert_true(hc_open(&late, w.port));
    assert_true(hc_closed(&late, 5000));
    leave(0);
    again = enter("A\n\n");
    expect_handed(2);
    hc_close(&a);
    hc_close(&b);
    hc_close(&late);
    hc_close(&again);
    end();
}

/* Without a descriptor for another one they wait; it is said once, and tried again. */
static void no_descriptors(void **state)
{
    struct rlimit before, none;
    struct hc c[2];
    const char *said;
    (void)state;
    begin(10, 0, HEAD_SIZE);
    c[0] = enter("A\n\n");
    expect_handed(1);
    assert_true(hc_open(&c[1], w.port));
    expect_no_more(1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    hc_close(&c[1]);
    c[1].fd = socket(AF_INET, SOCK_STREAM, 0);
    none = (struct rlimit){.rlim_cur = (rlim_t)c[1].fd + 1, .rlim_max = before.rlim_max};
    (void)close(c[1].fd);
    nap_ms(50);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    c[1] = enter("A\n\n"); /* the last descriptor is the client's */
    expect_no_more(1);
    testenv_advance_ms(&w.t, 1000);
    expect_no_more(1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    testenv_advance_ms(&w.t, 1000);
    expect_handed(2);
    reception_stop(w.reception);
    said = strstr(testenv_log(&w.t), "no further connection can be let in");
    assert_non_null(said);
    assert_null(strstr(said + 1, "no further connection can be let in"));
    hc_close(&c[0]);
    hc_close(&c[1]);
    end();
}

/* The end comes to those who wait here as well; who comes after it is not let in. */
static void the_end(void **state)
{
    struct hc guest, late;
    (void)state;
    begin(10, 0, HEAD_SIZE);
    guest = enter("GET /");
    nap_ms(20);
    reception_stop(w.reception);
    assert_true(hc_closed(&guest, 5000));
    late = enter("A\n\n");
    expect_no_more(0);
    hc_close(&guest);
    hc_close(&late);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_heads_go_on), cmocka_unit_test(others_wait),
        cmocka_unit_test(too_large),         cmocka_unit_test(malformed),
        cmocka_unit_test(leaves_at_last),    cmocka_unit_test(gone_but_open_elsewhere),
        cmocka_unit_test(largest_head),      cmocka_unit_test(half_closed),
        cmocka_unit_test(nobody_waits),      cmocka_unit_test(full_house),
        cmocka_unit_test(of_one_address),    cmocka_unit_test(no_descriptors),
        cmocka_unit_test(the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
