/* SPDX-License-Identifier: Apache-2.0 */
/* Who we are in an object store. As the tools of AWS do, this takes the first that is there:
 *
 *     AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
 *     AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN    s3_identity.h
 *     AWS_SHARED_CREDENTIALS_FILE, AWS_PROFILE     ~/.aws/credentials, default
 */
#ifndef GRADUS_STORAGE_S3_CREDENTIALS_H
#define GRADUS_STORAGE_S3_CREDENTIALS_H

#include <stdatomic.h>

#include "base/err.h"
#include "storage/s3_config.h"

struct s3_credentials {
    char *key, *secret;
    char *token; /* NULL: none */
};
/* The file is read anew each time: credentials may be exchanged while we run. Errors:
 * ERR_UNAUTHENTICATED there are none, or half of them; those of s3_identity_credentials(). */
int s3_credentials_read(const struct s3_config *config, const atomic_bool *stop,
                        struct s3_credentials *c, struct err *err);
/* Says whether there are credentials, without asking a service. Errors as s3_credentials_read(). */
int s3_credentials_check(const struct s3_config *config, struct err *err);
void s3_credentials_release(struct s3_credentials *c); /* also wipes them */
/* Overwrites @secret, then frees it; NULL is fine. */
void s3_secret_wipe(char *secret);

#endif
