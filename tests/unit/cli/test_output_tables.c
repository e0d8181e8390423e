/* SPDX-License-Identifier: Apache-2.0 */
/* What is printed of the tables of a job: sums over shards, how even their load is, the hottest
 * keys of all; within 80 columns. */
#include "output_rig.h"

#include "cli/output_tables.h"
#include "cli/table_sums.h"

#define SHARDS 3
#define KEYS 15 /* of each shard */

/* Two tables on two servers, and a server that is missing. */
struct sample_tables {
    Gradus__V1__TablesResponse r;
    Gradus__V1__ShardTables shards[SHARDS], *list[SHARDS];
    Gradus__V1__TableStats tables[SHARDS][2], *table_list[SHARDS][2];
    Gradus__V1__HotKey keys[SHARDS][KEYS], *key_list[SHARDS][KEYS];
};

static char empty[] = "", job_id[] = "clicks-1", servers[SHARDS][8] = {"ps-1", "ps-2", "ps-3"};
static char names[2][8] = {"weights", "factors"}, gone[] = "it is gone";

static void fill_table(struct sample_tables *s, uint32_t shard, uint32_t i)
{
    Gradus__V1__TableStats *t = &s->tables[shard][i];
    gradus__v1__table_stats__init(t);
    t->name = names[i];
    t->dim = i == 0 ? 1 : 16;
    t->rows = 1500000 * (shard + 1);
    t->bytes = (UINT64_C(64) << 20) * (shard + 1);
    t->bytes_max = UINT64_C(256) << 20;
    t->copied_rows = 10;
    t->copies_bytes = 2048;
    t->copies_bytes_max = 1 << 20;
    t->admitted = 1700000 * (shard + 1);
    t->evicted = 200000 * (shard + 1);
    t->dropped = 12;
    t->updated = 1000 + 2000 * shard; /* 1000 and 3000: 1.5 times the mean */
    t->read = 3000 - 1000 * shard;    /* 3000 and 2000: 1.2 times */
    t->refused = shard;
    s->table_list[shard][i] = t;
}

static void init(struct sample_tables *s)
{
    *s = (struct sample_tables){.r = GRADUS__V1__TABLES_RESPONSE__INIT};
    for (uint32_t i = 0; i < SHARDS; i++) {
        gradus__v1__shard_tables__init(&s->shards[i]);
        s->shards[i].ps = servers[i];
        s->shards[i].problem = i < 2 ? empty : gone;
        s->shards[i].shard = i;
        s->shards[i].version = 700 + i;
        s->shards[i].tables = s->table_list[i];
        s->shards[i].n_tables = i < 2 ? 2 : 0;
        fill_table(s, i, 0);
        fill_table(s, i, 1);
        s->list[i] = &s->shards[i];
    }
    s->r.job = job_id;
    s->r.table = empty;
    s->r.shards = s->list;
    s->r.n_shards = SHARDS;
}

/* As the master answers who asks for the second table. */
static void choose_factors(struct sample_tables *s)
{
    s->r.table = names[1];
    for (uint32_t i = 0; i < 2; i++) {
        s->shards[i].tables = &s->table_list[i][1];
        s->shards[i].n_tables = 1;
        s->tables[i][1].hottest = s->key_list[i];
        s->tables[i][1].n_hottest = KEYS;
        for (uint32_t k = 0; k < KEYS; k++) {
            gradus__v1__hot_key__init(&s->keys[i][k]);
            s->keys[i][k].key = UINT64_MAX - 100 * i - k;
            s->keys[i][k].sightings = 100 - 2 * k - i;
            s->key_list[i][k] = &s->keys[i][k];
        }
    }
}

static void fits(const struct buf *out)
{
    const char *line = buf_str(out);
    for (const char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        assert_in_range(end - line, 0, 80);
    }
}

