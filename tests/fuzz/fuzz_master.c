/* SPDX-License-Identifier: Apache-2.0 */
/* All requests to a master (jobs.proto, cluster.proto), one after the other, and what nodes answer
 * to the calls that follow: the codec, the handlers of services/master/shell, the core behind them,
 * the answers taken apart (shell_call.c, trace_calls.c, on_tables.c, wire/wire_data.c, ...), and
 * every row that is stored, read again (job_wire.c). The store is in memory; checkpoints are
 * written by nobody.
 *
 * Input: a byte with the size of slices and one with flags; then calls (message.h), behind those of
 * the methods the types of answers. */
#include "fuzz/message.h"
#include "fuzz/nodes.h"
#include "fuzz/plan_rig.h"
#include "fuzz/served.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gradus/v1/cluster.pb-c.h"
#include "gradus/v1/jobs.pb-c.h"
#include "gradus/v1/ps.pb-c.h"
#include "gradus/v1/worker.pb-c.h"
#include "master/shell/job_logs.h"
#include "master/shell/job_wire.h"
#include "master/shell/shell.h"
#include "service/access.h"

#define HEAD_BYTES 2
#define METHODS_MAX 32
#define ROWS_MAX 8
#define STEPS_MAX 2000 /* of one input */

static struct served_method methods[METHODS_MAX];
static const ProtobufCMessageDescriptor *types[METHODS_MAX];
static unsigned method_count, type_count;
static struct shell shell;
static const struct master_settings settings = {
    .heartbeat_timeout_ms = 3000, .jobs_max = 4, .owner_jobs_max = 4, .finished_max = 2};
static bool fails; /* what is asked of directories */
static unsigned steps;

/* ---- the store ---- */

static struct {
    char *id, *request_id;
    struct buf job;
} rows[ROWS_MAX];
static size_t row_count;

static int put(struct store *s, const struct store_row *row, struct err *err)
{
    (void)s;
    struct job_record again;
    size_t i = 0;
    while (i < row_count && strcmp(rows[i].id, row->id) != 0) {
        i++;
    }
    if (i == ROWS_MAX) {
        return err_set(err, ERR_EXHAUSTED, "the store is full");
    }
    if (i == row_count) {
        rows[row_count++].id = mem_strdup(row->id);
        rows[i].request_id = mem_strdup(row->request_id);
    }
    buf_reset(&rows[i].job);
    buf_add(&rows[i].job, row->job, row->job_bytes);
    fuzz_require(job_wire_unpack(row->job, row->job_bytes, &again, err) == 0,
                 "a row that was stored can be read");
    fuzz_require(strcmp(again.id, row->id) == 0, "it is of that job");
    job_record_release(&again);
    return 0;
}

static int get(struct store *s, const char *id, struct buf *job, struct err *err)
{
    (void)s;
    for (size_t i = 0; i < row_count; i++) {
        if (strcmp(rows[i].id, id) == 0) {
            buf_add(job, rows[i].job.data, rows[i].job.len);
            return 0;
        }
    }
    return err_set(err, ERR_NOT_FOUND, "no such row");
}

static int find_request(struct store *s, const char *request_id, struct buf *id, struct err *err)
{
    (void)s;
    for (size_t i = 0; i < row_count; i++) {
        if (strcmp(rows[i].request_id, request_id) == 0) {
            buf_add_str(id, rows[i].id);
            return 0;
        }
    }
    return err_set(err, ERR_NOT_FOUND, "no such request");
}

static int next_number(struct store *s, const char *name, uint64_t *number, struct err *err)
{
    (void)s;
    (void)name;
    (void)err;
    *number = row_count + 1;
    return 0;
}

static int get_text(struct store *s, const char *key, struct buf *value, struct err *err)
{
    (void)s;
    (void)value;
    return err_set(err, ERR_NOT_FOUND, "no %s", key);
}

static int put_text(struct store *s, const char *key, const char *value, struct err *err)
{
    (void)s;
    (void)key;
    (void)value;
    (void)err;
    return 0;
}

