/* SPDX-License-Identifier: Apache-2.0 */
/* What clients changed of a job, as text. */
#ifndef GRADUS_CLI_TEXT_CHANGES_H
#define GRADUS_CLI_TEXT_CHANGES_H

#include "base/buf.h"
#include "gradus/v1/jobs.pb-c.h"
#include "json/json_write.h"

/* Lines for `gradus status`, oldest first: when, from which step on, what, and who asked for it. */
void text_changes(const Gradus__V1__Job *job, size_t columns, struct buf *out);
/* Likewise as an array of objects; step and version null: from its next start on. */
json_t *text_changes_json(const Gradus__V1__Job *job);

#endif
