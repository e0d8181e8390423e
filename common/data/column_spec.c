/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of one entry of `data.columns` as a table of fields, and which of them go together. */
#include "data/column_spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "config/field_texts.h"
#include "data/encode.h"

static const char *const kinds[] = {"number", "category", "list", "label",
                                    "ignore", "sparse",   NULL};
static const char *const hashes[] = {"xxh3", "fnv1a", "none", NULL};
static const char *const missings[] = {"data", "error",  "skip", "zero",
                                       "mean", "median", "own",  NULL};
static const char *const unknowns[] = {"auto", "own", "zero", NULL};

enum {
    ROW_COLUMN,
    ROW_AS,
    ROW_MISSING,
    ROW_LOG,
    ROW_BOUNDARIES,
    ROW_STANDARDISE,
    ROW_MEAN,
    ROW_DEVIATION,
    ROW_BUCKETS,
    ROW_HASH,
    ROW_VOCABULARY,
    ROW_VOCABULARY_FILE,
    ROW_UNKNOWN,
    ROW_SEPARATOR,
    ROW_WIDTH,
    ROW_LENGTH,
    ROW_COUNT
};

#define AT(member) offsetof(struct data_column, member)
const struct field data_column_fields[] = {
    [ROW_COLUMN] = {.path = "column",
                    .type = FIELD_TEXTS,
                    .offset = AT(column),
                    .help = "The column: its name, its number from 0, negative from the end, or "
                            "several as FIRST..LAST, such as I1..I13 or 1..13; or a list of these"},
    [ROW_AS] = {.path = "as",
                .type = FIELD_ENUM,
                .offset = AT(as),
                .def = "number",
                .choices = kinds,
                .help = "What its cells are: a number, a category, a list of categories, the label "
                        "to predict, nothing to learn from, or sparse: a list of 64-bit keys"},
    [ROW_MISSING] = {.path = "missing",
                     .type = FIELD_ENUM,
                     .offset = AT(missing),
                     .def = "data",
                     .choices = missings,
                     .help = "What a missing value becomes: data is what data.missing says; an "
                             "error; skip leaves the record out; zero is the number 0, of "
                             "categories no category at all; mean or median of the train records "
                             "(numbers); own is a feature of its own (categories, boundaries)"},
    [ROW_LOG] = {.path = "log",
                 .type = FIELD_BOOL,
                 .offset = AT(log),
                 .def = "false",
                 .help = "Number: take sign(x) · ln(1 + |x|), before boundaries or standardise"},
    [ROW_BOUNDARIES] = {.path = "boundaries",
                        .type = FIELD_TEXTS,
                        .offset = AT(boundaries),
                        .def = "",
                        .help = "Number: rising numbers b1 < b2 < … that make buckets, x < b1, "
                                "b1 <= x < b2, …, bn <= x, each a 0/1 feature"},
    [ROW_STANDARDISE] = {.path = "standardise",
                         .type = FIELD_BOOL,
                         .offset = AT(standardise),
                         .def = "false",
                         .help = "Number: take (x - mean) / deviation"},
    [ROW_MEAN] = {.path = "mean",
                  .type = FIELD_FLOAT,
                  .offset = AT(mean),
                  .def = "0",
                  .min = -1e30,
                  .max = 1e30,
                  .help = "Standardise: the mean, of logarithms where there is log; together with "
                          "deviation"},
    [ROW_DEVIATION] = {.path = "deviation",
                       .type = FIELD_FLOAT,
                       .offset = AT(deviation),
                       .def = "0",
                       .max = 1e30,
                       .help = "Standardise: the standard deviation; 0: it and the mean are "
                               "measured on the train records"},
    [ROW_BUCKETS] = {.path = "buckets",
                     .type = FIELD_INT,
                     .offset = AT(buckets),
                     .def = "0",
                     .max = ENCODE_FEATURES_MAX,
                     .help = "Category, list: hash into so many 0/1 features; 0: one feature for "
                             "each category of the vocabulary"},
    [ROW_HASH] = {.path = "hash",
                  .type = FIELD_ENUM,
                  .offset = AT(hash),
                  .def = "xxh3",
                  .choices = hashes,
                  .help = "Buckets: the hash of a category's bytes, 64 bits, whose remainder by "
                          "buckets is the feature: XXH3 with seed 0, or FNV-1a; sparse: the same, "
                          "of texts to make keys of them, of keys that are numbers to make columns "
                          "of them, where none takes the number itself"},
    [ROW_VOCABULARY] = {.path = "vocabulary",
                        .type = FIELD_TEXTS,
                        .offset = AT(vocabulary),
                        .def = "",
                        .help = "Category, list: the categories that there are; without it and "
                                "vocabulary_file those of the train records, sorted"},
    [ROW_VOCABULARY_FILE] = {.path = "vocabulary_file",
                             .type = FIELD_STRING,
                             .offset = AT(vocabulary_file),
                             .def = "",
                             .help = "A file with one category in each line, in place of "
                                     "vocabulary; below data.dir, or s3://BUCKET/KEY"},
    [ROW_UNKNOWN] = {.path = "unknown",
                     .type = FIELD_ENUM,
                     .offset = AT(unknown),
                     .def = "auto",
                     .choices = unknowns,
                     .help = "What a category outside of the vocabulary becomes: own is one "
                             "feature for all of them, zero none; auto is own where the job gives "
                             "the vocabulary, else zero"},
    [ROW_SEPARATOR] = {.path = "separator",
                       .type = FIELD_STRING,
                       .offset = AT(separator),
                       .def = "|",
                       .help = "List, sparse: the character between two categories of a cell"},
    [ROW_LENGTH] = {.path = "length",
                    .type = FIELD_INT,
                    .offset = AT(length),
                    .def = "1",
                    .min = 1,
                    .max = ENCODE_FEATURES_MAX,
                    .help = "Number: how many numbers a feature of TFRecord is a list of"},
    [ROW_WIDTH] = {.path = "width",
                   .type = FIELD_INT,
                   .offset = AT(width),
                   .def = "0",
                   .max = ENCODE_FEATURES_MAX,
                   .help = "Sparse: where no layer reads the field, the columns that it is fed to "
                           "the model as: column (hash of the key) mod width is the sum of the "
                           "weights of its keys"},
};
const size_t data_column_field_count = sizeof data_column_fields / sizeof data_column_fields[0];
_Static_assert(sizeof data_column_fields / sizeof data_column_fields[0] == ROW_COUNT, "rows");

