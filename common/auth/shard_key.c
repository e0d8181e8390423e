/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's secret is the first 16 bytes of HMAC-SHA256, with the job's secret, over
 * "gradus-worker-secret" and the worker's id. Its key is HMAC-SHA256 with that over
 * "gradus-shard-key", the opening (8 bytes) and the number of the shard (4 bytes), little-endian
 * both, and the name of the job. */
#include "auth/shard_key.h"

#include <string.h>

#include "auth/auth_openssl.h"
#include "auth/base64url.h"

#define SHARD_KEY_MAC_BYTES 32 /* of SHA-256 */

static void add_number(struct buf *out, uint64_t value, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        buf_add_char(out, (char)(unsigned char)(value >> (8 * i) & 255));
    }
}

static const uint8_t none[SHARD_KEY_SECRET_BYTES];

/* Signs with the secret; false: there is no secret, or no memory. */
static bool sign(const uint8_t secret[SHARD_KEY_SECRET_BYTES], const struct buf *data,
                 unsigned char mac[EVP_MAX_MD_SIZE])
{
    unsigned n = EVP_MAX_MD_SIZE;
    return memcmp(secret, none, sizeof none) != 0 &&
           HMAC(EVP_sha256(), secret, SHARD_KEY_SECRET_BYTES, (unsigned char *)data->data,
                data->len, mac, &n) != NULL;
}

void shard_worker_secret(const uint8_t secret[SHARD_KEY_SECRET_BYTES], const char *worker,
                         uint8_t out[SHARD_KEY_SECRET_BYTES])
{
    unsigned char mac[EVP_MAX_MD_SIZE] = {0};
    struct buf data = {0};
    buf_add_str(&data, "gradus-worker-secret");
    buf_add_str(&data, worker);
    bool made = sign(secret, &data, mac);
    memcpy(out, made ? mac : none, SHARD_KEY_SECRET_BYTES);
    buf_release(&data);
}

void shard_key(const uint8_t secret[SHARD_KEY_SECRET_BYTES], const char *job, uint32_t shard,
               uint64_t opening, char out[SHARD_KEY_BYTES])
{
    unsigned char mac[EVP_MAX_MD_SIZE];
    struct buf data = {0}, text = {0};
    out[0] = '\0';
    buf_add_str(&data, SHARD_KEY_HEADER);
    add_number(&data, opening, 8);
    add_number(&data, shard, 4);
    buf_add_str(&data, job);
    if (sign(secret, &data, mac)) {
        base64url_encode(mac, SHARD_KEY_MAC_BYTES, &text);
        memcpy(out, text.data, SHARD_KEY_BYTES);
    }
    buf_release(&data);
    buf_release(&text);
}

bool shard_key_equal(const char *a, const char *b)
{
    size_t n = strlen(a);
    return strlen(b) == n && CRYPTO_memcmp(a, b, n) == 0;
}
