/* SPDX-License-Identifier: Apache-2.0 */
/* Objects whose keys fit a pattern. */
#ifndef GRADUS_STORAGE_S3_FIND_H
#define GRADUS_STORAGE_S3_FIND_H

#include "storage/storage.h"

/* As storage_find(). */
int s3_find(const char *dir, const char *pattern, struct storage_names *out, struct err *err);

#endif
