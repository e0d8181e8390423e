/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the text that the manifest, or the metadata of a file, has. */
#include "saved/saved_job.h"

#include <string.h>

void saved_about_checkpoint(const struct checkpoint *c, struct saved_about *out)
{
    const struct manifest *m = checkpoint_manifest(c);
    *out = (struct saved_about){.job = m->job,
                                .text = m->text,
                                .encoding = m->encoding,
                                .model_file = m->model_file,
                                .step = m->step,
                                .epoch = m->epoch};
    for (uint32_t i = 0; i < m->shard_count; i++) {
        const uint64_t version = m->shards[i].version;
        out->version = version > out->version ? version : out->version;
    }
}

int saved_job_read(const struct saved_about *about, const char *path, const char *const *sets,
                   size_t set_count, struct job_spec *spec, struct err *err)
{
    struct diags diags = {0};
    int rc = job_spec_parse(about->text, strlen(about->text), path, sets, set_count, spec, &diags);
    if (rc != 0) {
        struct buf messages = {0};
        diags_format(&diags, &messages);
        err_set(err, rc, "%s", buf_str(&messages));
        buf_release(&messages);
    }
    diags_release(&diags);
    return rc;
}
