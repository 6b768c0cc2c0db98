/* hostile.h - a corpus of hostile requests
 *
 * It has the public cases of request smuggling: two lengths, a length and chunks, encodings that
 * two parsers read differently, bytes that end a line for one and not for another. Whatever is
 * behind the first request must never be answered as a request of its own: the address that hides
 * there is /hidden.
 */
#ifndef QP_TEST_HOSTILE_H
#define QP_TEST_HOSTILE_H

#include "base/base.h"

#define HOST "Host: localhost\r\n"
#define HIDDEN "GET /hidden HTTP/1.1\r\n" HOST "\r\n"

struct hostile {
    const char *name;
    const char *bytes;
    size_t size;
    int status; /* of the first answer; 0: the connection is closed without one; -1: any 4xx or that */
};

extern const struct hostile hostile_cases[];
extern const size_t hostile_case_count;

#endif
