/* SPDX-License-Identifier: Apache-2.0 */
/* Makes tables, reads them, and keeps account of who can read which version. */
#include "table/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/mutant.h"
#include "table/table_impl.h"
#include "table/table_line.h"

#define READ_AT_ONCE 256 /* keys */

static int check(const struct table_config *c, struct err *err)
{
    const uint64_t rows_max = c->eviction.rows_max;
    if (c->shards < 1 || c->shards > TABLE_BUCKETS || c->shard >= c->shards) {
        return err_set(err, ERR_INVALID, "table %s: shard %u of %u", c->name, c->shard, c->shards);
    }
    if (rows_max > 0 && rows_max < TABLE_BUCKETS) {
        return err_set(err, ERR_INVALID, "table %s: at most %" PRIu64 " rows; %u is the least",
                       c->name, rows_max, TABLE_BUCKETS);
    }
    if (c->past != NULL && !c->rule->still && c->rule->catch_up == NULL) {
        return err_set(err, ERR_INVALID, "table %s: rule %s cannot catch up", c->name,
                       c->rule->name);
    }
    return 0;
}

/* Rows that fit for sure, closer than table_rows_in() says: records and notes grow by a 32nd and,
 * when they are large, by whole huge pages; the index takes 17.5 bytes for each. */
static uint64_t rows_that_fit(const struct table_rows *rows, uint64_t bytes)
{
    const double fixed = bytes < (uint64_t)64 << 20 ? 262144 : (double)(8 << 20);
    const double record = (double)(rows->stride * sizeof(float));
    const double row = 1.04 * (record + sizeof(struct table_note) + 17.5);
    const double fit = ((double)bytes - fixed - record) / row;
    const uint64_t sure = table_rows_in(rows, bytes);
    return fit > (double)sure ? (uint64_t)fit : sure;
}

static int make_parts(struct table *t, const struct table_config *c, struct err *err)
{
    const struct table_spec spec = {
        .name = c->name,
        .seed = c->seed,
        .dim = c->dim,
        .init = c->init,
        .rule = c->rule,
        .bytes_max = c->bytes_max,
    };
    struct table_admission_spec admission = c->admission;
    admission.name = c->name;
    admission.seed = c->seed;
    admission.shard = c->shard;
    admission.shards = c->shards;
    t->counts_budget.bytes_max = admission.bytes;
    int rc = table_rows_init(&t->rows, &spec, err);
    rc = rc == 0 ? table_admission_init(&t->admission, &admission, &t->counts_budget, err) : rc;
    if (rc != 0) {
        return rc;
    }
    const uint64_t counts =
        admission.kind == TABLE_ADMIT_COUNTED ? admission.bytes : t->counts_budget.bytes;
    t->rows_fit = counts < c->bytes_max ? rows_that_fit(&t->rows, c->bytes_max - counts) : 0;
    if (t->rows_fit == 0) {
        return err_set(err, ERR_INVALID, "table %s: no row fits in %" PRIu64 " bytes", c->name,
                       c->bytes_max);
    }
    table_copies_init(&t->copies, t->rows.stride, c->copies_bytes_max, c->keeps_previous);
    if (c->notes_evicted) {
        table_evicted_init(&t->evicted, &t->copies.budget, t->version);
    }
    return 0;
}

int table_new(const struct table_config *config, uint64_t version, struct table **out,
              struct err *err)
{
    int rc = check(config, err);
    if (rc != 0) {
        return rc;
    }
    struct table *t = mem_new(1, sizeof *t);
    t->eviction = config->eviction;
    t->eviction.every = t->eviction.every == 0 ? 1 : t->eviction.every;
    t->past = config->past;
    t->on_full = config->on_full;
    t->keeps_previous = config->keeps_previous;
    t->name = mem_strdup(config->name);
    t->version = t->kept_from = version;
    t->shard = config->shard;
    t->shards = config->shards;
    t->bucket_first = table_bucket_first(t->shard, t->shards);
    t->bucket_count = table_bucket_first(t->shard + 1, t->shards) - t->bucket_first;
    t->bucket_rows = mem_new(t->bucket_count, sizeof *t->bucket_rows);
    rc = make_parts(t, config, err);
    if (rc != 0) {
        table_free(t);
        return rc;
    }
    *out = t;
    return 0;
}

