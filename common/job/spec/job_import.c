/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the file of model.onnx as data files are read: below data.dir, within the roots of the
 * process, from a directory or an object store. */
#include <stdlib.h>

#include "data/beside_file.h"
#include "data/whole_file.h"
#include "graph/model_import.h"
#include "job/spec/job_spec.h"
#include "storage/storage.h"

#define FILE_BYTES_MAX ((size_t)INT32_MAX) /* the limit of protobuf */

int job_spec_import(struct job_spec *spec, const struct data_roots *roots, struct err *err)
{
    if (!model_is_imported(&spec->model) || spec->model.net != NULL) {
        return 0;
    }
    struct buf bytes = {0};
    struct err local = {0};
    err = err == NULL ? &local : err; /* wrapping needs one */
    char *path = storage_join(spec->data.dir, spec->model.onnx);
    struct beside_file *b = beside_file_new(path, roots);
    int rc = whole_file_read(path, roots, FILE_BYTES_MAX, &bytes, err);
    if (rc == 0) {
        const struct model_import_file file = {bytes.data, bytes.len, beside_file_read, b};
        rc = model_import(&spec->model, &file, err);
    }
    beside_file_free(b);
    free(path);
    buf_release(&bytes);
    return rc == 0 ? 0 : err_wrap(err, "model.onnx %.200s", spec->model.onnx);
}
