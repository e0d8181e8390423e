/* SPDX-License-Identifier: Apache-2.0 */
/* Which object store is meant, and who we are there. As the tools of AWS do, this looks into the
 * environment and into the shared file of credentials, so that one set of variables serves all
 * programs of a machine or container:
 *
 *     GRADUS_S3_ENDPOINT, AWS_ENDPOINT_URL     http://host:port; else AWS's own, by the region
 *     AWS_REGION, AWS_DEFAULT_REGION           us-east-1
 *     GRADUS_S3_PATH_STYLE                     true: http://host/bucket/key; false:
 *                                              http://bucket.host/key; true with an endpoint
 *     GRADUS_S3_ATTEMPTS                       of a request in a row that bring nothing; 10
 *     GRADUS_S3_STALL_SECONDS                  without a byte, and an attempt has failed; 30
 *     AWS_CA_BUNDLE                            the authorities that sign the store's certificate
 *     AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *     AWS_SHARED_CREDENTIALS_FILE, AWS_PROFILE ~/.aws/credentials, default
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
    unsigned attempts;
    uint64_t stall_ms;
};
/* Errors: ERR_INVALID says which variable. @c is written on success. */
int s3_config_read(struct s3_config *c, struct err *err);
void s3_config_release(struct s3_config *c); /* safe on a zeroed struct */

struct s3_credentials {
    char *key, *secret;
    char *token; /* NULL: none */
};
/* Read anew each time: they may be exchanged while we run. Errors: ERR_UNAUTHENTICATED there are
 * none, or half of them. */
int s3_credentials_read(struct s3_credentials *c, struct err *err);
void s3_credentials_release(struct s3_credentials *c); /* also wipes them */

#endif
