/* SPDX-License-Identifier: Apache-2.0 */
/* What manifests say of update sections that counted before. */
#include "checkpoint_rig.h"

#include "checkpoint/manifest.h"

#define FIRST "update:\n  rule: sgd\n  variables:\n    - match: \"*\"\n"

static char *write_eras(const struct fixture *f, const uint64_t *versions, size_t count)
{
    char *path = write_checkpoint(f, 1, 70, 70);
    struct manifest m = {0};
    assert_int_equal(manifest_read(path, &m, NULL), 0);
    assert_int_equal(m.era_count, 0);
    for (size_t i = 0; i < count; i++) {
        manifest_add_era(&m, versions[i], i == 0 ? FIRST : "update:\n  rule: sgd\n");
    }
    assert_int_equal(manifest_write(path, &m, NULL), 0);
    manifest_release(&m);
    return path;
}

static void they_come_back(void **state)
{
    const struct fixture *f = *state;
    const uint64_t versions[] = {0, 10, UINT64_MAX / 2};
    char *path = write_eras(f, versions, 3);
    struct manifest m = {0};
    assert_int_equal(manifest_read(path, &m, NULL), 0);
    assert_int_equal(m.era_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(m.eras[i].version, versions[i]);
    }
    assert_string_equal(m.eras[0].update, FIRST);
    assert_string_equal(m.eras[2].update, "update:\n  rule: sgd\n");
    manifest_release(&m);
    free(path);
}

static void their_versions_rise(void **state)
{
    const struct fixture *f = *state;
    static const uint64_t wrong[][2] = {{5, 10}, {0, 0}};
    for (size_t i = 0; i < 2; i++) {
        char *path = write_eras(f, wrong[i], 2);
        struct manifest m = {0};
        struct err err = {0};
        assert_int_equal(manifest_read(path, &m, &err), ERR_CORRUPT);
        assert_message(err, "is not behind the one before");
        manifest_release(&m);
        free(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(they_come_back, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(their_versions_rise, fixture_setup, fixture_teardown),
    };
    return cmocka_run_group_tests_name("manifest_eras", tests, NULL, NULL);
}
