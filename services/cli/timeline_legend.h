/* SPDX-License-Identifier: Apache-2.0 */
/* What the colours of a timeline's picture mean, and how stale its gradients were. */
#ifndef GRADUS_CLI_TIMELINE_LEGEND_H
#define GRADUS_CLI_TIMELINE_LEGEND_H

#include "base/buf.h"
#include "timeline/timeline.h"

#define TIMELINE_LEGEND_HEIGHT 118 /* pixels, below the lanes */
#define TIMELINE_COLORS 5

/* Draw it, its upper left corner at (@x, @y). */
void timeline_legend(const struct timeline *t, double x, double y, uint64_t stalest,
                     struct buf *out);

/* 0 for a gradient that is not stale, and up to TIMELINE_COLORS - 1 for the stalest. */
unsigned timeline_color(uint64_t staleness, uint64_t stalest);
/* "12.5 ms", in the unit in which one says @scale; returns @out. */
const char *timeline_time(int64_t ns, int64_t scale, char *out, size_t n);

#endif
