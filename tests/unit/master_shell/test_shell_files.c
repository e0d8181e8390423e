/* SPDX-License-Identifier: Apache-2.0 */
/* What the master's shell keeps: rows in the store, checkpoints in their directory. Each action of
 * the core is carried out for real; what the core hears of it is compared with what is on the disk.
 */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/chrono.h"
#include "base/file.h"
#include "base/mem.h"
#include "checkpoint/manifest.h"
#include "master/shell/job_wire.h"
#include "master/shell/shell.h"

#define OWNER "0123456789abcdef0123456789abcdef"
#define SHARDS 2

static struct shell shell;
static char *root;
static struct job_record record;
static struct plan plan;
static struct ledger ledger;
static struct job_spec spec;

static const char TEXT[] = "name: demo\ndata: {train: {file: a.csv}}\n"
                           "model: {layers: [{dense: {units: 3}}],"
                           " loss: softmax_cross_entropy}\n"
                           "update: {rule: sgd}\ntraining: {batch_size: 5, epochs: 2}\n";

/* ---- the core, in place of master_shell.c's ---- */

static struct {
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    size_t count;
    enum master_event_kind kind;
    uint64_t number;
    int code;
    char message[ERR_MESSAGE_BYTES], text[256], skipped[256];
    struct master_found found;
    struct ledger ledger;
    double sum;
    uint64_t incarnation;
    struct job_record restored; /* the last one */
    bool has_spec;
} heard = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void note(const struct err *err, const char *text)
{
    heard.code = err == NULL ? 0 : err->code;
    (void)snprintf(heard.message, sizeof heard.message, "%s", err == NULL ? "" : err->msg);
    (void)snprintf(heard.text, sizeof heard.text, "%s", text == NULL ? "" : text);
}

static void note_found(const struct master_found *f)
{
    heard.number = f->number;
    note(f->err, f->directory);
    (void)snprintf(heard.skipped, sizeof heard.skipped, "%s", f->skipped);
    heard.found = *f;
    ledger_release(&heard.ledger);
    heard.ledger = (struct ledger){0};
    if (f->ledger != NULL) {
        ledger_copy(&heard.ledger, f->ledger);
    }
    heard.sum = f->train_sum_count > 0 ? f->train_sums[0] : 0;
}

void shell_event(struct shell *s, struct master_event *e)
{
    assert_ptr_equal(s, &shell);
    pthread_mutex_lock(&heard.lock);
    heard.kind = e->kind;
    switch (e->kind) {
    case MASTER_PREPARE_DONE:
        heard.number = e->prepare.number;
        note(e->prepare.err, NULL);
        break;
    case MASTER_MANIFEST_DONE:
        heard.number = e->manifest.number;
        note(e->manifest.err, e->manifest.path);
        break;
    case MASTER_FOUND:
        note_found(&e->found);
        break;
    case MASTER_UNREACHABLE:
        note(NULL, e->node.node);
        heard.incarnation = e->node.incarnation;
        break;
    case MASTER_RESTORE:
        job_record_release(&heard.restored);
        job_record_copy(&heard.restored, e->restore.record);
        heard.has_spec = e->restore.spec != NULL;
        note(NULL, e->restore.spec_error);
        break;
    default:
        fail_msg("event %d", (int)e->kind);
    }
    heard.count++;
    pthread_cond_broadcast(&heard.changed);
    pthread_mutex_unlock(&heard.lock);
}

/* What clients of the health service see, in place of service.c's. */
static char health[1200];

void service_set_unhealthy(struct service_context *sc, const char *why)
{
    (void)sc;
    (void)snprintf(health, sizeof health, "%s", why == NULL ? "" : why);
}

static void wait_events(size_t count)
{
    pthread_mutex_lock(&heard.lock);
    while (heard.count < count) {
        pthread_cond_wait(&heard.changed, &heard.lock);
    }
    pthread_mutex_unlock(&heard.lock);
}

