/* SPDX-License-Identifier: Apache-2.0 */
/* Which object store is meant. The names in the environment are those of AWS's tools, so that one
 * set of variables serves all programs of a machine or container:
 *
 *     GRADUS_S3_ENDPOINT, AWS_ENDPOINT_URL     http://host:port; else AWS's own, by the region
 *     AWS_REGION, AWS_DEFAULT_REGION           us-east-1
 *     GRADUS_S3_PATH_STYLE                     true: http://host/bucket/key; false:
 *                                              http://bucket.host/key; true with an endpoint
 *     GRADUS_S3_SIGN_PAYLOAD                   true: a request's signature covers its body; false:
 *                                              its head alone; true unless the endpoint is https
 *     GRADUS_S3_ATTEMPTS                       of a request in a row that bring nothing; 10
 *     GRADUS_S3_STALL_SECONDS                  without a byte, and an attempt has failed; 30
 *     AWS_CA_BUNDLE                            the authorities that sign the store's certificate
 *     AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN, AWS_ROLE_SESSION_NAME
 *                                              s3_identity.h; the session: gradus
 *     AWS_ENDPOINT_URL_STS                     where roles are had; else the endpoint that is named
 *                                              above, else AWS's own, by the region
 */
#ifndef GRADUS_STORAGE_S3_CONFIG_H
#define GRADUS_STORAGE_S3_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define S3_ATTEMPTS_MAX 100
#define S3_STALL_SECONDS_MAX 3600

struct s3_config {
    char *endpoint; /* "http://127.0.0.1:9000", without a slash at the end */
    char *region;
    char *ca_bundle; /* NULL: the system's */
    bool path_style;
    bool sign_payload;
    unsigned attempts;
    uint64_t stall_ms;
    char *sts_endpoint;
    char *identity_file; /* NULL: none; and neither are the two below */
    char *role_arn, *role_session;
};
/* Errors: ERR_INVALID says which variable. @c is written on success. */
int s3_config_read(struct s3_config *c, struct err *err);
void s3_config_release(struct s3_config *c); /* safe on a zeroed struct */

/* NULL: it is not set, or empty. */
const char *s3_variable(const char *name);

#endif
