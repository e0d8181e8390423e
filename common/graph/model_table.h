/* SPDX-License-Identifier: Apache-2.0 */
/* One entry of `model.tables`: a sparse table, whose rows lie on the parameter servers under 64-bit
 * keys (docs/sparse.md). Plain settings; what they do is in common/table. */
#ifndef GRADUS_GRAPH_MODEL_TABLE_H
#define GRADUS_GRAPH_MODEL_TABLE_H

#include "config/field.h"

#define MODEL_TABLES_MAX 256

enum model_table_admission { ADMIT_ALL, ADMIT_COUNTED, ADMIT_BLOOM, ADMIT_PROBABILITY };
enum model_table_least { EVICT_LEAST_RECENT, EVICT_LEAST_FREQUENT };
enum model_table_full { FULL_REFUSE, FULL_EVICT };

struct model_table {
    char *name;
    int64_t dim;
    int init; /* enum init_kind */
    double init_mean, init_spread;
    bool catch_up;
    double clip_norm;
    int64_t memory_bytes; /* on all servers together */
    int64_t copies_bytes; /* likewise */
    int64_t rows_max;
    int admission; /* enum model_table_admission */
    int64_t sightings;
    int64_t admission_bytes;
    double probability;
    int64_t evict_unseen, evict_every;
    int evict_least; /* enum model_table_least */
    int on_full;     /* enum model_table_full */
};

extern const struct field model_table_fields[];
extern const size_t model_table_field_count;

/* What does not go together in one entry. The message begins with the key: "sightings: …".
 * Errors: ERR_INVALID. */
int model_table_check(const struct model_table *t, struct err *err);
void model_tables_free(struct model_table *tables, size_t count);

#endif
