/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest: what is written comes back, and nothing changed or hostile is believed. */
#include "checkpoint_rig.h"

#include <math.h>

#include "checkpoint/manifest.h"
#include "checkpoint/shard_file.h"

static void a_manifest_comes_back(void **state)
{
    const struct fixture *f = *state;
    char *path = write_checkpoint(f, 2, 500, 1);
    struct manifest m;
    assert_int_equal(manifest_read(path, &m, NULL), 0);
    assert_string_equal(m.job, "t-1");
    assert_string_equal(m.text, JOB_TEXT);
    assert_int_equal(m.mode, TRAINING_SYNC);
    assert_string_equal(m.rule, "adam");
    assert_int_equal(m.slot_count, 2);
    assert_string_equal(m.slots[0], "m");
    assert_string_equal(m.slots[1], "v");
    assert_int_equal(m.generation, 7);
    assert_int_equal(m.step, 500);
    assert_int_equal(m.epoch, 3);
    assert_int_equal(m.records, 12345);
    assert_true(m.created_ms == 1700000000123);
    assert_int_equal(m.ledger.split_count, f->ledger.split_count);
    assert_memory_equal(m.ledger.done, f->ledger.done, m.ledger.split_count * sizeof(uint32_t));
    assert_int_equal(m.variable_count, VARIABLE_COUNT);
    for (size_t i = 0; i < VARIABLE_COUNT; i++) {
        assert_string_equal(m.variables[i].name, f->variables[i].name);
        assert_true(shape_equal(&m.variables[i].shape, &f->variables[i].shape));
    }
    assert_int_equal(m.shard_count, 2);
    assert_int_equal(m.shards[1].version, 500);
    assert_int_equal(manifest_check_files(path, &m, true, NULL), 0);
    manifest_release(&m);
    free(path);
}

static void what_was_measured_comes_back(void **state)
{
    const struct fixture *f = *state;
    char *path = write_checkpoint(f, 1, 1, 1);
    struct manifest m;
    assert_int_equal(manifest_read(path, &m, NULL), 0);
    assert_null(m.encoding);
    m.encoding = mem_strdup("{\"scale\": [0.10000000000000001, 1e-300], \"of\": \"é\"}");
    assert_int_equal(manifest_write(path, &m, NULL), 0);
    manifest_release(&m);
    assert_int_equal(manifest_read(path, &m, NULL), 0);
    assert_string_equal(m.encoding, "{\"scale\": [0.10000000000000001, 1e-300], \"of\": \"é\"}");
    m.encoding[1] = '}';
    struct err err = {0};
    assert_int_equal(manifest_write(path, &m, &err), ERR_CORRUPT);
    assert_message(err, "what a worker has measured");
    manifest_release(&m);
    free(path);
}

/* Every bit of the file counts. */
static void no_flipped_bit_is_taken(void **state)
{
    const struct fixture *f = *state;
    char *path = write_checkpoint(f, 1, 1, 1);
    struct buf good = {0};
    read_whole(path, MANIFEST_NAME, &good);
    for (size_t bit = 0; bit < good.len * 8; bit += 3) {
        good.data[bit / 8] ^= (char)(1 << bit % 8);
        write_whole(path, MANIFEST_NAME, good.data, good.len);
        good.data[bit / 8] ^= (char)(1 << bit % 8);
        struct manifest m;
        assert_int_equal(manifest_read(path, &m, NULL), ERR_CORRUPT);
    }
    for (size_t n = 0; n < good.len; n += 7) {
        write_whole(path, MANIFEST_NAME, good.data, n);
        struct manifest m;
        struct err err = {0};
        assert_int_equal(manifest_read(path, &m, &err), ERR_CORRUPT);
        assert_message(err, path);
    }
    buf_release(&good);
    free(path);
}

