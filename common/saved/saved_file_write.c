/* SPDX-License-Identifier: Apache-2.0 */
/* Variables and tables by common/checkpoint, with the notes of all that belongs to them. */
#include <stdlib.h>

#include "base/mem.h"
#include "saved/saved_file.h"
#include "saved/saved_notes.h"
#include "saved/saved_tables.h"

/* Rows of tables are written as they read, which the job file says how to find. */
int saved_file_write(struct checkpoint *c, const char *path, bool average, bool bare,
                     const char *out_path, struct err *less, struct err *err)
{
    struct saved_about about;
    struct saved_notes notes = {0};
    struct job_spec spec = {0};
    struct saved_tables tables = {0};
    int rc = 0;
    *less = (struct err){0};
    saved_about_checkpoint(c, &about);
    if (checkpoint_manifest(c)->table_count > 0) {
        rc = saved_job_read(&about, path, NULL, 0, &spec, err);
        rc = rc != 0 ? rc : saved_tables_open(&tables, c, &spec, err);
    }
    if (rc == 0 && !bare) { /* A job file that cannot be read here is in the file all the same. */
        (void)saved_note_all(&notes, c, path, average, less);
    }
    struct safetensors_meta *meta = mem_new(notes.count + 1, sizeof *meta);
    for (size_t i = 0; i < notes.count; i++) {
        meta[i] = (struct safetensors_meta){.key = notes.items[i][0], .value = notes.items[i][1]};
    }
    rc = rc != 0 ? rc
                 : checkpoint_export_described(c, average ? "average" : NULL, out_path, meta,
                                               notes.count, err);
    free(meta);
    saved_notes_release(&notes);
    saved_tables_release(&tables);
    job_spec_release(&spec);
    return rc;
}
