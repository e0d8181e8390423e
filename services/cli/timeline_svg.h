/* SPDX-License-Identifier: Apache-2.0 */
/* The picture of a timeline: workers as rows, time to the right, boxes of what they do, and an
 * arrow from each gradient to its update, in the colour of its staleness. One file of SVG 1.1 that
 * needs nothing else, light or dark as its reader is. */
#ifndef GRADUS_CLI_TIMELINE_SVG_H
#define GRADUS_CLI_TIMELINE_SVG_H

#include "base/buf.h"
#include "timeline/timeline.h"

struct timeline_about {
    const char *job, *mode; /* "digits-1", "sync, 4 replicas" */
    const char *when;       /* "2026-11-27 21:04:02 UTC" */
    bool barriers;          /* all wait for each other: a version is a line through all workers */
};

void timeline_svg(const struct timeline *t, const struct timeline_about *about, struct buf *out);

#endif
