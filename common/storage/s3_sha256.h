/* SPDX-License-Identifier: Apache-2.0 */
/* The hash of a request's body, which is part of its signature. */
#ifndef GRADUS_STORAGE_S3_SHA256_H
#define GRADUS_STORAGE_S3_SHA256_H

#include <stddef.h>

#define S3_SHA256_BYTES 65 /* in hexadecimal digits */

/* Errors are not possible; the digest of OpenSSL is a function of its input. */
void s3_sha256(const void *data, size_t n, char out[S3_SHA256_BYTES]);

#endif
