/* SPDX-License-Identifier: Apache-2.0 */
/* The core, the store and the directory of the tests of what the shell keeps. */
#include "shell_files_rig.h"

#include "support/wait_until.h"

struct shell files_shell;
char *files_root;
struct job_record files_record;
struct plan files_plan;
struct ledger files_ledger;
struct job_spec files_spec;
static const char TEXT[] = "name: demo\ndata: {train: {file: a.csv}}\n"
                           "model: {layers: [{dense: {units: 3}}],"
                           " loss: softmax_cross_entropy}\n"
                           "update: {rule: sgd}\ntraining: {batch_size: 5, epochs: 2}\n";

struct heard_state heard = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

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
    assert_ptr_equal(s, &files_shell);
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
char health[1200];

void service_set_unhealthy(struct service_context *sc, const char *why)
{
    (void)sc;
    (void)snprintf(health, sizeof health, "%s", why == NULL ? "" : why);
}

void files_wait_events(size_t count)
{
    pthread_mutex_lock(&heard.lock);
    wait_until_signalled(heard.count >= count, &heard.changed, &heard.lock);
    pthread_mutex_unlock(&heard.lock);
}

int files_set_up(void **state)
{
    (void)state;
    struct err err = {0};
    struct diags diags = {0};
    files_root = tmp_dir_make("files");
    assert_int_equal(claim_root_make(files_root, &err), 0);
    memset(&files_shell, 0, sizeof files_shell);
    files_shell.checkpoints.root = files_root;
    (void)strcpy(files_shell.checkpoints.owner, OWNER);
    files_shell.loop = loop_new(64);
    files_shell.files = pool_new(1, 64, "files", &err);
    files_shell.probes = pool_new(1, 4, "probes", &err);
    assert_true(files_shell.files != NULL && files_shell.probes != NULL);
    assert_int_equal(loop_start(files_shell.loop, "test", &err), 0);
    const struct variable_spec variable = {.name = "w", .shape = {1, {8}}};
    const struct cluster_spec cluster = {.ps = SHARDS, .partitions = SHARDS};
    assert_int_equal(plan_make(&variable, 1, &cluster, &files_plan, NULL), 0);
    const struct ledger_shape shape = {.records = 100, .batch_records = 10, .split_batches = 4};
    assert_int_equal(ledger_init(&files_ledger, &shape, 2, NULL), 0);
    files_ledger.done[1] = 3;
    assert_int_equal(job_spec_parse(TEXT, strlen(TEXT), "job", NULL, 0, &files_spec, &diags), 0);
    job_record_init(&files_record);
    job_record_set(&files_record.id, "demo-1");
    job_record_set(&files_record.name, "demo");
    files_record.submitted_ms = 7;
    assert_int_equal(claim_make(files_root, "demo-1", OWNER, 7, &err), 0);
    heard.count = 0;
    return 0;
}

int files_tear_down(void **state)
{
    (void)state;
    pool_free(files_shell.files);
    pool_free(files_shell.probes);
    loop_stop(files_shell.loop);
    loop_join(files_shell.loop);
    loop_free(files_shell.loop);
    job_record_release(&files_record);
    job_record_release(&heard.restored);
    memset(&heard.restored, 0, sizeof heard.restored);
    job_spec_release(&files_spec);
    files_spec = (struct job_spec){0};
    ledger_release(&heard.ledger);
    ledger_release(&files_ledger);
    plan_release(&files_plan);
    tmp_dir_remove(files_root);
    return 0;
}

void files_prepare(uint64_t number, const char *directory, bool discard)
{
    const struct master_prepare in = {number, &files_record, directory, discard};
    size_t before = heard.count;
    shell_prepare(&files_shell, &in);
    files_wait_events(before + 1);
    assert_int_equal(heard.kind, MASTER_PREPARE_DONE);
    assert_int_equal(heard.number, number);
}
