/* SPDX-License-Identifier: Apache-2.0 */
/* Subnormal floats count as zero, in every thread of our programs.
 *
 * A subnormal float (below 1.2e-38, FLT_MIN) has lost digits, and processors compute with it in
 * microcode: an operation takes some 150 cycles instead of a few. Training makes them by the
 * thousand and keeps them: a mean that forgets (Adam's m) of a parameter whose gradient has become
 * zero shrinks until rounding holds it at a few times the least float, for good. So our programs
 * flush them: results that would be subnormal are zero, and subnormal operands count as zero. The
 * same holds for doubles (below 2.2e-308). Copies keep their bits: checkpoints are read as they
 * are.
 *
 * The mode belongs to a thread, and a new thread takes that of the thread which makes it. So it is
 * set in the first thread of a program before any other exists: an entry of .preinit_array, which
 * runs before the constructors of shared libraries, for OpenBLAS starts its threads in one. Linkers
 * refuse such an entry in a shared library, which is right: the process of somebody who loads
 * libgradus is theirs. execve() takes the mode away, so worker programs have what they want.
 *
 * x86-64 (MXCSR: FTZ, DAZ) and AArch64 (FPCR: FZ); elsewhere nothing is done. */
#ifndef GRADUS_BASE_FLOAT_MODE_H
#define GRADUS_BASE_FLOAT_MODE_H

#include <stdbool.h>

/* First of all in main(). A program that calls this has been in the mode since before its
 * libraries' constructors; the call says so, and brings that entry into the program. */
void float_mode_flush(void);

/* Does the calling thread count subnormal floats as zero? */
bool float_mode_flushes(void);

#endif
