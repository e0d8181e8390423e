/* SPDX-License-Identifier: Apache-2.0 */
/* Lists keys of a bucket, page by page. */
#ifndef GRADUS_STORAGE_S3_LIST_H
#define GRADUS_STORAGE_S3_LIST_H

#include "storage/s3_request.h"

/* @key: whole. Returns 0, or an error, with which the list ends. */
typedef int s3_list_each(void *ctx, const char *key, struct err *err);

/* Calls @each for every key that begins with that of @place and a slash (for the whole bucket, when
 * it has none), and then with @begin. @names: only names directly beneath, directories with a slash
 * at the end. @max: how many at most; 0: all. Errors: of s3_call() and @each; ERR_CORRUPT the
 * store's answer. */
int s3_list(const struct s3_place *place, const char *begin, bool names, unsigned max,
            s3_list_each *each, void *ctx, struct err *err);

/* Unfinished uploads, as above. */
typedef int s3_list_upload(void *ctx, const char *key, const char *id, struct err *err);
int s3_list_uploads(const struct s3_place *place, s3_list_upload *each, void *ctx, struct err *err);

#endif
