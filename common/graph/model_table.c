/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of an entry of `model.tables` as a table of fields, and which of them go together. */
#include "graph/model_table.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/init.h"

#define NAME_BYTES_MAX 63
#define BLOOM_SIGHTINGS_MAX 255

static const char *const admissions[] = {"all", "counted", "bloom", "probability", NULL};
static const char *const leasts[] = {"recent", "frequent", NULL};
static const char *const fulls[] = {"refuse", "evict", NULL};

#define AT(member) offsetof(struct model_table, member)
const struct field model_table_fields[] = {
    {.path = "name",
     .type = FIELD_STRING,
     .offset = AT(name),
     .help = "What layers, patterns of update.variables and checkpoints call the table"},
    {.path = "dim",
     .type = FIELD_INT,
     .offset = AT(dim),
     .min = 1,
     .max = 65536,
     .help = "Floats of a row"},
    {.path = "init",
     .type = FIELD_ENUM,
     .offset = AT(init),
     .def = "uniform",
     .choices = init_kind_names,
     .help = "How a row begins; a function of seed, table and key alone"},
    {.path = "init_mean",
     .type = FIELD_FLOAT,
     .offset = AT(init_mean),
     .def = "0",
     .min = -1e6,
     .max = 1e6,
     .help = "Centre of uniform, normal and truncated_normal; the value of constant"},
    {.path = "init_spread",
     .type = FIELD_FLOAT,
     .offset = AT(init_spread),
     .def = "0.01",
     .max = 1e6,
     .help = "Half the width of uniform; the standard deviation of normal and truncated_normal"},
    {.path = "catch_up",
     .type = FIELD_BOOL,
     .offset = AT(catch_up),
     .def = "false",
     .help = "Before a row is updated, do to it what updates of a dense variable with gradients of "
             "zero would have done meanwhile; otherwise only touched rows change (lazy)"},
    {.path = "clip_norm",
     .type = FIELD_FLOAT,
     .offset = AT(clip_norm),
     .def = "0",
     .max = 1e9,
     .help =
         "The gradient of a row, of the mean over the records of an update, that is longer than "
         "this (L2 norm) is made so long; 0 is no limit"},
    {.path = "memory_bytes",
     .type = FIELD_BYTES,
     .offset = AT(memory_bytes),
     .def = "256 MiB",
     .min = 1 << 20,
     .max = INFINITY,
     .help = "What rows, slots, index and counts may take on all servers together; reserved when "
             "the job starts"},
    {.path = "copies_bytes",
     .type = FIELD_BYTES,
     .offset = AT(copies_bytes),
     .def = "64 MiB",
     .min = 1 << 20,
     .max = INFINITY,
     .help =
         "What copies of rows that changed since a version that is still read may take besides, "
         "on all servers together"},
    {.path = "rows_max",
     .type = FIELD_INT,
     .offset = AT(rows_max),
     .def = "0",
     .max = INFINITY,
     .help = "The least rows (evict.least) above so many go; 0 is no limit but that of memory"},
    {.path = "admission",
     .type = FIELD_ENUM,
     .offset = AT(admission),
     .def = "all",
     .choices = admissions,
     .help = "Which keys get a row: all, those seen `sightings` times (counted exactly, or in a "
             "counting Bloom filter), or a share of them, chosen by a hash"},
    {.path = "sightings",
     .type = FIELD_INT,
     .offset = AT(sightings),
     .def = "2",
     .min = 1,
     .max = UINT32_MAX,
     .help = "Admission counted and bloom: how often a key must have been seen"},
    {.path = "admission_bytes",
     .type = FIELD_BYTES,
     .offset = AT(admission_bytes),
     .def = "16 MiB",
     .min = 1 << 16,
     .max = INFINITY,
     .help = "Admission counted and bloom: memory for the counts, of memory_bytes"},
    {.path = "probability",
     .type = FIELD_FLOAT,
     .offset = AT(probability),
     .def = "1",
     .max = 1,
     .help = "Admission probability: the share of all keys that get a row"},
    {.path = "evict.unseen",
     .type = FIELD_INT,
     .offset = AT(evict_unseen),
     .def = "0",
     .max = INFINITY,
     .help = "Rows that so many updates have not touched go; 0 is never"},
    {.path = "evict.every",
     .type = FIELD_INT,
     .offset = AT(evict_every),
     .def = "100",
     .min = 1,
     .max = 1e9,
     .help = "Updates from one look for rows that are to go to the next"},
    {.path = "evict.least",
     .type = FIELD_ENUM,
     .offset = AT(evict_least),
     .def = "recent",
     .choices = leasts,
     .help = "Which rows are the least: those not seen for longest, or those seen least often"},
    {.path = "on_full",
     .type = FIELD_ENUM,
     .offset = AT(on_full),
     .def = "refuse",
     .choices = fulls,
     .help = "When memory_bytes is used up: the job fails with that message, or the least rows go"},
};
const size_t model_table_field_count = sizeof model_table_fields / sizeof model_table_fields[0];

static bool name_fits(const char *name)
{
    const size_t n = name == NULL ? 0 : strlen(name);
    bool fits = n >= 1 && n <= NAME_BYTES_MAX;
    for (size_t i = 0; i < n && fits; i++) {
        fits = isalnum((unsigned char)name[i]) || name[i] == '_' || (i > 0 && name[i] == '-');
    }
    return fits;
}

int model_table_check(const struct model_table *t, struct err *err)
{
    if (!name_fits(t->name)) {
        return err_set(err, ERR_INVALID,
                       "name: not a table's name; allowed: letters, digits, '_' and '-', at most "
                       "%d",
                       NAME_BYTES_MAX);
    }
    if (t->init > INIT_TRUNCATED_NORMAL) {
        return err_set(err, ERR_INVALID,
                       "init: %s depends on the sizes of a whole variable; allowed: zeros, "
                       "constant, uniform, normal, truncated_normal",
                       init_kind_names[t->init]);
    }
    if (t->admission == ADMIT_BLOOM && t->sightings > BLOOM_SIGHTINGS_MAX) {
        return err_set(err, ERR_INVALID,
                       "sightings: a counter of the Bloom filter holds no more than %d; allowed: 1 "
                       "to %d, or 'admission: counted'",
                       BLOOM_SIGHTINGS_MAX, BLOOM_SIGHTINGS_MAX);
    }
    const bool counts = t->admission == ADMIT_COUNTED || t->admission == ADMIT_BLOOM;
    if (counts && t->admission_bytes >= t->memory_bytes) {
        return err_set(err, ERR_INVALID,
                       "admission_bytes: %" PRId64 " of memory_bytes: %" PRId64
                       " leave nothing for rows; allowed: less",
                       t->admission_bytes, t->memory_bytes);
    }
    return 0;
}

void model_tables_free(struct model_table *tables, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        field_release(model_table_fields, model_table_field_count, &tables[i]);
    }
    free(tables);
}
