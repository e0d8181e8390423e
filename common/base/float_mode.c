/* SPDX-License-Identifier: Apache-2.0 */
#include "base/float_mode.h"

#include <stdint.h>

/* Sanitizers are not there yet when the program begins. */
#if defined(__clang__)
#define UNCHECKED __attribute__((disable_sanitizer_instrumentation))
#else
#define UNCHECKED __attribute__((no_sanitize("address", "thread", "undefined")))
#endif

#if defined(__x86_64__)
#include <xmmintrin.h>

#define FLUSH 0x8040U /* FTZ: results, DAZ: operands */

UNCHECKED static uint64_t mode(void)
{
    return _mm_getcsr();
}

UNCHECKED static void set_mode(uint64_t bits)
{
    _mm_setcsr((unsigned)bits);
}
#elif defined(__aarch64__)
#define FLUSH (UINT64_C(1) << 24) /* FZ: both */

UNCHECKED static uint64_t mode(void)
{
    uint64_t bits;
    __asm__ volatile("mrs %0, fpcr" : "=r"(bits));
    return bits;
}

UNCHECKED static void set_mode(uint64_t bits)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(bits));
}
#else
#define FLUSH 1U

UNCHECKED static uint64_t mode(void)
{
    return 0;
}

UNCHECKED static void set_mode(uint64_t bits)
{
    (void)bits;
}
#endif

UNCHECKED void float_mode_flush(void)
{
    set_mode(mode() | FLUSH);
}

bool float_mode_flushes(void)
{
    return (mode() & FLUSH) == FLUSH;
}

__attribute__((section(".preinit_array"),
               used)) static void (*const first)(void) = float_mode_flush;
