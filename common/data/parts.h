/* SPDX-License-Identifier: Apache-2.0 */
/* The two parts of a job's data, train and test, as the files hold them. */
#ifndef GRADUS_DATA_PARTS_H
#define GRADUS_DATA_PARTS_H

#include <stdbool.h>

#include "base/err.h"
#include "data/data_spec.h"
#include "data/file_list.h"
#include "data/format.h"
#include "data/records.h"

struct parts {
    struct records train, test;
    bool has_test;
    char *format; /* format of the train records, and why; owned */
};

/* Read all files of @spec, and set the test part aside when test_fraction says so. @like: records
 * that the train records have to fit, NULL: none. @out is zeroed, and is to be released in any
 * case. Errors: as dataset_open(). */
int parts_read(const struct data_spec *spec, bool label_is_class, const struct records *like,
               struct parts *out, struct err *err);
void parts_release(struct parts *p);
/* The files of data.test alone, whose records are of the kind of @like. @out is zeroed, and is to
 * be released in any case. Errors: as parts_read(). */
int parts_read_test(const struct data_spec *spec, bool label_is_class, const struct records *like,
                    struct records *out, struct err *err);

/* ---- for who reads the parts in another way ---- */

/* Errors: ERR_INVALID no train source, or two of test. */
int parts_check(const struct data_spec *spec, struct err *err);
/* The files of @part ("train", "test") and of their labels, both to be released in any case. */
int parts_files(const struct data_spec *spec, const char *part, struct file_list *files,
                struct file_list *labels, struct err *err);
/* The format of the files, by the first that has something in it; *@first: that one. Errors: as
 * format_find(); ERR_INVALID none has. */
int parts_format(const struct data_spec *spec, const char *part, const struct file_list *files,
                 size_t *first, struct format_choice *out, struct err *err);
/* Error: no file that the pattern has found has a record. */
int parts_empty(const char *part, const struct file_list *files, struct err *err);
/* the choice in the words of dataset_format(); owned */
char *parts_choice(const struct format_choice *choice);
/* the files in the words of messages; owned */
char *parts_where(const struct file_list *files);
/* Adds to an error that the choice of the format may be wrong. Returns the code of @err. */
int parts_doubt(const char *format, const char *why, struct err *err);

#endif
