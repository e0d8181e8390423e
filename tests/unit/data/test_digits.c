/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <stdbool.h>

#include "data/digits.h"
#include "unit/data/data_rig.h"

static char images[] = "train-images-idx3-ubyte.gz", labels[] = "train-labels-idx1-ubyte.gz";
static char test_images[] = "t10k-images-idx3-ubyte.gz",
            test_labels[] = "t10k-labels-idx1-ubyte.gz";

static char *generate(const char *name, uint64_t seed)
{
    char *dir = file_join(fixture_dir, name);
    struct err err;
    if (digits_generate(dir, 230, 50, seed, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    return dir;
}

static bool same_file(const char *dir_a, const char *dir_b, const char *name)
{
    char *path_a = file_join(dir_a, name), *path_b = file_join(dir_b, name);
    struct buf a = {0}, b = {0};
    assert_int_equal(file_read(path_a, 1 << 24, &a, NULL), 0);
    assert_int_equal(file_read(path_b, 1 << 24, &b, NULL), 0);
    bool same = a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
    buf_release(&a);
    buf_release(&b);
    free(path_a);
    free(path_b);
    return same;
}

static void equal_seeds_give_equal_bytes(void **state)
{
    (void)state;
    char *a = generate("a", 7), *b = generate("b", 7), *c = generate("c", 8);
    const char *const names[] = {images, labels, test_images, test_labels};
    for (size_t i = 0; i < 4; i++) {
        assert_true(same_file(a, b, names[i]));
        assert_false(same_file(a, c, names[i]));
    }
    free(a);
    free(b);
    free(c);
}

static void the_files_are_what_digits_draw_gives(void **state)
{
    (void)state;
    char *dir = generate("d", 3);
    struct data_spec spec = fixture_spec(images, labels);
    spec.dir = dir;
    spec.test.file = test_images;
    spec.test.labels = test_labels;
    spec.scale = DATA_SCALE_NONE;
    struct dataset *test, *train = fixture_open(&spec, DATA_LABEL_CLASS, &test);
    const struct dataset *parts[] = {train, test};
    for (size_t p = 0; p < 2; p++) {
        enum digits_part part = p == 0 ? DIGITS_TRAIN : DIGITS_TEST;
        const struct dataset_info *info = dataset_info(parts[p]);
        assert_int_equal(info->records, p == 0 ? 230 : 50);
        assert_int_equal(info->features.dims[0], DIGITS_SIDE);
        assert_int_equal(info->features.dims[1], DIGITS_SIDE);
        assert_int_equal(info->classes, 10);
        struct batch b = fixture_read(parts[p]);
        for (uint64_t i = 0; i < b.count; i++) {
            uint8_t pixels[DIGITS_PIXELS];
            digits_draw(3, part, i, pixels);
            assert_int_equal(b.classes[i], digits_label(3, part, i));
            for (size_t k = 0; k < DIGITS_PIXELS; k++) {
                assert_true(b.features[i * DIGITS_PIXELS + k] == (float)pixels[k]);
            }
        }
        batch_release(&b);
    }
    dataset_free(train);
    dataset_free(test);
    free(dir);
}

static void labels_are_balanced_and_mixed(void **state)
{
    (void)state;
    size_t as_counted = 0;
    for (uint64_t block = 0; block < 100; block++) {
        unsigned seen = 0;
        for (uint64_t i = 0; i < 10; i++) {
            uint8_t label = digits_label(1, DIGITS_TRAIN, 10 * block + i);
            seen |= 1U << label;
            as_counted += label == i;
        }
        assert_int_equal(seen, 0x3FF);
    }
    assert_in_range(as_counted, 50, 160); /* 100 are expected */
}

static void train_and_test_images_differ(void **state)
{
    (void)state;
    uint8_t a[DIGITS_PIXELS], b[DIGITS_PIXELS];
    for (uint64_t i = 0; i < 50; i++) {
        digits_draw(1, DIGITS_TRAIN, i, a);
        digits_draw(1, DIGITS_TEST, i, b);
        assert_memory_not_equal(a, b, sizeof a);
        digits_draw(1, DIGITS_TRAIN, i + 1, b);
        assert_memory_not_equal(a, b, sizeof a);
    }
}

static void every_image_has_ink_and_paper(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 2000; i++) {
        uint8_t pixels[DIGITS_PIXELS];
        digits_draw(2, DIGITS_TRAIN, i, pixels);
        size_t ink = 0;
        for (size_t k = 0; k < DIGITS_PIXELS; k++) {
            ink += pixels[k] > 100;
        }
        assert_in_range(ink, 12, DIGITS_PIXELS / 2);
    }
}

/* The class whose mean image is nearest must be right far more often than by chance, and not
 * always. */
static void images_resemble_their_class(void **state)
{
    (void)state;
    static double mean[10][DIGITS_PIXELS];
    uint8_t pixels[DIGITS_PIXELS];
    for (uint64_t i = 0; i < 2000; i++) {
        digits_draw(1, DIGITS_TRAIN, i, pixels);
        for (size_t k = 0; k < DIGITS_PIXELS; k++) {
            mean[digits_label(1, DIGITS_TRAIN, i)][k] += pixels[k] / 200.0;
        }
    }
    size_t right = 0;
    for (uint64_t i = 0; i < 500; i++) {
        digits_draw(1, DIGITS_TEST, i, pixels);
        size_t nearest = 0;
        double least = 1e300;
        for (size_t c = 0; c < 10; c++) {
            double distance = 0;
            for (size_t k = 0; k < DIGITS_PIXELS; k++) {
                distance += (pixels[k] - mean[c][k]) * (pixels[k] - mean[c][k]);
            }
            if (distance < least) {
                least = distance;
                nearest = c;
            }
        }
        right += nearest == digits_label(1, DIGITS_TEST, i);
    }
    assert_in_range(right, 300, 450);
}

static void wrong_requests_leave_nothing(void **state)
{
    (void)state;
    struct err err;
    char *dir = file_join(fixture_dir, "nothing");
    assert_int_equal(digits_generate(dir, 0, 10, 1, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "0 train images; allowed are 1 to 10000000"));
    assert_int_equal(digits_generate(dir, 10, DIGITS_COUNT_MAX + 1, 1, &err), ERR_INVALID);
    assert_false(file_exists(dir));
    fixture_text("nothing", "a file");
    assert_int_equal(digits_generate(dir, 10, 10, 1, &err), ERR_EXISTS);
    free(dir);
    /* The last file cannot be created: its temporary name is a directory. */
    dir = file_join(fixture_dir, "half");
    char *tmp = mem_printf("%s/%s.tmp.%ld", dir, test_labels, (long)getpid());
    assert_int_equal(file_make_dirs(tmp, NULL), 0);
    assert_true(digits_generate(dir, 10, 10, 1, &err) < 0);
    char *path = file_join(dir, images);
    assert_false(file_exists(path));
    free(path);
    free(tmp);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_seeds_give_equal_bytes),
        cmocka_unit_test(the_files_are_what_digits_draw_gives),
        cmocka_unit_test(labels_are_balanced_and_mixed),
        cmocka_unit_test(train_and_test_images_differ),
        cmocka_unit_test(every_image_has_ink_and_paper),
        cmocka_unit_test(images_resemble_their_class),
        cmocka_unit_test(wrong_requests_leave_nothing),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
