/* SPDX-License-Identifier: Apache-2.0 */
/* One attempt of a request, by libcurl. Only s3_curl.c includes curl's headers. */
#ifndef GRADUS_STORAGE_S3_CURL_H
#define GRADUS_STORAGE_S3_CURL_H

#include "storage/s3_config.h"
#include "storage/s3_credentials.h"
#include "storage/s3_request.h"

enum s3_outcome {
    S3_ANSWERED,    /* the status and the whole body have come */
    S3_NEVER_ASKED, /* the store cannot have seen it; it may work when tried again */
    S3_BROKEN,      /* the store may have carried it out */
    S3_HOPELESS,    /* it cannot work: a certificate that is not trusted; or s3_request.stop */
};

/* One attempt, which goes on from where @a is: bytes of a range that have come already are not
 * asked for again. @retry_after_s: as the store wishes. @err is set unless the outcome is
 * S3_ANSWERED. */
enum s3_outcome s3_curl_attempt(const struct s3_config *config, const struct s3_credentials *who,
                                const struct s3_request *r, struct s3_answer *a,
                                uint64_t *retry_after_s, struct err *err);

/* A form to a service beside the store, not signed; the answer is XML. */
enum s3_outcome s3_curl_form(const struct s3_config *config, const char *endpoint,
                             const struct buf *form, const atomic_bool *stop, struct s3_answer *a,
                             uint64_t *retry_after_s, struct err *err);

#endif
