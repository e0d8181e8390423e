/* SPDX-License-Identifier: Apache-2.0 */
/* The `data` section of a job file: where the records are and how they become floats. */
#ifndef GRADUS_DATA_DATA_SPEC_H
#define GRADUS_DATA_DATA_SPEC_H

#include "config/field.h"
#include "data/column_spec.h"
#include "data/data_roots.h"

/* The formats in the order in which they are tried; a new one is a line here and format_<name>.c.
 */
#define DATA_FORMATS(X)                                                                            \
    X(IDX, idx)                                                                                    \
    X(TFRECORD, tfrecord)                                                                          \
    X(LIBFFM, libffm)                                                                              \
    X(LIBSVM, libsvm)                                                                              \
    X(CRITEO, criteo)                                                                              \
    X(CSV, csv)

enum data_format {
    DATA_FORMAT_AUTO,
#define X(NAME, name) DATA_FORMAT_##NAME,
    DATA_FORMATS(X)
#undef X
        DATA_FORMAT_COUNT
};
enum data_label_kind { DATA_LABEL_AUTO, DATA_LABEL_CLASS, DATA_LABEL_REAL };
enum data_header { DATA_HEADER_AUTO, DATA_HEADER_TRUE, DATA_HEADER_FALSE };
enum data_decimal { DATA_DECIMAL_POINT, DATA_DECIMAL_COMMA };
enum data_missing {
    DATA_MISSING_ERROR,
    DATA_MISSING_MEAN,
    DATA_MISSING_MEDIAN,
    DATA_MISSING_ZERO,
    DATA_MISSING_SKIP
};
enum data_scale {
    DATA_SCALE_AUTO,
    DATA_SCALE_NONE,
    DATA_SCALE_UNIT,
    DATA_SCALE_STANDARD,
    DATA_SCALE_MINMAX
};
enum data_short_rows { DATA_SHORT_ROWS_ERROR, DATA_SHORT_ROWS_MISSING };
enum data_loading { DATA_LOADING_AUTO, DATA_LOADING_MEMORY, DATA_LOADING_STREAM };
enum data_label_scale { DATA_LABEL_SCALE_NONE, DATA_LABEL_SCALE_STANDARD };

struct data_source {
    char *file;    /* FIELD_TEXTS: IDX features, CSV or LIBSVM files, maybe packed; or none; paths
                      and URLs, as all of these */
    char *labels;  /* FIELD_TEXTS: IDX labels, one for each file; empty for others */
    int64_t limit; /* use the first records only; 0: all */
};

struct data_spec {
    char *dir;  /* where relative paths start */
    int format; /* enum data_format; auto: by the first bytes of the file */
    struct data_source train, test;
    double test_fraction; /* without a test source: this part of the train source, chosen by
                             split_seed */
    int64_t split_seed;
    double negative_sampling; /* share of the train records of the first of two classes that is
                                 trained on; 1: all */
    char *label;              /* CSV: column name or 0-based index; negative counts from the end */
    char *weight;             /* weights of records: a column or a feature; "": all weigh 1 */
    int label_kind;      /* enum data_label_kind; auto: real for mean_squared_error, else class */
    int64_t classes;     /* 0: as many as the train labels name */
    int header;          /* enum data_header */
    char *separator;     /* one character, or "tab" */
    int decimal;         /* enum data_decimal: of numbers in CSV */
    int missing;         /* enum data_missing */
    int64_t bad_records; /* lines of each part that may be left out because they are no records */
    int short_rows;      /* enum data_short_rows */
    char *categorical;   /* text columns, one-hot encoded; read by field_texts_read_commas() */
    char *ignore;        /* columns to leave out; likewise */
    int scale;           /* enum data_scale; auto: unit for IDX and LIBSVM, standard for CSV */
    int64_t features;    /* LIBSVM: of a record; 0: as many as the train records name */
    int64_t first_index; /* LIBSVM: 0 or 1 */
    /* declared columns; owned by the job; none: the keys above say what columns are */
    struct data_column *columns;
    size_t column_count;
    /* Names of sparse fields whose keys the layers of the model read, in place of columns;
     * lists_all: every field. The model section says it; no key of the data section does. Owned by
     * the job. */
    char **lists;
    size_t list_count;
    bool lists_all;
    /* A sparse field whose lists a batch has, too, when it is fed as columns; NULL: none. No key:
     * borrows from the model section. */
    char *group;
    int label_scale; /* enum data_label_scale: train on standardised targets; metrics stay in the
                        data's units */
    int loading;     /* enum data_loading */
    int64_t memory;  /* of a loader that reads records from files; 0: a tenth of the machine's */
    /* Where indexes are written; NULL or "": beside the data. No key, as roots. Borrows. */
    const char *cache_dir;
    /* What was measured on the train records of another job (encoding_json.h), with which these
     * are encoded; NULL: it is measured on them. No key. Borrows. */
    const char *measured;
    bool unlabelled; /* The files have no labels, and every record gets one that means nothing. No
                        key: who asks a model for answers sets it */
    bool weightless; /* no weights are read. No key: who asks a model for answers sets it */
    bool test_is_train; /* data.test is (part of) the train source, for who reads a part alone. No
                           key */
    /* A column of text or JSON that is kept beside each record (records.h), NULL: none; and how
     * many columns with features there are without it. No keys: who asks a model for answers sets
     * them. Borrows. */
    const char *id;
    size_t id_beside;
    const struct data_roots *roots; /* borrows; NULL: all files may be read. No key: whoever reads
                                       the data sets it, and messages quote nothing of the files */
};

/* Rows with paths below "data": "dir", "train.file", … */
extern const struct field data_fields[];
extern const size_t data_field_count;

/* An owned copy that outlives @spec; what it borrows stays borrowed. */
struct data_spec data_spec_copy(const struct data_spec *spec);
void data_spec_release(struct data_spec *copy);
/* Append all keys but @except (NULL-terminated; NULL: none) as text: equal texts, equal settings.
 */
void data_spec_text(const struct data_spec *spec, const char *const *except, struct buf *out);

/* True if a share of the train records is left out. */
bool data_spec_samples(const struct data_spec *spec);
/* Whether records of @part ("train", "test") bring their weights: those of one test file need not
 * have any, and then count once each. */
enum data_weights { DATA_WEIGHTS_NONE, DATA_WEIGHTS_OPTIONAL, DATA_WEIGHTS_REQUIRED };
enum data_weights data_spec_weights(const struct data_spec *spec, const char *part);
#define DATA_NO_WEIGHTS                                                                            \
    "the test records do not have the weights that data.weight names, so each counts once"
/* What a missing value becomes, COLUMN_MISSING_DATA resolved. @c NULL: of a column that is not
 * declared. */
enum column_missing data_spec_missing(const struct data_spec *spec, const struct data_column *c);

#endif