/* ---- the rig ---- */

static int set_up(void **state)
{
    (void)state;
    struct err err = {0};
    struct diags diags = {0};
    root = tmp_dir_make("files");
    assert_int_equal(claim_root_make(root, &err), 0);
    memset(&shell, 0, sizeof shell);
    shell.checkpoints.root = root;
    (void)strcpy(shell.checkpoints.owner, OWNER);
    shell.loop = loop_new(64);
    shell.files = pool_new(1, 64, "files", &err);
    shell.probes = pool_new(1, 4, "probes", &err);
    assert_true(shell.files != NULL && shell.probes != NULL);
    assert_int_equal(loop_start(shell.loop, "test", &err), 0);
    const struct variable_spec variable = {.name = "w", .shape = {1, {8}}};
    const struct cluster_spec cluster = {.ps = SHARDS, .partitions = SHARDS};
    assert_int_equal(plan_make(&variable, 1, &cluster, &plan, NULL), 0);
    const struct ledger_shape shape = {.records = 100, .batch_records = 10, .split_batches = 4};
    assert_int_equal(ledger_init(&ledger, &shape, 2, NULL), 0);
    ledger.done[1] = 3;
    assert_int_equal(job_spec_parse(TEXT, strlen(TEXT), "job", NULL, 0, &spec, &diags), 0);
    job_record_init(&record);
    job_record_set(&record.id, "demo-1");
    job_record_set(&record.name, "demo");
    record.submitted_ms = 7;
    assert_int_equal(claim_make(root, "demo-1", OWNER, 7, &err), 0);
    heard.count = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pool_free(shell.files);
    pool_free(shell.probes);
    loop_stop(shell.loop);
    loop_join(shell.loop);
    loop_free(shell.loop);
    job_record_release(&record);
    job_record_release(&heard.restored);
    memset(&heard.restored, 0, sizeof heard.restored);
    job_spec_release(&spec);
    spec = (struct job_spec){0};
    ledger_release(&heard.ledger);
    ledger_release(&ledger);
    plan_release(&plan);
    tmp_dir_remove(root);
    return 0;
}

static bool is_there(const char *name)
{
    char *path = file_join(root, name);
    bool there = file_exists(path);
    free(path);
    return there;
}

static void put_shard(const char *directory, unsigned shard, uint64_t generation, size_t bytes)
{
    char *path = mem_printf("%s/%s/shard-%u-of-%u-g%u.safetensors", root, directory, shard, SHARDS,
                            (unsigned)generation);
    assert_int_equal(file_write_atomic(path, "12345678", bytes, NULL), 0);
    free(path);
}

/* ---- checkpoints ---- */

static void prepare(uint64_t number, const char *directory, bool discard)
{
    const struct master_prepare in = {number, &record, directory, discard};
    size_t before = heard.count;
    shell_prepare(&shell, &in);
    wait_events(before + 1);
    assert_int_equal(heard.kind, MASTER_PREPARE_DONE);
    assert_int_equal(heard.number, number);
}

static void directories_are_prepared_and_discarded(void **state)
{
    (void)state;
    prepare(11, "demo-1/step-000000005", false);
    assert_int_equal(heard.code, 0);
    assert_true(is_there("demo-1/step-000000005"));
    put_shard("demo-1/step-000000005", 0, 3, 8);
    prepare(12, "demo-1/step-000000005", false); /* what was there goes */
    assert_int_equal(heard.code, 0);
    assert_false(is_there("demo-1/step-000000005/shard-0-of-2-g3.safetensors"));
    prepare(13, "demo-1/step-000000005", true);
    assert_int_equal(heard.code, 0);
    assert_false(is_there("demo-1/step-000000005"));
    prepare(14, "demo-1/elsewhere", false);
    assert_int_equal(heard.code, ERR_INVALID);
    (void)memset(shell.checkpoints.owner, 'f', 32); /* another master */
    prepare(15, "demo-1/step-000000006", false);
    assert_int_equal(heard.code, ERR_PERMISSION);
    assert_false(is_there("demo-1/step-000000006"));
}

