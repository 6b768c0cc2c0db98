/* hash.c - a seeded 64-bit hash by wide multiplication, and GUIDs by SHA-256
 *
 * hash_bytes folds 16 bytes per turn: the two words are made unreadable with a key that comes from
 * the seed, multiplied to 128 bits, and the halves are xored, so that every bit of the product,
 * low and high, comes back into the state. The rest, up to 16 bytes, is read as
 * two words that may overlap, hence no loop over bytes at the end.
 */
#include "base/hash.h"

/* The plain functions: EVP looks its algorithm up and allocates for every digest, which costs ten
 * times the hashing of a few dozen bytes, and a GUID is derived for every message. They are marked
 * as deprecated since 3.0 and still there. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/crypto.h>
#include <openssl/sha.h>

/* Odd constants with an even spread of bits: the fractions of the square roots of 2, 3 and 5. */
#define HASH_K0 0x6A09E667F3BCC909u
#define HASH_K1 0xBB67AE8584CAA73Bu
#define HASH_K2 0x3C6EF372FE94F82Bu

__extension__ typedef unsigned __int128 wide;

static uint64_t fold(uint64_t a, uint64_t b);
static uint64_t load_word(const unsigned char *p);
static uint64_t load_tail(const unsigned char *p, size_t n);

uint64_t hash_bytes(uint64_t seed, const void *bytes, size_t size)
{
    const unsigned char *p = bytes;
    uint64_t key = fold(seed ^ HASH_K0, HASH_K1);
    uint64_t state = key ^ HASH_K2;
    size_t left = size;
    uint64_t low = 0;
    uint64_t high = 0;

    for (; left > 16; left -= 16, p += 16) {
        /* Adding the old state keeps it alive even when a factor happens to be zero. */
        state += fold(load_word(p) ^ key, load_word(p + 8) ^ state);
    }
    if (left >= 8) {
        low = load_word(p);
        high = load_word(p + left - 8);
    } else {
        low = load_tail(p, left);
    }
    state = fold(low ^ key ^ HASH_K1, high ^ state);
    return fold(state ^ HASH_K0, (uint64_t)size ^ key ^ HASH_K2);
}

void hash_guid(const void *a, size_t a_size, const void *b, size_t b_size,
               unsigned char out_guid[LIMIT_GUID_SIZE])
{
    unsigned char whole[SHA256_DIGEST_LENGTH];
    unsigned char size[8];
    SHA256_CTX sha;

    for (size_t i = 0; i < sizeof(size); i++) {
        size[i] = (unsigned char)(((uint64_t)a_size >> (8 * i)) & 0xFF);
    }
    /* Each returns 1: hashing bytes in memory cannot fail. */
    (void)SHA256_Init(&sha);
    (void)SHA256_Update(&sha, size, sizeof(size));
    (void)SHA256_Update(&sha, a, a_size);
    (void)SHA256_Update(&sha, b, b_size);
    (void)SHA256_Final(whole, &sha);
    memcpy(out_guid, whole, LIMIT_GUID_SIZE);
}

static inline uint64_t fold(uint64_t a, uint64_t b)
{
    wide product = (wide)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* In the order of the machine: the values never leave the process. */
static inline uint64_t load_word(const unsigned char *p)
{
    uint64_t word;

    memcpy(&word, p, sizeof(word));
    return word;
}

/* 0 to 7 bytes. The size is mixed in by the caller, so trailing zeros do not collide. */
static inline uint64_t load_tail(const unsigned char *p, size_t n)
{
    uint64_t word = 0;

    if (n > 0) {
        memcpy(&word, p, n);
    }
    return word;
}

#define HMAC_BLOCK 64

/* One of the two passes of HMAC: SHA-256(key xor pad || bytes). */
static void hmac_pass(const unsigned char key[HMAC_BLOCK], unsigned char pad, const void *bytes,
                      size_t size, unsigned char out[SHA256_DIGEST_LENGTH])
{
    unsigned char block[HMAC_BLOCK];
    SHA256_CTX context;
    for (size_t i = 0; i < sizeof block; i++) {
        block[i] = key[i] ^ pad;
    }
    (void)SHA256_Init(&context); /* none of these can fail */
    (void)SHA256_Update(&context, block, sizeof block);
    (void)SHA256_Update(&context, bytes, size);
    (void)SHA256_Final(out, &context);
}

/* RFC 2104 by hand, since HMAC() takes memory and may fail for want of it. */
void hash_keyed(const void *key, size_t key_size, const void *bytes, size_t size,
                unsigned char out_hash[HASH_KEYED_SIZE])
{
    unsigned char block[HMAC_BLOCK] = {0};
    unsigned char inner[SHA256_DIGEST_LENGTH];
    unsigned char outer[SHA256_DIGEST_LENGTH];
    if (key_size > sizeof block) {
        (void)SHA256(key, key_size, block); /* as the first bytes of the block */
    } else if (key_size > 0) {
        memcpy(block, key, key_size);
    }
    hmac_pass(block, 0x36, bytes, size, inner);
    hmac_pass(block, 0x5c, inner, sizeof inner, outer);
    memcpy(out_hash, outer, HASH_KEYED_SIZE);
}

bool hash_equal(const void *a, const void *b, size_t size)
{
    return CRYPTO_memcmp(a, b, size) == 0;
}

/* -------------------------------------------------------------------------------------- in pieces */

static_assert(sizeof(SHA256_CTX) <= sizeof(struct hash_stream), "the library's state has room");
static_assert(HASH_TEXT_SIZE == 2 * SHA256_DIGEST_LENGTH + 1, "two digits per byte");

void hash_stream_init(struct hash_stream *h)
{
    SHA256_CTX sha;
    (void)SHA256_Init(&sha);
    memcpy(h->room, &sha, sizeof(sha));
}

void hash_stream_add(struct hash_stream *h, const void *bytes, size_t size)
{
    SHA256_CTX sha;
    memcpy(&sha, h->room, sizeof(sha));
    (void)SHA256_Update(&sha, bytes, size);
    memcpy(h->room, &sha, sizeof(sha));
}

void hash_stream_end(struct hash_stream *h, char out_text[HASH_TEXT_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char whole[SHA256_DIGEST_LENGTH];
    SHA256_CTX sha;
    memcpy(&sha, h->room, sizeof(sha));
    (void)SHA256_Final(whole, &sha);
    for (size_t i = 0; i < sizeof(whole); i++) {
        out_text[2 * i] = digits[whole[i] >> 4];
        out_text[2 * i + 1] = digits[whole[i] & 15];
    }
    out_text[HASH_TEXT_SIZE - 1] = '\0';
}
