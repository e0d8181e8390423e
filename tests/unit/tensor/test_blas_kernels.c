/* SPDX-License-Identifier: Apache-2.0 */
/* Which kernels are wanted for which processor. That a program starts itself again for them is
 * tested with real processes, in tests/integration/test_cluster.py. */
#include "support/test.h"

#include <stdlib.h>

#include "tensor/blas_kernels.h"

static const struct blas_cpu cpu_old,
    cpu_avx2 = {.avx2 = true}, cpu_avx512 = {.avx2 = true, .avx512 = true},
    cpu_zen = {.amd = true, .avx2 = true}, cpu_zen4 = {.amd = true, .avx2 = true, .avx512 = true},
    cpu_odd = {.avx512 = true}; /* a hypervisor hides AVX2 */

static void test_wanted(void **state)
{
    (void)state;
    static const struct {
        const char *kernels;
        const struct blas_cpu *cpu;
        const char *wanted;
    } rows[] = {
        {"Prescott", &cpu_avx512, "SkylakeX"},
        {"Prescott", &cpu_avx2, "Haswell"},
        {"Prescott", &cpu_zen, "Zen"},
        {"Prescott", &cpu_zen4, "SkylakeX"},
        {"Prescott", &cpu_old, NULL},
        {"Prescott", &cpu_odd, NULL},
        /* Those that versions of OpenBLAS fall back to by what they find of SSE and AVX. */
        {"Core2", &cpu_avx2, "Haswell"},
        {"Penryn", &cpu_avx2, "Haswell"},
        {"Dunnington", &cpu_avx2, "Haswell"},
        {"Nehalem", &cpu_avx2, "Haswell"},
        {"Sandybridge", &cpu_avx512, "SkylakeX"},
        {"Atom", &cpu_avx2, "Haswell"},
        {"Barcelona", &cpu_zen, "Zen"},
        {"Opteron_SSE3", &cpu_zen, "Zen"},
        {"Piledriver", &cpu_zen, "Zen"},
        {"Nano", &cpu_avx2, "Haswell"},
        {"Sandybridge", &cpu_old, NULL}, /* a Sandy Bridge */
        {"Bulldozer", &cpu_old, NULL},   /* a Bulldozer */
        /* Chosen with AVX2: OpenBLAS knows best. */
        {"Haswell", &cpu_avx2, NULL},
        {"Haswell", &cpu_avx512, NULL},
        {"Zen", &cpu_zen, NULL},
        {"Zen", &cpu_zen4, NULL},
        {"Excavator", &cpu_zen, NULL},
        {"SkylakeX", &cpu_avx512, NULL},
        {"Cooperlake", &cpu_avx512, NULL},
        {"SapphireRapids", &cpu_avx512, NULL},
        /* Names of other libraries and processors. */
        {"neoversen1", &cpu_old, NULL},
        {"Unknown", &cpu_avx512, NULL},
        {"", &cpu_avx512, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *wanted = blas_kernels_wanted(rows[i].kernels, rows[i].cpu);
        if (rows[i].wanted == NULL) {
            assert_null(wanted);
        } else {
            assert_non_null(wanted);
            assert_string_equal(wanted, rows[i].wanted);
        }
    }
}

/* What is wanted is never itself wanted to be replaced: nothing starts again for ever. */
static void test_wanted_is_final(void **state)
{
    (void)state;
    static const struct blas_cpu *const cpus[] = {&cpu_avx2, &cpu_avx512, &cpu_zen, &cpu_zen4};
    for (size_t i = 0; i < sizeof cpus / sizeof cpus[0]; i++) {
        const char *wanted = blas_kernels_wanted("Prescott", cpus[i]);
        assert_non_null(wanted);
        assert_null(blas_kernels_wanted(wanted, cpus[i]));
    }
}

/* Who has set the variable has chosen: this program would start anew, and never come here. */
static void test_chosen_by_hand(void **state)
{
    (void)state;
    char *argv[] = {NULL};
    assert_int_equal(setenv("OPENBLAS_CORETYPE", "Prescott", 1), 0);
    blas_kernels_choose(argv);
    assert_string_equal(getenv("OPENBLAS_CORETYPE"), "Prescott");
    assert_true(blas_kernels_name()[0] != '\0');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wanted),
        cmocka_unit_test(test_wanted_is_final),
        cmocka_unit_test(test_chosen_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
