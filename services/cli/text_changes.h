/* SPDX-License-Identifier: Apache-2.0 */
/* What clients changed of a job, as text. */
#ifndef GRADUS_CLI_TEXT_CHANGES_H
#define GRADUS_CLI_TEXT_CHANGES_H

#include "base/buf.h"
#include "gradus/v1/jobs.pb-c.h"

/* Lines for `gradus status`, oldest first: when, from which step on, what, and who asked for it. */
void text_changes(const Gradus__V1__Job *job, size_t columns, struct buf *out);

#endif
