/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a checkpoint of two shards and its export below a directory, with values that the Python
 * test can work out itself: element i of column k (0: values, 1..: slots) of variable number v is
 * v·1000 + k·100 + i/8.
 *
 * Usage: checkpoint_writer DIRECTORY */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/shard_file.h"
#include "job/plan/plan_update.h"
#include "os/file.h"

static int write_shard(const char *path, const struct plan *plan, uint32_t shard,
                       const struct update_spec *spec, const struct ledger *ledger,
                       struct manifest_shard *out, struct err *err)
{
    size_t count;
    const struct partition *p = plan_shard(plan, shard, &count);
    float *buffers[1 + RULE_SLOTS_MAX] = {NULL};
    struct update *update = NULL;
    if (plan_update_shard(plan, spec, shard, &update, err) != 0) {
        return err->code;
    }
    for (size_t k = 0; k <= spec->rule->slot_count; k++) {
        buffers[k] = mem_new((size_t)plan->shard_elements[shard], sizeof(float));
        for (size_t i = 0; i < count; i++) {
            for (uint64_t e = 0; e < p[i].count; e++) {
                buffers[k][p[i].offset + e] =
                    (float)(1000 * p[i].variable + 100 * k) + (float)(p[i].first + e) / 8.0F;
            }
        }
    }
    struct shard_file_state state = {.job = "job-1",
                                     .plan = plan,
                                     .shard = shard,
                                     .rule = spec->rule->name,
                                     .update = update,
                                     .version = 40,
                                     .generation = 2,
                                     .step = 40,
                                     .ledger = ledger,
                                     .values = buffers[0],
                                     .slots = buffers + 1};
    char name[SHARD_FILE_NAME_BYTES];
    char *file = file_join(path, shard_file_name(shard, plan->shard_count, 0, name));
    struct safetensors_written written = {0};
    int rc = shard_file_write(file, &state, &written, err);
    *out = (struct manifest_shard){0, state.version, written.bytes, written.checksum};
    free(file);
    update_free(update);
    for (size_t k = 0; k <= spec->rule->slot_count; k++) {
        free(buffers[k]);
    }
    return rc;
}

static int export_to(const char *dir, const char *path, struct err *err)
{
    struct checkpoint *c = NULL;
    int rc = checkpoint_open(path, CHECKPOINT_FULL, &c, err);
    if (rc == 0) {
        char *out = file_join(dir, "export.safetensors");
        rc = checkpoint_export(c, NULL, out, err);
        free(out);
    }
    checkpoint_close(c);
    return rc;
}

static int write_all(const char *dir, const struct plan *plan, const struct ledger *ledger,
                     struct err *err)
{
    const struct rule *rule = rule_find("adam");
    void *params = mem_new(1, rule->params_bytes);
    const struct update_spec spec = {.rule = rule, .params = params};
    field_defaults(rule->fields, rule->field_count, params);
    struct manifest m;
    char *path = NULL;
    int rc = checkpoint_begin(dir, 40, &path, err);
    manifest_init(&m, "job-1", "name: \"quoted\"\n", TRAINING_SYNC, &spec, plan);
    m.step = 40;
    ledger_copy(&m.ledger, ledger);
    for (uint32_t s = 0; rc == 0 && s < plan->shard_count; s++) {
        rc = write_shard(path, plan, s, &spec, ledger, &m.shards[s], err);
    }
    if (rc == 0) {
        rc = manifest_write(path, &m, err);
    }
    if (rc == 0) {
        rc = export_to(dir, path, err);
    }
    manifest_release(&m);
    free(params);
    free(path);
    return rc;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        (void)fputs("usage: checkpoint_writer DIRECTORY\n", stderr);
        return 2;
    }
    const struct variable_spec variables[] = {
        {.name = "dense_1.kernel", .shape = {2, {13, 7}}},
        {.name = "dense_1.bias", .shape = {1, {7}}},
        {.name = "conv\xc3\xa9 \"1\".kernel", .shape = {4, {5, 2, 3, 2}}},
        {.name = "scale", .shape = {0, {0}}}};
    const struct cluster_spec cluster = {.ps = 2, .partitions = 3};
    const struct ledger_shape shape = {1000, 10, 4};
    struct plan plan = {0};
    struct ledger ledger = {0};
    struct err err = {0};
    int rc = plan_make(variables, 4, &cluster, &plan, &err);
    if (rc == 0) {
        rc = ledger_init(&ledger, &shape, 1, &err);
    }
    if (rc == 0) {
        rc = write_all(argv[1], &plan, &ledger, &err);
    }
    if (rc != 0) {
        (void)fprintf(stderr, "checkpoint_writer: %s\n", err.msg);
    }
    ledger_release(&ledger);
    plan_release(&plan);
    return rc == 0 ? 0 : 1;
}
