/* SPDX-License-Identifier: Apache-2.0 */
/* What layers that look up keys of sparse fields share: which row of a variable a key has. Private
 * to common/graph. */
#ifndef GRADUS_GRAPH_LOOKUP_H
#define GRADUS_GRAPH_LOOKUP_H

#include "graph/op.h"

#define LOOKUP_NO_ROW UINT64_MAX

struct lookup_params {
    int64_t rows;
    int hashing, unknown;
    bool shared;
};

extern const char *const lookup_hashing_names[];
extern const char *const lookup_unknown_names[];

/* clang-format off */
#define LOOKUP_FIELDS(type, member)                                                                \
    {"rows", FIELD_INT, offsetof(type, member.rows), NULL, 1, 2147483647, NULL,                    \
     "Rows of the variable, which all its fields share"},                                          \
    {"hashing", FIELD_ENUM, offsetof(type, member.hashing), "mixed", 0, 0, lookup_hashing_names,   \
     "The row of a key: mixed is a hash of the key and its field modulo rows; none the key "       \
     "itself, for keys that are places in a vocabulary"},                                          \
    {"unknown", FIELD_ENUM, offsetof(type, member.unknown), "error", 0, 0, lookup_unknown_names,   \
     "With hashing none, what a key of rows or above is: an error, a key with a row of its own "   \
     "for all of them behind the others, or zero: as if it were not there"},                       \
    {"shared", FIELD_BOOL, offsetof(type, member.shared), "false", 0, 0, NULL,                     \
     "Equal keys of several fields have the same row, as if they were one field"}
/* clang-format on */

/* Errors: ERR_INVALID parameters that do not go together. */
int lookup_check(const struct layer *l, const struct lookup_params *p, struct err *err);
/* Rows of the variable: one more for unknown keys. */
uint64_t lookup_rows(const struct lookup_params *p);
/* The keys below which all must be; UINT64_MAX: any. */
uint64_t lookup_keys(const struct lookup_params *p);
/* The row of a key of input @in; LOOKUP_NO_ROW: the key counts as not there. */
uint64_t lookup_row(const struct lookup_params *p, const struct layer_input *in, uint64_t key);

/* The list of record @record in input @in; weights NULL: all are 1. */
struct lookup_list {
    const uint64_t *keys;
    const float *weights;
    size_t count;
};
struct lookup_list lookup_list(const struct layer_run *r, const struct layer_input *in,
                               size_t record);
static inline float lookup_weight(const struct lookup_list *l, size_t k)
{
    return l->weights == NULL ? 1.0F : l->weights[k];
}

#endif
