/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of rows over real gRPC: one cut while training goes on, and back. */
#define ROWS 4
#include "rows_rig.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/shard_file.h"
#include "ps/data/shard_tables.h"
#include "ps/rpc/ps_rows.h"
#include "support/wait_until.h"

static char job[] = "t-1";
#define MANY 3000 /* rows that a push brings of the first table */
static char restored[] = "r-1";
static const char LARGE[] =
    "[{name: ads, dim: 2, init: constant, init_mean: 1, memory_bytes: 64 MiB},"
    " {name: users, dim: 3, admission: counted, sightings: 5, admission_bytes: 1 MiB,"
    " memory_bytes: 4 MiB}]";

static const char SMALL[] = "[{name: ads, dim: 2, memory_bytes: 1 MiB}, {name: users, dim: 3,"
                            " admission: counted, memory_bytes: 64 MiB}]";

/* Rows of keys @first to @first + MANY - 1 of the first table, and one key of the second. */
static void push_many(struct client *c, uint64_t step, uint64_t first)
{
    static uint64_t keys[MANY];
    static uint32_t sightings[MANY];
    static float values[MANY * 2];
    for (size_t i = 0; i < MANY; i++) {
        keys[i] = first + i;
        sightings[i] = 1;
        values[2 * i] = (float)(step + 1);
        values[2 * i + 1] = (float)i;
    }
    const uint64_t other = step % 3;
    const struct table_gradient_view g[TABLES] = {
        {.dim = 2, .n = MANY, .keys = keys, .sightings = sightings, .values = values},
        {.dim = 3, .n = 1, .keys = &other, .sightings = sightings, .values = values}};
    const size_t n =
        table_gradient_bytes(VALUE_FP32, MANY, 2) + table_gradient_bytes(VALUE_FP32, 1, 3);
    unsigned char *bytes = mem_new(n, 1);
    table_gradient_encode(VALUE_FP32, &g[0], bytes);
    table_gradient_encode(VALUE_FP32, &g[1], bytes + table_gradient_bytes(VALUE_FP32, MANY, 2));
    const struct answer *a = rows_push(c, job, 1, step, 0, bytes, n, 16384);
    if (a->code != 0) {
        fail_msg("code %d: %s", a->code, a->message);
    }
    free(bytes);
}

struct trainer { /* goes on while the checkpoint is written */
    struct client *client;
    uint64_t step;
    atomic_bool stop;
};

static void *train(void *arg)
{
    struct trainer *t = arg;
    for (; !atomic_load(&t->stop); t->step++) {
        push_many(t->client, t->step, t->step * MANY);
    }
    return NULL;
}

/* Rows and counts that the shards of @name have at version 7, as text. */
static void dump(struct ps_rig *rig, const char *name, struct buf *out)
{
    struct ps_shard *shards[PS_SHARDS_MAX];
    const size_t n = ps_list(rig->ps, name, shards);
    for (size_t s = 0; s < n; s++) {
        struct ps_table_file *f = NULL;
        struct err err;
        ps_rig_expect(ps_table_file_begin(shards[s], 7, NULL, &f, &err), 0, &err, "");
        const struct table_file_source *from = ps_table_file_source(f);
        for (size_t i = 0; i < TABLES; i++) {
            uint64_t key, seen;
            uint32_t sightings;
            float values[3];
            struct table_chunk c = {.capacity = 1,
                                    .keys = &key,
                                    .values = values,
                                    .seen = &seen,
                                    .sightings = &sightings};
            struct table_counts_chunk k = {.capacity = 1, .keys = &key, .counts = &sightings};
            while (from->rows(from->ctx, i, &c, &err) == 0 && c.n > 0) {
                buf_printf(out, "%zu %llu %llu %u %a %a\n", i, (unsigned long long)key,
                           (unsigned long long)seen, sightings, (double)values[0],
                           (double)values[1]);
            }
            while (from->counts(from->ctx, i, &k, &err) == 0 && k.n > 0) {
                buf_printf(out, "%zu counted %llu %u\n", i, (unsigned long long)key, sightings);
            }
        }
        ps_table_file_end(f);
        ps_shard_unref(shards[s]);
    }
}

