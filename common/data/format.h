/* SPDX-License-Identifier: Apache-2.0 */
/* The file formats: a table with one row each.
 *
 * To add one: format_<name>.c with `const struct format format_<name>`, a line in DATA_FORMATS
 * (data_spec.h). Tests reach formats through the table. */
#ifndef GRADUS_DATA_FORMAT_H
#define GRADUS_DATA_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/data_spec.h"
#include "data/records.h"

#define FORMAT_HEAD_BYTES 65536 /* first bytes of a file that are shown to look() */
#define FORMAT_LOOK_LINES 100U  /* of them, at most */

/* How well the beginning of a file fits a format. */
struct format_look {
    size_t lines, fit; /* lines that were looked at, and how many of them are records; 1 and 1: the
                          file is of the format */
    /* what fitting lines are, for messages: "are a label and index:value pairs" */
    const char *what;
};

/* Which format reads a file, and why. */
struct format_choice {
    const struct format *format;
    char *why;  /* owned; NULL: the job says so */
    bool sure;  /* nothing that was looked at speaks against it */
    bool empty; /* with ERR_INVALID: the file is empty, so nobody can say */
};

/* Whole lines or records of a file that are in memory, in place of all of the file. */
struct format_part {
    const char *bytes;
    size_t count;
    uint64_t line;   /* number of the first, or of the first record where they are no lines */
    uint64_t offset; /* of the bytes in the file, where that is known */
    /* The first row of a format in which it names the columns (CSV). */
    const char *first_row;
    size_t first_row_bytes;
    uint64_t first_row_line;
};

/* What is to be read. Everything is borrowed for the call. */
struct format_request {
    const struct data_spec *spec;
    const char *path;        /* of the features */
    const char *labels_path; /* "" without a file of labels */
    const char *key;         /* "train" or "test", for advice in messages */
    uint64_t limit;          /* stop after that many records; 0: all */
    uint64_t bad_had;        /* lines left out in the files before */
    bool label_is_class;
    bool may_be_empty;              /* a file without records is no error */
    const struct format_part *part; /* NULL: the file. That a part has no record is no error */
};

struct source;

/* Where records of a source go that is read once. */
struct format_blocks {
    size_t bytes; /* of a block in the file, about */
    /* It may take what the records have; they are released afterwards. */
    int (*visit)(void *context, struct records *block, struct err *err);
    void *context;
};

struct format {
    const char *name;
    bool parts;   /* reads parts of a file */
    bool weights; /* records can have a weight */
    /* Does a file that begins like this look like mine? Formats are asked in table order; the
     * first of which at least half of the lines are takes it. @look is zeroed. */
    void (*look)(const uint8_t *head, size_t n, struct format_look *look);
    /* Read into @out (zeroed), which is untouched on failure.
     * Errors: ERR_NOT_FOUND, ERR_INVALID, ERR_CORRUPT, ERR_EXHAUSTED, with file and byte or line.
     */
    int (*read)(const struct format_request *request, struct records *out, struct err *err);
    /* Of a format that has no parts, whose records come one after the other all the same: reads
     * @source, which request->path only names, from its beginning. NULL: it has to be read as a
     * whole. Errors: as read(); of the visit. */
    int (*stream)(const struct format_request *request, struct source *source,
                  const struct format_blocks *to, struct err *err);
};

/* The format of data.format; DATA_FORMAT_AUTO: found by the first lines of @path. Errors:
 * ERR_INVALID no format knows the file, nobody can tell which one it is, it is empty, or
 * data.weight needs what the format does not have; errors of source_open(). */
int format_find(const struct data_spec *spec, const char *path, struct format_choice *out,
                struct err *err);

#endif
