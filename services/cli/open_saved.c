/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of before may be read against other data than they were trained on; only the user can
 * know. */
#include "cli/open_saved.h"

#include "cli/cli.h"

int open_saved(const struct saved_model_request *request, struct saved_model **out, struct err *err)
{
    int rc = saved_model_open(request, out, err);
    if (rc == 0 && saved_model_measured_anew(*out)) {
        const struct data_spec *data = &saved_model_spec(*out)->data;
        cli_note(
            "warning: %s keeps nothing of what was measured on its train data; it was measured "
            "again on %s in %s, which have to be the same",
            request->path, data->train.file, data->dir);
    }
    return rc;
}