static void test_all_tables(void **state)
{
    (void)state;
    struct sample_tables s;
    struct buf out = {0};
    init(&s);
    output_tables_text(&s.r, &out);
    fits(&out);
    output_assert_text(
        &out, "job         clicks-1\n"
              "version     700 to 701, without 1 server that did not answer\n"
              "\n"
              "TABLE             DIM    ROWS     MEMORY  FULL ADMITTED EVICTED DROPPED  LOAD\n"
              "weights             1    4.5M  192.0 MiB   38%     5.1M  600000      24  1.11\n"
              "factors            16    4.5M  192.0 MiB   38%     5.1M  600000      24  1.11\n");
}

static void test_one_table(void **state)
{
    (void)state;
    struct sample_tables s;
    struct buf out = {0};
    init(&s);
    choose_factors(&s);
    output_tables_text(&s.r, &out);
    fits(&out);
    const char *keys = strstr(buf_str(&out), "\nHOTTEST KEY");
    assert_non_null(keys);
    static const char first[] = "\nHOTTEST KEY           SIGHTINGS  SHARD\n"
                                "18446744073709551615        100      0\n"
                                "18446744073709551515         99      1\n"
                                "18446744073709551614         98      0\n";
    assert_memory_equal(keys, first, sizeof first - 1);
    size_t lines = 0;
    for (const char *at = keys + 1; *at != '\0'; at++) {
        lines += *at == '\n';
    }
    assert_int_equal(lines, 1 + 20);
    out.len = (size_t)(keys - buf_str(&out));
    out.data[out.len] = '\0';
    output_assert_text(
        &out, "table       factors\n"
              "job         clicks-1\n"
              "version     700 to 701, without 1 server that did not answer\n"
              "dim         16\n"
              "rows        4500000\n"
              "memory      192.0 MiB of 512.0 MiB (38%)\n"
              "copies      20 rows for old versions, 4.0 KiB of 2.0 MiB\n"
              "admitted    5100000 keys\n"
              "evicted     600000 rows\n"
              "dropped     24 rows of gradients, whose keys had no rows\n"
              "updated     4000 rows\n"
              "read        5000 rows\n"
              "refused     1 update: it was full\n"
              "imbalance   1.50 of rows updated, 1.20 of rows read (largest shard / mean)\n"
              "\n"
              "SHARD    ROWS     MEMORY  FULL ADMITTED EVICTED DROPPED UPDATED    READ  SERVER\n"
              "    0    1.5M   64.0 MiB   25%     1.7M  200000      12    1000    3000  ps-1\n"
              "    1    3.0M  128.0 MiB   50%     3.4M  400000      12    3000    2000  ps-2\n");
}

/* Nothing has happened yet, and one number is as large as can be. */
static void test_extremes(void **state)
{
    (void)state;
    struct sample_tables s;
    struct buf out = {0};
    init(&s);
    s.r.n_shards = 1;
    s.shards[0].n_tables = 1;
    gradus__v1__table_stats__init(&s.tables[0][0]);
    s.tables[0][0].name = names[0];
    s.tables[0][0].evicted = UINT64_MAX;
    s.tables[0][0].admitted = 999999;
    s.tables[0][0].dropped = 999950000;
    output_tables_text(&s.r, &out);
    fits(&out);
    output_assert_text(
        &out, "job         clicks-1\n"
              "version     700\n"
              "\n"
              "TABLE             DIM    ROWS     MEMORY  FULL ADMITTED EVICTED DROPPED  LOAD\n"
              "weights             0       0        0 B     -   999999   18.4E    1.0G     -\n");
}

/* Of as many sightings the smaller key goes first, whatever shard it is of. */
static void test_keys_alike(void **state)
{
    (void)state;
    struct sample_tables s;
    struct table_sums sums;
    init(&s);
    choose_factors(&s);
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < KEYS; k++) {
            s.keys[i][k].key = 2 * k + 1 - i;
            s.keys[i][k].sightings = 7;
        }
    }
    table_sums(&s.r, names[1], &sums);
    assert_int_equal(sums.hottest_count, 20);
    for (size_t k = 0; k < 20; k++) {
        assert_int_equal(sums.hottest[k].key->key, k);
        assert_int_equal(sums.hottest[k].shard, 1 - k % 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_tables),
        cmocka_unit_test(test_one_table),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_keys_alike),
    };
    return cmocka_run_group_tests_name("output_tables", tests, NULL, NULL);
}
