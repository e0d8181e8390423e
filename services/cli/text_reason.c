/* SPDX-License-Identifier: Apache-2.0 */
/* The reason of a job's state. It comes from anywhere, a user's program among others: a line of it
 * never begins where one of ours does. */
#include "cli/text_reason.h"

#include <string.h>

#include "base/text.h"

void text_reason_line(const Gradus__V1__Job *job, const char *before, struct buf *out)
{
    if (job->reason[0] == '\0') {
        return;
    }
    buf_add_str(out, before);
    const size_t at = out->len;
    buf_add_str(out, job->reason);
    text_plain(out->data + at, out->len - at);
}

void text_reason(const Gradus__V1__Job *job, const char *before, size_t indent, struct buf *out)
{
    if (job->reason[0] == '\0') {
        return;
    }
    buf_add_str(out, before);
    for (const char *line = job->reason; *line != '\0';) {
        const size_t n = strcspn(line, "\n");
        if (n > 0) {
            if (line != job->reason) {
                buf_add_char(out, '\n');
                buf_add_spaces(out, indent);
            }
            buf_add(out, line, n);
            text_plain(out->data + out->len - n, n);
        }
        line += n + (line[n] == '\n');
    }
}
