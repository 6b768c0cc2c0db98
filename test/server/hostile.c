/* hostile.c - requests that mean harm, or none (see hostile.h) */
#include "hostile.h"

#define CASE(name, bytes, status)                                                                  \
    {                                                                                              \
        name, bytes, sizeof(bytes) - 1, status                                                     \
    }

const struct hostile hostile_cases[] = {
    CASE("length and chunks",
         "POST /v1/jobs HTTP/1.1\r\n" HOST
         "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" HIDDEN,
         400),
    CASE("chunks and length",
         "POST /v1/jobs HTTP/1.1\r\n" HOST
         "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\n" HIDDEN,
         400),
    CASE("two lengths",
         "POST /v1/jobs HTTP/1.1\r\n" HOST "Content-Length: 0\r\nContent-Length: 44\r\n\r\n" HIDDEN,
         400),
    CASE("two equal lengths",
         "POST /v1/jobs HTTP/1.1\r\n" HOST "Content-Length: 0\r\nContent-Length: 0\r\n\r\n" HIDDEN,
         400),
    CASE("a list of lengths",
         "POST /v1/jobs HTTP/1.1\r\n" HOST "Content-Length: 0, 44\r\n\r\n" HIDDEN, 400),
    CASE("a signed length", "POST /v1/jobs HTTP/1.1\r\n" HOST "Content-Length: +0\r\n\r\n" HIDDEN,
         400),
    CASE("a negative length", "POST /v1/jobs HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n" HIDDEN,
         400),
    CASE("a huge length",
         "POST /v1/jobs HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n", 413),
    CASE("an empty length", "POST /v1/jobs HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n" HIDDEN,
         400),
    CASE("space before the colon",
         "POST /v1/jobs HTTP/1.1\r\n" HOST "Content-Length : 44\r\n\r\n" HIDDEN, 400),
    CASE("tab before the colon",
         "POST /v1/jobs HTTP/1.1\r\n" HOST "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n" HIDDEN,
         400),
    CASE("another encoding",
         "POST /v1/jobs HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" HIDDEN,
         400),
    CASE("two encodings",
         "POST /v1/jobs HTTP/1.1\r\n" HOST
         "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n" HIDDEN,
         400),
    CASE("a list of encodings",
         "POST /v1/jobs HTTP/1.1\r\n" HOST
         "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" HIDDEN,
         400),
    CASE("a control before the encoding",
         "POST /v1/jobs HTTP/1.1\r\n" HOST "Transfer-Encoding: \vchunked\r\n\r\n0\r\n\r\n" HIDDEN,
         400),
    CASE("a bare CR in a value",
         "POST /v1/jobs HTTP/1.1\r\n" HOST
         "X: a\rTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" HIDDEN,
         400),
    CASE("a bare CR ends a line",
         "POST /v1/jobs HTTP/1.1\r\n" HOST "X: a\rContent-Length: 44\r\n\r\n" HIDDEN, 400),
    CASE("a bare CR in a name", "POST /v1/jobs HTTP/1.1\r\n" HOST "X\r: a\r\n\r\n" HIDDEN, 400),
    CASE("a NUL in a name",
         "POST /v1/jobs HTTP/1.1\r\n" HOST "Transfer-Encoding\0: chunked\r\n\r\n0\r\n\r\n" HIDDEN,
         -1),
    CASE("a NUL in the target", "GET /live\0z HTTP/1.1\r\n" HOST "\r\n" HIDDEN, 400),
    CASE("a header without a colon", "GET /livez HTTP/1.1\r\n" HOST "nothing\r\n\r\n" HIDDEN, 400),
    CASE("an encoding of 1.0",
         "POST /v1/jobs HTTP/1.0\r\n" HOST
         "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" HIDDEN,
         400),
    CASE("a chunk that is no number",
         "POST /v1/jobs HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nxyz\r\n" HIDDEN, -1),
    CASE("a negative chunk",
         "POST /v1/jobs HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n-1\r\n" HIDDEN, -1),
    CASE("a huge chunk",
         "POST /v1/jobs HTTP/1.1\r\n" HOST
         "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n" HIDDEN,
         -1),
    CASE("a chunk longer than it says",
         "POST /v1/jobs HTTP/1.1\r\n" HOST
         "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n" HIDDEN,
         -1),
    CASE("no version", "GET /livez\r\n\r\n" HIDDEN, -1),
    CASE("another protocol", "GET /livez HTCPCP/1.0\r\n" HOST "\r\n" HIDDEN, -1),
    CASE("a later version", "GET /livez HTTP/3.7\r\n" HOST "\r\n" HIDDEN, -1),
    CASE("a whole URL", "GET http://localhost/livez HTTP/1.1\r\n" HOST "\r\n" HIDDEN, 400),
    CASE("a star", "OPTIONS * HTTP/1.1\r\n" HOST "\r\n" HIDDEN, 400),
    CASE("a tunnel", "CONNECT localhost:80 HTTP/1.1\r\n" HOST "\r\n" HIDDEN, 400),
    CASE("no host", "GET /livez HTTP/1.1\r\n\r\n" HIDDEN, 400),
    CASE("two hosts", "GET /livez HTTP/1.1\r\n" HOST HOST "\r\n" HIDDEN, 400),
    CASE("somebody else's host", "GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n" HIDDEN, 421),
    CASE("a space in the target", "GET /live z HTTP/1.1\r\n" HOST "\r\n" HIDDEN, -1),
    CASE("a compressed body",
         "POST /v1/jobs HTTP/1.1\r\n" HOST
         "Content-Encoding: gzip\r\nContent-Length: 44\r\n\r\n" HIDDEN,
         415),
    CASE("a greeting of TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n" HIDDEN, -1),
    CASE("nothing but line ends", "\r\n\r\n\r\n\r\n", -1),
};

const size_t hostile_case_count = ARRAY_COUNT(hostile_cases);