static struct master_shard_file shard_files[SHARDS];

static void write_manifest(uint64_t number, uint64_t step, const char *directory)
{
    static const double sums[] = {1.5, 2.5};
    const struct master_manifest in = {.number = number,
                                       .job = &record,
                                       .spec = &spec,
                                       .plan = &plan,
                                       .ledger = &ledger,
                                       .train_epoch = 21,
                                       .train_sums = sums,
                                       .train_sum_count = 2,
                                       .step = step,
                                       .examples = 22,
                                       .generation = 23,
                                       .directory = directory,
                                       .shards = shard_files};
    size_t before = heard.count;
    shell_manifest(&shell, &in);
    wait_events(before + 1);
    assert_int_equal(heard.kind, MASTER_MANIFEST_DONE);
    assert_int_equal(heard.number, number);
}

static void make_checkpoint(uint64_t step, const char *directory)
{
    prepare(1, directory, false);
    for (unsigned i = 0; i < SHARDS; i++) {
        put_shard(directory, i, 3, 8);
    }
    write_manifest(2, step, directory);
    assert_int_equal(heard.code, 0);
}

static void name_shards(void)
{
    static const char *const NAMES[SHARDS] = {"shard-0-of-2-g3.safetensors",
                                              "shard-1-of-2-g3.safetensors"};
    for (unsigned i = 0; i < SHARDS; i++) {
        shard_files[i] = (struct master_shard_file){
            .file = NAMES[i], .bytes = 8, .checksum = 31 + i, .version = 40};
    }
}

static void manifests_say_all(void **state)
{
    (void)state;
    name_shards();
    make_checkpoint(50, "demo-1/step-000000050");
    char *dir = file_join(root, "demo-1/step-000000050");
    assert_string_equal(heard.text, dir);
    struct manifest m;
    assert_int_equal(manifest_read(dir, &m, NULL), 0);
    assert_string_equal(m.job, "demo-1");
    assert_string_equal(m.owner, OWNER);
    assert_string_equal(m.text, spec.text);
    assert_string_equal(m.rule, "sgd");
    assert_int_equal(m.mode, TRAINING_SYNC);
    assert_int_equal(m.generation, 23);
    assert_int_equal(m.step, 50);
    assert_int_equal(m.epoch, 2);
    assert_int_equal(m.records, 22);
    assert_true(m.created_ms > INT64_C(1700000000000));
    assert_true(ledger_equal(&m.ledger, &ledger));
    assert_int_equal(m.train_epoch, 21);
    assert_int_equal(m.train_sum_count, 2);
    assert_true(m.train_sums[0] == 1.5 && m.train_sums[1] == 2.5);
    assert_int_equal(m.shard_count, SHARDS);
    for (unsigned i = 0; i < SHARDS; i++) {
        assert_int_equal(m.shards[i].generation, 3);
        assert_int_equal(m.shards[i].version, 40);
        assert_int_equal(m.shards[i].bytes, 8);
        assert_int_equal(m.shards[i].checksum, 31 + i);
    }
    manifest_release(&m);
    free(dir);
}

