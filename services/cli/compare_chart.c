/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/compare_chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

/* Pixels. */
#define WIDTH 560
#define HEIGHT 300
#define LEFT 62
#define RIGHT 12
#define TOP 34
#define BOTTOM 44
#define TICKS 5
#define COLORS 8

struct range {
    double low, high, step;
};

static const char *const style =
    "<style>text{font:12px system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:#222}"
    ".cb{fill:#fff}.ct{font-weight:600}.cm{fill:#666;font-size:11px}.cr{text-anchor:end}"
    ".cc{text-anchor:middle}.cg{stroke:#dee2e6;stroke-width:1}.cl{fill:none;stroke-width:2}"
    ".ck0{stroke:#1f77b4;fill:#1f77b4}.ck1{stroke:#ff7f0e;fill:#ff7f0e}"
    ".ck2{stroke:#2ca02c;fill:#2ca02c}.ck3{stroke:#d62728;fill:#d62728}"
    ".ck4{stroke:#9467bd;fill:#9467bd}.ck5{stroke:#8c564b;fill:#8c564b}"
    ".ck6{stroke:#e377c2;fill:#e377c2}.ck7{stroke:#17becf;fill:#17becf}.cl{fill:none}"
    "@media(prefers-color-scheme:dark){text{fill:#e6e6e6}.cb{fill:#16191d}.cm{fill:#9aa0a6}"
    ".cg{stroke:#343a40}}</style>\n";

void chart_text(const char *s, struct buf *out)
{
    const size_t n = 4 * strlen(s) + 1; /* each byte as \xNN */
    char *shown = mem_new(n, 1);
    text_utf8(s, shown, n);
    text_plain(shown, strlen(shown));
    for (const char *c = shown; *c != '\0'; c++) {
        const char *entity = *c == '&'   ? "&amp;"
                             : *c == '<' ? "&lt;"
                             : *c == '>' ? "&gt;"
                             : *c == '"' ? "&quot;"
                                         : NULL;
        if (entity != NULL) {
            buf_add_str(out, entity);
        } else {
            buf_add_char(out, *c);
        }
    }
    free(shown);
}

static bool is_finite(const struct chart_point *p)
{
    return isfinite(p->x) && isfinite(p->y);
}

/* A range with round ends around all values of one kind; low >= high: there are none. */
static struct range range_of(const struct chart *c, bool of_y)
{
    struct range r = {INFINITY, -INFINITY, 1};
    for (size_t i = 0; i < c->line_count; i++) {
        for (size_t k = 0; k < c->lines[i].count; k++) {
            const struct chart_point *p = &c->lines[i].points[k];
            const double v = of_y ? p->y : p->x;
            r.low = is_finite(p) && v < r.low ? v : r.low;
            r.high = is_finite(p) && v > r.high ? v : r.high;
        }
    }
    if (r.low > r.high) {
        return r;
    }
    if (r.high - r.low < 1e-12 * fabs(r.high) || r.high - r.low <= 0) {
        r.high = r.low + (r.low == 0 ? 1 : fabs(r.low));
    }
    const double rough = (r.high - r.low) / TICKS, ten = pow(10, floor(log10(rough)));
    r.step = rough < 1.5 * ten   ? ten
             : rough < 3.5 * ten ? 2 * ten
             : rough < 7.5 * ten ? 5 * ten
                                 : 10 * ten;
    r.low = floor(r.low / r.step) * r.step;
    r.high = ceil(r.high / r.step) * r.step;
    return r;
}

static double x_of(const struct range *r, double x)
{
    return LEFT + (x - r->low) / (r->high - r->low) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct range *r, double y)
{
    return HEIGHT - BOTTOM - (y - r->low) / (r->high - r->low) * (HEIGHT - TOP - BOTTOM);
}

