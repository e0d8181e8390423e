/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the changes of a job's file as lines, wrapped to the terminal. */
#include "cli/text_changes.h"

#include <inttypes.h>
#include <stdbool.h>

#include "cli/terminal.h"
#include "os/chrono.h"

static void one(const Gradus__V1__JobChange *c, bool first, size_t columns, struct buf *out)
{
    char when[40];
    struct buf line = {0};
    (void)chrono_format(c->time_ms, when, sizeof when);
    buf_printf(&line, "%-11s ", first ? "changed" : "");
    if (c->version == UINT64_MAX) {
        buf_printf(&line, "%s, from its next start on:", when);
    } else {
        buf_printf(&line, "%s, from step %" PRIu64 " on:", when, c->step);
    }
    for (size_t i = 0; i < c->n_sets; i++) {
        buf_printf(&line, " %s", c->sets[i]);
    }
    if (c->by[0] != '\0') {
        buf_printf(&line, " (by %s)", c->by);
    }
    terminal_wrap(buf_str(&line), columns, out);
    buf_add_char(out, '\n');
    buf_release(&line);
}

void text_changes(const Gradus__V1__Job *job, size_t columns, struct buf *out)
{
    for (size_t i = 0; i < job->n_changes; i++) {
        one(job->changes[i], i == 0, columns, out);
    }
}