/* The version that is pinned as "p", for job r-1. Returns the checksum of its manifest. */
static uint64_t write_checkpoint(struct ps_rig *rig)
{
    char pin_id[] = "p", directory[] = "t-1/step-000000007";
    struct manifest m;
    struct plan plan;
    struct err err;
    struct rpc_msg *reply;
    Gradus__V1__CheckpointShardRequest r = GRADUS__V1__CHECKPOINT_SHARD_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    r.shard = &ref;
    r.pin_id = pin_id;
    r.directory = directory;
    ps_rig_plan(1, &plan);
    char *text = ps_rig_text("sync", "sgd", "", LARGE);
    manifest_init(&m, job, text, TRAINING_SYNC, &(struct update_spec){.rule = rule_find("sgd")},
                  &plan);
    manifest_add_table(&m, "ads", 2, TABLE_ADMIT_ALL);
    manifest_add_table(&m, "users", 3, TABLE_ADMIT_COUNTED);
    ps_rig_expect(ps_rig_call(rig, "Checkpoint", &r.base, NULL, 0, &reply, &err), 0, &err, "");
    const Gradus__V1__CheckpointShardResponse *done =
        (const Gradus__V1__CheckpointShardResponse *)reply->body;
    m.shards[0] = (struct manifest_shard){
        .version = done->version, .bytes = done->bytes, .checksum = done->checksum};
    rpc_msg_unref(reply);
    char *path = mem_printf("%s/%s", rig->dir, directory);
    ps_rig_expect(manifest_take_tables(path, &m, &err), 0, &err, "");
    ps_rig_expect(manifest_write(path, &m, &err), 0, &err, "");
    manifest_release(&m);
    ps_rig_expect(manifest_read(path, &m, &err), 0, &err, "");
    const uint64_t checksum = m.checksum;
    free(path);
    free(text);
    char *from = mem_printf("%s/%s", rig->dir, job), *to = mem_printf("%s/%s", rig->dir, restored);
    assert_int_equal(rename(from, to), 0);
    free(from);
    free(to);
    manifest_release(&m);
    plan_release(&plan);
    return checksum;
}

static int restore(struct ps_rig *rig, const char *tables, uint32_t shard, uint32_t shards,
                   struct err *err)
{
    char directory[] = "r-1/step-000000007";
    const struct ps_rig_opening o = {.job = restored,
                                     .rule = "sgd, learning_rate: 1",
                                     .tables = tables,
                                     .generation = 1,
                                     .version = 7,
                                     .shard = shard,
                                     .shards = shards,
                                     .restore = directory,
                                     .consistency = ps_rig_consistency("sync", 1)};
    return ps_rig_open_as(rig, &o, NULL, err);
}

static int close_shard(struct ps_rig *rig, char *name, struct err *err)
{
    Gradus__V1__CloseShardRequest r = GRADUS__V1__CLOSE_SHARD_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(name, 1);
    r.shard = &ref;
    return ps_rig_call(rig, "CloseShard", &r.base, NULL, 0, NULL, err);
}

/* One cut, although steps are made while it is written: what one shard had is what comes back, on
 * one or on two. */
static void test_a_checkpoint(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    struct err err = {0};
    struct buf before = {0}, one = {0}, two = {0};
    char id[] = "p";
    pthread_t thread;
    ps_rig_start(&rig, 0);
    rows_open(&rig, job, 1, LARGE);
    exchange_open(&c, &rig);
    for (uint64_t step = 0; step < 7; step++) {
        push_many(&c, step, step * MANY);
    }
    dump(&rig, job, &before);
    rows_pin(&rig, job, "Pin", id);
    struct trainer trainer = {.client = &c, .step = 7};
    assert_int_equal(pthread_create(&thread, NULL, train, &trainer), 0);
    write_checkpoint(&rig);
    atomic_store(&trainer.stop, true);
    pthread_join(thread, NULL);
    rows_pin(&rig, job, "Unpin", id);
    exchange_close(&c);
    ps_rig_expect(restore(&rig, LARGE, 0, 1, &err), 0, &err, "");
    dump(&rig, restored, &one);
    assert_string_equal(buf_str(&before), buf_str(&one));
    ps_rig_expect(close_shard(&rig, restored, &err), 0, &err, "");
    ps_rig_expect(restore(&rig, SMALL, 0, 1, &err), ERR_EXHAUSTED, &err, "table ads: ");
    ps_rig_expect(restore(&rig, NULL, 0, 1, &err), ERR_INVALID, &err,
                  "it has table ads, which the job has not");
    ps_rig_expect(close_shard(&rig, job, &err), 0, &err, "");
    for (uint32_t shard = 0; shard < 2; shard++) {
        ps_rig_expect(restore(&rig, LARGE, shard, 2, &err), 0, &err, "");
    }
    dump(&rig, restored, &two);
    assert_int_equal(one.len, two.len);
    buf_release(&before);
    buf_release(&one);
    buf_release(&two);
    ps_rig_stop(&rig);
}

