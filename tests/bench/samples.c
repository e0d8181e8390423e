/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/mem.h"

static double cpu_seconds(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

void samples_begin(struct samples *s)
{
    static uint64_t kept[SAMPLES_MAX];
    *s = (struct samples){.ns = kept, .began_ns = chrono_now_ns(), .began_cpu = cpu_seconds()};
}

void samples_add(struct samples *s, uint64_t ns)
{
    s->ns[s->count % SAMPLES_MAX] = ns;
    s->count++;
}

double samples_seconds(const struct samples *s)
{
    return (double)(chrono_now_ns() - s->began_ns) * 1e-9;
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return *x < *y ? -1 : *x > *y;
}

static double at_us(const struct samples *s, size_t kept, double part)
{
    return kept == 0 ? 0 : (double)s->ns[(size_t)((double)(kept - 1) * part)] * 1e-3;
}

void samples_print(struct samples *s)
{
    double seconds = samples_seconds(s);
    double cpu = cpu_seconds() - s->began_cpu;
    size_t kept = s->count < SAMPLES_MAX ? s->count : SAMPLES_MAX;
    qsort(s->ns, kept, sizeof *s->ns, compare);
    (void)printf("{\"ops\": %zu, \"seconds\": %.6f, \"cpu\": %.6f, \"p50\": %.2f, \"p99\": %.2f, "
                 "\"p999\": %.2f, \"least\": %zu, \"most\": %zu}\n",
                 s->count, seconds, cpu, at_us(s, kept, 0.5), at_us(s, kept, 0.99),
                 at_us(s, kept, 0.999), s->least, s->most);
    (void)fflush(stdout);
}

void samples_ready(void)
{
    (void)puts("ready");
    (void)fflush(stdout);
}

bool samples_command(char *word, size_t n, double *seconds)
{
    char line[128];
    if (fgets(line, sizeof line, stdin) == NULL) {
        return false;
    }
    char *space = strchr(line, ' ');
    if (space == NULL || (size_t)(space - line) >= n) {
        return false;
    }
    *space = '\0';
    memcpy(word, line, strlen(line) + 1);
    *seconds = strtod(space + 1, NULL);
    return true;
}

void *samples_touched(size_t bytes)
{
    struct err err;
    char *p = mem_try_aligned(bytes, 1, "a benchmark's buffer", &err);
    if (p == NULL) {
        (void)fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}
