/* SPDX-License-Identifier: Apache-2.0 */
/* What was measured on the train records (scaling, categories, class names), kept without them, so
 * that other records become what a trained model computes with: those of files, block by block, or
 * of raw numbers, categories and keys that somebody sends.
 *
 * Immutable once it is open; any thread may use it. Memory: of a block, beside what was measured.
 */
#ifndef GRADUS_DATA_ENCODER_H
#define GRADUS_DATA_ENCODER_H

#include "base/err.h"
#include "data/dataset.h"
#include "data/encoding.h"
#include "data/records.h"

struct encoder;

/* Measure the train records of @spec (borrowed for the call; what that borrows stays borrowed), as
 * dataset_open() does: the same numbers. Where records stay in their files the test source is
 * indexed, too, as there is one index of both. Errors: as dataset_open(). */
int encoder_open(const struct data_spec *spec, enum data_label_kind label_kind,
                 struct encoder **out, struct err *err);
/* Of what was measured before, as dataset_measured() has it: no train record is looked for. Errors:
 * as encoding_recall(). */
int encoder_recall(const char *measured, const struct data_spec *spec,
                   enum data_label_kind label_kind, struct encoder **out, struct err *err);
/* One more owner: encoder_free() by each. Any thread. */
struct encoder *encoder_ref(struct encoder *e);
void encoder_free(struct encoder *e); /* NULL is fine */

/* Of the train records, whose shape, fields and classes all have. */
const struct dataset_info *encoder_info(const struct encoder *e);
const struct sparse_fields *encoder_fields(const struct encoder *e);
/* As dataset_class_names(). */
const char *const *encoder_class_names(const struct encoder *e);
/* All that was measured, for who makes the same of records by other means. */
const struct encoding *encoder_encoding(const struct encoder *e);
/* Records as a format reads them, without any: names of numbers, categories and fields. */
const struct records *encoder_raw(const struct encoder *e);
/* May a value of this column be missing (NAN, or RECORDS_CATEGORY_NONE)? Numbers, then categories.
 */
bool encoder_takes_missing(const struct encoder *e, size_t column);
/* No records of this kind, without names of columns and with values in place of bytes; to be
 * filled, but for labels. Errors: ERR_EXHAUSTED. */
int encoder_begin(const struct encoder *e, struct records *out, struct err *err);

/* Records of this kind, which are taken, become what the model reads; their labels mean nothing.
 * Errors: ERR_INVALID other records than the train records were; ERR_EXHAUSTED. */
int encoder_apply(const struct encoder *e, struct records *r, struct dataset **out,
                  struct err *err);

/* The files that are to be read. */
struct encoder_files {
    const char *file; /* as data.test.file */
    bool unlabelled;  /* the files have no labels, which those of IDX never need */
};
/* Is given the records of the files in their order; the block is freed afterwards. */
typedef int encoder_visit(void *context, const struct dataset *block, struct err *err);
/* Go over all records of files that the data section of the job can read, with the format and the
 * header of the train files. Files that can be read in blocks are (data.loading: stream), others as
 * a whole. Every record is there: one that is bad, or that data.missing: skip would leave out, is
 * an error. Errors: as dataset_open(), encoder_apply() and @visit. */
int encoder_read(const struct encoder *e, const struct encoder_files *files, encoder_visit *visit,
                 void *context, struct err *err);

/* The same of the test part (or the train part) of the job's data, which @spec says: read as
 * training reads them, with their labels, and with what was measured. Errors: as encoder_read();
 * ERR_INVALID a label that no train record had, or that there is no such part. */
int encoder_read_part(const struct encoder *e, const struct data_spec *spec, bool test,
                      encoder_visit *visit, void *context, struct err *err);

#endif