/* ---- rows that another job begins with ---- */

static int begin(struct ps_rig *rig, const char *tables, char *from, uint64_t manifest,
                 struct err *err)
{
    const struct ps_rig_opening o = {.job = job,
                                     .rule = "adam",
                                     .tables = tables,
                                     .generation = 1,
                                     .rows_from = from,
                                     .rows_manifest = manifest,
                                     .consistency = ps_rig_consistency("sync", 1)};
    return ps_rig_open_as(rig, &o, NULL, err);
}

static void test_rows_to_begin_with(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    struct err err = {0};
    struct ps_shard *shards[PS_SHARDS_MAX];
    struct table_stats stats;
    char id[] = "p";
    ps_rig_start(&rig, 0);
    rows_open(&rig, job, 1, LARGE);
    exchange_open(&c, &rig);
    for (uint64_t step = 0; step < 7; step++) {
        push_many(&c, step, step * MANY);
    }
    rows_pin(&rig, job, "Pin", id);
    const uint64_t manifest = write_checkpoint(&rig);
    exchange_close(&c);
    ps_rig_expect(close_shard(&rig, job, &err), 0, &err, "");
    char *from = mem_printf("%s/r-1/step-000000007", rig.dir);
    char *none = mem_printf("%s/r-1/step-000000008", rig.dir);
    ps_rig_expect(begin(&rig, LARGE, from, manifest + 1, &err), ERR_STATE, &err,
                  "not the checkpoint that a worker found when the job began");
    ps_rig_expect(begin(&rig, LARGE, none, manifest, &err), ERR_NOT_FOUND, &err, none);
    /* The master would wait for memory, which does not help. */
    ps_rig_expect(begin(&rig, SMALL, from, manifest, &err), ERR_INVALID, &err,
                  "rows of table ads for table ads: ");
    ps_rig_expect(begin(&rig, NULL, from, manifest, &err), ERR_INVALID, &err, "no tables");
    ps_rig_expect(begin(&rig, LARGE, from, manifest, &err), 0, &err, "");
    assert_int_equal(ps_list(rig.ps, job, shards), 1);
    table_stats(shards[0]->tables->tables[0], &stats);
    assert_int_equal(stats.rows, 7 * MANY);
    assert_int_equal(table_version(shards[0]->tables->tables[0]), 0);
    ps_shard_unref(shards[0]);
    free(from);
    free(none);
    ps_rig_stop(&rig);
}

/* ---- deltas ---- */

static int save_pinned(struct ps_rig *rig, char *id, char *directory, char *base, char *file,
                       uint64_t version, bool *delta, struct err *err)
{
    Gradus__V1__CheckpointShardRequest r = GRADUS__V1__CHECKPOINT_SHARD_REQUEST__INIT;
    Gradus__V1__CheckpointBase b = GRADUS__V1__CHECKPOINT_BASE__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    struct rpc_msg *reply = NULL;
    b.directory = base;
    b.file = file;
    b.version = version;
    b.checksum = 77;
    r.shard = &ref;
    r.pin_id = id;
    r.directory = directory;
    r.base_file = &b;
    const int rc = ps_rig_call(rig, "Checkpoint", &r.base, NULL, 0, &reply, err);
    if (rc == 0) {
        *delta = ((const Gradus__V1__CheckpointShardResponse *)reply->body)->delta;
        rpc_msg_unref(reply);
    }
    return rc;
}

