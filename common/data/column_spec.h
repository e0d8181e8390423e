/* SPDX-License-Identifier: Apache-2.0 */
/* The declared columns of data, `data.columns` of a job file: what a cell or a field means and
 * which features it becomes (docs/data.md has the formulas). */
#ifndef GRADUS_DATA_COLUMN_SPEC_H
#define GRADUS_DATA_COLUMN_SPEC_H

#include "config/field.h"
#include "data/names.h"

#define COLUMNS_DECLARED_MAX 1024 /* entries are written by hand; a range counts as one */
#define COLUMN_BOUNDARIES_MAX 1000

enum column_kind {
    COLUMN_NUMBER,
    COLUMN_CATEGORY,
    COLUMN_LIST,
    COLUMN_LABEL,
    COLUMN_IGNORE,
    COLUMN_SPARSE,
    COLUMN_WEIGHT /* no value of the key: the feature of data.weight */
};
enum column_hash { COLUMN_HASH_XXH3, COLUMN_HASH_FNV1A, COLUMN_HASH_NONE };
/* What an empty cell becomes; the first is what data.missing says. */
enum column_missing {
    COLUMN_MISSING_DATA,
    COLUMN_MISSING_ERROR,
    COLUMN_MISSING_SKIP,
    COLUMN_MISSING_ZERO,
    COLUMN_MISSING_MEAN,
    COLUMN_MISSING_MEDIAN,
    COLUMN_MISSING_OWN
};
enum column_unknown { COLUMN_UNKNOWN_AUTO, COLUMN_UNKNOWN_OWN, COLUMN_UNKNOWN_ZERO };

struct data_column {
    char *column;     /* a name, a number from 0 (negative from the end), or a range A..B */
    int as;           /* enum column_kind */
    int missing;      /* enum column_missing */
    bool log;         /* number: sign(x) · ln(1 + |x|) */
    char *boundaries; /* number; FIELD_TEXTS of rising numbers: one feature for each bucket */
    bool standardise; /* number: (x − mean) ÷ deviation */
    double mean;      /* with deviation */
    double deviation; /* 0: both are measured on the train records */
    int hash;         /* enum column_hash */
    int64_t buckets;  /* category, list: hashed into so many features; 0: by a vocabulary */
    char *vocabulary; /* FIELD_TEXTS: the categories */
    /* a file with one category in each line; neither: the categories of the train records */
    char *vocabulary_file;
    int unknown;     /* enum column_unknown */
    char *separator; /* list, sparse: one character between two categories of a cell */
    int64_t length;  /* number: of a list of numbers (TFRecord) */
    int64_t width;   /* sparse: columns that its keys fall into; 0: none */
    /* No key: the content of vocabulary_file, given by a caller that knows it; borrows. NULL: the
     * file is read. */
    const struct names *known;
};

extern const struct field data_column_fields[];
extern const size_t data_column_field_count;

/* True if the key @field means something for this kind of column. */
bool data_column_has(const struct data_column *c, const struct field *field);
/* Do the values of one column fit each other? @seen: which rows of the table were given.
 * Errors: ERR_INVALID "key: what is wrong; allowed: …". */
int data_column_check(const struct data_column *c, const bool *seen, struct err *err);
/* Append all that decides what a cell becomes, as the job file has it: "{column: city, as:
 * category}". A vocabulary file is said without its name. */
void data_column_describe(const struct data_column *c, struct buf *out);
/* The boundaries as rising numbers, owned; *@count 0 and NULL where there are none.
 * Errors: ERR_INVALID as data_column_check(). */
int data_column_boundaries(const struct data_column *c, double **out, size_t *count,
                           struct err *err);
void data_columns_free(struct data_column *columns, size_t count);

#endif
