/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the text that the manifest has. */
#include "saved/saved_job.h"

#include <string.h>

int saved_job_read(const struct checkpoint *c, const char *path, const char *const *sets,
                   size_t set_count, struct job_spec *spec, struct err *err)
{
    const char *text = checkpoint_manifest(c)->text;
    struct diags diags = {0};
    int rc = job_spec_parse(text, strlen(text), path, sets, set_count, spec, &diags);
    if (rc != 0) {
        struct buf messages = {0};
        diags_format(&diags, &messages);
        err_set(err, rc, "%s", buf_str(&messages));
        buf_release(&messages);
    }
    diags_release(&diags);
    return rc;
}