static int save_since(struct ps_rig *rig, char *directory, char *base, char *file, uint64_t version,
                      bool *delta, struct err *err)
{
    static unsigned pins;
    char id[16];
    (void)snprintf(id, sizeof id, "p%u", pins++);
    rows_pin(rig, job, "Pin", id);
    const int rc = save_pinned(rig, id, directory, base, file, version, delta, err);
    rows_pin(rig, job, "Unpin", id);
    return rc;
}

/* A shard at version 2, where half of the keys of each step are those of both. */
static void start_deltas(struct ps_rig *rig, struct client *c, const char *training)
{
    ps_rig_start(rig, 0);
    struct err err;
    struct ps_rig_opening o = {.job = job,
                               .rule = "sgd, learning_rate: 1",
                               .training = training,
                               .tables = LARGE,
                               .generation = 1,
                               .consistency = ps_rig_consistency("sync", 1)};
    ps_rig_expect(ps_rig_open_as(rig, &o, NULL, &err), 0, &err, "");
    exchange_open(c, rig);
    push_many(c, 0, 0);
    push_many(c, 1, MANY / 2);
}

/* What changed since the base that this shard wrote; everything since any other. */
static void test_a_delta(void **state)
{
    (void)state;
    static const char file[] = "shard-0-of-1.safetensors";
    char base[] = "t-1/step-000000001", to[] = "t-1/step-000000002", other[] = "t-2/step-000000001";
    char name[sizeof file], wrong[] = "shard-0-of-1-g9.safetensors";
    struct ps_rig rig;
    struct client c;
    struct err err = {0};
    struct shard_file f;
    bool delta = false;
    memcpy(name, file, sizeof file);
    start_deltas(&rig, &c, ", checkpoint_full_every: 2");
    ps_rig_expect(save_since(&rig, to, base, name, 1, &delta, &err), 0, &err, "");
    assert_true(delta);
    char *path = mem_printf("%s/%s/%s", rig.dir, to, file);
    ps_rig_expect(shard_file_open(&f, path, &err), 0, &err, "");
    assert_string_equal(f.base.directory, "step-000000001");
    assert_int_equal(f.base.checksum, 77);
    assert_int_equal(f.base.version, 1);
    assert_int_equal(f.tables[0].rows, MANY);
    assert_int_equal(f.tables[0].all, MANY + MANY / 2);
    shard_file_close(&f);
    ps_rig_expect(save_since(&rig, to, base, wrong, 1, &delta, &err), 0, &err, "");
    assert_false(delta);
    ps_rig_expect(shard_file_open(&f, path, &err), 0, &err, "");
    assert_int_equal(f.tables[0].rows, MANY + MANY / 2);
    shard_file_close(&f);
    ps_rig_expect(save_since(&rig, to, base, name, 2, &delta, &err), 0, &err, "");
    assert_false(delta); /* nothing is newer than that */
    ps_rig_expect(save_since(&rig, to, other, name, 1, &delta, &err), ERR_INVALID, &err,
                  "'t-2/step-000000001' is no checkpoint of job t-1");
    ps_rig_expect(close_shard(&rig, job, &err), 0, &err, "");
    exchange_close(&c);
    free(path);
    ps_rig_stop(&rig);
}

/* A second request for a pin is answered with the file that is there, while it is. */
static void test_a_request_that_comes_twice(void **state)
{
    (void)state;
    char base[] = "t-1/step-000000001", to[] = "t-1/step-000000002", id[] = "twice";
    char name[] = "shard-0-of-1.safetensors", wrong[] = "shard-0-of-1-g9.safetensors";
    struct ps_rig rig;
    struct client c;
    struct err err = {0};
    bool delta = false;
    start_deltas(&rig, &c, ", checkpoint_full_every: 2");
    rows_pin(&rig, job, "Pin", id);
    ps_rig_expect(save_pinned(&rig, id, to, base, name, 1, &delta, &err), 0, &err, "");
    assert_true(delta);
    delta = false;
    ps_rig_expect(save_pinned(&rig, id, to, base, wrong, 1, &delta, &err), 0, &err, "");
    assert_true(delta); /* to be written again it would have been whole */
    char *path = mem_printf("%s/%s/%s", rig.dir, to, name);
    assert_int_equal(unlink(path), 0);
    ps_rig_expect(save_pinned(&rig, id, to, base, wrong, 1, &delta, &err), 0, &err, "");
    assert_false(delta);
    rows_pin(&rig, job, "Unpin", id);
    exchange_close(&c);
    free(path);
    ps_rig_stop(&rig);
}

