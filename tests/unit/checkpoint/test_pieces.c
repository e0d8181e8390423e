/* SPDX-License-Identifier: Apache-2.0 */
/* Who reads a part of a checkpoint reads no more than that, and knows that it is what was written.
 */
#include "checkpoint_rig.h"

#include "base/checksum.h"

/* All of shard @shard of @shards, from a checkpoint of any number. */
static int read_shard(const struct fixture *f, const char *path, uint32_t shards, uint32_t shard,
                      unsigned long long *bytes, struct err *err)
{
    struct plan plan = {0};
    make_plan(f, shards, &plan);
    struct update *u = make_update(f, &plan, shard);
    float *got[1 + UPDATE_SLOTS_MAX] = {NULL};
    make_shard(f, &plan, shard, 99, got); /* other numbers, in buffers of the right size */
    struct checkpoint *c = NULL;
    atomic_ullong count = 0;
    int rc = checkpoint_open(path, CHECKPOINT_PIECES, &c, err);
    if (rc == 0) {
        checkpoint_count(c, &count);
        rc = checkpoint_read_shard(c, &plan, shard, f->update.rule->name, u, got[0], got + 1, err);
        checkpoint_close(c);
    }
    if (rc == 0) {
        float *want[1 + UPDATE_SLOTS_MAX] = {NULL};
        make_shard(f, &plan, shard, 5, want);
        assert_memory_equal(got[0], want[0], plan.shard_elements[shard] * sizeof(float));
        for (size_t k = 0; k < update_slot_count(u); k++) {
            assert_memory_equal(got[1 + k], want[1 + k], update_slot_floats(u, k) * sizeof(float));
        }
        free_shard(want);
    }
    if (bytes != NULL) {
        *bytes = count;
    }
    free_shard(got);
    update_free(u);
    plan_release(&plan);
    return rc;
}

/* Every bit of the file, where there are few; a bit of every byte, in turn. */
static void any_flipped_bit_is_found(void **state)
{
    const struct fixture *f = *state;
    char *path = write_checkpoint(f, 1, 10, 5);
    const char *name = "shard-0-of-1.safetensors";
    struct buf file = {0};
    struct err err = {0};
    read_whole(path, name, &file);
    assert_int_equal(read_shard(f, path, 1, 0, NULL, &err), 0);
    for (size_t at = 0; at < file.len; at++) {
        char flip = (char)(1 << at % 8);
        file.data[at] ^= flip;
        write_whole(path, name, file.data, file.len);
        file.data[at] ^= flip;
        int rc = read_shard(f, path, 1, 0, NULL, &err);
        if (rc != ERR_CORRUPT && rc != ERR_UNSUPPORTED) {
            fail_msg("byte %zu: %s", at, rc == 0 ? "nothing was found" : err.msg);
        }
    }
    buf_release(&file);
    free(path);
}

static void only_what_is_wanted_is_read(void **state)
{
    const struct fixture *f = *state;
    struct err err = {0};
    char *path = write_checkpoint(f, 2, 10, 5);
    unsigned long long bytes[2];
    struct plan plan = {0};
    make_plan(f, 2, &plan);
    for (uint32_t s = 0; s < 2; s++) {
        assert_int_equal(read_shard(f, path, 2, s, &bytes[s], &err), 0);
        assert_int_equal(bytes[s], 3 * plan.shard_elements[s] * sizeof(float)); /* adam: m, v */
    }
    plan_release(&plan);
    struct buf file = {0};
    read_whole(path, "shard-1-of-2.safetensors", &file);
    file.data[file.len - 1] ^= 1;
    write_whole(path, "shard-1-of-2.safetensors", file.data, file.len);
    assert_int_equal(read_shard(f, path, 2, 0, NULL, &err), 0); /* it has nothing of that file */
    assert_int_equal(read_shard(f, path, 2, 1, NULL, &err), ERR_CORRUPT);
    assert_message(err, "shard-1-of-2.safetensors: tensor ");
    assert_message(err, "differs: damaged");
    assert_int_equal(read_shard(f, path, 1, 0, NULL, &err), ERR_CORRUPT);
    buf_release(&file);
    free(path);
}

/* The file with other checksums of its chunks, and sealed again; NULL: as it was written before
 * there were any. */
