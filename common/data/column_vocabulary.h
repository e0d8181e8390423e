/* SPDX-License-Identifier: Apache-2.0 */
/* Which feature a category of a declared column is, or which key: by a hash, or by its place in a
 * vocabulary. */
#ifndef GRADUS_DATA_COLUMN_VOCABULARY_H
#define GRADUS_DATA_COLUMN_VOCABULARY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/data_spec.h"
#include "data/records.h"

/* The features of one column, from 0: [its own for a missing value] [the buckets, or the
 * vocabulary] [its own for what the vocabulary lacks]. */
struct column_vocabulary {
    const struct data_column *column;
    struct names known; /* without buckets: the known categories, in the order of the features */
    size_t first;       /* feature of the first bucket or category: 0 or 1 */
    uint32_t missing, unknown; /* features, or RECORDS_CATEGORY_NONE */
    size_t width;
};

/* The parts of a cell that are categories, as ids; owned. */
struct column_ids {
    uint32_t *ids;
    size_t count, capacity;
};

/* Categories as keys of a sparse field; owned. */
struct column_keys {
    uint64_t *keys;
    size_t count, capacity;
};

/* Of entry @number of data.columns. @cells: of the train records, for a column without a
 * vocabulary. @own_missing: a missing value has a feature. Errors: ERR_INVALID a vocabulary with
 * an empty or repeated category, keys of texts without a hash; ERR_EXHAUSTED too many; of
 * lines_open(). */
int column_vocabulary_init(struct column_vocabulary *v, const struct data_spec *spec, size_t number,
                           bool own_missing, const struct category_column *cells, uint64_t records,
                           struct err *err);
/* True if the vocabulary is made of the train records. */
bool column_needs_texts(const struct data_column *c);
void column_vocabulary_release(struct column_vocabulary *v);
/* True if the cell @text has a category of which no feature and no key says anything. */
bool column_vocabulary_lacks(const struct column_vocabulary *v, const char *text);
/* Append the features of the cell @text, each once. */
void column_vocabulary_ids(const struct column_vocabulary *v, const char *text,
                           struct column_ids *out);
/* The hash of a text by data.columns.N.hash, which is not none. */
uint64_t column_vocabulary_hash(const struct data_column *c, const char *text, size_t n);
/* The place of a text in the vocabulary, or its length where it is not there; false: such a text
 * has no key. */
bool column_vocabulary_key(const struct column_vocabulary *v, const char *text, size_t n,
                           uint64_t *key);
/* Append the keys of the cell @text of a sparse field, maybe one twice: places in the vocabulary,
 * from 0, its length for what it lacks; without one hashes. */
void column_vocabulary_keys(const struct column_vocabulary *v, const char *text,
                            struct column_keys *out);

#endif