/* The job's file says nothing of deltas, so nobody notes what goes. */
static void test_a_job_without_deltas(void **state)
{
    (void)state;
    char base[] = "t-1/step-000000001", to[] = "t-1/step-000000002";
    char name[] = "shard-0-of-1.safetensors";
    struct ps_rig rig;
    struct client c;
    struct err err = {0};
    bool delta = true;
    start_deltas(&rig, &c, "");
    ps_rig_expect(save_since(&rig, to, base, name, 1, &delta, &err), 0, &err, "");
    assert_false(delta);
    exchange_close(&c);
    ps_rig_stop(&rig);
}

/* Whoever writes hears it when the version is pinned no more. */
static void test_a_version_that_is_given_up(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    struct err err = {0};
    char id[] = "p";
    ps_rig_start(&rig, 0);
    rows_open(&rig, job, 1, LARGE);
    exchange_open(&c, &rig);
    push_many(&c, 0, 0);
    rows_pin(&rig, job, "Pin", id);
    struct ps_shard *shards[PS_SHARDS_MAX];
    struct ps_table_file *f = NULL;
    assert_int_equal(ps_list(rig.ps, job, shards), 1);
    ps_rig_expect(ps_table_file_begin(shards[0], 1, NULL, &f, &err), 0, &err, "");
    const struct table_file_source *source = ps_table_file_source(f);
    assert_int_equal(source->tables[0].rows, MANY);
    assert_int_equal(source->tables[1].counts, 1);
    push_many(&c, 1, 0);
    push_many(&c, 2, 0);
    struct table_chunk chunk = {.capacity = 1000};
    ps_rig_expect(source->rows(source->ctx, 0, &chunk, &err), 0, &err, "");
    assert_int_equal(chunk.n, 512);
    rows_pin(&rig, job, "Unpin", id);
    ps_rig_expect(source->rows(source->ctx, 0, &chunk, &err), ERR_RANGE, &err,
                  "version 1 cannot be read");
    ps_table_file_end(f);
    ps_rig_expect(ps_table_file_begin(shards[0], 1, NULL, &f, &err), ERR_RANGE, &err, "version 1");
    ps_rig_expect(ps_table_file_begin(shards[0], 3, NULL, &f, &err), 0, &err, "");
    ps_shard_drop(shards[0]);
    ps_rig_expect(ps_table_file_source(f)->rows(ps_table_file_source(f)->ctx, 0, &chunk, &err),
                  ERR_ABORTED, &err, "the shard is closed");
    ps_table_file_end(f);
    ps_shard_unref(shards[0]);
    exchange_close(&c);
    ps_rig_stop(&rig);
}

static uint64_t version_of(struct ps_rig *rig)
{
    Gradus__V1__StatsRequest r = GRADUS__V1__STATS_REQUEST__INIT;
    struct rpc_msg *reply;
    struct err err;
    assert_int_equal(ps_rig_call(rig, "Stats", &r.base, NULL, 0, &reply, &err), 0);
    const uint64_t version = ((const Gradus__V1__StatsResponse *)reply->body)->shards[0]->version;
    rpc_msg_unref(reply);
    return version;
}

/* Between two turns of a shard. */
struct sight {
    struct strand_task task; /* first */
    struct ps_shard *shard;
    uint64_t version;
    bool is_short; /* of room for copies of rows */
    atomic_bool seen;
};

static void see(struct strand_task *task)
{
    struct sight *s = (struct sight *)task;
    struct shard_info info;
    shard_info(s->shard->core, &info);
    s->version = info.version;
    s->is_short = shard_tables_short(s->shard->tables);
    atomic_store(&s->seen, true);
}

