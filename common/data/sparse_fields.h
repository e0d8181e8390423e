/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse fields of records: of each named field, every record has a list of 64-bit keys with
 * weights, which may be empty. Keys of a list rise, each is there once. What a key stands for is
 * its field's affair: equal keys of two fields mean different things.
 *
 * In memory records lie one after the other, as CSR: starts says where a record's keys begin, ends
 * where the list of each of its fields ends. Dense-only records have no fields, and nothing here
 * costs them anything. Owner: one thread while records are added, then immutable.
 *
 * Fields stay sparse up to the layer that looks their keys up (decision 50), because categories of
 * clicks are few keys of very many. A field that no layer reads is hashed into columns of a
 * declared width when a batch is read. A key is what the file has, or 64 bits of its hash, so no
 * list of all categories is made, sent or kept. The lists of a record are sorted, so nothing
 * depends on the order in a file. The job names fields; the file alone names none. Whether keys and
 * lists fit the layers is checked once, before the first step, so that a step has no errors of its
 * own. */
#ifndef GRADUS_DATA_SPARSE_FIELDS_H
#define GRADUS_DATA_SPARSE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define SPARSE_FIELDS_MAX 4096U  /* of a record */
#define SPARSE_KEYS_MAX 1000000U /* keys of one record, all fields together */

/* How a key becomes a number, whose remainder by the field's width is the column. */
enum sparse_fold {
    SPARSE_FOLD_NONE, /* the key itself: it is a hash already, or an index */
    SPARSE_FOLD_XXH3, /* XXH3, seed 0, of the key's 8 bytes, lowest first */
    SPARSE_FOLD_FNV1A /* FNV-1a of the same bytes */
};

struct sparse_field {
    char *name;     /* owned */
    uint32_t width; /* dense columns that the field is fed to a model as; 0: its lists are */
    bool listed;    /* a layer reads its lists, whatever the width */
    enum sparse_fold fold;
    size_t first; /* of these columns, behind the dense features */
};

struct sparse_fields {
    struct sparse_field *fields; /* [count]; none: the records are dense alone */
    size_t count, width;         /* width: columns of all fields */
    bool weighted;               /* weights are there; else all are 1, and `weights` stays NULL */
    uint64_t records;
    uint64_t *starts; /* [records + 1] of each record in keys; NULL while there are no records */
    uint32_t *ends;   /* [records × count] of each list, from its record's start */
    uint64_t *keys;
    float *weights;
    uint64_t starts_capacity, ends_capacity, keys_capacity, weights_capacity;
    /* Of records that are not in memory: a summary of their lists; else NULL. Borrows. */
    const struct sparse_summary *summary;
};

/* One list; borrows. weights NULL: all are 1. */
struct sparse_list {
    const uint64_t *keys;
    const float *weights;
    size_t count;
};

/* A record on its way: keys in any order. A zeroed struct is empty. */
struct sparse_entry {
    uint64_t key;
    uint32_t field;
    float weight;
};
struct sparse_draft {
    struct sparse_entry *entries;
    size_t count, capacity;
};

void sparse_fields_release(struct sparse_fields *f); /* zeroed struct is fine */
/* Adds a field, before there are records. Errors: ERR_EXHAUSTED SPARSE_FIELDS_MAX, with @where. */
int sparse_fields_declare(struct sparse_fields *f, const char *name, uint32_t width,
                          enum sparse_fold fold, const char *where, struct err *err);
/* An empty twin: the same fields, no records. */
struct sparse_fields sparse_fields_twin(const struct sparse_fields *f);

/* One more key of the record on its way. Errors: ERR_INVALID SPARSE_KEYS_MAX. */
int sparse_draft_add(struct sparse_draft *d, uint32_t field, uint64_t key, float weight,
                     struct err *err);
void sparse_draft_release(struct sparse_draft *d);
/* Sort the record's keys; the first that a list has twice, or NULL. @drop: leave out all but the
 * first of each, and return NULL. */
const struct sparse_entry *sparse_draft_sort(struct sparse_draft *d, bool drop);
/* The sorted draft becomes the next record, and is empty. Errors: ERR_EXHAUSTED. */
int sparse_fields_add(struct sparse_fields *f, struct sparse_draft *d, const char *where,
                      struct err *err);

/* Append record @record of @from, which has the same fields. */
int sparse_fields_copy(struct sparse_fields *to, const struct sparse_fields *from, uint64_t record,
                       const char *where, struct err *err);
/* Append all records of @more. Errors: ERR_INVALID other fields; ERR_EXHAUSTED. */
int sparse_fields_append(struct sparse_fields *all, const struct sparse_fields *more,
                         const char *where, struct err *err);
/* Have the same fields, by name and in order? */
bool sparse_fields_equal(const struct sparse_fields *a, const struct sparse_fields *b);
/* Says which fields a layer reads as lists: those of @read (NULL: all), which get no columns. The
 * lists of @group (may be NULL) are fed in any case. Errors: ERR_INVALID a field that nothing of
 * the model reads, with @where. */
int sparse_fields_read_lists(struct sparse_fields *f, const char *const *read, size_t count,
                             const char *group, const char *where, struct err *err);
/* A list that is beyond a limit. */
struct sparse_extreme {
    uint64_t record, count, key; /* number of its keys; the largest of them */
};
/* True if a record has not exactly one key in field @field; @found: the first such record. */
bool sparse_fields_not_one(const struct sparse_fields *f, size_t field,
                           struct sparse_extreme *found);
/* True if a list of field @field has a key of @keys or above, or more keys than @length. @found
 * gets the first such list; from a summary, the one with the largest key, or the longest one. */
bool sparse_fields_beyond(const struct sparse_fields *f, size_t field, uint64_t keys, size_t length,
                          struct sparse_extreme *found);
/* Keep the first @records. */
void sparse_fields_limit(struct sparse_fields *f, uint64_t records);

struct sparse_list sparse_fields_list(const struct sparse_fields *f, uint64_t record, size_t field);
uint64_t sparse_fields_keys(const struct sparse_fields *f);                  /* of all records */
uint64_t sparse_fields_keys_of(const struct sparse_fields *f, size_t field); /* of one field */
uint64_t sparse_fields_bytes(const struct sparse_fields *f);
/* The columns of a record into @out, [width]: 0, but where keys fall the sum of their weights. */
void sparse_fields_spread(const struct sparse_fields *f, uint64_t record, float *out);
/* Append one line for each run of fields that are alike: "sparse fields C1 to C26: 24.1 keys of a
 * record, each field as 1000 columns". Nothing without fields. */
void sparse_fields_describe(const struct sparse_fields *f, struct buf *out);

#endif