int data_column_boundaries(const struct data_column *c, double **out, size_t *count,
                           struct err *err)
{
    *out = NULL;
    *count = 0;
    struct field_texts texts = {0};
    if (c->boundaries == NULL || c->boundaries[0] == '\0') {
        return 0;
    }
    if (!field_texts_read(c->boundaries, &texts) || texts.count > COLUMN_BOUNDARIES_MAX) {
        field_texts_release(&texts);
        return err_set(err, ERR_INVALID,
                       "boundaries: this is no list; allowed: up to %d rising numbers",
                       COLUMN_BOUNDARIES_MAX);
    }
    double *made = mem_new(texts.count, sizeof *made);
    int rc = 0;
    for (size_t i = 0; i < texts.count && rc == 0; i++) {
        char shown[64];
        if (!text_to_double(texts.items[i], &made[i]) || (i > 0 && made[i] <= made[i - 1])) {
            rc = err_set(err, ERR_INVALID,
                         "boundaries: '%s' is not a number above the one before; allowed: rising "
                         "numbers",
                         text_shown(texts.items[i], shown, sizeof shown));
        }
    }
    if (rc == 0) {
        *out = made;
        *count = texts.count;
    } else {
        free(made);
    }
    field_texts_release(&texts);
    return rc;
}

static bool is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

