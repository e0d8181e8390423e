/* SPDX-License-Identifier: Apache-2.0 */
/* What a job takes on one host, row by row, compared with figures that are worked out by hand. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/job_file.h"
#include "os/file.h"

#define MIB (UINT64_C(1) << 20)
#define FLOAT sizeof(float)

struct scene {
    char *dir;
    struct job_spec spec;
    struct memory_need need;
};

/* @records of so many @features and as many classes as the layer has @units. */
static void write_data(const char *dir, const char *name, int records, int features, int units)
{
    char *path = file_join(dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < records; i++) {
        for (int k = 0; k < features; k++) {
            (void)fprintf(f, "%d.5,", i + k);
        }
        (void)fprintf(f, "%d\n", i % units);
    }
    assert_int_equal(fclose(f), 0);
    free(path);
}

/* One dense layer, of features x units + units parameters; 40 records to train, 20 to test. */
static void begin(struct scene *s, int features, int units, const char *update,
                  const char *training, const char *cluster)
{
    struct diags diags = {0};
    struct buf job = {0};
    struct err err;
    *s = (struct scene){.dir = tmp_dir_make("need")};
    write_data(s->dir, "train.csv", 40, features, units);
    write_data(s->dir, "test.csv", 20, features, units);
    buf_printf(&job,
               "name: j\ndata: {dir: %s, train: {file: train.csv}, test: {file: test.csv}}\n"
               "model:\n  layers:\n    - dense: {units: %d}\n  loss: softmax_cross_entropy\n"
               "update: {%s}\ntraining: {batch_size: 10, epochs: 1, %s}\ncluster: {%s}\n",
               s->dir, units, update, training, cluster);
    if (job_spec_parse(job.data, job.len, "j", NULL, 0, &s->spec, &diags) != 0) {
        struct buf why = {0};
        diags_format(&diags, &why);
        fail_msg("%s", buf_str(&why));
    }
    if (job_file_memory(&s->spec, &s->need, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    diags_release(&diags);
    buf_release(&job);
}

/* The total is that of the rows. */
static void end(struct scene *s)
{
    uint64_t total = 0;
    for (size_t i = 0; i < s->need.row_count; i++) {
        total += s->need.rows[i].total;
    }
    assert_int_equal(s->need.total, total);
    job_spec_release(&s->spec);
    tmp_dir_remove(s->dir);
}

/* @bytes of one of @places processes; all of them take @total. */
static void has(const struct scene *s, enum memory_who who, const char *what, uint64_t bytes,
                uint64_t places, uint64_t total)
{
    for (size_t i = 0; i < s->need.row_count; i++) {
        const struct memory_row *r = &s->need.rows[i];
        if (r->who == who && strcmp(r->what, what) == 0) {
            if (r->bytes != bytes || r->places != places || r->total != total) {
                fail_msg("%s: %llu bytes in %llu places, %llu altogether", what,
                         (unsigned long long)r->bytes, (unsigned long long)r->places,
                         (unsigned long long)r->total);
            }
            return;
        }
    }
    if (total != 0) {
        fail_msg("no row of %s", what);
    }
}

static void has_each(const struct scene *s, enum memory_who who, const char *what, uint64_t bytes,
                     uint64_t places)
{
    has(s, who, what, bytes, places, places * bytes);
}

/* 50 x 4 parameters of the kernel on one server, the 4 of the bias on the other one; adam has two
 * slots. Two replicas of two workers: one gradient waits for its sibling, one comes in. */
static void test_sync(void **state)
{
    (void)state;
    const uint64_t all = 204 * FLOAT, most = 200 * FLOAT;
    struct scene s;
    begin(&s, 50, 4, "rule: adam", "mode: sync, replicas: 2", "workers: 2, ps: 2, partitions: 1");
    has_each(&s, MEMORY_MASTER, "the process", 24 * MIB, 1);
    has_each(&s, MEMORY_PS, "the process", 24 * MIB, 2);
    has(&s, MEMORY_PS, "values, and a pinned version", 3 * most, 2, 3 * all);
    has(&s, MEMORY_PS, "slots", 2 * most, 2, 2 * all);
    has(&s, MEMORY_PS, "their copy for checkpoints", 2 * most, 2, 2 * all);
    has(&s, MEMORY_PS, "what each worker read", 0, 0, 0);
    has(&s, MEMORY_PS, "gradients", 2 * most, 2, 2 * all);
    has_each(&s, MEMORY_WORKER, "the process", 40 * MIB, 2);
    /* One to compute with, one to evaluate. */
    has_each(&s, MEMORY_WORKER, "sets of parameters", 2 * all, 2);
    has_each(&s, MEMORY_WORKER, "gradients", all, 2);
    has_each(&s, MEMORY_WORKER, "data set", (40 + 20) * (50 + 1) * FLOAT, 2);
    /* Five mini-batches of 10, and 64 records to evaluate at once. */
    has_each(&s, MEMORY_WORKER, "batches that are decoded ahead", (5 * 10 + 64) * (50 + 2) * FLOAT,
             2);
    has(&s, MEMORY_SHARED, "gradients and parameters", 0, 0, 0); /* too little to share */
    assert_true(s.need.total > (24 + 2 * 24 + 2 * 40) * MIB);
    end(&s);
}

/* Four replicas of one worker: the sum so far, one of the level below, and what is computed. */
static void test_several_replicas_on_a_worker(void **state)
{
    (void)state;
    const uint64_t all = 204 * FLOAT;
    struct scene s;
    begin(&s, 50, 4, "rule: sgd", "mode: sync, replicas: 4", "workers: 1, ps: 1");
    has(&s, MEMORY_PS, "slots", 0, 0, 0);
    has(&s, MEMORY_PS, "their copy for checkpoints", 0, 0, 0);
    has_each(&s, MEMORY_WORKER, "gradients", 3 * all, 1);
    end(&s);
}

/* 220 x 40 + 40 parameters are passed in memory: the servers have no gradients of their own, and
 * each worker shares two that it pushes and two sets that it pulls. */
static void test_shared_memory(void **state)
{
    (void)state;
    const uint64_t all = 8840 * FLOAT;
    struct scene s;
    begin(&s, 220, 40, "rule: adam", "mode: async, overlap: true", "workers: 3, ps: 1");
    has_each(&s, MEMORY_PS, "values, and a pinned version", 3 * all, 1);
    has_each(&s, MEMORY_PS, "slots", 2 * all, 1);
    has_each(&s, MEMORY_PS, "their copy for checkpoints", 2 * all, 1);
    has(&s, MEMORY_PS, "gradients", 0, 0, 0);
    has_each(&s, MEMORY_WORKER, "sets of parameters", 3 * all, 3);
    has_each(&s, MEMORY_WORKER, "gradients", 2 * all, 3);
    has_each(&s, MEMORY_SHARED, "gradients and parameters", 4 * all, 3);
    end(&s);
    begin(&s, 220, 40, "rule: adam", "mode: async, overlap: false, wire: {gradients: bf16}",
          "workers: 3, ps: 1");
    has_each(&s, MEMORY_PS, "gradients", all, 1);
    has_each(&s, MEMORY_WORKER, "sets of parameters", 2 * all, 3);
    has_each(&s, MEMORY_WORKER, "gradients", all, 3);
    has(&s, MEMORY_SHARED, "gradients and parameters", 0, 0, 0);
    end(&s);
}

/* A version and slot 0 for each of three workers, and a slot on its way; three slots. */
static void test_what_workers_read(void **state)
{
    (void)state;
    const uint64_t all = 204 * FLOAT;
    struct scene s;
    begin(&s, 50, 4, "rule: adaptive_revision", "mode: async", "workers: 3, ps: 1");
    has_each(&s, MEMORY_PS, "slots", 3 * all, 1);
    has_each(&s, MEMORY_PS, "their copy for checkpoints", 3 * all, 1);
    has_each(&s, MEMORY_PS, "what each worker read", (3 + 3 + 1) * all, 1);
    end(&s);
}

static void test_fits(void **state)
{
    (void)state;
    const struct memory_need need = {.total = 100};
    assert_true(memory_need_fits(&need, &(struct host_memory){.total = 200, .available = 100}));
    assert_false(memory_need_fits(&need, &(struct host_memory){.total = 200, .available = 99}));
    assert_true(memory_need_fits(&need, &(struct host_memory){.total = 0})); /* nobody knows */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sync),          cmocka_unit_test(test_several_replicas_on_a_worker),
        cmocka_unit_test(test_shared_memory), cmocka_unit_test(test_what_workers_read),
        cmocka_unit_test(test_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
