/* SPDX-License-Identifier: Apache-2.0 */
/* A chart of lines as SVG, for several runs beside each other. */
#ifndef GRADUS_CLI_COMPARE_CHART_H
#define GRADUS_CLI_COMPARE_CHART_H

#include <stddef.h>

#include "base/buf.h"

struct chart_point {
    double x, y;
};
struct chart_line {
    const char *name;
    struct chart_point *points; /* in the order of x; what is not finite is left out */
    size_t count;
};
struct chart {
    const char *title, *x_label, *y_label;
    const struct chart_line *lines;
    size_t line_count;
};

/* Appends one <svg> of its own; a chart without points says so. */
void chart_svg(const struct chart *c, struct buf *out);

/* Appends @s as text of XML and HTML: what is no UTF-8 and control characters are shown. */
void chart_text(const char *s, struct buf *out);

#endif
