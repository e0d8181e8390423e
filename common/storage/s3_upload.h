/* SPDX-License-Identifier: Apache-2.0 */
/* An object that is written in pieces of any size: parts of S3_PART_BYTES are sent by several
 * threads while the next one is filled. Nothing is seen of the object until the last call; one that
 * fits into a part is a single request. Used by one thread.
 *
 * Memory: S3_PARTS_PARALLEL parts. */
#ifndef GRADUS_STORAGE_S3_UPLOAD_H
#define GRADUS_STORAGE_S3_UPLOAD_H

#include "storage/s3_request.h"

/* Bytes of a part: at least 5 MiB, but for the last one. Each part costs a store work that does not
 * depend on its size, when it comes and when parts are put together. */
#define S3_PART_BYTES (16U << 20)
#define S3_PARTS_PARALLEL 4
#define S3_PARTS_MAX 10000 /* S3's limit */
/* Parts grow by S3_PART_BYTES after so many of one size, so that 859 GiB fit. */
#define S3_PARTS_OF_A_SIZE 1000

struct s3_upload;

struct s3_upload *s3_upload_new(const struct s3_place *place);
/* Errors: those of s3_call(), also of parts before; ERR_EXHAUSTED larger than an object can be. */
int s3_upload_add(struct s3_upload *u, const void *data, size_t n, struct err *err);
/* The object is there when this has returned 0. Frees @u in any case. */
int s3_upload_commit(struct s3_upload *u, struct err *err);
void s3_upload_abort(struct s3_upload *u); /* and frees */

/* Gives up uploads that were begun and not finished, of objects whose keys begin with that of
 * @place and a slash. Errors: those of s3_call(). */
int s3_upload_abort_below(const struct s3_place *place, struct err *err);

#endif
