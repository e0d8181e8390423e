/* SPDX-License-Identifier: Apache-2.0 */
/* What layers that look up keys of sparse fields share: which row a key has. The rows are those of
 * a variable, or of a table (model_table.h), of which a batch brings those that it needs. Private
 * to common/graph. */
#ifndef GRADUS_GRAPH_LOOKUP_H
#define GRADUS_GRAPH_LOOKUP_H

#include "graph/op.h"

#define LOOKUP_NO_ROW UINT64_MAX

struct lookup_params {
    int64_t rows; /* 0: those of a table */
    int hashing, unknown;
    bool shared;
    char *table; /* in the model's copy NULL */
};

enum { LOOKUP_HASHING_MIXED, LOOKUP_HASHING_NONE };
enum { LOOKUP_UNKNOWN_ERROR, LOOKUP_UNKNOWN_OWN, LOOKUP_UNKNOWN_ZERO };
extern const char *const lookup_hashing_names[];
extern const char *const lookup_unknown_names[];

/* clang-format off */
#define LOOKUP_FIELDS(type, member)                                                                \
    {"rows", FIELD_INT, offsetof(type, member.rows), "0", 0, 2147483647, NULL,                     \
     "Rows of the variable, which all its fields share; 0 with a table"},                          \
    {"table", FIELD_STRING, offsetof(type, member.table), "", 0, 0, NULL,                          \
     "A table of model.tables instead of a variable: it has rows for the keys that come"},         \
    {"hashing", FIELD_ENUM, offsetof(type, member.hashing), "mixed", 0, 0, lookup_hashing_names,   \
     "The row of a key: mixed is a hash of the key and its field (modulo rows); none the key "     \
     "itself, for keys that are places in a vocabulary or, in a table, tell rows apart as they "   \
     "are"},                                                                                       \
    {"unknown", FIELD_ENUM, offsetof(type, member.unknown), "error", 0, 0, lookup_unknown_names,   \
     "With hashing none, what a key of rows or above is: an error, a key with a row of its own "   \
     "for all of them behind the others, or zero: as if it were not there"},                       \
    {"shared", FIELD_BOOL, offsetof(type, member.shared), "false", 0, 0, NULL,                     \
     "Equal keys of several fields have the same row, as if they were one field"}
/* clang-format on */

/* Plans the rows: a variable "<layer>.<part>" of @width floats a row, or a table, which is l->table
 * then; @width 0 takes that of the table. @init is what @given says, or the layer itself when that
 * says nothing. Errors: ERR_INVALID parameters that do not go together, with the key. */
struct lookup_plan {
    const char *part, *width_key;
    uint64_t width;
    const struct init_params *init, *init_default; /* the latter when the job file says nothing */
};
int lookup_plan(struct layer *l, struct lookup_params *p, struct lookup_plan *plan,
                struct err *err);
/* The keys below which all must be; UINT64_MAX: any. */
uint64_t lookup_keys(const struct lookup_params *p);

/* The list of record @record in input @in; weights NULL: all are 1. */
struct lookup_list {
    const uint64_t *keys;
    const float *weights;
    size_t count;
    const uint32_t *rows; /* of a table: the row of each key; else NULL */
};
/* A pass over the lists of a run: input by input, record by record, each once, in this order. */
struct lookup_pass {
    const struct layer_run *run;
    const uint32_t *rows; /* of the next list */
    const float *values;  /* of row 0 */
    float *gradient;      /* of the rows; backward() */
};
struct lookup_list lookup_list(const struct sparse_batch *b, const struct layer_input *in,
                               size_t record);
struct lookup_pass lookup_begin(const struct layer_run *r);
struct lookup_list lookup_next(struct lookup_pass *pass, const struct layer_input *in,
                               size_t record);
/* The row of key @k of @list; LOOKUP_NO_ROW: the key counts as not there. */
uint64_t lookup_row(const struct lookup_params *p, const struct layer_input *in,
                    const struct lookup_list *list, size_t k);
/* The keys of one list in a table. */
void lookup_table_keys(const struct lookup_params *p, const struct layer_input *in,
                       const struct lookup_list *list, uint64_t *out);
/* The layer's variable behind the rows: 0 with a table, else 1. */
size_t lookup_variables(const struct layer *l);
/* Zeroes the gradient of rows of a variable, to which backward() adds; that of a table begins with
 * zeros. */
void lookup_zero_gradient(const struct layer_run *r);
static inline float lookup_weight(const struct lookup_list *l, size_t k)
{
    return l->weights == NULL ? 1.0F : l->weights[k];
}

#endif
