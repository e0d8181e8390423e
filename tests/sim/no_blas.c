/* SPDX-License-Identifier: Apache-2.0 */
/* The two functions of OpenBLAS that layers call, which nobody calls in a simulation. Without the
 * library a schedule takes a sixth less: libquadmath, which it needs, extends printf(), and glibc
 * then takes a slower way through every format. */
#include <cblas.h>
#include <stdlib.h>

void openblas_set_num_threads(int threads)
{
    (void)threads;
}

void cblas_sgemm(OPENBLAS_CONST enum CBLAS_ORDER order, OPENBLAS_CONST enum CBLAS_TRANSPOSE trans_a,
                 OPENBLAS_CONST enum CBLAS_TRANSPOSE trans_b, OPENBLAS_CONST blasint m,
                 OPENBLAS_CONST blasint n, OPENBLAS_CONST blasint k, OPENBLAS_CONST float alpha,
                 OPENBLAS_CONST float *a, OPENBLAS_CONST blasint lda, OPENBLAS_CONST float *b,
                 OPENBLAS_CONST blasint ldb, OPENBLAS_CONST float beta, float *c,
                 OPENBLAS_CONST blasint ldc)
{
    (void)order, (void)trans_a, (void)trans_b, (void)m, (void)n, (void)k, (void)alpha;
    (void)a, (void)lda, (void)b, (void)ldb, (void)beta, (void)c, (void)ldc;
    abort();
}
