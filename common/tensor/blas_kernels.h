/* SPDX-License-Identifier: Apache-2.0 */
/* Which of its kernels OpenBLAS computes with, and better ones where it has chosen poorly.
 *
 * OpenBLAS holds matrix kernels for many processors and chooses among them when it is loaded, by
 * family and model of the processor. A version that is older than the processor does not know it
 * and falls back to kernels of 2004 with SSE3 (Prescott), however many AVX units there are: the
 * matrix products then take three to four times as long, and nothing says so. The environment
 * variable OPENBLAS_CORETYPE overrides the choice, but it has to be there before the library is
 * loaded, so a program can set it for itself only by starting itself again.
 *
 * So main() sets the variable and executes the same file once, before there is anything to lose;
 * that takes 13 ms (decision 46). Loading the library later, by dlopen(), would need a table of
 * functions; a script around the program would be missing where somebody starts the program itself.
 */
#ifndef GRADUS_TENSOR_BLAS_KERNELS_H
#define GRADUS_TENSOR_BLAS_KERNELS_H

#include <stdbool.h>

/* What of a processor, as the operating system lets programs use it, decides about kernels. */
struct blas_cpu {
    bool amd;
    bool avx2;   /* AVX2 and FMA */
    bool avx512; /* AVX-512 F, CD, BW, DQ and VL, which the kernels SkylakeX use */
};

/* First of all in main() of a program that computes: where OpenBLAS has chosen kernels without AVX2
 * for a processor that has it, set OPENBLAS_CORETYPE and execute this program again, with the same
 * arguments, process id, open files and signal mask. Does not return then. Returns when there is
 * nothing to gain, and when it cannot be done (blas_kernels_missed() is not NULL then). A variable
 * that is set and not empty is left alone, so it is done once at most, and whoever does not want it
 * (for a debugger, or for the same kernels on different processors) sets the variable. Child
 * processes inherit the variable. Only on x86-64. */
void blas_kernels_choose(char **argv);

/* The kernels that compute, by OpenBLAS's name of a processor that they were made for: "SkylakeX".
 * A literal of the library. */
const char *blas_kernels_name(void);
/* Better kernels that this processor could compute with; NULL: none. */
const char *blas_kernels_missed(void);

/* The kernels that @cpu should compute with instead of those named @kernels; NULL: these are as
 * good as any, or not known here. */
const char *blas_kernels_wanted(const char *kernels, const struct blas_cpu *cpu);

#endif
