/* SPDX-License-Identifier: Apache-2.0 */
/* One table of one shard, with versions.
 *
 * table_update() takes the table from version v to v + 1, in this order:
 *
 *   1. all sightings of keys without a row are noted;
 *   2. it is asked who is admitted, and those get rows, which begin with their initial values;
 *   3. the rule is applied to the rows that exist. The gradient of a key without one is dropped,
 *      and counted;
 *   4. rows are evicted: those with small norms when the step says so; then, at every `every`-th
 *      version, those unseen for too long, and the least ones of what is above `rows_max`.
 *
 * It is done wholly or, with an error, not at all. The bits of version v + 1 are a function of the
 * gradients so far alone: not of the order in which they came to be, of how many shards the keys
 * are spread over, of which versions were pinned or read, nor of where memory lies. To that end
 * `rows_max` and a Bloom filter are divided among buckets (table_bucket.h). One thing is left out:
 * what is done when `bytes_max` is reached, see below.
 *
 * Who can be read: the present version; the one before, with `keeps_previous` (as it is now); and
 * those that are pinned, TABLE_PINS_MAX at most. Of a row that changes (or comes, or goes) its
 * record is copied first, once for each such version at most and never twice for one interval
 * between them; there is no second copy of the table. A reader of an old version looks at the
 * copies of that version, then at those of later ones, then at the table. When a pin goes, what
 * only it needed is given back, and the rest falls to the pin before it.
 *
 * Full. The rows have `bytes_max` bytes, less what admission has; the formula of table_rows.h says
 * how many rows that are for sure. When the rows of an update do not fit, it is
 * refused (ERR_EXHAUSTED), or room is made: of the rows that the update does not touch the least
 * ones go, a sixteenth of the table or as many as are needed. When that is depends on the shard's
 * memory, so a job that is to have the same bits on any number of shards gives `rows_max`, with
 * enough memory for it. Sightings that are counted exactly have memory of their own, and a count
 * for which there is none refuses the update in any case.
 *
 * Memory, besides: for copies at most `copies_bytes_max`, of which an update that would need more
 * is refused; unpinning makes room. One copied row takes 4 × dim × (1 + slots) + 16 bytes and 24 to
 * 36 of a map (and while that grows, what it had before); there are at most as many as rows that
 * changed since the oldest pin, for each pin, and of `keeps_previous` as many as the last two
 * updates changed. Notes of evicted rows (`notes_evicted`) are 16 bytes each, an eighth of that
 * memory at most. For eviction above `rows_max` 24 bytes for each row that goes at once, 1.5 MiB at
 * most. For scratch 36 bytes for each key of the largest update.
 *
 * Owner: one thread or strand; no locks, no clock, no threads of its own. */
#ifndef GRADUS_TABLE_TABLE_H
#define GRADUS_TABLE_TABLE_H

#include "table/table_admission.h"
#include "table/table_bucket.h"
#include "table/table_eviction.h"
#include "table/table_gradient.h"

#define TABLE_PINS_MAX 9     /* versions */
#define TABLE_HOTTEST_MAX 20 /* keys */

enum table_full {
    TABLE_FULL_REFUSE,
    TABLE_FULL_EVICT, /* by eviction.least */
};

struct table_eviction_spec {
    uint64_t every;  /* versions; 0 is 1. A pass reads the notes of all rows */
    uint64_t unseen; /* updates that do not touch a row, after which it is evicted; 0: never */
    /* of the table on all shards; 0: no limit; else TABLE_BUCKETS or more. Until the next pass
     * there may be more rows */
    uint64_t rows_max;
    enum table_least least; /* above rows_max, and when it is full */
};

struct table_config {
    const char *name; /* read by table_new() alone, as all texts here */
    uint64_t seed;
    size_t dim;
    struct init init;
    const struct rule *rule;      /* borrowed */
    const struct rule_past *past; /* catch-up; borrowed, may change between calls. NULL: lazy */
    struct table_admission_spec admission; /* its seed and name are the table's. `bytes`: of a Bloom
                                              filter, for the table on all shards; of exact counts,
                                              what this shard may take for them */
    struct table_eviction_spec eviction;
    enum table_full on_full;
    uint64_t bytes_max;        /* of this shard, without copies */
    uint64_t copies_bytes_max; /* of this shard */
    bool keeps_previous;
    bool notes_evicted;     /* for table_evicted_since() */
    uint32_t shard, shards; /* number of this shard, of how many */
};