/* Nothing that is not whole gets a manifest. */
static void manifests_are_of_files_that_are_there(void **state)
{
    (void)state;
    static const char NAME[] = "demo-1/step-000000050/manifest.json";
    name_shards();
    write_manifest(61, 50, "demo-1/step-000000050");
    assert_int_equal(heard.code, ERR_NOT_FOUND);
    assert_non_null(strstr(heard.message, "must share the checkpoint directory"));
    prepare(62, "demo-1/step-000000050", false);
    put_shard("demo-1/step-000000050", 0, 3, 8);
    put_shard("demo-1/step-000000050", 1, 3, 7); /* cut */
    write_manifest(63, 50, "demo-1/step-000000050");
    assert_int_equal(heard.code, ERR_CORRUPT);
    assert_false(is_there(NAME));
    put_shard("demo-1/step-000000050", 1, 3, 8);
    shard_files[1].file = "shard-0-of-2-g3.safetensors"; /* of another shard */
    write_manifest(64, 50, "demo-1/step-000000050");
    assert_int_equal(heard.code, ERR_CORRUPT);
    assert_non_null(strstr(heard.message, "shard 1 says that its file is shard-0"));
    assert_false(is_there(NAME));
    name_shards();
    (void)memset(shell.checkpoints.owner, 'f', 32);
    write_manifest(65, 50, "demo-1/step-000000050");
    assert_int_equal(heard.code, ERR_PERMISSION);
    assert_false(is_there(NAME));
}

static void look_for(uint64_t number, const char *const *avoid, size_t count)
{
    const struct master_find in = {number, &record, avoid, count};
    size_t before = heard.count;
    shell_find(&shell, &in);
    wait_events(before + 1);
    assert_int_equal(heard.kind, MASTER_FOUND);
    assert_int_equal(heard.number, number);
}

static void nothing(void *ctx)
{
    (void)ctx;
}

/* Until the pool has done what it was given, and the loop has heard of it. */
static void settle(void)
{
    const struct master_prepare last = {99, &record, "demo-1/step-000000099", true};
    size_t before = heard.count;
    shell_prepare(&shell, &last); /* one thread: it comes behind the rest */
    wait_events(before + 1);
    assert_int_equal(loop_call(shell.loop, nothing, NULL, NULL), 0);
}

static void checkpoints_are_found_and_pruned(void **state)
{
    (void)state;
    look_for(71, NULL, 0);
    assert_true(heard.code == 0 && !heard.found.found);
    assert_null(heard.found.ledger);
    name_shards();
    make_checkpoint(50, "demo-1/step-000000050");
    make_checkpoint(60, "demo-1/step-000000060");
    make_checkpoint(70, "demo-1/step-000000070");
    look_for(72, NULL, 0);
    assert_true(heard.code == 0 && heard.found.found);
    assert_string_equal(heard.text, "demo-1/step-000000070");
    assert_string_equal(heard.skipped, "");
    assert_int_equal(heard.found.step, 70);
    assert_int_equal(heard.found.version, 40);
    assert_int_equal(heard.found.train_epoch, 21);
    assert_int_equal(heard.found.train_sum_count, 2);
    assert_true(heard.sum == 1.5);
    assert_true(ledger_equal(&heard.ledger, &ledger));
    const char *const avoid[] = {"demo-1/step-000000070", "demo-1/step-000000060"};
    look_for(73, avoid, 2);
    assert_string_equal(heard.text, "demo-1/step-000000050");
    assert_non_null(strstr(heard.skipped, "step-000000070: could not be read"));
    assert_null(strchr(heard.skipped, '\n')); /* one of them */
    job_record_set(&record.checkpoint, "demo-1/step-000000070");
    const struct master_prune keep = {.job = &record, .keep = 2};
    shell_prune(&shell, &keep);
    settle();
    assert_false(is_there("demo-1/step-000000050"));
    assert_true(is_there("demo-1/step-000000060/manifest.json"));
    assert_true(is_there("demo-1/step-000000070/manifest.json"));
    (void)memset(shell.checkpoints.owner, 'f', 32);
    look_for(74, NULL, 0);
    assert_int_equal(heard.code, ERR_PERMISSION);
}

static void directories_are_given_up(void **state)
{
    (void)state;
    const struct master_prune release = {.job = &record, .release = true};
    shell_prune(&shell, &release);
    settle();
    assert_false(is_there("demo-1"));
    struct err err;
    assert_int_equal(claim_make(root, "demo-2", OWNER, 7, &err), 0);
    assert_int_equal(claim_make(root, "demo-3", OWNER, 7, &err), 0);
    shell_release(&shell, "demo-2");
    settle();
    assert_false(is_there("demo-2"));
    assert_true(is_there("demo-3"));
}