/* The manifest of @path with @from replaced by @to, and a checksum that is right. */
static int read_changed(const char *path, const struct buf *good, const char *from, const char *to,
                        struct err *err)
{
    const char *at = strstr(good->data, from);
    if (at == NULL) {
        fail_msg("the manifest has no %s", from);
        return 0;
    }
    struct buf text = {0};
    buf_add(&text, good->data, (size_t)(at - good->data));
    buf_add_str(&text, to);
    buf_add_str(&text, at + strlen(from));
    char *tail = text.data; /* the last checksum is the manifest's own */
    for (char *next; (next = strstr(tail + 1, "  \"checksum\": ")) != NULL;) {
        tail = next;
    }
    text.len = (size_t)(tail - text.data);
    buf_printf(&text, "  \"checksum\": \"0x%016llx\"\n}\n",
               (unsigned long long)checksum_of(text.data, text.len));
    write_whole(path, MANIFEST_NAME, text.data, text.len);
    buf_release(&text);
    struct manifest m;
    int rc = manifest_read(path, &m, err);
    if (rc == 0) {
        manifest_release(&m);
    }
    return rc;
}

/* Older manifests do not have it. */
static void the_file_of_the_model_comes_back(void **state)
{
    const struct fixture *f = *state;
    char *path = write_checkpoint(f, 1, 1, 1);
    struct manifest m;
    assert_int_equal(manifest_read(path, &m, NULL), 0);
    assert_true(m.model_file == 0);
    m.model_file = 0xFEDCBA9876543210;
    assert_int_equal(manifest_write(path, &m, NULL), 0);
    manifest_release(&m);
    assert_int_equal(manifest_read(path, &m, NULL), 0);
    assert_true(m.model_file == 0xFEDCBA9876543210);
    manifest_release(&m);
    struct buf good = {0};
    struct err err = {0};
    read_whole(path, MANIFEST_NAME, &good);
    assert_int_equal(read_changed(path, &good, "0xfedcba9876543210", "fedcba98", &err),
                     ERR_CORRUPT);
    assert_message(err, "model_file");
    assert_int_equal(read_changed(path, &good, "\"0xfedcba9876543210\"", "7", &err), ERR_CORRUPT);
    assert_message(err, "model_file");
    buf_release(&good);
    free(path);
}

/* Sums of metrics come back bit for bit, whatever they are; hostile ones are refused. */
static void sums_of_metrics_are_kept(void **state)
{
    const struct fixture *f = *state;
    char *path = write_checkpoint(f, 1, 1, 1);
    struct manifest m, again;
    assert_int_equal(manifest_read(path, &m, NULL), 0);
    assert_int_equal(m.train_sum_count, 0); /* of before there were any */
    const double sums[] = {0.1, -0.0, INFINITY, NAN, 1e-310};
    m.train_epoch = 3;
    m.train_sum_count = 5;
    m.train_sums = mem_new(5, sizeof *m.train_sums);
    memcpy(m.train_sums, sums, sizeof sums);
    assert_int_equal(manifest_write(path, &m, NULL), 0);
    assert_int_equal(manifest_read(path, &again, NULL), 0);
    assert_int_equal(again.train_epoch, 3);
    assert_int_equal(again.train_sum_count, 5);
    assert_memory_equal(again.train_sums, sums, sizeof sums);
    manifest_release(&m);
    manifest_release(&again);
    static const char *const wrong[] = {"\"\"", "\"3\"", "\"000000000000000g\"",
                                        "\" 00000000000000\""};
    struct buf good = {0};
    struct err err = {0};
    read_whole(path, MANIFEST_NAME, &good);
    for (size_t i = 0; i < 4; i++) {
        char to[128];
        (void)snprintf(to, sizeof to, "\"train_sums\": %s, \"other\": \"", wrong[i]);
        assert_int_equal(read_changed(path, &good, "\"train_sums\": \"", to, &err), ERR_CORRUPT);
        assert_message(err, "train_sums: not numbers");
    }
    buf_release(&good);
    free(path);
}

