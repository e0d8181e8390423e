/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the reason of a job's state, which may have lines: those of a program's traceback. */
#ifndef GRADUS_CLI_TEXT_REASON_H
#define GRADUS_CLI_TEXT_REASON_H

#include "base/buf.h"
#include "gradus/v1/jobs.pb-c.h"

/* Append @before and the reason, if there is one; its lines as one, with blanks between them. */
void text_reason_line(const Gradus__V1__Job *job, const char *before, struct buf *out);
/* The same with its lines as they are, the second and later ones after @indent blanks. */
void text_reason(const Gradus__V1__Job *job, const char *before, size_t indent, struct buf *out);

#endif