static bool is_categories(const struct data_column *c)
{
    return c->as == COLUMN_CATEGORY || c->as == COLUMN_LIST;
}

bool data_column_has(const struct data_column *c, const struct field *field)
{
    switch (field - data_column_fields) {
    case ROW_COLUMN:
    case ROW_AS:
        return true;
    case ROW_MISSING:
        return c->as != COLUMN_IGNORE;
    case ROW_LOG:
    case ROW_LENGTH:
    case ROW_BOUNDARIES:
    case ROW_STANDARDISE:
        return c->as == COLUMN_NUMBER;
    case ROW_MEAN:
    case ROW_DEVIATION:
        return c->as == COLUMN_NUMBER && c->standardise;
    case ROW_BUCKETS:
        return is_categories(c);
    case ROW_HASH:
        return (is_categories(c) && c->buckets > 0) || c->as == COLUMN_SPARSE;
    case ROW_SEPARATOR:
        return c->as == COLUMN_LIST || c->as == COLUMN_SPARSE;
    case ROW_WIDTH:
        return c->as == COLUMN_SPARSE;
    default:
        return (is_categories(c) && c->buckets == 0) || c->as == COLUMN_SPARSE;
    }
}

/* Keys that were given and that the column has no use for. */
static int check_kind(const struct data_column *c, const bool *seen, struct err *err)
{
    static const char *const allowed[ROW_COUNT] = {
        [ROW_MISSING] = "for columns that are used",
        [ROW_LOG] = "with 'as: number'",
        [ROW_BOUNDARIES] = "with 'as: number'",
        [ROW_STANDARDISE] = "with 'as: number'",
        [ROW_MEAN] = "with 'standardise: true'",
        [ROW_DEVIATION] = "with 'standardise: true'",
        [ROW_BUCKETS] = "with 'as: category' or 'as: list'",
        [ROW_HASH] = "with categories and buckets, or 'as: sparse'",
        [ROW_VOCABULARY] = "with categories that are not hashed (buckets), or 'as: sparse'",
        [ROW_VOCABULARY_FILE] = "with categories that are not hashed (buckets), or 'as: sparse'",
        [ROW_UNKNOWN] = "with categories that are not hashed (buckets), or 'as: sparse'",
        [ROW_SEPARATOR] = "with 'as: list' or 'as: sparse'",
        [ROW_LENGTH] = "with 'as: number'",
        [ROW_WIDTH] = "with 'as: sparse'",
    };
    for (size_t row = 0; row < ROW_COUNT; row++) {
        const struct field *field = &data_column_fields[row];
        if (seen[row] && !data_column_has(c, field)) {
            return err_set(err, ERR_INVALID,
                           "%s: this column ('as: %s') has no use for it; "
                           "allowed: %s",
                           field->path, kinds[c->as], allowed[row]);
        }
    }
    return 0;
}

static int check_missing(const struct data_column *c, struct err *err)
{
    const bool categories = is_categories(c);
    bool fits = true;
    const char *allowed = "";
    if (categories && (c->missing == COLUMN_MISSING_MEAN || c->missing == COLUMN_MISSING_MEDIAN)) {
        fits = false;
        allowed = "data, error, skip, zero or own";
    } else if (c->as == COLUMN_SPARSE && c->missing > COLUMN_MISSING_ZERO) {
        fits = false;
        allowed = "data, error, skip or zero";
    } else if (c->as == COLUMN_NUMBER && c->missing == COLUMN_MISSING_OWN &&
               !is_set(c->boundaries)) {
        fits = false;
        allowed = "data, error, skip, zero, mean or median, or own together with boundaries";
    } else if (c->as == COLUMN_LABEL && c->missing > COLUMN_MISSING_SKIP) {
        fits = false;
        allowed = "data, error or skip";
    }
    return fits ? 0
                : err_set(err, ERR_INVALID, "missing: %s is not for 'as: %s'; allowed: %s",
                          missings[c->missing], kinds[c->as], allowed);
}

