/* SPDX-License-Identifier: Apache-2.0 */
/* What the transfer benchmarks share: commands in, times of single operations out. */
#ifndef GRADUS_TESTS_BENCH_SAMPLES_H
#define GRADUS_TESTS_BENCH_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/chrono.h"

#define SAMPLES_MAX (1U << 20) /* later ones are counted, not kept */

struct samples {
    uint64_t *ns; /* of each operation */
    size_t count;
    uint64_t began_ns;
    double began_cpu; /* seconds, of this process */
    /* Of several clients: what each did at least and at most; most 0: there is one. */
    size_t least, most;
};

void samples_begin(struct samples *s);
void samples_add(struct samples *s, uint64_t ns);
double samples_seconds(const struct samples *s); /* since the beginning */
/* A line of JSON: operations, seconds, CPU seconds of this process, percentiles in µs. Ends @s. */
void samples_print(struct samples *s);

void samples_ready(void); /* the line that says that commands may come */
/* The next "WORD SECONDS" of stdin; false at its end. */
bool samples_command(char *word, size_t n, double *seconds);
/* @bytes whose pages are there. */
void *samples_touched(size_t bytes);

#endif
