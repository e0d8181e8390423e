/* SPDX-License-Identifier: Apache-2.0 */
/* What a table with versions should say: whole versions in arrays, one row for each key of a small
 * set, and nothing shared between them. Rules, initial values and the filter of admission are those
 * of the library, which have tests of their own. */
#ifndef GRADUS_TESTS_UNIT_TABLE_TABLE_MODEL_H
#define GRADUS_TESTS_UNIT_TABLE_TABLE_MODEL_H

#include "support/test.h"

#include "table/table.h"

#define MODEL_KEYS 240
#define MODEL_VERSIONS 64
#define MODEL_FLOATS_MAX 64 /* of a record */

struct model_row {
    bool present;
    struct table_note note;
    float record[MODEL_FLOATS_MAX];
    uint32_t counted; /* exact admission: sightings without a row */
};

struct model_version {
    struct model_row rows[MODEL_KEYS]; /* by number of key */
    uint8_t *counters;                 /* of a Bloom filter; NULL */
};

struct model {
    struct table_config config; /* 0 of 1 shards */
    struct table_rows plan;     /* without rows: what begins how, and where slots are */
    struct table_budget budget;
    struct table_admission admission;
    uint64_t keys[MODEL_KEYS]; /* ascending */
    uint64_t version;
    struct model_version *versions[MODEL_VERSIONS];
    uint64_t admitted, evicted, dropped, updated;
};

/* A config that is legal with any rule: ALL, lazy, no eviction, plenty of memory. */
struct table_config model_config(const char *rule, size_t dim);
void *model_params(const struct rule *rule); /* defaults; free() */

void model_init(struct model *m, const struct table_config *config);
void model_release(struct model *m);
const struct model_version *model_at(const struct model *m, uint64_t version);
/* The number of @key; MODEL_KEYS: none of the set. */
size_t model_find(const struct model *m, uint64_t key);
/* @step is of all shards together. */
void model_update(struct model *m, const struct table_step *step);
/* What a checkpoint does to rows: with catch-up they are at the present version. */
void model_restore(struct model *m);
/* A row as it is read at @version. */
struct model_row model_read(const struct model *m, size_t number, uint64_t version);

#endif