static const struct store_ops ops = {.put = put,
                                     .get = get,
                                     .find_request = find_request,
                                     .next_number = next_number,
                                     .get_text = get_text,
                                     .put_text = put_text};
static struct store store = {&ops};

/* ---- what the shell does beside that ---- */

int checkpoints_claim(const struct checkpoints *c, const char *name, uint64_t least,
                      int64_t submitted_ms, uint64_t *number, struct err *err)
{
    (void)c;
    (void)name;
    (void)submitted_ms;
    *number = least;
    return fails ? err_set(err, ERR_PERMISSION, "the directory cannot be made") : 0;
}

int checkpoints_find(const struct checkpoints *c, const struct checkpoints_job *job,
                     const char *const *avoid, size_t avoid_count, struct checkpoint_found *out,
                     struct err *err)
{
    (void)c;
    (void)avoid;
    (void)avoid_count;
    *out = (struct checkpoint_found){.found = strlen(job->named) % 2 == 0};
    return fails ? err_set(err, ERR_PERMISSION, "the directory cannot be read") : 0;
}

void checkpoint_found_release(struct checkpoint_found *f)
{
    buf_release(&f->skipped);
}

/* In place of those of service.c. */
void service_refused(struct service_context *sc, const struct service_caller *caller,
                     enum access_lack lack, const char *job, const struct err *why)
{
    (void)sc;
    (void)caller;
    (void)lack;
    (void)job;
    (void)why;
}

void service_done(struct service_context *sc, const struct service_caller *caller,
                  const char *action, const char *job)
{
    (void)sc;
    (void)caller;
    (void)action;
    (void)job;
}

void service_set_unhealthy(struct service_context *sc, const char *why)
{
    (void)sc;
    (void)why;
}

void shell_release(struct shell *s, const char *job)
{
    (void)s;
    (void)job;
}

static void step(struct master_event *e);

static void act(const struct master_action *a)
{
    const struct err err = {.code = ERR_UNAVAILABLE, .msg = "the directory is not there"};
    char id[JOB_ID_BYTES_MAX + 1];
    struct master_event e = {0};
    struct err stored = {0};
    switch (a->kind) {
    case MASTER_REPLY:
        request_answered(&shell, &a->reply);
        return;
    case MASTER_CALL:
        shell_call(&shell, &a->call);
        return;
    case MASTER_PREPARE:
        e.kind = MASTER_PREPARE_DONE;
        e.prepare = (struct master_files_done){a->prepare.number, fails ? &err : NULL};
        break;
    case MASTER_MANIFEST:
        e.kind = MASTER_MANIFEST_DONE;
        e.manifest = (struct master_files_done){a->manifest.number, fails ? &err : NULL, "/c"};
        break;
    case MASTER_FIND:
        e.kind = MASTER_FOUND;
        e.found = (struct master_found){.number = a->find.number, .err = fails ? &err : NULL};
        break;
    case MASTER_STORE:
        e.kind = MASTER_STORED;
        (void)snprintf(id, sizeof id, "%s", a->store.job->id);
        (void)shell_store_put(&shell, a->store.job, &stored);
        e.stored = (struct master_stored){id, a->store.row, stored.code == 0 ? NULL : &stored};
        break;
    case MASTER_CHANGED:
        watchers_changed(&shell, a->job);
        return;
    case MASTER_LOG:
        job_logs_add_own(&shell, &a->log);
        return;
    case MASTER_PRUNE:
        return;
    }
    step(&e);
}

/* Each event has actions of its own: those of the one before are still being done. */
static void step(struct master_event *e)
{
    struct master_actions actions = {0};
    e->now_ms = 1000000;
    e->wall_ms = 1700000000000;
    master_step(shell.master, e, &actions);
    for (size_t i = 0; i < actions.count; i++) {
        act(&actions.items[i]);
    }
    master_actions_release(&actions);
}

