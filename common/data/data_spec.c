/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a job file's `data` section as a table of fields, from which parsing, defaults,
 * help and the reference page are made. */
#include "data/data_spec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "data/encode.h"

#define AT(member) offsetof(struct data_spec, member)

static const char *const formats[] = {
    "auto",
#define X(NAME, name) #name,
    DATA_FORMATS(X)
#undef X
        NULL,
};
static const char *const label_kinds[] = {"auto", "class", "real", NULL};
static const char *const headers[] = {"auto", "true", "false", NULL};
static const char *const decimals[] = {"point", "comma", NULL};
static const char *const missings[] = {"error", "mean", "median", "zero", "skip", NULL};
static const char *const scales[] = {"auto", "none", "unit", "standard", "minmax", NULL};
static const char *const short_rows[] = {"error", "missing", NULL};
static const char *const loadings[] = {"auto", "memory", "stream", NULL};
static const char *const label_scales[] = {"none", "standard", NULL};

/* 2^53: larger whole numbers are not exact in the double that bounds are kept in. */
#define LIMIT_MAX 9007199254740992.0

const struct field data_fields[] = {
    {.path = "dir",
     .type = FIELD_STRING,
     .offset = AT(dir),
     .def = ".",
     .help = "The directory that relative data paths start from, or s3://BUCKET/PREFIX; itself "
             "relative, it starts from the directory of the job file (typed with --set: from the "
             "working directory)"},
    {.path = "format",
     .type = FIELD_ENUM,
     .offset = AT(format),
     .def = "auto",
     .choices = formats,
     .help = "The file format; auto looks at the first 100 lines of the first file, of which half "
             "must be of the format; the worker logs what it took, and why"},
    {.path = "train.file",
     .type = FIELD_TEXTS,
     .offset = AT(train.file),
     .help =
         "The records to train on: an IDX file of features, or a file of another format, plain, "
         "gzip, zlib or zstd, as a path or s3://BUCKET/KEY; or several of a kind, as a list or a "
         "pattern such as part-*.csv, whose files are read in the order of their names, byte by "
         "byte"},
    {.path = "train.labels",
     .type = FIELD_TEXTS,
     .offset = AT(train.labels),
     .def = "",
     .help = "The IDX file with the labels of train.file, or as many as there are files of "
             "features; other formats have labels beside the features"},
    {.path = "train.limit",
     .type = FIELD_INT,
     .offset = AT(train.limit),
     .def = "0",
     .max = LIMIT_MAX,
     .help = "Use the first records of train.file only, before test_fraction is taken; 0 is all"},
    {.path = "test.file",
     .type = FIELD_TEXTS,
     .offset = AT(test.file),
     .def = "",
     .help = "The records to evaluate on, in the form of train.file; empty for none"},
    {.path = "test.labels",
     .type = FIELD_TEXTS,
     .offset = AT(test.labels),
     .def = "",
     .help = "The IDX file with the labels of test.file"},
    {.path = "test.limit",
     .type = FIELD_INT,
     .offset = AT(test.limit),
     .def = "0",
     .max = LIMIT_MAX,
     .help = "Use the first test records only; 0 is all"},
    {.path = "test_fraction",
     .type = FIELD_FLOAT,
     .offset = AT(test_fraction),
     .def = "0",
     .max = 0.99,
     .help = "Without test.file: this part of the train records is set aside for evaluation; --set "
             "data.test.file=… takes its place"},
    {.path = "split_seed",
     .type = FIELD_INT,
     .offset = AT(split_seed),
     .def = "0",
     .max = LIMIT_MAX,
     .help = "Chooses which records test_fraction sets aside, and which negative_sampling keeps"},
    {.path = "negative_sampling",
     .type = FIELD_FLOAT,
     .offset = AT(negative_sampling),
     .def = "1",
     .max = 1,
     .help = "Of two classes: the share of the train records of the first one that are trained on, "
             "above 0; probabilities are those of all records (docs/data.md)"},
    {.path = "label",
     .type = FIELD_STRING,
     .offset = AT(label),
     .def = "-1",
     .help = "The CSV column to predict: its name or its number from 0, negative from the end"},
    {.path = "weight",
     .type = FIELD_STRING,
     .offset = AT(weight),
     .def = "",
     .help =
         "The CSV column, by name or number, or the TFRecord feature with a number from 0 on that "
         "says what a record counts: its gradient is multiplied by it, and in metrics it counts so "
         "much, the loss among them. It is no feature; records of a test file without it count "
         "once each, as all do when this is empty"},
    {.path = "label_kind",
     .type = FIELD_ENUM,
     .offset = AT(label_kind),
     .def = "auto",
     .choices = label_kinds,
     .help = "Whether labels are classes or real numbers; auto follows the loss, and of a program "
             "its metrics: with rmse or mae and without accuracy they are real"},
    {.path = "classes",
     .type = FIELD_INT,
     .offset = AT(classes),
     .def = "0",
     .max = 100000,
     .help = "The number of classes; 0 is as many as the train labels name"},
    {.path = "header",
     .type = FIELD_ENUM,
     .offset = AT(header),
     .def = "auto",
     .choices = headers,
     .help =
         "Whether the first CSV line holds column names; auto compares it with the lines below"},
    {.path = "separator",
     .type = FIELD_STRING,
     .offset = AT(separator),
     .def = ",",
     .help = "What separates CSV fields: one character, \"tab\", or \"space\" for runs of blanks"},
    {.path = "decimal",
     .type = FIELD_ENUM,
     .offset = AT(decimal),
     .def = "point",
     .choices = decimals,
     .help = "What stands before the decimals of a number in CSV: 1.5 or 1,5"},
    {.path = "missing",
     .type = FIELD_ENUM,
     .offset = AT(missing),
     .def = "error",
     .choices = missings,
     .help =
         "What a missing CSV value becomes (empty, NA, N/A, NaN, null, ?): an error, the mean or "
         "median of the train records, zero; skip leaves the record out"},
    {.path = "bad_records",
     .type = FIELD_INT,
     .offset = AT(bad_records),
     .def = "0",
     .max = LIMIT_MAX,
     .help = "How many lines or records that are none (wrong fields, no number, no label) are left "
             "out, and counted, of train and test each, of all formats but IDX; one more is an "
             "error; 0: the first is"},
    {.path = "short_rows",
     .type = FIELD_ENUM,
     .offset = AT(short_rows),
     .def = "error",
     .choices = short_rows,
     .help = "What a row of CSV or Criteo with fewer fields than the others is: an error (a bad "
             "record), or one "
             "whose last values are missing"},
    {.path = "categorical",
     .type = FIELD_TEXTS,
     .offset = AT(categorical),
     .def = "",
     .help =
         "Names or numbers of text columns, as a list or with commas between them; each category "
         "becomes a 0/1 feature"},
    {.path = "ignore",
     .type = FIELD_TEXTS,
     .offset = AT(ignore),
     .def = "",
     .help = "Names or numbers of CSV columns to leave out, as a list or with commas between them"},
    {.path = "scale",
     .type = FIELD_ENUM,
     .offset = AT(scale),
     .def = "auto",
     .choices = scales,
     .help =
         "How features are scaled, by the train records: unit (bytes ÷ 255, else ÷ largest "
         "magnitude), standard (mean 0, deviation 1), minmax (0 to 1), none; auto is unit for IDX "
         "and LIBSVM, where 0 stays 0, standard for CSV, and none with data.columns; sparse "
         "fields are never scaled"},
    {.path = "features",
     .type = FIELD_INT,
     .offset = AT(features),
     .def = "0",
     .max = ENCODE_FEATURES_MAX,
     .help = "LIBSVM: the number of features of a record, and a larger index is an error; 0 is as "
             "many as the train records name, and what only test records have is left out"},
    {.path = "first_index",
     .type = FIELD_INT,
     .offset = AT(first_index),
     .def = "1",
     .max = 1,
     .help = "LIBSVM: the index of the first feature, 1 or 0"},
    {.path = "label_scale",
     .type = FIELD_ENUM,
     .offset = AT(label_scale),
     .def = "none",
     .choices = label_scales,
     .help = "Train on real labels with mean 0 and deviation 1; metrics stay in the data's units"},
    {.path = "loading",
     .type = FIELD_ENUM,
     .offset = AT(loading),
     .def = "auto",
     .choices = loadings,
     .help =
         "Whether records are read into memory, or from their files when they are needed, which "
         "takes an index beside them or in --cache-dir; auto streams LIBSVM, libFFM, Criteo, "
         "CSV and TFRecord files that are larger than a third of the memory"},
    {.path = "memory",
     .type = FIELD_BYTES,
     .offset = AT(memory),
     .def = "0",
     .max = 1125899906842624.0,
     .help =
         "The memory that loading: stream plans for beside the batches; 0 is a tenth of that of "
         "the machine or container, at most 1 GiB"},
};
const size_t data_field_count = sizeof data_fields / sizeof data_fields[0];

