/* badcases.h - broken, foreign and odd files, and what opening each of them must say
 *
 * A case makes something at bad.path (and may change the path). Its state is the process's.
 */
#ifndef QP_TEST_BADCASES_H
#define QP_TEST_BADCASES_H

#include "base/base.h"

/* Where a case is made, and the valid file that many are made of. */
struct bad_place {
    char dir[220];
    char path[6000];
    unsigned char *good;
    size_t good_size;
};
extern struct bad_place bad;

/* `code` and a part of the sentence for a writer; for a reader the same, unless reader_text is
 * given. */
struct bad {
    const char *name;
    void (*make)(void);
    int code;
    const char *text;
    int reader_code;
    const char *reader_text;
    bool full_check;
};

extern const struct bad bad_cases[];
extern const size_t bad_case_count;

/* The path with a suffix. */
void bad_beside(const char *suffix, char out[6100]);
void bad_put_good(void);
/* A link to the good file, which lies beside it as "real.db". */
void bad_make_link(void);

#endif
