/* SPDX-License-Identifier: Apache-2.0 */
/* The files of checkpoints (checkpoint/safetensors_read.c, checkpoint/shard_file.c): the header
 * with all rules of the format, the seal, what a shard's file says of itself, every tensor read,
 * with its checksums where there are some, and its tables, part by part. And files that are a model
 * (saved/saved_file.c): their metadata, variables and tables, as the model of one job has them.
 *
 * Input: the length of the header in two bytes instead of eight, so that it is mostly right, and a
 * byte of flags; the header; the data. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/shard_file.h"
#include "saved/saved_tables.h"
#include "saved/saved_variables.h"

#define READ_BYTES_MAX 65536

static void read_tensors(const struct safetensors *f)
{
    static uint8_t out[READ_BYTES_MAX];
    struct err err = {0};
    for (size_t i = 0; i < f->count && i < 16; i++) {
        const struct safetensors_tensor *t = &f->tensors[i];
        struct shard_file_tensor parts;
        size_t bytes = t->bytes < sizeof out ? (size_t)t->bytes : sizeof out;
        fuzz_require(safetensors_find(f, t->name) == t, "each tensor is found by its name");
        fuzz_require(safetensors_read(f, t, 0, out, bytes, &err) == 0,
                     "the header was checked against the file");
        fuzz_require(safetensors_read(f, t, t->bytes, out, 1, &err) == ERR_RANGE,
                     "nothing is read behind a tensor");
        (void)shard_file_tensor_parse(t->name, &parts);
    }
}

static void read_table(const struct shard_file *f, const struct table_file_info *t,
                       enum table_part_kind kind)
{
    const struct table_file_slots slots = {1, {"m"}, {RULE_SLOT_PARAMETER}};
    struct err err = {0};
    size_t tensors = 0, n = 1;
    int rc = table_file_check(f, t, &slots, &tensors, &err);
    fuzz_require_error(rc, &err);
    struct table_reader *r = rc == 0 ? table_reader_new(f, t, &slots, kind) : NULL;
    uint64_t rows = 0;
    for (; rc == 0 && n > 0; rows += n) {
        rc = table_reader_next(r, &n, &err);
        fuzz_require_error(rc, &err);
    }
    const uint64_t all[] = {t->rows, t->counts, t->evicted};
    fuzz_require(rc != 0 || rows == all[kind], "all rows are read");
    table_reader_free(r);
}

static void read_shard(const char *path)
{
    static uint8_t out[READ_BYTES_MAX];
    struct shard_file f;
    struct err err = {0};
    int rc = shard_file_open(&f, path, &err);
    fuzz_require_error(rc, &err);
    if (rc != 0) {
        return;
    }
    for (size_t i = 0; i < f.file.count && i < 16; i++) {
        const struct safetensors_tensor *t = &f.file.tensors[i];
        size_t bytes = t->bytes < sizeof out ? (size_t)t->bytes : sizeof out;
        fuzz_require_error(shard_file_read(&f, t, 0, out, bytes, &err), &err);
    }
    for (size_t i = 0; i < f.table_count && i < 16; i++) {
        read_table(&f, &f.tables[i], TABLE_PART_ROWS);
        read_table(&f, &f.tables[i], TABLE_PART_COUNTS);
        read_table(&f, &f.tables[i], TABLE_PART_EVICTED);
    }
    shard_file_close(&f);
}

static struct job_spec job;
static struct model *model;

static void make_model(void)
{
    static const char text[] =
        "name: j\ndata: {format: libffm, train: {file: t}, columns: [{column: 0..1, as: sparse}]}\n"
        "model: {tables: [{name: w, dim: 1, memory_bytes: 1 MiB, copies_bytes: 1 MiB}], layers: "
        "[{linear: {name: wide, table: w, bias: true}}], loss: sigmoid_cross_entropy}\n"
        "update: {rule: momentum, learning_rate: 0.5}\ntraining: {batch_size: 2}\n";
    static const char *const names[] = {"0", "1"};
    const struct shape none = {.rank = 1};
    const struct sparse_names fields = {names, 2};
    struct diags diags = {0};
    struct err err = {0};
    if (job_spec_parse(text, strlen(text), "job", NULL, 0, &job, &diags) != 0 ||
        model_new(&job.model, &none, &fields, 2, &model, &err) != 0) {
        fuzz_require(false, err.msg);
    }
    diags_release(&diags);
}

static void read_model(const char *path)
{
    struct saved_file *f = NULL;
    struct saved_variables v = {0};
    struct saved_tables t = {0};
    struct err err = {0};
    int rc = saved_file_open(path, &f, &err);
    fuzz_require_error(rc, &err);
    rc = rc != 0 ? rc : saved_file_check_tensors(f, model, &job, &err);
    if (rc == 0) {
        fuzz_require_error(saved_variables_read(NULL, f, model, NULL, &v, &err), &err);
        fuzz_require_error(saved_tables_load_file(&t, f, model, &job, &err), &err);
    }
    saved_variables_release(&v);
    saved_tables_release(&t);
    saved_file_close(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    if (model == NULL) {
        make_model();
    }
    uint64_t header = fuzz_byte(&in);
    header = header << 8 | fuzz_byte(&in);
    uint8_t flags = fuzz_byte(&in);
    if ((flags & 1) != 0) {
        header = header << 48 | header; /* one that cannot be */
    }
    size_t bytes = sizeof header + in.n;
    uint8_t *file = mem_new(bytes, 1);
    memcpy(file, &header, sizeof header);
    memcpy(file + sizeof header, in.data, in.n);
    const char *path = fuzz_file(0, file, (flags & 2) != 0 ? bytes : 8 + in.n);
    struct safetensors f;
    struct err err = {0};
    int rc = safetensors_open(&f, path, &err);
    fuzz_require_error(rc, &err);
    if (rc == 0) {
        fuzz_require_error(safetensors_check_seal(&f, &err), &err);
        read_tensors(&f);
        safetensors_close(&f);
        read_shard(path);
        read_model(path);
    }
    free(file);
    return 0;
}