bool data_spec_samples(const struct data_spec *spec)
{
    return spec->negative_sampling > 0 && spec->negative_sampling < 1;
}

enum data_weights data_spec_weights(const struct data_spec *spec, const char *part)
{
    if (spec->weight == NULL || spec->weight[0] == '\0' || spec->weightless) {
        return DATA_WEIGHTS_NONE;
    }
    return strcmp(part, "train") == 0 || spec->test_is_train ? DATA_WEIGHTS_REQUIRED
                                                             : DATA_WEIGHTS_OPTIONAL;
}

enum column_missing data_spec_missing(const struct data_spec *spec, const struct data_column *c)
{
    static const enum column_missing of_data[] = {
        [DATA_MISSING_ERROR] = COLUMN_MISSING_ERROR,   [DATA_MISSING_MEAN] = COLUMN_MISSING_MEAN,
        [DATA_MISSING_MEDIAN] = COLUMN_MISSING_MEDIAN, [DATA_MISSING_ZERO] = COLUMN_MISSING_ZERO,
        [DATA_MISSING_SKIP] = COLUMN_MISSING_SKIP,
    };
    return c == NULL || c->missing == COLUMN_MISSING_DATA ? of_data[spec->missing]
                                                          : (enum column_missing)c->missing;
}

static const struct {
    const struct field *fields;
    const size_t *count;
} tables[] = {{data_fields, &data_field_count}, {data_column_fields, &data_column_field_count}};

