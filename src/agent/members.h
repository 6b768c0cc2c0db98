/* members.h - a row's JSON object as a table of its members, which both writes and reads it
 *
 * A text or raw value that is none, and a number or flag that is 0, is left out. Members that the table does not have are passed
 * over. Pure; any thread.
 */
#ifndef QP_AGENT_MEMBERS_H
#define QP_AGENT_MEMBERS_H

#include "base/json.h"

enum member_kind { MEMBER_TEXT, MEMBER_NUMBER, MEMBER_FLAG, MEMBER_RAW };

struct member {
    const char *key;
    enum member_kind kind;
    union {
        qp_str *text;
        int64_t *number;
        bool *flag;
    };
};

#define TEXT(key, place)                                                                           \
    {                                                                                              \
        key, MEMBER_TEXT,                                                                          \
        {                                                                                          \
            .text = (place)                                                                        \
        }                                                                                          \
    }
#define RAW(key, place)                                                                            \
    {                                                                                              \
        key, MEMBER_RAW,                                                                           \
        {                                                                                          \
            .text = (place)                                                                        \
        }                                                                                          \
    }
#define NUMBER(key, place)                                                                         \
    {                                                                                              \
        key, MEMBER_NUMBER,                                                                        \
        {                                                                                          \
            .number = (place)                                                                      \
        }                                                                                          \
    }
#define FLAG(key, place)                                                                           \
    {                                                                                              \
        key, MEMBER_FLAG,                                                                          \
        {                                                                                          \
            .flag = (place)                                                                        \
        }                                                                                          \
    }

void members_put(struct json_writer *w, const struct member *members, size_t count);
int members_write(struct arena *arena, const struct member *members, size_t count,
                  qp_str *out_text) QP_MUST_USE;
/* QP_E_CORRUPT: it is no object, or a member is of another kind. Raw values are slices of the text. */
int members_read(struct arena *arena, qp_str text, const struct member *members,
                 size_t count) QP_MUST_USE;
/* An integer as the writer writes it. */
bool members_i64(qp_str text, int64_t *out_number) QP_MUST_USE;

#endif
