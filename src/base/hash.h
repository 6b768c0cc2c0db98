/* hash.h - a fast hash for tables in memory, and the one that names things for good
 *
 * hash_bytes is seeded, so that foreign keys cannot be chosen to collide; its values never leave
 * the process. hash_guid is SHA-256 and the same on every machine and for all time: a GUID derived
 * from what it stands for. Both are pure and thread-safe.
 */
#ifndef QP_BASE_HASH_H
#define QP_BASE_HASH_H

#include "base/base.h"

uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t size);

/* The first 16 bytes of SHA-256(a_size as 8 bytes, little endian || a || b). The size keeps ("ab",
 * "c") and ("a", "bc") apart. */
void hash_guid(const void *a, size_t a_size, const void *b, size_t b_size,
               unsigned char out_guid[LIMIT_GUID_SIZE]);

/* The first 16 bytes of HMAC-SHA256 with a key, which may be empty: nobody without the key makes it. */
#define HASH_KEYED_SIZE 16
void hash_keyed(const void *key, size_t key_size, const void *bytes, size_t size,
                unsigned char out_hash[HASH_KEYED_SIZE]);
/* SHA-256 of what comes in pieces: init, any number of adds, then end, which gives its 64 hexadecimal digits and a NUL. */
#define HASH_TEXT_SIZE 65
struct hash_stream {
    uint64_t room[16]; /* the library's state */
};
void hash_stream_init(struct hash_stream *h);
void hash_stream_add(struct hash_stream *h, const void *bytes, size_t size);
void hash_stream_end(struct hash_stream *h, char out_text[HASH_TEXT_SIZE]);
/* Takes as long for any two. */
bool hash_equal(const void *a, const void *b, size_t size);

#endif
