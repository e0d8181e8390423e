/* SPDX-License-Identifier: Apache-2.0 */
/* Records in memory, ready to be read in any order from any thread.
 *
 * dataset_open() reads, checks and decodes both sources; scaling, categories and class names come
 * from the train source and are applied to both. Immutable afterwards.
 *
 * Sparse fields stay sparse in memory. dataset_read() gives the lists of those that layers read,
 * and makes the columns of the others, behind the dense features. */
#ifndef GRADUS_DATA_DATASET_H
#define GRADUS_DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/data_spec.h"
#include "data/sparse_fields.h"
#include "tensor/batch.h"
#include "tensor/shape.h"

struct dataset;

/* Limits that a layer sets to the lists of a sparse field. */
struct list_limit {
    uint64_t keys;                               /* every key is below this; UINT64_MAX: any key */
    size_t length;                               /* keys of one list; SIZE_MAX: any number */
    const char *layer, *keys_hint, *length_hint; /* for the message */
};

struct dataset_info {
    uint64_t records;
    struct shape features; /* of one record: [28, 28] or [4]; with columns of sparse fields; [0]
                              where there are lists alone */
    struct sparse_names fields; /* all sparse fields; borrows from the dataset */
    bool weighted;              /* records have weights (data.weight) */
    bool label_is_class;
    uint32_t classes;   /* 0 for real labels */
    double label_scale; /* a real label in the data's units = value × label_scale + label_offset */
    double label_offset;
    uint64_t fingerprint; /* of the decoded records; equal on every node that has the same data */
};

/* Memory for @capacity records of @d. Errors: ERR_EXHAUSTED. */
int batch_init(struct batch *b, const struct dataset *d, size_t capacity, struct err *err);
void batch_release(struct batch *b);

/* Opens the sources of @spec. @test may come back NULL when the spec names none. @spec is borrowed
 * for the call. @label_kind: DATA_LABEL_CLASS or DATA_LABEL_REAL (auto is resolved by the job
 * file's loss). Errors: ERR_NOT_FOUND, ERR_INVALID, ERR_CORRUPT with file, byte or line, and what
 * was expected. */
int dataset_open(const struct data_spec *spec, enum data_label_kind label_kind,
                 struct dataset **train, struct dataset **test, struct err *err);
/* Adds an owner; each calls dataset_free(). Any thread. */
struct dataset *dataset_ref(struct dataset *d);
void dataset_free(struct dataset *d);
const struct dataset_info *dataset_info(const struct dataset *d);
/* The number of lines that data.bad_records left out, of both parts where a part was set aside from
 * one source; @first (may be NULL): what was wrong with the first of them, NULL for none. */
uint64_t dataset_bad_records(const struct dataset *d, const char **first);
/* True if records of @test (may be NULL) could have weights by @spec, and have none. */
bool dataset_lacks_weights(const struct dataset *test, const struct data_spec *spec);
/* The format of the files, and why data.format: auto took it. */
const char *dataset_format(const struct dataset *d);
bool dataset_is_streamed(const struct dataset *d); /* records stay in their files */
/* Where its records are: "memory", or which index leads to them. */
const char *dataset_loading(const struct dataset *d);
/* bytes that the records take in memory */
uint64_t dataset_bytes(const struct dataset *d);
const struct sparse_fields *dataset_fields(const struct dataset *d); /* may be none */
/* What was measured on the train records, as JSON (encoding_json.h). Of the train part alone; NULL
 * where it is too long. */
const char *dataset_measured(const struct dataset *d);
/* The first label or category that is not UTF-8, and where it is, in words; NULL: all are. */
const char *dataset_foreign_text(const struct dataset *d);
/* What data_spec.measured did not know of the train records, in words; NULL: nothing. */
const char *dataset_news(const struct dataset *d);
/* Class names in order, or NULL when they are plain numbers. */
const char *const *dataset_class_names(const struct dataset *d);
/* True if the records are all of one class (DATA_ONE_CLASS). */
bool dataset_of_one_class(const struct dataset *d);
/* The number of records of each class, [info.classes]. */
void dataset_class_counts(const struct dataset *d, uint64_t *out);
/* Errors: ERR_INVALID a record's list in sparse field @field is beyond @limit; names the record and
 * the key, and says that it is one of the @part ("train"). */
int dataset_check_lists(const struct dataset *d, const char *part, size_t field,
                        const struct list_limit *limit, struct err *err);
/* Errors: ERR_INVALID a record has no key in sparse field @field, or several. */
int dataset_check_groups(const struct dataset *d, const char *part, size_t field, struct err *err);
/* Errors: ERR_INVALID a feature is no whole number: names the record, and what may help. Of records
 * that stay in their files the first ones are looked at. */
int dataset_check_whole(const struct dataset *d, const char *part, struct err *err);
/* Bytes that batch_init() takes. */
uint64_t dataset_batch_bytes(const struct dataset *d, size_t capacity);
/* Decode @count different records with the given numbers into @b (count ≤ capacity). Any thread.
 * Errors, of records that are not in memory: of reading; ERR_CORRUPT a file has been changed. */
int dataset_read(const struct dataset *d, const uint64_t *records, size_t count, struct batch *b,
                 struct err *err);

#endif