void table_free(struct table *t)
{
    if (t == NULL) {
        return;
    }
    table_evicted_release(&t->evicted);
    table_copies_release(&t->copies);
    table_admission_release(&t->admission);
    table_rows_release(&t->rows);
    free(t->scratch.found);
    free(t->scratch.absent);
    free(t->scratch.sightings);
    free(t->scratch.before);
    free(t->scratch.admitted);
    free(t->scratch.seen);
    free(t->bucket_rows);
    free(t->name);
    free(t);
}

uint64_t table_version(const struct table *t)
{
    return t->version;
}

size_t table_dim(const struct table *t)
{
    return t->rows.dim;
}

const struct rule *table_rule(const struct table *t)
{
    return t->rows.rule;
}

bool table_admission_is_exact(const struct table *t)
{
    return t->admission.kind == TABLE_ADMIT_COUNTED;
}

/* ---- versions ---- */

static bool is_readable(const struct table *t, const struct table_copy_set *s)
{
    return s->pins > 0 ||
           (t->keeps_previous && s->version + 1 == t->version && s->version >= t->kept_from);
}

int table_find_version(const struct table *t, uint64_t version, size_t *first, struct err *err)
{
    const size_t i = table_copies_find(&t->copies, version);
    if (version == t->version) {
        *first = t->copies.count;
        return 0;
    }
    if (i < t->copies.count && is_readable(t, t->copies.sets[i])) {
        *first = i;
        return 0;
    }
    struct buf others = {0};
    for (size_t k = 0; k < t->copies.count; k++) {
        const struct table_copy_set *s = t->copies.sets[k];
        if (s->version != t->version && is_readable(t, s)) {
            buf_printf(&others, ", %" PRIu64, s->version);
        }
    }
    int rc =
        err_set(err, ERR_RANGE, "table %s: version %" PRIu64 " cannot be read; %" PRIu64 "%s can%s",
                t->name, version, t->version, buf_str(&others),
                version < t->given_up ? "; copies for it did not fit in copies_bytes" : "");
    buf_release(&others);
    return rc;
}

void table_settle(struct table *t)
{
    for (size_t i = 0; i < t->copies.count;) {
        const struct table_copy_set *s = t->copies.sets[i];
        i += is_readable(t, s) || !table_copies_drop(&t->copies, i);
    }
}

void table_keep_previous(struct table *t, bool keeps)
{
    const bool now = keeps && !MUTANT(previous_never);
    t->kept_from = now && !t->keeps_previous ? t->version : t->kept_from;
    t->keeps_previous = now;
    table_copies_keep_spare(&t->copies, now);
    table_settle(t);
}

int table_pin(struct table *t, uint64_t *version, struct err *err)
{
    struct table_copy_set *s = table_copies_newest(&t->copies);
    const bool is_there = s != NULL && s->version == t->version;
    if (!(is_there && s->pins > 0) && table_copies_pinned(&t->copies) == TABLE_PINS_MAX) {
        return err_set(err, ERR_EXHAUSTED, "table %s: %d versions are pinned already", t->name,
                       TABLE_PINS_MAX);
    }
    if (!is_there) {
        int rc = table_copies_add(&t->copies, t->version, t->rows.index.count, &s, err);
        if (rc != 0) {
            return err_wrap(err, "table %s", t->name);
        }
    }
    s->pins++;
    t->opened = true;
    *version = t->version;
    return 0;
}

int table_unpin(struct table *t, uint64_t version, struct err *err)
{
    const size_t i = table_copies_find(&t->copies, version);
    if (i == t->copies.count || t->copies.sets[i]->pins == 0) {
        return err_set(err, ERR_RANGE, "table %s: version %" PRIu64 " is not pinned", t->name,
                       version);
    }
    t->copies.sets[i]->pins--;
    table_settle(t);
    return 0;
}

bool table_copies_short(const struct table *t)
{
    return t->copies.budget.bytes > t->copies.budget.bytes_max / 2;
}

bool table_give_up_pins(struct table *t)
{
    const uint64_t forgotten = t->making > t->version ? t->making : t->version;
    bool any = table_evicted_forget(&t->evicted, forgotten);
    for (size_t i = 0; i < t->copies.count; i++) {
        struct table_copy_set *s = t->copies.sets[i];
        any = any || s->pins > 0;
        t->given_up = s->pins > 0 ? s->version + 1 : t->given_up;
        s->pins = 0;
    }
    table_settle(t);
    return any;
}

