/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at the processor, compares with what OpenBLAS has chosen, and starts the program again with
 * OPENBLAS_CORETYPE where that is worth it. */
#include "tensor/blas_kernels.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cblas.h>

#define VARIABLE "OPENBLAS_CORETYPE"

/* Kernels of OpenBLAS for x86-64 without AVX2. On processors that have it, OpenBLAS chooses one of
 * these only when it does not know the processor. */
static const char *const without_avx2[] = {
    "Katmai",    "Coppermine", "Northwood", "Prescott",    "Banias",      "Atom",    "Core2",
    "Penryn",    "Dunnington", "Nehalem",   "Sandybridge", "Athlon",      "Opteron", "Opteron_SSE3",
    "Barcelona", "Bobcat",     "Bulldozer", "Piledriver",  "Steamroller", "Nano",
};

const char *blas_kernels_wanted(const char *kernels, const struct blas_cpu *cpu)
{
    bool poor = false;
    for (size_t i = 0; i < sizeof without_avx2 / sizeof without_avx2[0]; i++) {
        poor = poor || strcmp(kernels, without_avx2[i]) == 0;
    }
    if (!poor || !cpu->avx2) {
        return NULL;
    }
    if (cpu->avx512) {
        return "SkylakeX";
    }
    return cpu->amd ? "Zen" : "Haswell";
}

static struct blas_cpu this_cpu(void)
{
#ifdef __x86_64__
    __builtin_cpu_init();
    return (struct blas_cpu){
        .amd = __builtin_cpu_is("amd"),
        .avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
        .avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512vl"),
    };
#else
    return (struct blas_cpu){0};
#endif
}

const char *blas_kernels_name(void)
{
    return openblas_get_corename();
}

const char *blas_kernels_missed(void)
{
    const struct blas_cpu cpu = this_cpu();
    return blas_kernels_wanted(blas_kernels_name(), &cpu);
}

/* Whether executing the file of this process again starts this program: not when the dynamic loader
 * was started by hand with the program as its argument, since the file is the loader then. And
 * whether the library asks for the variable: one that was built for a single processor does not. */
static bool can_choose(void)
{
    return getauxval(AT_BASE) != 0 && strstr(openblas_get_config(), "DYNAMIC_ARCH") != NULL;
}

void blas_kernels_choose(char **argv)
{
    const char *set = getenv(VARIABLE);
    const char *wanted = blas_kernels_missed();
    if ((set != NULL && set[0] != '\0') || wanted == NULL || !can_choose()) {
        return;
    }
    /* By its path: after execv("/proc/self/exe") the process would be called "exe" in ps and top.
     */
    char path[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0 || setenv(VARIABLE, wanted, 1) != 0) {
        return;
    }
    path[n] = '\0';
    (void)execv(path, argv);
    (void)unsetenv(VARIABLE); /* so that children may try */
}
