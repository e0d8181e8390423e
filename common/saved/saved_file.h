/* SPDX-License-Identifier: Apache-2.0 */
/* A trained model in one safetensors file: what a checkpoint's variables and tables read as, and in
 * its metadata all that makes records answers (docs/serving.md). */
#ifndef GRADUS_SAVED_SAVED_FILE_H
#define GRADUS_SAVED_SAVED_FILE_H

#include "data/encoder.h"
#include "graph/model.h"
#include "saved/saved_job.h"
#include "table/table.h"

/* Writes @c, which lies at @path, to @out_path; @average: the moving average in place of the
 * parameters. @bare: without metadata, so that equal values give equal bytes. @less: what the
 * metadata lack, and why ("" nothing): a rule that is not here, say. Errors: those of the job file,
 * where there are tables; those of checkpoint_export(). */
int saved_file_write(struct checkpoint *c, const char *path, bool average, bool bare,
                     const char *out_path, struct err *less, struct err *err);

struct saved_file;

/* Errors: ERR_CORRUPT it is no safetensors file, or a damaged one; ERR_UNSUPPORTED metadata are
 * lacking, or of another version; ERR_INVALID they have no number where one belongs; of files. */
int saved_file_open(const char *path, struct saved_file **out, struct err *err);
void saved_file_close(struct saved_file *f); /* NULL is fine */
const struct saved_about *saved_file_about(const struct saved_file *f);
bool saved_file_is_average(const struct saved_file *f);

/* Checks that its inputs, outputs and classes are those of what was measured. Errors: ERR_INVALID.
 */
int saved_file_check_data(const struct saved_file *f, const struct encoder *e, struct err *err);
/* Checks that its tensors are those of @model and of the tables of @spec, and no others; their
 * shapes are checked when they are read. Errors: ERR_INVALID. */
int saved_file_check_tensors(const struct saved_file *f, const struct model *model,
                             const struct job_spec *spec, struct err *err);

/* The shape of a variable that was checked; false: no variable can have its shape, and @out is cut
 * from it. */
bool saved_file_shape(const struct saved_file *f, const char *variable, struct shape *out);
/* All @count values. Errors: ERR_INVALID other ones than F32; of files. */
int saved_file_read(const struct saved_file *f, const char *variable, uint64_t count, float *out,
                    struct err *err);
/* Reads all rows of table @name into @table, which is new: as seen at its version. Errors:
 * ERR_INVALID keys and values do not fit each other or @table, or are not in the order of an
 * export; ERR_EXHAUSTED; of files. */
int saved_file_restore(const struct saved_file *f, const char *name, struct table *table,
                       struct err *err);

#endif
