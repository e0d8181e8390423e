/* SPDX-License-Identifier: Apache-2.0 */
/* Records as a format read them: complete and checked, but not yet split, encoded or scaled.
 *
 * A record is a row of numbers (or of bytes), then of category columns (text), maybe sparse fields
 * (sparse_fields.h), and a label that is a number or a text. dataset_open() turns this into floats.
 */
#ifndef GRADUS_DATA_RECORDS_H
#define GRADUS_DATA_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "data/data_spec.h"
#include "data/names.h"
#include "data/sparse_fields.h"
#include "tensor/shape.h"

#define RECORDS_CATEGORY_NONE UINT32_MAX   /* a missing category */
#define RECORDS_CELLS_MAX (UINT32_MAX - 1) /* different cells of a declared column */

/* One column of text, to be one-hot encoded; of a declared list a value is the whole cell. */
struct category_column {
    char *name; /* for messages */
    struct names values;
    uint32_t *cells; /* [count] numbers in values, or RECORDS_CATEGORY_NONE */
};

/* Records of which a file says only the numbers that are not 0. */
struct sparse_rows {
    uint64_t *ends;    /* [count of records] of each record in the arrays below; NULL: none */
    uint32_t *indices; /* of numbers in their record, from 0, each once */
    float *values;
    uint64_t ends_capacity, indices_capacity, values_capacity;
};

/* Where a record is. */
struct place {
    uint32_t file;   /* of records.files */
    uint32_t number; /* line, or number of the record in the file */
};

struct records {
    char *where;        /* the file, as messages name it */
    char *labels_where; /* the file of the labels, or NULL when it is the same */
    char **files;       /* [file_count] of the labels; NULL: there is one file only */
    size_t file_count;
    uint64_t count;
    struct shape shape;          /* of the numbers of one record */
    size_t numbers;              /* their count */
    uint8_t *bytes;              /* [count × numbers] when the file holds bytes, else NULL */
    float *values;               /* [count × numbers] otherwise; NAN: missing */
    struct sparse_rows sparse;   /* in place of bytes and values, until records_spread() */
    struct sparse_fields fields; /* beside both; none: the records are dense alone */
    char **columns;              /* [numbers] names for messages, or NULL */
    bool named;                  /* the names of columns and categories are from the file */
    struct category_column *categories;
    size_t category_count;
    /* [numbers, then categories] of each the entry of data.columns; NULL: there are none */
    uint32_t *declared;
    double *labels; /* [count], or NULL when they are text */
    struct names label_texts;
    uint32_t *label_cells; /* [count] numbers in label_texts */
    float *weights;        /* [count] finite, from 0 on; NULL: all weigh 1 */
    struct place *places;  /* [count]; NULL: each record's index, in the one file */
    bool by_line;          /* places are lines */
    struct buf ids;        /* for each record a text with its NUL: the value of data_spec.id */
    uint64_t bad_count;    /* lines that were left out, because they are no records */
    uint64_t skipped;      /* records that were left out for a missing value */
    char *bad_first;       /* what was wrong with the first bad line */
    /* the meaning of data.scale: auto; SCALE_AUTO: it depends on the shape */
    enum data_scale usual_scale;
};

bool records_is_weight(double value);         /* finite as a float, from 0 on */
void records_release(struct records *r);      /* zeroed struct is fine */
void records_drop_columns(struct records *r); /* frees names of columns and all categories */
/* Append where the label of a record is: "iris.csv:17" or "train-labels: record 17". */
void records_where_label(const struct records *r, uint64_t record, struct buf *out);
/* Move the records that belong to the test part to @test (zeroed); both keep their order. A
 * record's part is a pure function of (@seed, its number). Errors: ERR_INVALID one part is empty;
 * ERR_EXHAUSTED. */
int records_split(struct records *all, double test_fraction, uint64_t seed, struct records *test,
                  struct err *err);
/* The same of records that begin with number @first of all; one part may be empty. */
int records_divide(struct records *all, uint64_t first, double test_fraction, uint64_t seed,
                   struct records *test, struct err *err);
/* An empty set of records of the kind of @r, without weights. */
int records_like(const struct records *r, struct records *out, struct err *err);
/* records_like(), without the texts of labels and categories. */
int records_kind(const struct records *r, struct records *out, struct err *err);
/* True if the record belongs to the test part. @seed_key: the key of a seed. */
bool records_is_test(uint64_t seed_key, uint64_t record, double test_fraction);
uint64_t records_split_key(uint64_t seed);
/* The error that a part is empty. */
int records_split_empty(const char *where, double test_fraction, uint64_t all, bool no_test,
                        struct err *err);
/* Give records of sparse rows all of @numbers numbers; numbers beyond are left out. Others stay as
 * they are. Errors: ERR_EXHAUSTED with how much memory that would take. */
int records_spread(struct records *r, size_t numbers, struct err *err);
/* Called when a line could not be read; @rc and @cause tell why. Leaves the line out and returns 0,
 * while no more than @allowed lines were left out, of which @had were in files before; else returns
 * the error. Only lines with wrong content are left out, not what is beyond a limit. */
int records_leave_out(struct records *r, uint64_t had, uint64_t allowed, int rc,
                      const struct err *cause, struct err *err);
/* The records of @where have weights (or have none), those of @before the other way. */
int records_weights_differ(const char *where, bool weighted, const char *before, struct err *err);
/* Append a copy of @more, from another file, which must be of the same kind; @all is to be released
 * when that fails. Errors: ERR_INVALID with the first difference and both names; ERR_EXHAUSTED. */
int records_append(struct records *all, const struct records *more, struct err *err);
/* The file @where begins with a header line (or does not), @before the other way. */
int records_headers_differ(const char *where, bool header, const char *before, struct err *err);
/* Have the place of each record stand in places. Errors: ERR_EXHAUSTED. */
int records_number(struct records *r, struct err *err);
/* Keep the first @limit records; 0: all. */
void records_limit(struct records *r, uint64_t limit);
/* Both sources must have the same numbers and columns. Errors: ERR_INVALID with the first
 * difference. */
int records_match(const struct records *train, const struct records *test, struct err *err);

/* Grow an array of which a file says the size, so that @need elements fit: it doubles from small,
 * because a lying header must not allocate terabytes. Returns the array, or NULL and the old one
 * stays. Errors: ERR_EXHAUSTED, also when the machine has no such memory. */
void *records_grow(void *array, uint64_t *capacity, uint64_t need, size_t size, const char *where,
                   struct err *err);
/* Resize an array to @count elements, with the errors of records_grow(). */
void *records_resize(void *array, uint64_t count, size_t size, const char *where, struct err *err);
/* Errors: ERR_EXHAUSTED when @count × @size bytes are more than the machine's memory. */
int records_check_memory(uint64_t count, size_t size, const char *where, struct err *err);

#endif
