/* SPDX-License-Identifier: Apache-2.0 */
/* The data that this process opened last, for the next start of a job that wants the same: a job
 * that goes back to its checkpoint does not wait until they are read and decoded once more.
 *
 * They count as the same while all keys of the data section are, and every file has the size, the
 * time of its last change and the place on disk that it had, every object its size and entity tag.
 * What the roots would not allow is never handed
 * out, whatever was read before. They stay in memory until other data are opened. Any thread may
 * call everything; who opens data that another thread is opening waits for them. */
#ifndef GRADUS_DATA_DATASET_CACHE_H
#define GRADUS_DATA_DATASET_CACHE_H

#include "data/dataset.h"

struct dataset_cache;

/* Opens files below @roots alone (borrowed; NULL: any), and writes indexes into @cache_dir
 * (borrowed; NULL or "": beside the data). */
struct dataset_cache *dataset_cache_new(const struct data_roots *roots, const char *cache_dir);
const struct data_roots *dataset_cache_roots(const struct dataset_cache *c); /* borrowed */
void dataset_cache_free(struct dataset_cache *c);                            /* NULL is fine */
/* dataset_open(), or a reference to what it made before: *@known tells. Errors: its. */
int dataset_cache_open(struct dataset_cache *c, const struct data_spec *spec,
                       enum data_label_kind label_kind, struct dataset **train,
                       struct dataset **test, bool *known, struct err *err);

#endif
