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

#define FORMAT_HEAD_BYTES 512 /* that many first bytes are shown to sniff() */

/* What to read. All is borrowed for the call. */
struct format_request {
    const struct data_spec *spec;
    const char *path;        /* of the features */
    const char *labels_path; /* "" when there is none */
    const char *key;         /* "train" or "test", for advice in messages */
    uint64_t limit;          /* stop after that many records; 0: all */
    uint64_t bad_had;        /* lines left out in the files before */
    bool label_is_class;
};

struct format {
    const char *name;
    /* Does a file that begins like this look like mine? Formats are asked in table order. */
    bool (*sniff)(const uint8_t *head, size_t n);
    /* Read into @out (zeroed), which is untouched on failure.
     * Errors: ERR_NOT_FOUND, ERR_INVALID, ERR_CORRUPT, ERR_EXHAUSTED, with file and byte or line.
     */
    int (*read)(const struct format_request *request, struct records *out, struct err *err);
};

/* The format of @kind; DATA_FORMAT_AUTO: by the first bytes of @path.
 * Errors: ERR_INVALID no format knows the file, or it is empty; errors of source_open(). */
int format_find(enum data_format kind, const char *path, const struct format **out,
                struct err *err);

#endif
