/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up what the shards of a job say of a table. */
#include "cli/table_sums.h"

#include <string.h>

#include "base/mem.h"

const Gradus__V1__TableStats *table_of_shard(const Gradus__V1__ShardTables *shard, const char *name)
{
    for (size_t i = 0; i < shard->n_tables; i++) {
        if (strcmp(shard->tables[i]->name, name) == 0) {
            return shard->tables[i];
        }
    }
    return NULL;
}

static void add(Gradus__V1__TableStats *sum, const Gradus__V1__TableStats *t)
{
    sum->dim = t->dim;
    sum->rows += t->rows;
    sum->bytes += t->bytes;
    sum->bytes_max += t->bytes_max;
    sum->copied_rows += t->copied_rows;
    sum->copies_bytes += t->copies_bytes;
    sum->copies_bytes_max += t->copies_bytes_max;
    sum->admitted += t->admitted;
    sum->evicted += t->evicted;
    sum->dropped += t->dropped;
    sum->updated += t->updated;
    sum->refused += t->refused;
    sum->read += t->read;
}

/* Adds a key, in the order of table_hottest(). */
static void add_key(struct table_sums *s, const Gradus__V1__HotKey *key, uint32_t shard)
{
    size_t at = s->hottest_count;
    while (at > 0) {
        const Gradus__V1__HotKey *before = s->hottest[at - 1].key;
        if (before->sightings > key->sightings ||
            (before->sightings == key->sightings && before->key <= key->key)) {
            break;
        }
        at--;
    }
    if (at == TABLE_SUMS_HOTTEST_MAX) {
        return;
    }
    s->hottest_count += s->hottest_count < TABLE_SUMS_HOTTEST_MAX;
    memmove(&s->hottest[at + 1], &s->hottest[at],
            (s->hottest_count - 1 - at) * sizeof s->hottest[0]);
    s->hottest[at] = (struct table_sums_key){key, shard};
}

static double times_of_mean(uint64_t most, double sum, size_t shards)
{
    return sum > 0 ? (double)most * (double)shards / sum : 0;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void table_sums(const Gradus__V1__TablesResponse *r, const char *name, struct table_sums *out)
{
    uint64_t updated = 0, read = 0, load = 0; /* of the shard that has most of it */
    *out = (struct table_sums){.name = name};
    gradus__v1__table_stats__init(&out->sum);
    for (size_t i = 0; i < r->n_shards; i++) {
        const Gradus__V1__TableStats *t = table_of_shard(r->shards[i], name);
        if (t == NULL) {
            continue;
        }
        out->shards++;
        add(&out->sum, t);
        updated = larger(updated, t->updated);
        read = larger(read, t->read);
        load = larger(load, t->updated + t->read);
        for (size_t k = 0; k < t->n_hottest; k++) {
            add_key(out, t->hottest[k], r->shards[i]->shard);
        }
    }
    const double all_updated = (double)out->sum.updated, all_read = (double)out->sum.read;
    out->updated = times_of_mean(updated, all_updated, out->shards);
    out->read = times_of_mean(read, all_read, out->shards);
    out->load = times_of_mean(load, all_updated + all_read, out->shards);
}

const char **table_names(const Gradus__V1__TablesResponse *r, size_t *count)
{
    size_t room = 1, n = 0;
    for (size_t i = 0; i < r->n_shards; i++) {
        room += r->shards[i]->n_tables;
    }
    const char **names = mem_new(room, sizeof *names);
    for (size_t i = 0; i < r->n_shards; i++) {
        for (size_t k = 0; k < r->shards[i]->n_tables; k++) {
            const char *name = r->shards[i]->tables[k]->name;
            size_t at = 0;
            while (at < n && strcmp(names[at], name) != 0) {
                at++;
            }
            if (at == n) {
                names[n++] = name;
            }
        }
    }
    *count = n;
    return names;
}
