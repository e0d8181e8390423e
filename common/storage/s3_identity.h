/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials for the identity that a platform gives a process: a file with a web identity token
 * (of Kubernetes: a projected service account token) is exchanged for keys of a role that live for
 * an hour, by AssumeRoleWithWebIdentity of the AWS Security Token Service, which MinIO and Ceph
 * answer, too. The keys are kept for the process, and exchanged before they end; the file is read
 * anew each time.
 *
 * Source: AWS Security Token Service API Reference, AssumeRoleWithWebIdentity, version 2011-06-15.
 *
 * Any thread may call; one at a time asks, and others go on with keys that are still good. */
#ifndef GRADUS_STORAGE_S3_IDENTITY_H
#define GRADUS_STORAGE_S3_IDENTITY_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "storage/s3_credentials.h"

/* New ones are asked for when the rest of their life is less than this, or than a quarter of it. */
#define S3_IDENTITY_REST_S 300

/* @config names an identity. Errors: ERR_UNAUTHENTICATED the file cannot be read, or the service
 * does not give us the role; ERR_UNAVAILABLE it cannot be asked; ERR_CANCELLED; ERR_CORRUPT its
 * answer is not understood. */
int s3_identity_credentials(const struct s3_config *config, const atomic_bool *stop,
                            struct s3_credentials *out, struct err *err);
/* Can the file be read? Asks no service. */
int s3_identity_check(const struct s3_config *config, struct err *err);

/* The answer of the service: @out, and @until_s, in seconds of the epoch. Errors: ERR_CORRUPT. */
int s3_identity_parse(const char *xml, size_t n, struct s3_credentials *out, int64_t *until_s,
                      struct err *err);

#endif
