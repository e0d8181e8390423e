/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 by OpenSSL's library, which libcurl has brought along anyway. */
#include "storage/s3_sha256.h"

#include <openssl/sha.h>
#include <stdio.h>

void s3_sha256(const void *data, size_t n, char out[S3_SHA256_BYTES])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    (void)SHA256(data, n, digest);
    for (size_t i = 0; i < sizeof digest; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", digest[i]);
    }
}
