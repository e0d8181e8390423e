/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of a job and its place in the queue, as text. */
#ifndef GRADUS_CLI_TEXT_QUEUE_H
#define GRADUS_CLI_TEXT_QUEUE_H

#include "base/buf.h"
#include "gradus/v1/jobs.pb-c.h"

/* Lines for `gradus status`; what is not known, or as it always is, has none. */
void text_queue(const Gradus__V1__Job *job, struct buf *out);
/* "of ann  priority 5  place 2" for `gradus list`; appended behind two blanks if there is
 * something before it. */
void text_queue_brief(const Gradus__V1__Job *job, struct buf *out);

#endif
