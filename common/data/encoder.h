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
/* Makes an encoder of what was measured before, as dataset_measured() has it, without a train
 * record. Errors: as encoding_recall(). */
int encoder_recall(const char *measured, const struct data_spec *spec,
                   enum data_label_kind label_kind, struct encoder **out, struct err *err);
/* Adds an owner; each calls encoder_free(). Any thread. */
struct encoder *encoder_ref(struct encoder *e);
void encoder_free(struct encoder *e); /* NULL is fine */

/* The info of the train records, whose shape, fields and classes all records have. */
const struct dataset_info *encoder_info(const struct encoder *e);
const struct sparse_fields *encoder_fields(const struct encoder *e);
/* As dataset_class_names(). */
const char *const *encoder_class_names(const struct encoder *e);
/* Everything that was measured, for code that encodes records by other means. */
const struct encoding *encoder_encoding(const struct encoder *e);
/* Records as a format reads them, without any: names of numbers, categories and fields. */
const struct records *encoder_raw(const struct encoder *e);
/* May a value of this column be missing (NAN, or RECORDS_CATEGORY_NONE)? Numbers, then categories.
 */
bool encoder_takes_missing(const struct encoder *e, size_t column);
/* the spec of what was measured; borrows */
const struct data_spec *encoder_spec(const struct encoder *e);
/* No records of this kind, without names of columns and with values in place of bytes; to be
 * filled, but for labels. Errors: ERR_EXHAUSTED. */
int encoder_begin(const struct encoder *e, struct records *out, struct err *err);

/* Records of this kind, which are taken, become what the model reads; their labels mean nothing.
 * Errors: ERR_INVALID other records than the train records were; ERR_EXHAUSTED. */
int encoder_apply(const struct encoder *e, struct records *r, struct dataset **out,
                  struct err *err);

/* The files that are to be read. */
struct encoder_files {
    const char *file; /* as data.test.file; "-": standard input */
    bool unlabelled;  /* the files have no labels, which those of IDX and JSON never need */
    bool json; /* lines with a JSON object each (json_records.h), whatever the train files are */
    const char *id; /* a column that is given along with the records; NULL: none */
};
/* Some records of the files, in their order, for the time of the call. */
struct encoder_block {
    const struct dataset *data;
    const char *ids; /* of each record a text with its NUL; NULL: none were asked for */
};
typedef int encoder_visit(void *context, const struct encoder_block *block, struct err *err);
struct encoder_unknown { /* categories of a column of which the model reads nothing */
    const char *column;  /* borrowed of the encoder */
    uint64_t records;    /* that have one */
    char *first;         /* owned; the first of them, quoted, and where it is */
};
struct encoder_left {                /* what has no part in what is read; begins zeroed */
    uint64_t count;                  /* records that were left out */
    char *first;                     /* owned; what was wrong with the first of them */
    struct encoder_unknown *unknown; /* [unknown_count] columns of categories, in their order */
    size_t unknown_count;
};
void encoder_left_release(struct encoder_left *left);
/* Go over all records of files that the data section of the job can read, with the format and the
 * header of the train files. Files that can be read in blocks are (data.loading: stream), as
 * standard input is, others as a whole. Up to data.bad_records that are none are left out, and
 * counted in @left; one that data.missing: skip would leave out is an error. Categories that no
 * train record had are counted there, too. Errors: as
 * dataset_open(), encoder_apply() and @visit. */
int encoder_read(const struct encoder *e, const struct encoder_files *files, encoder_visit *visit,
                 void *context, struct encoder_left *left, struct err *err);

/* encoder_read() of the test part (or the train part) of the job's data, which @spec says: read as
 * training reads them, with their labels, and with what was measured. Errors: as encoder_read();
 * ERR_INVALID a label that no train record had, or that there is no such part. */
int encoder_read_part(const struct encoder *e, const struct data_spec *spec, bool test,
                      encoder_visit *visit, void *context, struct err *err);

#endif
