/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by OpenBLAS's sgemm, whose sizes are ints. Products with an empty side are
 * answered here, without the library. */
#include "tensor/blas.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#include <cblas.h>

void blas_set_threads(int threads)
{
    openblas_set_num_threads(threads < 1 ? 1 : threads);
}

void blas_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, const float *a,
               const float *b, float beta, float *c)
{
    assert(m <= INT_MAX && n <= INT_MAX && k <= INT_MAX);
    if (m == 0 || n == 0) {
        return;
    }
    if (k == 0) {
        if (beta == 0.0F) {
            memset(c, 0, m * n * sizeof *c);
        }
        return;
    }
    if (m == 1 && !transpose_a && !transpose_b) { /* sgemm would copy b first */
        if (beta == 0.0F) {
            memset(c, 0, n * sizeof *c); /* it is not read */
        }
        cblas_sgemv(CblasRowMajor, CblasTrans, (blasint)k, (blasint)n, 1.0F, b, (blasint)n, a, 1,
                    beta == 0.0F ? 1.0F : beta, c, 1);
        return;
    }
    cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                transpose_b ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, 1.0F,
                a, (blasint)(transpose_a ? m : k), b, (blasint)(transpose_b ? k : n), beta, c,
                (blasint)n);
}

void blas_gemm_rows(size_t first, size_t count, size_t m, size_t n, size_t k, const float *a,
                    const float *b, float *c)
{
    assert(m <= INT_MAX && n <= INT_MAX && k <= INT_MAX && first <= m && count <= m - first);
    if (count == 0 || n == 0) {
        return;
    }
    if (k == 0) {
        memset(c + first * n, 0, count * n * sizeof *c);
        return;
    }
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (blasint)count, (blasint)n, (blasint)k,
                1.0F, a + first, (blasint)m, b, (blasint)n, 0.0F, c + first * n, (blasint)n);
}
