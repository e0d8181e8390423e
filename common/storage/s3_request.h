/* SPDX-License-Identifier: Apache-2.0 */
/* One signed request to an object store, repeated until it is answered: after 5xx, 429, a broken
 * connection or one that stands still, with a growing pause. A request fails for good after
 * GRADUS_S3_ATTEMPTS attempts in a row that brought nothing; a download that brings some bytes in
 * each attempt goes on from where it is.
 *
 * Any thread may call; each call blocks. Connections are kept for later calls. */
#ifndef GRADUS_STORAGE_S3_REQUEST_H
#define GRADUS_STORAGE_S3_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define S3_KEY_BYTES_MAX 1024 /* S3's limit */
#define S3_BUCKET_BYTES_MAX 255
#define S3_ETAG_BYTES 136
#define S3_NONCE_BYTES 33
#define S3_HEADERS_MAX 4
#define S3_ANSWER_BYTES_MAX (16U << 20) /* of XML */

struct s3_place {
    char bucket[S3_BUCKET_BYTES_MAX + 1];
    char key[S3_KEY_BYTES_MAX + 1]; /* without slashes at its ends; empty: the bucket */
};
/* "s3://bucket/key". Errors: ERR_INVALID. */
int s3_place_parse(const char *location, struct s3_place *p, struct err *err);

struct s3_request {
    const char *method;
    const struct s3_place *place;
    const char *query;                   /* encoded, names sorted, "name=" without value; NULL */
    const char *headers[S3_HEADERS_MAX]; /* "if-none-match: *", lower case, sorted; NULL ends */
    const void *body;                    /* of PUT and POST; borrowed */
    size_t body_bytes;
    /* GET: a range into memory of the caller; NULL: everything into the answer */
    char *out;
    uint64_t first;
    size_t out_bytes;
    const atomic_bool *stop; /* once it is true, the call ends soon: ERR_CANCELLED; may be NULL */
};

struct s3_answer {
    long status;
    size_t got;           /* bytes of the range; fewer than asked for at the end of the object */
    uint64_t total_bytes; /* of the object, of an answer with a range */
    char etag[S3_ETAG_BYTES];
    char nonce[S3_NONCE_BYTES]; /* of x-amz-meta-gradus-nonce */
    struct buf body;            /* XML */
    bool repeated;              /* an attempt before may have been carried out */
};

/* s3_answer_release() in any case. Errors: ERR_NOT_FOUND no such object (or upload);
 * ERR_EXISTS the condition of the request does not hold; ERR_UNAUTHENTICATED the store does not let
 * us; ERR_STATE no such bucket, or another region; ERR_EXHAUSTED the store is full; ERR_UNSUPPORTED
 * it knows no such request; ERR_UNAVAILABLE all attempts have failed; ERR_CANCELLED; ERR_INTERNAL
 * other refusals.
 */
int s3_call(const struct s3_request *r, struct s3_answer *a, struct err *err);
void s3_answer_release(struct s3_answer *a);

/* Are settings and credentials there? Errors: as of s3_config.h. */
int s3_ready(struct err *err);

/* The name of what we write, random, for x-amz-meta-gradus-nonce. */
void s3_nonce_new(char out[S3_NONCE_BYTES]);
#define S3_NONCE_HEADER "x-amz-meta-gradus-nonce"
/* Append @text as a part of a query or, with its slashes, of a path. */
void s3_encode(struct buf *out, const char *text, bool path);

#endif