/* Have @object, a copy of another one, own its texts. */
static void own_texts(size_t table, void *object)
{
    for (size_t i = 0; i < *tables[table].count; i++) {
        const struct field *f = &tables[table].fields[i];
        if (f->type == FIELD_STRING || f->type == FIELD_TEXTS) {
            char **text = (char **)((char *)object + f->offset);
            *text = mem_strdup(*text);
        }
    }
}

struct data_spec data_spec_copy(const struct data_spec *spec)
{
    struct data_spec copy = *spec;
    own_texts(0, &copy);
    copy.columns = mem_new(spec->column_count, sizeof *copy.columns);
    for (size_t i = 0; i < spec->column_count; i++) {
        copy.columns[i] = spec->columns[i];
        own_texts(1, &copy.columns[i]);
    }
    copy.lists = spec->lists == NULL ? NULL : mem_new(spec->list_count, sizeof *copy.lists);
    for (size_t i = 0; i < spec->list_count; i++) {
        copy.lists[i] = mem_strdup(spec->lists[i]);
    }
    copy.group = mem_strdup(spec->group);
    return copy;
}

void data_spec_release(struct data_spec *copy)
{
    for (size_t i = 0; i < copy->column_count; i++) {
        field_release(data_column_fields, data_column_field_count, &copy->columns[i]);
    }
    for (size_t i = 0; i < copy->list_count; i++) {
        free(copy->lists[i]);
    }
    field_release(data_fields, data_field_count, copy);
    free(copy->columns);
    free(copy->lists);
    free(copy->group);
    *copy = (struct data_spec){0};
}

static bool is_one_of(const char *text, const char *const *list)
{
    for (; list != NULL && *list != NULL; list++) {
        if (strcmp(text, *list) == 0) {
            return true;
        }
    }
    return false;
}

void data_spec_text(const struct data_spec *spec, const char *const *except, struct buf *out)
{
    for (size_t i = 0; i < data_field_count; i++) {
        if (!is_one_of(data_fields[i].path, except)) {
            field_format(&data_fields[i], spec, out);
            buf_add_char(out, '\n');
        }
    }
    for (size_t i = 0; i < spec->column_count; i++) {
        for (size_t k = 0; k < data_column_field_count; k++) {
            field_format(&data_column_fields[k], &spec->columns[i], out);
            buf_add_char(out, '\n');
        }
    }
    buf_printf(out, "%d", (int)spec->lists_all);
    for (size_t i = 0; i < spec->list_count; i++) {
        buf_printf(out, " %zu:%s", strlen(spec->lists[i]), spec->lists[i]);
    }
    buf_printf(out, " group %s\n", spec->group == NULL ? "" : spec->group);
    if (spec->measured != NULL) {
        buf_printf(out, "measured %016" PRIx64 "\n",
                   checksum_of(spec->measured, strlen(spec->measured)));
    }
}
