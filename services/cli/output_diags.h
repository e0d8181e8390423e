/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of a command for programs: JSON. */
#ifndef GRADUS_CLI_OUTPUT_DIAGS_H
#define GRADUS_CLI_OUTPUT_DIAGS_H

#include "base/buf.h"
#include "config/diag.h"

/* {"file", "status", "errors": [{"file", "line", "column", "key", "message"}, …]}; a file that is
 * "" is null. */
void output_diags_json(const char *file, const char *status, const struct diags *diags,
                       struct buf *out);

#endif
