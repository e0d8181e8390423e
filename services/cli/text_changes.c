/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the changes of a job's file as lines, wrapped to the terminal; and the same for programs.
 */
#include "cli/text_changes.h"

#include <inttypes.h>

#include "base/chrono.h"
#include "cli/terminal.h"

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

json_t *text_changes_json(const Gradus__V1__Job *job)
{
    json_t *list = json_array();
    for (size_t i = 0; i < job->n_changes; i++) {
        const Gradus__V1__JobChange *c = job->changes[i];
        json_t *change = json_object(), *sets = json_array();
        const bool starts = c->version == UINT64_MAX;
        for (size_t k = 0; k < c->n_sets; k++) {
            json_append(sets, json_text(c->sets[k]));
        }
        json_put(change, "time_ms", json_integer(c->time_ms));
        json_put(change, "by", json_text(c->by));
        json_put(change, "step", starts ? json_null() : json_integer((json_int_t)c->step));
        json_put(change, "version", starts ? json_null() : json_integer((json_int_t)c->version));
        json_put(change, "sets", sets);
        json_append(list, change);
    }
    return list;
}
