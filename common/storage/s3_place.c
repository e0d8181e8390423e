/* SPDX-License-Identifier: Apache-2.0 */
/* Takes "s3://bucket/key" apart, and writes names for URLs. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/text.h"
#include "storage/s3_request.h"

#define SCHEME "s3://"

static bool is_bucket(const char *name, size_t n)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    return n >= 3 && n <= S3_BUCKET_BYTES_MAX && strspn(name, allowed) >= n && name[0] != '.' &&
           name[0] != '-';
}

/* Names that stores, proxies and libraries would not keep as they are. */
static bool is_key(const char *key)
{
    for (const char *part = key;; part++) {
        size_t n = strcspn(part, "/");
        if (n == 0 || (n == 1 && part[0] == '.') || (n == 2 && strncmp(part, "..", 2) == 0)) {
            return false;
        }
        part += n;
        if (*part == '\0') {
            return true;
        }
    }
}

int s3_place_parse(const char *location, struct s3_place *p, struct err *err)
{
    bool is_ours = strncmp(location, SCHEME, sizeof SCHEME - 1) == 0;
    const char *bucket = is_ours ? location + sizeof SCHEME - 1 : "";
    size_t n = strcspn(bucket, "/");
    if (!is_bucket(bucket, n)) {
        return err_set(err, ERR_INVALID,
                       "%.256s: s3://BUCKET/PREFIX is expected, BUCKET being 3 to %d letters, "
                       "digits, dots and dashes",
                       location, S3_BUCKET_BYTES_MAX);
    }
    const char *key = bucket + n + strspn(bucket + n, "/");
    size_t key_bytes = strlen(key);
    while (key_bytes > 0 && key[key_bytes - 1] == '/') {
        key_bytes--;
    }
    if (key_bytes > S3_KEY_BYTES_MAX) {
        return err_set(err, ERR_INVALID, "%.256s...: longer than the %d bytes of a key", location,
                       S3_KEY_BYTES_MAX);
    }
    struct s3_place made = {0};
    memcpy(made.bucket, bucket, n);
    memcpy(made.key, key, key_bytes);
    if (key_bytes > 0 && (!is_key(made.key) || !text_is_utf8(made.key, key_bytes))) {
        return err_set(err, ERR_INVALID, "%.256s: a key is UTF-8, without '.', '..' or empty parts",
                       location);
    }
    *p = made;
    return 0;
}

void s3_nonce_new(char out[S3_NONCE_BYTES])
{
    unsigned char random[(S3_NONCE_BYTES - 1) / 2];
    while (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
    }
    for (size_t i = 0; i < sizeof random; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", random[i]);
    }
}

void s3_encode(struct buf *out, const char *text, bool path)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    for (const char *p = text; *p != '\0'; p++) {
        if (strchr(plain, *p) != NULL || (path && *p == '/')) {
            buf_add_char(out, *p);
        } else {
            buf_printf(out, "%%%02X", (unsigned)(unsigned char)*p);
        }
    }
}
