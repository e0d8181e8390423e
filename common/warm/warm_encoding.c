/* SPDX-License-Identifier: Apache-2.0 */
/* Takes the encoding out of a checkpoint, and holds the data section of its job file against that
 * of the job: what was measured fits the keys that it was measured for. */
#include "warm/warm_encoding.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "saved/saved_job.h"
#include "warm/warm_kinds.h"

#define LIST_BYTES_MAX 400 /* of declared columns */

/* Keys beside columns that decide what a record becomes, and not only which records there are. */
static const char *const keys[] = {"label", "missing",     "categorical",
                                   "scale", "first_index", "label_scale"};

static void describe_columns(const struct data_spec *data, struct buf *out)
{
    for (size_t i = 0; i < data->column_count; i++) {
        buf_add_str(out, i == 0 ? "" : ", ");
        data_column_describe(&data->columns[i], out);
    }
    buf_add_str(out, data->column_count == 0 ? "none" : "");
}

static void add_difference(const char *key, const struct buf *here, const struct buf *there,
                           struct buf *out)
{
    const char *a = buf_str(here), *b = buf_str(there);
    if (strcmp(a, b) != 0) {
        buf_printf(out, "%sdata.%s: %.*s here, %.*s there", out->len > 0 ? "; " : "", key,
                   LIST_BYTES_MAX, a[0] == '\0' ? "nothing" : a, LIST_BYTES_MAX,
                   b[0] == '\0' ? "nothing" : b);
    }
}

static int compare(const struct data_spec *ours, const struct data_spec *theirs, struct err *err)
{
    struct buf here = {0}, there = {0}, differ = {0};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const struct field *f = field_find(data_fields, data_field_count, keys[i]);
        buf_reset(&here);
        buf_reset(&there);
        field_format(f, ours, &here);
        field_format(f, theirs, &there);
        add_difference(keys[i], &here, &there, &differ);
    }
    buf_reset(&here);
    buf_reset(&there);
    describe_columns(ours, &here);
    describe_columns(theirs, &there);
    add_difference("columns", &here, &there, &differ);
    const int rc = differ.len == 0
                       ? 0
                       : err_set(err, ERR_INVALID,
                                 "its records were encoded otherwise: %s "
                                 "('from.encoding: measure' measures those of this job)",
                                 buf_str(&differ));
    buf_release(&here);
    buf_release(&there);
    buf_release(&differ);
    return rc;
}

static int take(const struct job_spec *spec, const struct checkpoint *c, const char *path,
                char **out, struct err *err)
{
    struct saved_about about;
    struct job_spec saved = {0};
    saved_about_checkpoint(c, &about);
    if (about.encoding == NULL) {
        return spec->from.encoding == FROM_ENCODING_AUTO
                   ? 0
                   : err_set(err, ERR_INVALID,
                             "it does not say how its records were encoded: they were those of a "
                             "program, or it is too long; allowed: 'encoding: measure'");
    }
    int rc = saved_job_read(&about, path, NULL, 0, &saved, err);
    rc = rc != 0 ? rc : compare(&spec->data, &saved.data, err);
    *out = rc == 0 ? mem_strdup(about.encoding) : NULL;
    job_spec_release(&saved);
    return rc;
}

int warm_encoding_read(const struct job_spec *spec, const struct data_roots *roots, char **out,
                       struct err *err)
{
    struct warm_source source = {0};
    struct err local = {0};
    *out = NULL;
    int rc = warm_source_open(&spec->from, spec->data.dir, roots, &source, err);
    if (rc != 0) {
        return rc;
    }
    rc = take(spec, warm_checkpoint_of(&source), source.path, out, &local);
    rc = rc == 0 ? 0
                 : err_set(err, rc, "from.encoding: checkpoint %.300s: %s", source.path, local.msg);
    warm_source_close(&source);
    return rc;
}