struct table;

/* An empty table at @version. Errors: ERR_INVALID a setting is out of its range; ERR_EXHAUSTED. */
int table_new(const struct table_config *config, uint64_t version, struct table **out,
              struct err *err);
void table_free(struct table *t); /* NULL is fine */

/* Changes config.keeps_previous, from the present version on. Copies for the version before are
 * given back. */
void table_keep_previous(struct table *t, bool keeps);

uint64_t table_version(const struct table *t); /* the present one */
size_t table_dim(const struct table *t);
const struct rule *table_rule(const struct table *t);
bool table_admission_is_exact(const struct table *t); /* admission counts each key */

struct table_step {
    uint64_t version;                    /* the version that it makes: the present one + 1 */
    struct table_gradient_view gradient; /* the sum of all replicas, of this shard's keys */
    float gradient_scale;
    const struct rule_scalars *scalars;  /* of update number version - 1 */
    const struct table_shaping *shaping; /* NULL: none */
    const float *base; /* [n × dim] what the worker read, for rules with a base; or NULL */
};

/* Errors: ERR_RANGE another version; ERR_INVALID another dim, or a key that is not of this shard;
 * ERR_EXHAUSTED the table, the counts of sightings or the memory for copies is full. Nothing
 * has changed then (but for statistics). Keys rise, as in every gradient. */
int table_update(struct table *t, const struct table_step *step, struct err *err);

/* Values of @n keys, in any order, with repeats, as of @version: [n × dim] to @out. A key without a
 * row reads as what its row would begin with. Changes nothing but scratch and statistics. Errors:
 * ERR_RANGE
 * @version cannot be read: the message says which can; ERR_EXHAUSTED. */
int table_gather(struct table *t, uint64_t version, const uint64_t *keys, size_t n, float *out,
                 struct err *err);

/* Pins the present version, which is returned in @version; as often as one likes. Costs nothing but
 * what is copied later. Errors: ERR_EXHAUSTED TABLE_PINS_MAX others are pinned. */
int table_pin(struct table *t, uint64_t *version, struct err *err);
/* Takes back one pin. Errors: ERR_RANGE @version is not pinned. */
int table_unpin(struct table *t, uint64_t version, struct err *err);
/* Do copies take more than half of `copies_bytes_max`? An update may not find room soon. */
bool table_copies_short(const struct table *t);
/* All pins are given up, and notes of evicted rows, so that their memory makes room; who reads such
 * a version hears why. False: there were none. */
bool table_give_up_pins(struct table *t);

/* Rows, in arrays of the reader, who sets @capacity and those arrays that are wanted; the others
 * are NULL. */
struct table_chunk {
    size_t capacity, n;
    /* with catch-up: rows as they lie and as they were seen, not as they read. A table that is
     * restored from these goes on with the same bits */
    bool kept;
    bool changed; /* only rows that came or changed in versions above `since` */
    uint64_t since;
    size_t looks;                 /* at so many rows at most, and then it is not the end: cursor.end
                                     says. 0: as many as it takes */
    uint64_t *keys;               /* [capacity] */
    float *values;                /* [capacity × dim] */
    float *slots[RULE_SLOTS_MAX]; /* [capacity × dim]; slots per row: [capacity] */
    uint64_t *seen;               /* as in struct table_note */
    uint32_t *sightings;
};

/* The next rows as of @version, which is present, previous or pinned, into @chunk: as many as fit,
 * none at the end. @cursor begins zeroed, is plain data, and may be kept and used again: the same
 * cursor gives the same rows as long as the version can be read, whatever happens in between. Rows
 * come in the order of a hash of their keys, a function of the set of keys alone. With catch-up
 * they are brought to @version: values, slots and seen (unless @chunk is of `kept` rows, or the
 * rule is `still`: nothing is to be done then). O(1) for each row. Errors: ERR_RANGE. */
int table_walk(struct table *t, uint64_t version, struct table_cursor *cursor,
               struct table_chunk *chunk, struct err *err);