/* ---- rows ---- */

static struct store_row row; /* the last one that was put */
static char row_id[64], row_name[64], row_request[64];
static struct buf row_job;
static int put_code;

static int fake_put(struct store *s, const struct store_row *in, struct err *err)
{
    (void)s;
    row = *in;
    (void)snprintf(row_id, sizeof row_id, "%s", in->id);
    (void)snprintf(row_name, sizeof row_name, "%s", in->name);
    (void)snprintf(row_request, sizeof row_request, "%s", in->request_id);
    buf_reset(&row_job);
    buf_add(&row_job, in->job, in->job_bytes);
    return put_code == 0 ? 0 : err_set(err, put_code, "told to");
}

/* The row that was put, a damaged one, one of another job, and one whose file cannot be read. */
static int fake_load(struct store *s, size_t finished_limit,
                     int (*each)(void *ctx, const struct store_row *row, struct err *err),
                     void *ctx, struct err *err)
{
    (void)s;
    assert_int_equal(finished_limit, 77);
    struct store_row good = row, damaged = row, other = row, state_of = row;
    good.id = row_id;
    good.request_id = row_request;
    good.job = row_job.data;
    good.job_bytes = row_job.len;
    damaged = other = state_of = good;
    damaged.damage = "it is damaged";
    other.id = "demo-9";
    state_of.state = JOB_FAILED;
    const struct store_row *const rows[] = {&damaged, &other, &state_of, &good};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(each(ctx, rows[i], err), 0);
    }
    return put_code == 0 ? 0 : err_set(err, put_code, "told to");
}

static const struct store_ops OPS = {.put = fake_put, .load = fake_load};

static void rows_say_all(void **state)
{
    (void)state;
    struct store store = {.ops = &OPS};
    static const struct master_settings settings = {.finished_max = 77};
    struct meter_registry *meters = meter_registry_new();
    struct err err = {0};
    shell.store = &store;
    shell.settings = &settings;
    shell.store_well = true;
    shell_meters_init(&shell, meters);
    job_record_set(&record.id, "de-mo-41");
    job_record_set(&record.name, "de-mo");
    job_record_set(&record.request_id, "r-5");
    job_record_set(&record.text, spec.text);
    record.state = JOB_RUNNING;
    assert_int_equal(shell_store_put(&shell, &record, &err), 0);
    assert_string_equal(row_id, "de-mo-41");
    assert_string_equal(row_name, "de-mo");
    assert_string_equal(row_request, "r-5");
    assert_int_equal(row.number, 41);
    assert_int_equal(row.state, JOB_RUNNING);
    assert_int_equal(row.submitted_ms, 7);
    struct job_record back;
    assert_int_equal(job_wire_unpack(row_job.data, row_job.len, &back, &err), 0);
    assert_string_equal(back.id, "de-mo-41");
    job_record_release(&back);
    put_code = ERR_EXHAUSTED;
    assert_int_equal(shell_store_put(&shell, &record, &err), ERR_EXHAUSTED);

    /* Restored is what can be read; the rest is counted and stays where it is. */
    assert_int_equal(shell_restore(&shell, &err), ERR_EXHAUSTED);
    assert_int_equal(heard.count, 0);
    put_code = 0;
    assert_int_equal(shell_restore(&shell, &err), 0);
    assert_int_equal(heard.count, 1);
    assert_int_equal(heard.kind, MASTER_RESTORE);
    assert_string_equal(heard.restored.id, "de-mo-41");
    assert_string_equal(heard.restored.request_id, "r-5");
    assert_true(heard.has_spec);
    assert_true(meter_value(shell.meters.rows_unreadable) == 3);
    job_record_set(&record.text, "name: [");
    assert_int_equal(shell_store_put(&shell, &record, &err), 0);
    assert_int_equal(shell_restore(&shell, &err), 0);
    assert_false(heard.has_spec);
    assert_non_null(strstr(heard.text, "de-mo-41:2:1: ")); /* why */
    record.state = JOB_FAILED;                             /* nobody asks for its file any more */
    assert_int_equal(shell_store_put(&shell, &record, &err), 0);
    row.state = JOB_RUNNING; /* the good one becomes the one with another state */
    assert_int_equal(shell_restore(&shell, &err), 0);
    assert_false(heard.has_spec);
    assert_string_equal(heard.text, "");

    (void)err_set(&err, ERR_EXHAUSTED, "the disk is full");
    shell_store_is(&shell, &err);
    assert_string_equal(health, "the state of jobs cannot be stored: the disk is full");
    assert_true(meter_value(shell.meters.store_writable) == 0);
    (void)strcpy(shell.root_problem, "no root");
    shell_health(&shell);
    assert_string_equal(health, "the state of jobs cannot be stored: the disk is full; no root");
    shell_store_is(&shell, NULL);
    assert_string_equal(health, "no root");
    assert_true(meter_value(shell.meters.store_writable) == 1);
    shell.root_problem[0] = '\0';
    shell_health(&shell);
    assert_string_equal(health, "");
    meter_registry_free(meters);
    buf_release(&row_job);
}