static void hostile_manifests_are_refused(void **state)
{
    static const char *const wrong[][3] = {
        {"gradus-checkpoint", "other", "format: other"},
        {"\"job\": \"t-1\"", "\"job\": 5", "job: text"},
        {"\"job\": ", "\"jobs\": ", "job: missing"},
        {"\"step\": 1,", "\"step\": -1,", "step: -1 is out of range"},
        {"\"step\": 1,", "\"step\": 1.5,", "step: a whole number"},
        {"\"step\": 1,", "\"step\": 1, \"step\": 2,", "duplicate"},
        {"\"sync\"", "\"sink\"", "mode: sink is not known"},
        {"[\"m\", \"v\"]", "[\"m\", 7]", "slots[1]: a name"},
        {"[\"m\", \"v\"]", "[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\",\"h\"]",
         "slots: a list of 8; at most 7"},
        {"[\"m\", \"v\"]", "[\"m\", \"v\"], \"slot_kinds\": [\"row\"]",
         "slot_kinds: 1 of them for 2 slots"},
        {"[\"m\", \"v\"]", "[\"m\", \"v\"], \"slot_kinds\": [\"row\", \"rows\"]",
         "slot_kinds[1]: no kind of slot"},
        {"[\"m\", \"v\"]", "[\"m\", \"v\"], \"slot_kinds\": [\"row\", 1]",
         "slot_kinds[1]: no kind of slot"},
        {"\"shape\": [13, 7]", "\"shape\": [13, 0]", "variables[0]: shape"},
        {"\"shape\": [13, 7]", "\"shape\": [13, -7]", "variables[0]: shape[1]"},
        {"\"shape\": [13, 7]", "\"shape\": [4294967296, 4294967296]", "variables[0]: shape"},
        {"\"shape\": [13, 7]", "\"shape\": [1,1,1,1,1]", "variables[0]: shape: a list of 5"},
        {"dense_1.bias", "dense_1.kernel", "variables[1]: the name dense_1.kernel is used twice"},
        {"\"dense_1.bias\"", "\"\"", "variables[1]: name"},
        {"shard-0-of-1.safetensors", "../../etc/passwd", "shards[0]: file: ../../etc/passwd"},
        {"shard-0-of-1.safetensors", "shard-1-of-2.safetensors", "shards[0]: file"},
        {"\"checksum\": \"0x", "\"checksum\": \"0y", "shards[0]: checksum"},
        {"\"bytes\": ", "\"bytes\": -", "shards[0]: bytes"},
        {"\"batch_records\":10", "\"batch_records\":0", "ledger: "},
        {"\"done\":[[4,2]", "\"done\":[[5,2]", "ledger: done[0]"},
        {"\"ledger\": {", "\"ledger\": {\"epoch\": 1,", "duplicate"},
        {"\"format_version\": 1", "\"format_version\": 2", "tables: missing"},
        {"\"format_version\": 1", "\"format_version\": 3", "base: missing"},
        {"\"format_version\": 1",
         "\"format_version\": 3, \"base\": {\"directory\": \"../x\", \"checksum\": \"0x0\"}",
         "base: directory: ../x; step-000000500"},
        {"\"format_version\": 1",
         "\"format_version\": 3, \"base\": {\"directory\": \"step-1\", \"checksum\": \"0x0\"}",
         "base: checksum: 0x"},
    };
    const struct fixture *f = *state;
    char *path = write_checkpoint(f, 1, 1, 1);
    struct buf good = {0};
    read_whole(path, MANIFEST_NAME, &good);
    struct err err = {0};
    assert_int_equal(read_changed(path, &good, "\"step\": 1,", "\"step\": 2,", &err), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        if (read_changed(path, &good, wrong[i][0], wrong[i][1], &err) != ERR_CORRUPT) {
            fail_msg("%s was taken", wrong[i][1]);
        }
        assert_message(err, wrong[i][2]);
        assert_message(err, path);
    }
    assert_int_equal(
        read_changed(path, &good, "\"format_version\": 1", "\"format_version\": 4", &err),
        ERR_UNSUPPORTED);
    assert_message(err, "format_version: 4; this program knows 1 to 3");
    buf_release(&good);
    free(path);
}

/* Of a later program: whole, with a checksum that is right, and not to be read as if it were ours.
 */
static void a_newer_format_is_refused(void **state)
{
    const struct fixture *f = *state;
    char *path = write_checkpoint(f, 1, 500, 1);
    struct buf good = {0};
    struct err err = {0};
    read_whole(path, MANIFEST_NAME, &good);
    assert_int_equal(
        read_changed(path, &good, "\"format_version\": 1", "\"format_version\": 4", &err),
        ERR_UNSUPPORTED);
    assert_message(err, "format_version: 4; this program knows 1 to 3");
    assert_int_equal(
        read_changed(path, &good, "\"format_version\": 1", "\"format_version\": 0", &err),
        ERR_UNSUPPORTED);
    buf_release(&good);
    free(path);
}

