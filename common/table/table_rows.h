/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a table under their keys: values, an update rule's slots, and when a row was updated.
 *
 * A row is one record: `dim` values, then the slots that the rule has for each parameter, then
 * those that it has for each row. Records lie one behind the other and never move; what a removed
 * row leaves is used again by the next new one. Beside them there is a note of 16 bytes per row,
 * and the index (table_index.h). All of it together takes at most
 *
 *     1.35 × rows × (8 + 4 × dim × (1 + slots) + 16) bytes, and 256 KiB
 *
 * and never more than `bytes_max`, however many rows are asked for: a table that is full says so.
 *
 * What a row begins with is a function of seed, table and key alone, so it does not matter where
 * and when it is made, and a key without a row reads as what its row would begin with.
 *
 * Updates are those of rule/rules/rows.h: *lazy*, only touched rows change; or *catch-up*: what a
 * dense update would have done to the row meanwhile is done first. Reading with catch-up brings a
 * copy up to date and leaves the row alone, so bits do not depend on who read what.
 *
 * Owner: one thread or strand. Does not move in memory. */
#ifndef GRADUS_TABLE_TABLE_ROWS_H
#define GRADUS_TABLE_TABLE_ROWS_H

#include "rule/rules/rule.h"
#include "table/table_index.h"
#include "table/table_squares.h"
#include "tensor/init.h"

#define TABLE_SEEN_UNUSED UINT64_MAX /* `seen` of rows that are not in use */
#define TABLE_DIM_MAX 65536          /* floats; an embedding of a large language model has 16,384 */

struct table_spec {
    const char *name; /* read by table_rows_init() alone */
    uint64_t seed;
    size_t dim;
    struct init init;
    const struct rule *rule; /* borrowed */
    uint64_t bytes_max;
};

struct table_note {       /* on one row */
    uint64_t seen;        /* the version that its last update made; at first what the maker said */
    uint32_t sightings;   /* in how many batches; stays at its maximum */
    uint32_t next_unused; /* of unused rows */
};

struct table_rows {
    struct table_budget budget;
    struct table_index index;
    struct table_memory records; /* of @stride floats */
    struct table_memory notes;   /* of struct table_note */
    const struct rule *rule;
    struct init init;
    uint64_t init_key;
    size_t dim;
    size_t stride;
    size_t slot_at[RULE_SLOTS_MAX]; /* floats from the record's begin */
    uint32_t made;                  /* rows that are or were in use */
    uint32_t unused;                /* the first row that is not in use; TABLE_ROW_NONE */
    float *scratch;                 /* a record */
    float *shaped; /* [2 × dim] a gradient, and values before an update; NULL: not needed yet */
};

/* True when a table can have the rule: no sums over variables, no slots that rows share. */
bool table_takes_rule(const struct rule *rule);

/* Errors: ERR_INVALID dim is 0 or above TABLE_DIM_MAX, the rule is none for tables;
 * ERR_EXHAUSTED. */
int table_rows_init(struct table_rows *rows, const struct table_spec *spec, struct err *err);
void table_rows_release(struct table_rows *rows); /* zeroed is fine */

/* Makes rows for those of the @n keys that have none; keys may repeat. @seen: the updates that the
 * rows count as having had: of a lazy table the present version, with catch-up 0. Errors:
 * ERR_EXHAUSTED: the table is full; the keys before the one that is named have rows. */
int table_rows_add(struct table_rows *rows, const uint64_t *keys, size_t n, uint64_t seen,
                   struct err *err);
/* False: there is none. Its memory stays with the table, for other rows. */
bool table_rows_remove(struct table_rows *rows, uint64_t key);

/* The past with which a row is read or updated. */
struct table_catch_up {
    const struct rule_past *past; /* NULL: lazy */
    uint64_t version;             /* rows are brought to this version; of an update its number */
};

/* The values of @n keys, [n × dim] to @out; keys may repeat. A key without a row gets what its row
 * would begin with (with catch-up: as a row that has seen nothing). @present ([n], or NULL) is true
 * where there is a row. */
void table_rows_gather(struct table_rows *rows, const struct table_catch_up *up,
                       const uint64_t *keys, size_t n, float *out, bool *present);

/* Brings @record, which has had @seen updates, to where dense updates would have brought it by
 * version @up->version. @up->past is not NULL. */
void table_rows_catch_up(const struct table_rows *rows, const struct table_catch_up *up,
                         uint64_t seen, float *record);

/* What is done to the gradient of a row before the rule, in the order of a dense update
 * (rule/update/update.h): the gradient times gradient_scale; no element is larger than clip.value;
 * the row is no longer than clip.norm; times the factor; + share · (l2 · w + l1 · sign(w)), share
 * being sightings · gradient_scale, the share of the update's records that had the key. So the loss
 * of each record has the penalties of the rows that it reads (as in libFM, Rendle 2012), whatever
 * the batch. + steps · ridge · w, steps being those since the row was last updated, with this one:
 * what a dense update would have added in each of them; but no more than those of ridge_steps. And
 * after the rule: the values lose decay times what they were. Only rows that are updated are
 * shaped. 0: nothing of that kind. */
struct table_shaping {
    float l1, l2, decay;
    float ridge;            /* of a step */
    float ridge_steps;      /* those of an epoch, 1 at least: rows that come back owe no more */
    struct table_clip clip; /* of single rows */
    bool scaled; /* times @factor, that of clips by the norm of the table and by the global norm */
    float factor;
};

struct table_update {
    struct table_catch_up up; /* @up.version: the number of the update, from 0 */
    const struct rule_scalars *scalars;
    const uint64_t *keys; /* [n], each at most once */
    const uint32_t *rows; /* [n] which rows they have, or TABLE_ROW_NONE; NULL: nobody knows yet */
    size_t n;
    const float *gradient; /* [n × dim] */
    float gradient_scale;
    const struct table_shaping *shaping; /* NULL: none */
    const float *base;         /* [n × dim] what the worker read, for rules with a base; or NULL */
    const uint32_t *sightings; /* [n] records of this update that had the key; NULL: one */
};

/* Updates each row; returns how many. Keys without a row are passed over. With catch-up the rule is
 * one that can: `still`, or with catch_up. */
size_t table_rows_update(struct table_rows *rows, const struct table_update *update);

/* The record and the note of a row that is in use. */
static inline float *table_rows_record(const struct table_rows *rows, uint32_t row)
{
    return (float *)(void *)rows->records.base + (size_t)row * rows->stride;
}

static inline struct table_note *table_rows_note(const struct table_rows *rows, uint32_t row)
{
    return (struct table_note *)(void *)rows->notes.base + row;
}

/* Have its note and the first @bytes of its record brought from memory. */
static inline void table_rows_fetch(const struct table_rows *rows, uint32_t row, size_t bytes)
{
    const char *record = (const char *)table_rows_record(rows, row);
    for (size_t at = 0; at < bytes; at += 64) {
        __builtin_prefetch(record + at);
    }
    __builtin_prefetch(record + bytes - 1); /* a record may begin in the middle of a line */
    __builtin_prefetch(table_rows_note(rows, row));
}

/* The floats that the row of @key begins with, slots included: [stride]. */
void table_rows_begin(const struct table_rows *rows, uint64_t key, float *record);

#endif
