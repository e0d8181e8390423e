/* SPDX-License-Identifier: Apache-2.0 */
/* Public data sets, when GRADUS_TEST_DATA names a directory that has them. */
#include "support/test.h"

#include <math.h>

#include "unit/data/data_rig.h"

static const char *data_dir(void)
{
    const char *dir = getenv("GRADUS_TEST_DATA");
    if (dir == NULL || dir[0] == '\0') {
        print_message("skipped: GRADUS_TEST_DATA is not set\n");
        skip();
    }
    return dir;
}

static void iris_has_three_classes(void **state)
{
    (void)state;
    char *dir = mem_strdup(data_dir());
    struct data_spec spec = fixture_spec((char[]){"csv/iris.csv"}, (char[]){""});
    spec.dir = dir;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_CLASS, NULL);
    assert_int_equal(dataset_info(d)->records, 150);
    assert_int_equal(dataset_info(d)->features.dims[0], 4);
    assert_int_equal(dataset_info(d)->classes, 3);
    assert_string_equal(dataset_class_names(d)[1], "Iris-versicolor");
    struct batch b = fixture_read(d);
    assert_int_equal(b.classes[0], 0);
    assert_int_equal(b.classes[149], 2);
    batch_release(&b);
    dataset_free(d);
    free(dir);
}

static void california_has_missing_values_and_a_category(void **state)
{
    (void)state;
    char *dir = mem_strdup(data_dir());
    struct data_spec spec = fixture_spec((char[]){"csv/california_housing.csv"}, (char[]){""});
    spec.dir = dir;
    spec.label = (char[]){"median_house_value"};
    fixture_refused(&spec, DATA_LABEL_REAL, ERR_INVALID, "\"NEAR BAY\" is not a number");
    spec.categorical = (char[]){"ocean_proximity"};
    fixture_refused(&spec, DATA_LABEL_REAL, ERR_INVALID, "california_housing.csv:292: column 4");
    spec.missing = DATA_MISSING_SKIP;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_REAL, NULL);
    assert_int_equal(dataset_info(d)->records, 20640 - 207);
    dataset_free(d);
    spec.missing = DATA_MISSING_MEDIAN;
    spec.label_scale = DATA_LABEL_SCALE_STANDARD;
    d = fixture_open(&spec, DATA_LABEL_REAL, NULL);
    const struct dataset_info *info = dataset_info(d);
    assert_int_equal(info->records, 20640);
    assert_int_equal(info->features.dims[0], 8 + 5);
    struct batch b = fixture_read(d);
    double label = (double)b.targets[0] * info->label_scale + info->label_offset;
    assert_true(fabs(label - 452600) < 1);
    float ones = 0;
    for (size_t i = 0; i < b.count; i++) {
        for (size_t k = 8; k < 13; k++) {
            ones += b.features[13 * i + k];
        }
    }
    assert_true(ones == 20640);
    batch_release(&b);
    dataset_free(d);
    free(dir);
}

static void fashion_mnist_is_read(void **state)
{
    (void)state;
    char *dir = mem_printf("%s/fashion-mnist", data_dir());
    struct data_spec spec = fixture_spec((char[]){"train-images-idx3-ubyte.gz"},
                                         (char[]){"train-labels-idx1-ubyte.gz"});
    spec.dir = dir;
    spec.test.file = (char[]){"t10k-images-idx3-ubyte.gz"};
    spec.test.labels = (char[]){"t10k-labels-idx1-ubyte.gz"};
    struct dataset *test, *train = fixture_open(&spec, DATA_LABEL_CLASS, &test);
    assert_int_equal(dataset_info(train)->records, 60000);
    assert_int_equal(dataset_info(test)->records, 10000);
    assert_int_equal(dataset_info(train)->classes, 10);
    struct batch b;
    assert_int_equal(batch_init(&b, train, 100, NULL), 0);
    double sum = 0;
    for (uint64_t first = 0; first < 60000; first += 100) {
        uint64_t records[100];
        for (uint64_t i = 0; i < 100; i++) {
            records[i] = first + i;
        }
        assert_int_equal(dataset_read(train, records, 100, &b, NULL), 0);
        for (size_t i = 0; i < 100 * 784; i++) {
            sum += (double)b.features[i];
        }
    }
    assert_true(fabs(sum / (60000.0 * 784) - 0.2860) < 1e-4); /* published with the data */
    batch_release(&b);
    dataset_free(train);
    dataset_free(test);
    free(dir);
}

/* LIBSVM files as they are on the web: labels 0/1, 1..3 and -1/+1. */
static void libsvm_files_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *train, *test;
        uint64_t records, test_records, features;
        uint32_t classes;
        bool named;
    } cases[] = {
        {"agaricus/agaricus.txt.train", "agaricus/agaricus.txt.test", 6513, 1611, 126, 2, false},
        {"dna/dna.scale", "dna/dna.scale.t", 2000, 1186, 180, 3, true},
        {"w6a/w6a_300d_train.libsvm", "w6a/w6a_300d_test.libsvm", 0, 0, 300, 2, true},
    };
    char *dir = mem_strdup(data_dir());
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *train = mem_strdup(cases[i].train);
        struct data_spec spec = fixture_spec(train, (char[]){""});
        spec.dir = dir;
        spec.test.file = mem_strdup(cases[i].test);
        struct dataset *test = NULL, *d = fixture_open(&spec, DATA_LABEL_CLASS, &test);
        const struct dataset_info *info = dataset_info(d);
        assert_int_equal(info->features.dims[0], cases[i].features);
        assert_int_equal(dataset_info(test)->features.dims[0], cases[i].features);
        assert_int_equal(info->classes, cases[i].classes);
        assert_int_equal(dataset_class_names(d) != NULL, cases[i].named);
        if (cases[i].records > 0) {
            assert_int_equal(info->records, cases[i].records);
            assert_int_equal(dataset_info(test)->records, cases[i].test_records);
        }
        dataset_free(d);
        dataset_free(test);
        free(spec.test.file);
        free(train);
    }
    struct data_spec spec = fixture_spec((char[]){"abalone/abalone_8d.libsvm"}, (char[]){""});
    spec.dir = dir;
    struct dataset *d = fixture_open(&spec, DATA_LABEL_REAL, NULL);
    assert_int_equal(dataset_info(d)->records, 4177);
    assert_int_equal(dataset_info(d)->features.dims[0], 8);
    dataset_free(d);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(iris_has_three_classes),
        cmocka_unit_test(california_has_missing_values_and_a_category),
        cmocka_unit_test(fashion_mnist_is_read),
        cmocka_unit_test(libsvm_files_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
