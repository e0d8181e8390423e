/* SPDX-License-Identifier: Apache-2.0 */
/* What `gradus compare` writes: one job in several modes beside each other, as a page that needs
 * nothing else and as Markdown with its pictures in files. */
#ifndef GRADUS_CLI_COMPARE_REPORT_H
#define GRADUS_CLI_COMPARE_REPORT_H

#include "cli/compare_mode.h"
#include "gradus/v1/jobs.pb-c.h"

struct compare_run {
    struct compare_mode mode;
    const Gradus__V1__Job *job;                /* as it ended; borrowed, as is what follows */
    const Gradus__V1__TraceJobResponse *trace; /* NULL: there is none */
};

struct compare_report {
    const char *job_file;
    const struct compare_run *runs;
    size_t count;
    size_t workers, ps;
    double pace, straggler; /* of struct compare_pace */
    unsigned processors;
    int64_t wall_ms; /* Unix time */
};

/* Writes index.html, README.md and pictures into @dir, which is made when missing. */
int compare_report_write(const struct compare_report *r, const char *dir, struct err *err);
/* The table alone, as text with columns. */
void compare_report_text(const struct compare_report *r, struct buf *out);

#endif