static void put_checksums(const char *path, const char *name, const char *checksums)
{
    char *file = file_join(path, name);
    struct safetensors f;
    assert_int_equal(safetensors_open(&f, file, NULL), 0);
    struct safetensors_meta meta[32];
    size_t count = 0;
    for (size_t i = 0; i < f.meta_count; i++) {
        bool is_seal = strcmp(f.meta[i].key, SAFETENSORS_SEAL) == 0;
        bool is_sums = strcmp(f.meta[i].key, "checksums") == 0;
        if (checksums == NULL && (is_seal || is_sums)) {
            continue;
        }
        meta[count] = f.meta[i];
        meta[count].value = is_seal   ? SAFETENSORS_SEAL_EMPTY
                            : is_sums ? checksums
                                      : f.meta[i].value;
        count++;
    }
    assert_int_equal(count, f.meta_count - (checksums == NULL ? 2 : 0));
    struct safetensors_writer w;
    struct safetensors_written written;
    assert_int_equal(safetensors_writer_open(&w, file, f.tensors, f.count, meta, count, NULL), 0);
    for (size_t n; safetensors_writer_next(&w, &n);) {
        char *data = mem_new(f.tensors[n].bytes, 1);
        assert_int_equal(safetensors_read(&f, &f.tensors[n], 0, data, f.tensors[n].bytes, NULL), 0);
        assert_int_equal(safetensors_writer_add(&w, data, f.tensors[n].bytes, NULL), 0);
        free(data);
    }
    assert_int_equal(safetensors_writer_commit(&w, &written, NULL), 0);
    safetensors_close(&f);
    struct manifest m;
    assert_int_equal(manifest_read(path, &m, NULL), 0);
    m.shards[0].bytes = written.bytes;
    m.shards[0].checksum = written.checksum;
    assert_int_equal(manifest_write(path, &m, NULL), 0);
    manifest_release(&m);
    free(file);
}

static void old_files_are_checked_as_a_whole(void **state)
{
    const struct fixture *f = *state;
    struct err err = {0};
    char *path = write_checkpoint(f, 1, 10, 5);
    const char *name = "shard-0-of-1.safetensors";
    put_checksums(path, name, NULL);
    assert_int_equal(read_shard(f, path, 1, 0, NULL, &err), 0);
    assert_int_equal(read_shard(f, path, 2, 1, NULL, &err), 0);
    struct buf file = {0};
    read_whole(path, name, &file);
    file.data[file.len - 1] ^= 1;
    write_whole(path, name, file.data, file.len);
    assert_int_equal(read_shard(f, path, 2, 0, NULL, &err), ERR_CORRUPT);
    assert_message(err, "checksum differs");
    buf_release(&file);
    free(path);
}

/* One checksum for each chunk, no more, no less, and no half of one. */
static void every_chunk_has_its_checksum(void **state)
{
    const struct fixture *f = *state;
    struct err err = {0};
    char *path = write_checkpoint(f, 1, 10, 5);
    const char *name = "shard-0-of-1.safetensors";
    char *file = file_join(path, name);
    struct safetensors s;
    assert_int_equal(safetensors_open(&s, file, NULL), 0);
    char *good = mem_strdup(safetensors_meta_find(&s, "checksums"));
    safetensors_close(&s);
    put_checksums(path, name, good);
    assert_int_equal(read_shard(f, path, 1, 0, NULL, &err), 0);
    static const char *const more[] = {"0", "0123456789abcdef", "z"};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        char *bad = mem_printf("%s%s", good, more[i]);
        put_checksums(path, name, bad);
        assert_int_equal(read_shard(f, path, 1, 0, NULL, &err), ERR_CORRUPT);
        assert_message(err, "checksums: more than there are chunks");
        free(bad);
    }
    good[strlen(good) - 16] = '\0';
    put_checksums(path, name, good);
    assert_int_equal(read_shard(f, path, 1, 0, NULL, &err), ERR_CORRUPT);
    assert_message(err, "checksums: not one for each chunk");
    free(good);
    free(file);
    free(path);
}

/* Chunks of a tensor that has several, at every kind of border. */
static void ranges_may_cut_chunks(void **state)
{
    struct fixture *f = *state;
    enum { CHUNK = SHARD_FILE_CHUNK_BYTES / sizeof(float), FLOATS = 2 * CHUNK + 100 };
    f->variables[1].shape = (struct shape){1, {FLOATS}};
    f->partitions = 1;
    char *path = write_checkpoint(f, 1, 10, 5);
    static const uint64_t borders[] = {0,         1,         CHUNK - 1,     CHUNK,
                                       CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 1, FLOATS};
    struct checkpoint *c = NULL;
    struct err err = {0};
    assert_int_equal(checkpoint_open(path, CHECKPOINT_PIECES, &c, &err), 0);
    float *got = mem_new(FLOATS, sizeof *got), *want = mem_new(FLOATS, sizeof *want);
    for (uint64_t i = 0; i < FLOATS; i++) {
        want[i] = element(5, 1, 2, i);
    }
    for (size_t a = 0; a < 8; a++) {
        for (size_t b = a; b < 8; b++) {
            uint64_t n = borders[b] - borders[a];
            assert_int_equal(checkpoint_read(c, "dense_1.bias", "v", borders[a], n, got, &err), 0);
            assert_memory_equal(got, want + borders[a], n * sizeof *got);
        }
    }
    checkpoint_close(c);
    free(got);
    free(want);
    free(path);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(any_flipped_bit_is_found),
        TEST(only_what_is_wanted_is_read),
        TEST(old_files_are_checked_as_a_whole),
        TEST(every_chunk_has_its_checksum),
        TEST(ranges_may_cut_chunks),
    };
    return cmocka_run_group_tests_name("pieces", tests, NULL, NULL);
}
