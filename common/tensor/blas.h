/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products; the only caller of OpenBLAS. Matrices are row-major and packed. */
#ifndef GRADUS_TENSOR_BLAS_H
#define GRADUS_TENSOR_BLAS_H

#include <stdbool.h>
#include <stddef.h>

/* Threads of this process's BLAS, at least 1. */
void blas_set_threads(int threads);

/* c [m × n] = op(a) · op(b) + beta · c, where op(a) is [m × k] and op(b) [k × n]; with transpose_a,
 * a is stored [k × m], with transpose_b, b is stored [n × k]. With beta 0, c is not read.
 * m, n and k are at most INT_MAX. Equal inputs give equal bits, wherever they lie in memory. */
void blas_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, const float *a,
               const float *b, float beta, float *c);
/* Rows [first, first + count) of c [m × n] = transpose(a) · b, a stored [k × m] and b [k × n]; the
 * other rows of c are left alone. */
void blas_gemm_rows(size_t first, size_t count, size_t m, size_t n, size_t k, const float *a,
                    const float *b, float *c);

#endif