/* Keys of rows that went in versions above @since up to @version, which is present or pinned: the
 * next ones from place *@at (begins 0) on, @capacity at most; @n 0: there are no more. Some may
 * have a row again, or come twice, or came since. What was before @since is forgotten: later calls
 * have none that is less. Errors: ERR_RANGE: it is not known, for want of memory for notes (an
 * eighth of copies_bytes_max, and less when copies need it), or without `notes_evicted`. */
int table_evicted_since(struct table *t, uint64_t since, uint64_t version, size_t *at,
                        uint64_t *keys, size_t capacity, size_t *n, struct err *err);
/* The place of @key in that order, which no other key has. */
uint64_t table_walk_order(uint64_t key);
/* The number of rows. Errors: ERR_RANGE. */
int table_count(const struct table *t, uint64_t version, uint64_t *count, struct err *err);

/* Makes room for about so many rows and counts, before the first is put in. Without it rows in the
 * order of table_walk() crowd at the begin of an index that grows, and each takes longer than the
 * one before. Errors: ERR_STATE; ERR_EXHAUSTED. */
int table_restore_reserve(struct table *t, uint64_t rows, uint64_t counts, struct err *err);

/* Puts rows in, before the first update and the first pin: those of @chunk whose keys are of this
 * shard; others are passed over. Arrays that are NULL: initial values, seen at the table's version,
 * no sightings. Errors: ERR_CORRUPT a key is there already, or was seen at a later version;
 * ERR_STATE it is too late; ERR_EXHAUSTED. Rows before the one that is named are there then. */
int table_restore_rows(struct table *t, const struct table_chunk *chunk, struct err *err);

/* What admission has counted, as of a pin that was taken with table_pin(): without it the bits
 * after a restore would be others. Exact counts are pairs of key and count; of a Bloom filter,
 * blocks of TABLE_BLOOM_BLOCK counters of which one at least is not 0, each with a number that is
 * the same for any number of shards. (Nothing is counted for `all` and `probability`.) */
struct table_counts_chunk {
    size_t capacity, n;
    uint64_t *keys;    /* [capacity] keys, or numbers of blocks */
    uint32_t *counts;  /* [capacity] of keys */
    uint8_t *counters; /* [capacity × TABLE_BLOOM_BLOCK] of blocks */
};
/* As table_walk(). Errors: ERR_RANGE it is neither the present version nor pinned. */
int table_walk_counts(struct table *t, uint64_t version, struct table_cursor *cursor,
                      struct table_counts_chunk *chunk, struct err *err);
/* The number of counts: entries. Errors: ERR_RANGE. */
int table_count_counts(struct table *t, uint64_t version, uint64_t *count, struct err *err);
/* Puts counts of this shard in, as table_restore_rows() does rows. Errors: ERR_CORRUPT; ERR_STATE;
 * ERR_EXHAUSTED. */
int table_restore_counts(struct table *t, const struct table_counts_chunk *chunk, struct err *err);

struct table_stats {
    uint64_t rows, bytes;               /* present; rows, index, notes, admission */
    uint64_t counted;                   /* keys with exact counts, present */
    uint64_t copied_rows, copies_bytes; /* for old versions, present */
    uint64_t pins;                      /* versions that are pinned */
    /* since table_new(): */
    uint64_t admitted; /* keys that got rows in updates */
    uint64_t evicted;  /* rows that went */
    uint64_t dropped;  /* rows of gradients whose key had no row */
    uint64_t updated;  /* rows of gradients that were applied */
    uint64_t refused;  /* updates: full */
    uint64_t read;     /* keys of table_gather() */
};
void table_stats(const struct table *t, struct table_stats *out);

struct table_hot_key {
    uint64_t key;
    uint32_t sightings;
};
/* The keys with the most sightings, of rows; with as many, the smaller key first. */
struct table_hottest { /* begins zeroed */
    struct table_cursor cursor;
    size_t count;
    struct table_hot_key keys[TABLE_HOTTEST_MAX];
};
/* Reads the notes of about @rows more rows; false: all were read, and @h is the result. The table
 * may change between the calls: then numbers are those of when a row was read, and rows that come
 * or go meanwhile may be left out. */
bool table_hottest(const struct table *t, struct table_hottest *h, size_t rows);

#endif
