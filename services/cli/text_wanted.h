/* SPDX-License-Identifier: Apache-2.0 */
/* How many workers a job wants, and how few will do. */
#ifndef GRADUS_CLI_TEXT_WANTED_H
#define GRADUS_CLI_TEXT_WANTED_H

#include "base/buf.h"
#include "gradus/v1/jobs.pb-c.h"

/* A line of `gradus status`, for a job that has fewer workers than it wants; nothing for others. */
void text_wanted(const Gradus__V1__Job *job, struct buf *out);

#endif