static int check_number(const struct data_column *c, struct err *err)
{
    double *boundaries;
    size_t count;
    int rc = data_column_boundaries(c, &boundaries, &count, err);
    free(boundaries);
    if (rc == 0 && count > 0 && c->standardise) {
        rc = err_set(err, ERR_INVALID,
                     "standardise: buckets are 0 or 1 already; allowed: boundaries or standardise");
    }
    if (rc == 0 && c->mean != 0 && c->deviation == 0) {
        rc = err_set(err, ERR_INVALID,
                     "mean: a mean without deviation; allowed: both, or neither to have them "
                     "measured");
    }
    return rc;
}

static int check_categories(const struct data_column *c, struct err *err)
{
    if (is_categories(c) && c->hash == COLUMN_HASH_NONE) {
        return err_set(err, ERR_INVALID,
                       "hash: a category is a text, which is no number; allowed: xxh3 or fnv1a");
    }
    struct field_texts texts = {0};
    const bool list = is_set(c->vocabulary), file = is_set(c->vocabulary_file);
    if (list && file) {
        return err_set(err, ERR_INVALID,
                       "vocabulary_file: the column has a vocabulary; allowed: one of the two");
    }
    if (list && !field_texts_read(c->vocabulary, &texts)) {
        return err_set(err, ERR_INVALID, "vocabulary: this is no list; allowed: a list of texts");
    }
    field_texts_release(&texts);
    const char *s = c->separator;
    if (c->as != COLUMN_CATEGORY && (s == NULL || strlen(s) != 1 || s[0] == '"')) {
        return err_set(err, ERR_INVALID,
                       "separator: not one character; allowed: one ASCII character, no quote");
    }
    return 0;
}

static int check_sparse(const struct data_column *c, struct err *err)
{
    const bool vocabulary = is_set(c->vocabulary) || is_set(c->vocabulary_file);
    if (vocabulary && c->hash != COLUMN_HASH_XXH3) {
        return err_set(err, ERR_INVALID,
                       "hash: the keys are places in the vocabulary, which nothing hashes; "
                       "allowed: hash or a vocabulary");
    }
    return 0;
}

int data_column_check(const struct data_column *c, const bool *seen, struct err *err)
{
    if (!is_set(c->column)) {
        return err_set(err, ERR_INVALID, "column: it is empty; allowed: a name or a number");
    }
    int rc = check_kind(c, seen, err);
    rc = rc != 0 ? rc : check_missing(c, err);
    if (rc == 0 && c->as == COLUMN_NUMBER) {
        rc = check_number(c, err);
    } else if (rc == 0 && (is_categories(c) || c->as == COLUMN_SPARSE)) {
        rc = check_categories(c, err);
    }
    if (rc == 0 && c->as == COLUMN_SPARSE) {
        rc = check_sparse(c, err);
    }
    return rc;
}

void data_columns_free(struct data_column *columns, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        field_release(data_column_fields, data_column_field_count, &columns[i]);
    }
    free(columns);
}

void data_column_describe(const struct data_column *c, struct buf *out)
{
    struct data_column usual = {0};
    struct buf value = {0}, other = {0};
    field_defaults(data_column_fields, data_column_field_count, &usual);
    for (size_t i = 0; i < data_column_field_count; i++) {
        const struct field *f = &data_column_fields[i];
        buf_reset(&value);
        buf_reset(&other);
        field_format(f, c, &value);
        field_format(f, &usual, &other);
        if (strcmp(buf_str(&value), buf_str(&other)) != 0) {
            buf_printf(out, "%s%s: %s", i == ROW_COLUMN ? "{" : ", ", f->path,
                       i == ROW_VOCABULARY_FILE ? "…" : buf_str(&value));
        }
    }
    buf_add_char(out, '}');
    field_release(data_column_fields, data_column_field_count, &usual);
    buf_release(&value);
    buf_release(&other);
}
