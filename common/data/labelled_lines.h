/* SPDX-License-Identifier: Apache-2.0 */
/* What formats of one record per line share, whose lines begin with the label: LIBSVM, libFFM and
 * Criteo. Owner: one thread, in one call of a format. */
#ifndef GRADUS_DATA_LABELLED_LINES_H
#define GRADUS_DATA_LABELLED_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/format.h"
#include "data/lines.h"

/* A file on its way into records. */
struct labelled_lines {
    const struct format_request *request;
    struct records out; /* its arrays of labels and places have room for one more record */
    struct line line;   /* in hand */
    bool comments;      /* "#" begins one, and lines of blanks are empty */
    bool skip;          /* set by add(): the record is left out for a missing value */
    uint64_t labels_capacity, places_capacity;
};

/* Makes the line in hand, from @p on, the next record of @load, without counting it; when it fails,
 * or sets skip, it leaves no trace. */
typedef int labelled_lines_add(void *load, const char *p, struct err *err);

/* Read all lines of the file into records, with what data.bad_records allows. @load is the
 * callback's. Errors: as a format's read(). */
int labelled_lines_read(struct labelled_lines *l, labelled_lines_add *add, void *load,
                        struct err *err);
/* Takes the label at *@p, which is moved behind it: "-1", "+1" (the same as 1), "3" or "0.25". In
 * files without labels nothing is taken. */
int labelled_lines_label(struct labelled_lines *l, const char **p, struct err *err);
/* Take the digits at *@p, which is moved behind them; false: none, or beyond 2^64 - 1. */
bool labelled_lines_number(const char **p, uint64_t *number);
/* "a.libsvm:3:17: "x:1" <what>" about the word at @p of the line in hand. */
int labelled_lines_error(const struct labelled_lines *l, const char *p, const char *what,
                         struct err *err);
/* Refuse data.KEY.labels, with the name of the format. */
int labelled_lines_check(const struct format_request *request, const char *format, struct err *err);

static inline bool labelled_lines_blank(char c)
{
    return c == ' ' || c == '\t';
}

static inline const char *labelled_lines_skip_blanks(const char *p)
{
    while (labelled_lines_blank(*p)) {
        p++;
    }
    return p;
}

#endif