static void files_are_checked(void **state)
{
    const struct fixture *f = *state;
    char *path = write_checkpoint(f, 2, 500, 1);
    struct manifest m;
    struct err err = {0};
    struct buf good = {0};
    assert_int_equal(manifest_read(path, &m, NULL), 0);
    read_whole(path, "shard-1-of-2.safetensors", &good);
    good.data[good.len - 1] ^= 1;
    write_whole(path, "shard-1-of-2.safetensors", good.data, good.len);
    assert_int_equal(manifest_check_files(path, &m, false, NULL), 0);
    assert_int_equal(manifest_check_files(path, &m, true, &err), ERR_CORRUPT);
    assert_message(err, "step-000000500: shard-1-of-2.safetensors: checksum differs (manifest 0x");
    write_whole(path, "shard-1-of-2.safetensors", good.data, good.len - 4);
    assert_int_equal(manifest_check_files(path, &m, false, &err), ERR_CORRUPT);
    assert_message(err, "shard-1-of-2.safetensors: size differs (manifest ");
    char *file = file_join(path, "shard-1-of-2.safetensors");
    assert_int_equal(unlink(file), 0);
    assert_int_equal(manifest_check_files(path, &m, false, &err), ERR_NOT_FOUND);
    assert_message(err, "shard-1-of-2.safetensors: missing");
    free(file);
    buf_release(&good);
    manifest_release(&m);
    free(path);
}

static void a_missing_manifest_is_not_found(void **state)
{
    const struct fixture *f = *state;
    struct manifest m;
    struct err err = {0};
    assert_int_equal(manifest_read(f->dir, &m, &err), ERR_NOT_FOUND);
    assert_message(err, f->dir);
    assert_int_equal(manifest_read("/nonexistent", &m, NULL), ERR_NOT_FOUND);
}

/* Files of a later start of the job have other names than those of the first. */
static void a_file_name_tells_the_generation(void **state)
{
    (void)state;
    char name[SHARD_FILE_NAME_BYTES];
    uint64_t generation;
    assert_string_equal(shard_file_name(0, 2, 0, name), "shard-0-of-2.safetensors");
    assert_string_equal(shard_file_name(0, 2, 1, name), "shard-0-of-2.safetensors");
    assert_true(shard_file_name_parse(name, 0, 2, &generation));
    assert_int_equal(generation, 0);
    assert_string_equal(shard_file_name(1023, 1024, UINT64_MAX, name),
                        "shard-1023-of-1024-g18446744073709551615.safetensors");
    assert_true(shard_file_name_parse(name, 1023, 1024, &generation));
    assert_true(generation == UINT64_MAX);
    static const char *const wrong[] = {"",
                                        "shard-1-of-2.safetensors",
                                        "shard-0-of-3.safetensors",
                                        "shard-0-of-2-g1.safetensors",
                                        "shard-0-of-2-g07.safetensors",
                                        "shard-0-of-2-g-7.safetensors",
                                        "shard-0-of-2-g7",
                                        "../shard-0-of-2-g7.safetensors",
                                        "shard-0-of-2-g99999999999999999999.safetensors"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(shard_file_name_parse(wrong[i], 0, 2, &generation));
    }
}

static void a_manifest_names_files_of_a_generation(void **state)
{
    const struct fixture *f = *state;
    char *path = write_checkpoint(f, 2, 500, 1);
    struct manifest m;
    assert_int_equal(manifest_read(path, &m, NULL), 0);
    m.shards[1].generation = 7;
    assert_int_equal(manifest_write(path, &m, NULL), 0);
    manifest_release(&m);
    assert_int_equal(manifest_read(path, &m, NULL), 0);
    assert_int_equal(m.shards[0].generation, 0);
    assert_int_equal(m.shards[1].generation, 7);
    struct err err = {0};
    assert_int_equal(manifest_check_files(path, &m, true, &err), ERR_NOT_FOUND);
    assert_message(err, "shard-1-of-2-g7.safetensors: missing");
    manifest_release(&m);
    free(path);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_file_name_tells_the_generation),
        TEST(a_manifest_names_files_of_a_generation),
        TEST(a_manifest_comes_back),
        TEST(what_was_measured_comes_back),
        TEST(the_file_of_the_model_comes_back),
        TEST(no_flipped_bit_is_taken),
        TEST(sums_of_metrics_are_kept),
        TEST(hostile_manifests_are_refused),
        TEST(a_newer_format_is_refused),
        TEST(files_are_checked),
        TEST(a_missing_manifest_is_not_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