int table_evicted_since(struct table *t, uint64_t since, uint64_t version, size_t *at,
                        uint64_t *keys, size_t capacity, size_t *n, struct err *err)
{
    struct table_evicted *e = &t->evicted;
    *n = 0;
    if ((!e->on || since < e->from) && !MUTANT(delta_of_any_notes)) {
        return err_set(err, ERR_RANGE,
                       "table %s: which rows went since version %" PRIu64 " is not known", t->name,
                       since);
    }
    if (*at == 0) {
        table_evicted_trim(e, MUTANT(notes_of_base_forgotten) ? version : since);
    }
    while (*n < capacity && *at < e->count && e->notes[*at].version <= version) {
        keys[(*n)++] = e->notes[(*at)++].key;
    }
    return 0;
}

/* ---- reading ---- */

/* The values of a key at @up->version, out of copy @number of @set. */
static void read_copy(struct table *t, const struct table_catch_up *up,
                      const struct table_copy_set *set, uint32_t number, uint64_t key, float *out)
{
    struct table_rows *rows = &t->rows;
    uint64_t seen = 0;
    if (number == TABLE_COPY_ABSENT) {
        table_rows_begin(rows, key, rows->scratch);
    } else {
        seen = table_copy_note(&t->copies, set, number)->seen;
        memcpy(rows->scratch, table_copy_record(&t->copies, set, number),
               rows->stride * sizeof(float));
    }
    if (up->past != NULL) {
        table_rows_catch_up(rows, up, seen, rows->scratch);
    }
    memcpy(out, rows->scratch, rows->dim * sizeof(float));
}

int table_gather(struct table *t, uint64_t version, const uint64_t *keys, size_t n, float *out,
                 struct err *err)
{
    const struct table_catch_up up = {.past = t->past, .version = version};
    size_t first = 0;
    int rc = table_find_version(t, version, &first, err);
    if (rc != 0) {
        return rc;
    }
    table_rows_gather(&t->rows, &up, keys, n, out, NULL);
    t->stats.read += n;
    for (size_t i = t->copies.count; i-- > first;) {
        /* from the newest to the oldest set: of several copies the oldest is right */
        if (MUTANT(newest_copy) && i > first) {
            continue;
        }
        const struct table_copy_set *set = t->copies.sets[i];
        for (size_t k = 0; set->map.count > 0 && k < n; k++) {
            const uint32_t number = table_copy_map_find(&set->map, table_mix(keys[k]));
            if (number != TABLE_ROW_NONE) {
                read_copy(t, &up, set, number, keys[k], out + k * t->rows.dim);
            }
        }
    }
    return 0;
}

int table_count(const struct table *t, uint64_t version, uint64_t *count, struct err *err)
{
    size_t first = 0;
    int rc = table_find_version(t, version, &first, err);
    if (rc == 0) {
        *count = first == t->copies.count ? t->rows.index.count : t->copies.sets[first]->rows;
    }
    return rc;
}

void table_stats(const struct table *t, struct table_stats *out)
{
    *out = t->stats;
    out->rows = t->rows.index.count;
    out->counted = t->admission.counts.count;
    out->bytes = t->rows.budget.bytes + t->counts_budget.bytes;
    out->copies_bytes = t->copies.budget.bytes;
    out->pins = table_copies_pinned(&t->copies);
    out->copied_rows = 0;
    for (size_t i = 0; i < t->copies.count; i++) {
        out->copied_rows += t->copies.sets[i]->made;
    }
}

static void add_hot(struct table_hottest *h, uint64_t key, uint32_t sightings)
{
    struct table_hot_key *keys = h->keys;
    size_t at = h->count;
    while (at > 0 && (keys[at - 1].sightings < sightings ||
                      (keys[at - 1].sightings == sightings && keys[at - 1].key > key))) {
        at--;
    }
    if (at < TABLE_HOTTEST_MAX) {
        h->count += h->count < TABLE_HOTTEST_MAX;
        memmove(keys + at + 1, keys + at, (h->count - 1 - at) * sizeof *keys);
        keys[at] = (struct table_hot_key){key, sightings};
    }
}

bool table_hottest(const struct table *t, struct table_hottest *h, size_t rows)
{
    struct table_entry entries[READ_AT_ONCE];
    size_t n = 1;
    for (size_t read = 0; n > 0 && read < rows; read += n) {
        n = table_index_next(&t->rows.index, &h->cursor, entries, READ_AT_ONCE);
        for (size_t i = 0; i < n; i++) {
            add_hot(h, entries[i].key, table_rows_note(&t->rows, entries[i].row)->sightings);
        }
    }
    return n > 0;
}