static void add_grid(const struct chart *c, const struct range *x, const struct range *y,
                     struct buf *out)
{
    for (int i = 0; y->low + i * y->step <= y->high + y->step / 2; i++) {
        const double v = y->low + i * y->step, at = y_of(y, v);
        buf_printf(out,
                   "<path class=\"cg\" d=\"M%d %.1fH%d\"/><text class=\"cm cr\" x=\"%d\" "
                   "y=\"%.1f\">%.4g</text>",
                   LEFT, at, WIDTH - RIGHT, LEFT - 6, at + 4, fabs(v) < y->step / 2 ? 0 : v);
    }
    for (int i = 0; x->low + i * x->step <= x->high + x->step / 2; i++) {
        const double v = x->low + i * x->step;
        buf_printf(out, "<text class=\"cm cc\" x=\"%.1f\" y=\"%d\">%.4g</text>", x_of(x, v),
                   HEIGHT - BOTTOM + 16, fabs(v) < x->step / 2 ? 0 : v);
    }
    buf_printf(out, "<text class=\"cm cc\" x=\"%d\" y=\"%d\">", (LEFT + WIDTH - RIGHT) / 2,
               HEIGHT - 10);
    chart_text(c->x_label, out);
    buf_printf(out, "</text><text class=\"cm\" x=\"%d\" y=\"%d\">", 8, TOP - 8);
    chart_text(c->y_label, out);
    buf_add_str(out, "</text>\n");
}

static void add_line(const struct chart *c, size_t i, const struct range *x, const struct range *y,
                     struct buf *out)
{
    const struct chart_line *l = &c->lines[i];
    const char *command = "M";
    buf_printf(out, "<path class=\"cl ck%zu\" d=\"", i % COLORS);
    for (size_t k = 0; k < l->count; k++) {
        if (is_finite(&l->points[k])) {
            buf_printf(out, "%s%.1f %.1f", command, x_of(x, l->points[k].x),
                       y_of(y, l->points[k].y));
            command = "L";
        }
    }
    buf_add_str(out, "\"/>");
    for (size_t k = 0; k < l->count && l->count <= 40; k++) {
        if (is_finite(&l->points[k])) {
            buf_printf(out, "<circle class=\"ck%zu\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"><title>",
                       i % COLORS, x_of(x, l->points[k].x), y_of(y, l->points[k].y));
            chart_text(l->name, out);
            buf_printf(out, ": %.4g, %.6g</title></circle>", l->points[k].x, l->points[k].y);
        }
    }
}

static void add_names(const struct chart *c, struct buf *out)
{
    for (size_t i = 0; i < c->line_count; i++) {
        const int y = TOP + 6 + 17 * (int)i;
        buf_printf(out, "<path class=\"cl ck%zu\" d=\"M%d %dh16\"/><text x=\"%d\" y=\"%d\">",
                   i % COLORS, WIDTH - 150, y, WIDTH - 128, y + 4);
        chart_text(c->lines[i].name, out);
        buf_add_str(out, "</text>");
    }
}

void chart_svg(const struct chart *c, struct buf *out)
{
    const struct range x = range_of(c, false), y = range_of(c, true);
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
               "height=\"%d\" role=\"img\">\n<title>",
               WIDTH, HEIGHT, WIDTH, HEIGHT);
    chart_text(c->title, out);
    buf_printf(out, "</title>%s<rect class=\"cb\" width=\"%d\" height=\"%d\"/>", style, WIDTH,
               HEIGHT);
    buf_printf(out, "<text class=\"ct cc\" x=\"%d\" y=\"18\">", WIDTH / 2);
    chart_text(c->title, out);
    buf_add_str(out, "</text>\n");
    if (x.low > x.high) {
        buf_printf(out, "<text class=\"cm cc\" x=\"%d\" y=\"%d\">nothing was measured</text>",
                   WIDTH / 2, HEIGHT / 2);
    } else {
        add_grid(c, &x, &y, out);
        for (size_t i = 0; i < c->line_count; i++) {
            add_line(c, i, &x, &y, out);
        }
        add_names(c, out);
    }
    buf_add_str(out, "</svg>\n");
}