/* ---- probes ---- */

static int listen_somewhere(char *out, size_t n)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    (void)snprintf(out, n, "127.0.0.1:%u", (unsigned)ntohs(at.sin_port));
    return fd;
}

static void join(const char *address, uint64_t incarnation, uint64_t now_ms)
{
    struct master_event e = {.kind = MASTER_JOIN, .now_ms = now_ms, .wall_ms = 1};
    e.join = (struct master_join_event){.role = MASTER_WORKER,
                                        .incarnation = incarnation,
                                        .name = "",
                                        .address = address,
                                        .http_address = "",
                                        .version = GRADUS_VERSION,
                                        .host = ""};
    master_step(shell.master, &e, &shell.actions);
}

static void begin_probes(void *ctx)
{
    probes_begin(ctx);
}

/* Of nodes whose heartbeats are late, the one where nobody listens is told of, and no other. */
static void who_is_gone_is_told_of(void **state)
{
    (void)state;
    char alive[64], gone[64];
    const struct master_config config = {.heartbeat_timeout_ms = 60000, .jobs_max = 1};
    int listening = listen_somewhere(alive, sizeof alive);
    int closed = listen_somewhere(gone, sizeof gone);
    (void)close(closed);
    shell.master = master_new(&config);
    uint64_t now_ms = chrono_now_ms();
    assert_true(now_ms > 40000);
    join(alive, 81, now_ms - 40000);
    join(gone, 82, now_ms - 40000);
    assert_int_equal(loop_call(shell.loop, begin_probes, &shell, NULL), 0);
    for (size_t round = 1; round <= 2; round++) { /* until it is heard of, again and again */
        wait_events(round);
        assert_int_equal(heard.kind, MASTER_UNREACHABLE);
        assert_int_equal(heard.incarnation, 82);
        assert_string_equal(heard.text, "worker-2");
    }
    atomic_store(&shell.ending, true);
    (void)close(listening);
    pool_free(shell.probes);
    shell.probes = NULL;
    loop_stop(shell.loop);
    loop_join(shell.loop);
    loop_free(shell.loop);
    shell.loop = loop_new(64);
    assert_int_equal(loop_start(shell.loop, "test", NULL), 0);
    master_actions_release(&shell.actions);
    master_free(shell.master);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(directories_are_prepared_and_discarded),
        TEST(manifests_say_all),
        TEST(manifests_are_of_files_that_are_there),
        TEST(checkpoints_are_found_and_pruned),
        TEST(directories_are_given_up),
        TEST(rows_say_all),
        TEST(who_is_gone_is_told_of),
    };
    return cmocka_run_group_tests_name("shell_files", tests, NULL, NULL);
}