/* Whether the update to @version is made, into @made, or waits for the file. */
static bool is_settled(struct ps_shard *shard, uint64_t version, bool *made)
{
    struct sight s = {.shard = shard};
    strand_post(&shard->strand, &s.task, see);
    wait_until(atomic_load(&s.seen));
    *made = s.version == version;
    return *made || s.is_short;
}

/* ---- more changes than copies of them fit ---- */

static const char NARROW[] =
    "[{name: ads, dim: 2, memory_bytes: 64 MiB, copies_bytes: 1 MiB}, {name: users, dim: 3}]";

static struct answer *read_pinned(struct client *c, char *id)
{
    static const uint64_t key = 5;
    static char worker[] = "w0";
    Gradus__V1__ExchangeRequest m = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    Gradus__V1__RowsRequest rows = GRADUS__V1__ROWS_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    struct err err;
    uint32_t counts[TABLES] = {1, 0};
    struct rpc_piece piece = {&key, sizeof key};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    forget_answer(c, 9);
    m.exchange = 9;
    m.shard = &ref;
    m.worker = worker;
    m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_ROWS;
    m.rows = &rows;
    rows.counts = counts;
    rows.n_counts = TABLES;
    rows.of_case = GRADUS__V1__ROWS_REQUEST__OF_PIN_ID;
    rows.pin_id = id;
    m.total = 1;
    assert_int_equal(rpc_stream_send(c->stream, &m.base, &blob, &err), 0);
    return wait_answer(c, 9);
}

/* A pin that nobody gives back does not end the training. */
static void test_a_pin_that_is_too_old(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    char id[] = "p", again[] = "q";
    ps_rig_start(&rig, 0);
    rows_open(&rig, job, 1, NARROW);
    exchange_open(&c, &rig);
    push_many(&c, 0, 0);
    rows_pin(&rig, job, "Pin", id);
    assert_int_equal(read_pinned(&c, id)->code, 0);
    for (uint64_t step = 1; step < 20; step++) {
        push_many(&c, step, step * MANY);
    }
    const struct answer *a = read_pinned(&c, id);
    assert_int_equal(a->code, -ERR_RANGE);
    assert_non_null(strstr(a->message, "copies for it did not fit in copies_bytes"));
    rows_pin(&rig, job, "Unpin", id);
    rows_pin(&rig, job, "Pin", again);
    assert_int_equal(read_pinned(&c, again)->code, 0);
    rows_pin(&rig, job, "Unpin", again);
    exchange_close(&c);
    ps_rig_stop(&rig);
}

/* While a file is written, updates wait instead. */
static void test_a_file_is_waited_for(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    struct ps_shard *shards[PS_SHARDS_MAX];
    char id[] = "p";
    uint64_t step = 0;
    ps_rig_start(&rig, 0);
    rows_open(&rig, job, 1, NARROW);
    exchange_open(&c, &rig);
    rows_pin(&rig, job, "Pin", id);
    assert_int_equal(ps_list(rig.ps, job, shards), 1);
    atomic_fetch_add(&shards[0]->writing, 1);
    for (bool made = true; made;) {
        push_many(&c, step, step * MANY);
        step++;
        wait_until(is_settled(shards[0], step, &made));
    }
    assert_true(step > 1 && step < 20);
    assert_int_equal(read_pinned(&c, id)->code, 0);
    atomic_fetch_sub(&shards[0]->writing, 1);
    ps_shard_wake(shards[0]);
    wait_until(version_of(&rig) == step);
    for (size_t i = 0; i < 20; i++) {
        push_many(&c, step, step * MANY);
        step++;
        wait_until(version_of(&rig) == step);
    }
    ps_shard_unref(shards[0]);
    exchange_close(&c);
    ps_rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_checkpoint),
        cmocka_unit_test(test_rows_to_begin_with),
        cmocka_unit_test(test_a_delta),
        cmocka_unit_test(test_a_request_that_comes_twice),
        cmocka_unit_test(test_a_job_without_deltas),
        cmocka_unit_test(test_a_version_that_is_given_up),
        cmocka_unit_test(test_a_pin_that_is_too_old),
        cmocka_unit_test(test_a_file_is_waited_for),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