void shell_event(struct shell *s, struct master_event *e)
{
    (void)s;
    if (steps++ < STEPS_MAX) {
        step(e);
    } else if (e->request != 0) {
        struct master_reply reply = {.request = e->request};
        (void)err_set(&reply.err, ERR_UNAVAILABLE, "that is enough");
        request_answered(s, &reply);
    }
}

/* ---- inputs ---- */

static void begin(void)
{
    static const ProtobufCMessageDescriptor *const answers[] = {
        &gradus__v1__data_info__descriptor,
        &gradus__v1__shard_state__descriptor,
        &gradus__v1__checkpoint_shard_response__descriptor,
        &gradus__v1__evaluate_response__descriptor,
        &gradus__v1__assign_response__descriptor,
        &gradus__v1__trace_response__descriptor,
        &gradus__v1__stats_response__descriptor};
    static uint8_t packed[256];
    served_methods(&gradus__v1__jobs__descriptor, jobs_methods, jobs_method_count, &shell, methods,
                   &method_count);
    served_methods(&gradus__v1__cluster__descriptor, cluster_methods, cluster_method_count, &shell,
                   methods, &method_count);
    for (unsigned i = 0; i < method_count; i++) {
        types[type_count++] = methods[i].input;
    }
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        types[type_count++] = answers[i];
    }
    Gradus__V1__DataInfo data = GRADUS__V1__DATA_INFO__INIT;
    uint64_t dims[] = {2};
    data.train_records = 50;
    data.feature_dims = dims;
    data.n_feature_dims = 1;
    data.label_is_class = 1;
    data.classes = 3;
    data.label_scale = 1;
    size_t n = gradus__v1__data_info__pack(&data, packed);
    nodes_default(&gradus__v1__data_info__descriptor, packed, n);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t n_max, unsigned seed)
{
    if (type_count == 0) {
        begin();
    }
    return fuzz_calls_mutate(types, type_count, plan_rig_words, HEAD_BYTES, data, n, n_max, seed);
}

static void open_shell(void)
{
    const struct master_config config = {
        .heartbeat_timeout_ms = 3000, .jobs_max = 4, .finished_max = 2, .seeds = {1, 2, 3}};
    shell = (struct shell){.settings = &settings, .store = &store, .store_well = true};
    shell.master = master_new(&config);
    shell.loop = loop_new(0);
    shell.pool = pool_new(1, 1, "", NULL);
    shell.files = pool_new(1, 1, "", NULL);
}

static void close_shell(void)
{
    requests_end(&shell, "the master is stopping");
    traces_end(&shell, "the master is stopping");
    watchers_end(&shell);
    name_index_release(&shell.watched);
    job_logs_release(&shell);
    served_end();
    fuzz_require(shell.waiting_count == 0 && shell.watcher_count == 0, "nobody waits any more");
    peers_free(&shell);
    pool_free(shell.files);
    pool_free(shell.pool);
    loop_free(shell.loop);
    master_free(shell.master);
    for (size_t i = 0; i < row_count; i++) {
        free(rows[i].id);
        free(rows[i].request_id);
        buf_release(&rows[i].job);
    }
    row_count = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (type_count == 0) {
        begin();
    }
    struct fuzz_input in = {data, n};
    struct fuzz_call_bytes calls[FUZZ_CALLS_MAX];
    size_t piece = fuzz_below(&in, 64);
    fails = (fuzz_byte(&in) & 1) != 0;
    steps = 0;
    size_t count = fuzz_calls(in.data, in.n, type_count, calls);
    nodes_begin();
    for (size_t i = 0; i < count; i++) {
        if (calls[i].method >= method_count) {
            nodes_answer(types[calls[i].method], &calls[i]);
        }
    }
    served_caller("", false);
    open_shell();
    for (size_t i = 0; i < count; i++) {
        if (calls[i].method < method_count) {
            (void)served_call(&methods[calls[i].method], calls[i].data, calls[i].n, piece);
        }
    }
    close_shell();
    return 0;
}
