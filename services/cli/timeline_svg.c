/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/timeline_svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/compare_chart.h"
#include "cli/timeline_legend.h"

/* All lengths are pixels at the picture's natural size. */
#define LEFT 118  /* names of lanes */
#define PLOT 1000 /* the window */
#define RIGHT 92  /* shares of lanes */
#define TOP 74    /* title and version numbers */
#define GAP 34    /* between workers and shards, where arrows are seen best */
#define STRIP 9   /* above a shard: gradients that wait there */
#define BOX_MIN 0.3
#define NUMBER_WIDTH 7     /* of a digit */
#define STALEST_MAX 100000 /* more is shown as so much */
#define LABEL_WIDTH 13
#define MANY 200 /* arrows: faint, without numbers */

struct drawing {
    const struct timeline *t;
    const struct timeline_about *about;
    struct buf *out;
    double lane, pitch; /* height of a worker's lane, and with what is below it */
    double per_ns;
    uint64_t stalest;
    double labelled; /* where the last number beside an arrow stands */
};

static double x_of(const struct drawing *d, int64_t ns)
{
    double x = (double)ns * d->per_ns;
    return LEFT + (x < 0 ? 0 : x > PLOT ? PLOT : x);
}

/* The upper edge of a lane. */
static double y_of(const struct drawing *d, size_t lane)
{
    size_t workers = d->t->worker_count;
    if (lane < workers) {
        return TOP + (double)lane * d->pitch;
    }
    return TOP + (double)workers * d->pitch + GAP + (double)(lane - workers) * (24 + STRIP + 10) +
           STRIP;
}

static double lane_height(const struct drawing *d, size_t lane)
{
    return lane < d->t->worker_count ? d->lane : 24;
}

static double bottom(const struct drawing *d)
{
    return y_of(d, d->t->lane_count) - STRIP + 2;
}

/* ---- head, lanes, time ---- */

static const char *const style =
    "<style>text{font:12px system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:#222}"
    ".b{fill:#fff}.t{font-size:16px;font-weight:600}.m{fill:#666;font-size:11px}"
    ".n{font-size:10px;fill:#fff;text-anchor:middle}.r{text-anchor:end}.c{text-anchor:middle}"
    ".lane{fill:#f1f3f5}.gone{fill:#f8d7da}.axis{stroke:#adb5bd;stroke-width:1}"
    ".ver{stroke:#495057;stroke-width:1;stroke-dasharray:3 3}"
    ".p0{fill:#f4a261}.p1{fill:#3a6ea5}.p2{fill:#8e6bbf}.p3{fill:#9aa5b1}.p4{fill:#e5e0c8}"
    ".p5{fill:#4c9a6a}.p6{fill:#84c29b}.p7{fill:#b7dcc4}"
    ".a{fill:none;stroke-width:1.4}"
    ".s0{stroke:#2a9d8f;fill:#2a9d8f}.s1{stroke:#e0b000;fill:#e0b000}"
    ".s2{stroke:#f08c00;fill:#f08c00}.s3{stroke:#e8590c;fill:#e8590c}"
    ".s4{stroke:#c92a2a;fill:#c92a2a}.lost{stroke:#c92a2a;fill:#c92a2a}"
    ".a.s0,.a.s1,.a.s2,.a.s3,.a.s4,.a.lost{fill:none}.a.lost,.spare{stroke-dasharray:4 3}"
    "@media(prefers-color-scheme:dark){text{fill:#e6e6e6}.b{fill:#16191d}.m{fill:#9aa0a6}"
    ".lane{fill:#22272e}.gone{fill:#5c2b2f}.p4{fill:#5a5644}.ver{stroke:#adb5bd}}</style>\n";

static void add_head(struct drawing *d)
{
    const double width = LEFT + PLOT + RIGHT, height = bottom(d) + TIMELINE_LEGEND_HEIGHT;
    char duration[48];
    buf_printf(d->out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" "
               "height=\"%.0f\" role=\"img\">\n<title>",
               width, height, width, height);
    chart_text(d->about->job, d->out);
    buf_add_str(d->out, ": what its workers and shards did</title>\n");
    buf_add_str(d->out, style);
    buf_printf(d->out, "<rect class=\"b\" width=\"%.0f\" height=\"%.0f\"/>\n", width, height);
    buf_add_str(d->out, "<text class=\"t\" x=\"12\" y=\"26\">");
    chart_text(d->about->job, d->out);
    buf_add_str(d->out, " · ");
    chart_text(d->about->mode, d->out);
    buf_printf(d->out, "</text>\n<text class=\"m\" x=\"12\" y=\"44\">%s of training, recorded at ",
               timeline_time(d->t->length, d->t->length, duration, sizeof duration));
    chart_text(d->about->when, d->out);
    buf_add_str(d->out, "</text>\n");
}

/* Of a worker how much of the time it computed, of a shard how much it applied. */
static void add_lane(struct drawing *d, size_t i)
{
    const struct timeline_lane *l = &d->t->lanes[i];
    const double y = y_of(d, i), h = lane_height(d, i), text_y = y + h / 2 + 4;
    const bool gone = l->problem[0] != '\0';
    buf_printf(d->out,
               "<rect class=\"%s\" x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"/>"
               "<text class=\"r\"%s x=\"%d\" y=\"%.1f\">",
               gone ? "gone" : "lane", LEFT, y, PLOT, h, h < 12 ? " style=\"font-size:8px\"" : "",
               LEFT - 8, text_y);
    if (l->is_worker || gone) {
        chart_text(l->node, d->out);
    } else {
        buf_printf(d->out, "shard %" PRIu32 ", ", l->shard);
        chart_text(l->node, d->out);
    }
    buf_add_str(d->out, "</text>");
    if (gone) {
        buf_printf(d->out, "<text class=\"m\" x=\"%d\" y=\"%.1f\">", LEFT + 8, text_y);
        chart_text(l->problem, d->out);
        buf_add_str(d->out, "</text>\n");
        return;
    }
    enum timeline_part part = l->is_worker ? TIMELINE_COMPUTE : TIMELINE_APPLY;
    double share = d->t->length > 0 ? 100.0 * (double)l->ns[part] / (double)d->t->length : 0;
    buf_printf(d->out, "<text class=\"m\"%s x=\"%d\" y=\"%.1f\">%s %.0f %%</text>\n",
               h < 12 ? " style=\"font-size:8px\"" : "", LEFT + PLOT + 8, text_y,
               timeline_part_name(part), share);
}

/* 1, 2 or 5 times a power of ten: about eight ticks. */
static double tick_ns(int64_t length)
{
    double wanted = (double)length / 8, ten = pow(10, floor(log10(wanted > 1 ? wanted : 1)));
    return wanted < 1.5 * ten   ? ten
           : wanted < 3.5 * ten ? 2 * ten
           : wanted < 7.5 * ten ? 5 * ten
                                : 10 * ten;
}

static void add_axis(struct drawing *d)
{
    const double y = bottom(d), tick = tick_ns(d->t->length);
    buf_printf(d->out, "<path class=\"axis\" d=\"M%d %.1fH%d\"/>", LEFT, y, LEFT + PLOT);
    for (double ns = 0; ns <= (double)d->t->length; ns += tick) {
        char time[48];
        double x = x_of(d, (int64_t)ns);
        buf_printf(d->out,
                   "<path class=\"axis\" d=\"M%.1f %.1fv5\"/><text class=\"m c\" x=\"%.1f\" "
                   "y=\"%.1f\">%s</text>",
                   x, y, x, y + 17, timeline_time((int64_t)ns, d->t->length, time, sizeof time));
    }
    buf_add_char(d->out, '\n');
}

/* ---- boxes ---- */

static bool has_room(const char *number, double width)
{
    return width > (double)strlen(number) * NUMBER_WIDTH + 4;
}

static void add_box(struct drawing *d, const struct timeline_box *b)
{
    const bool worker = b->lane < d->t->worker_count;
    const double x = x_of(d, b->begin), width = x_of(d, b->end) - x;
    const double inset = b->part == TIMELINE_SUM || b->part == TIMELINE_ANSWER ? 5 : 1;
    const double y = y_of(d, b->lane) + inset, h = lane_height(d, b->lane) - 2 * inset;
    char number[24] = "", time[48];
    buf_printf(d->out,
               "<rect class=\"p%d\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"><title>%s",
               (int)b->part, x, y, width, h, timeline_part_name(b->part));
    if ((worker && b->part == TIMELINE_COMPUTE) || (!worker && b->part == TIMELINE_APPLY)) {
        (void)snprintf(number, sizeof number, "%" PRIu64, b->number);
        buf_printf(d->out, ", %s %s", worker ? "step" : "version", number);
    }
    buf_printf(d->out, ", %s</title></rect>",
               timeline_time(b->end - b->begin, b->end - b->begin, time, sizeof time));
    if (number[0] != '\0' && h >= 12 && has_room(number, width)) {
        buf_printf(d->out, "<text class=\"n\" x=\"%.1f\" y=\"%.1f\">%s</text>", x + width / 2,
                   y + h / 2 + 4, number);
    }
}

/* Boxes that are too narrow to be seen one by one are drawn as one. */
static void add_boxes(struct drawing *d)
{
    const struct timeline *t = d->t;
    const int64_t narrow_ns = (int64_t)(BOX_MIN / PLOT * (double)t->length);
    for (size_t i = 0; i < t->box_count;) {
        struct timeline_box b;
        i = timeline_join(t, i, narrow_ns, &b);
        add_box(d, &b);
    }
}

/* ---- versions and gradients ---- */

/* The versions of the lead: as lines through all workers where all wait for them. */
static void add_versions(struct drawing *d)
{
    const struct timeline *t = d->t;
    double last_x = 0;
    for (size_t i = 0; i < t->box_count; i++) {
        const struct timeline_box *b = &t->boxes[i];
        if (b->lane != t->worker_count || b->part != TIMELINE_APPLY) {
            continue;
        }
        char number[24];
        (void)snprintf(number, sizeof number, "%" PRIu64, b->number);
        double x = x_of(d, b->begin);
        if (d->about->barriers) {
            buf_printf(d->out, "<path class=\"ver\" d=\"M%.1f %dV%.1f\"/>", x, TOP - 6,
                       y_of(d, t->worker_count));
        }
        if (x - last_x > (double)strlen(number) * NUMBER_WIDTH + 6) {
            buf_printf(d->out, "<text class=\"m c\" x=\"%.1f\" y=\"%d\">%s</text>", x, TOP - 10,
                       number);
            last_x = x;
        }
    }
    buf_printf(d->out, "<text class=\"m r\" x=\"%d\" y=\"%d\">version</text>\n", LEFT - 8,
               TOP - 10);
}

static void add_fate(struct drawing *d, const struct timeline_push *p, const char *color, double x,
                     double y)
{
    if (p->fate == TIMELINE_DROPPED) {
        buf_printf(d->out,
                   "<path class=\"a lost\" style=\"stroke-dasharray:none\" "
                   "d=\"M%.1f %.1fl6 6m0 -6l-6 6\"/>",
                   x - 3, y - 3);
    } else {
        buf_printf(d->out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"2\"/>", color, x, y);
    }
}

/* From where the worker sends it to where it arrives, and on to the update that it is in. */
static void add_push(struct drawing *d, const struct timeline_push *p)
{
    const uint64_t stale = timeline_staleness(p);
    const double y = y_of(d, p->worker) + d->lane, to_y = y_of(d, p->shard) - STRIP + 1;
    const double x = x_of(d, p->sent), to_x = x_of(d, p->arrived), end_x = x_of(d, p->begun);
    char color[8] = "lost";
    if (p->fate != TIMELINE_DROPPED) {
        (void)snprintf(color, sizeof color, "s%u", timeline_color(stale, d->stalest));
    }
    buf_printf(d->out, "<g><title>gradient of version %" PRIu64, p->base);
    if (p->made != 0) {
        buf_printf(d->out, " in version %" PRIu64 ", staleness %" PRIu64, p->made, stale);
    } else {
        buf_add_str(d->out, p->fate == TIMELINE_DROPPED ? ": dropped" : ": had already");
    }
    buf_printf(d->out,
               "%s</title><path class=\"a %s%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>"
               "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"3\" "
               "stroke=\"none\" opacity=\".55\"/>",
               p->spare ? "; computed for a late worker" : "", color, p->spare ? " spare" : "", x,
               y, to_x, to_y, color, to_x, to_y - 1, end_x > to_x ? end_x - to_x : 0);
    add_fate(d, p, color, to_x, to_y);
    if (stale > 0 && d->t->push_count <= MANY && fabs(to_x - d->labelled) >= LABEL_WIDTH) {
        d->labelled = to_x;
        buf_printf(d->out, "<text class=\"m\" x=\"%.1f\" y=\"%.1f\">%" PRIu64 "</text>", to_x + 4,
                   to_y - 2, stale);
    }
    buf_add_str(d->out, "</g>");
}

static void add_pushes(struct drawing *d)
{
    buf_printf(d->out, "<g opacity=\"%s\">", d->t->push_count > MANY ? ".4" : "1");
    for (size_t i = 0; i < d->t->push_count; i++) {
        if (timeline_is_drawn(d->t, &d->t->pushes[i])) {
            add_push(d, &d->t->pushes[i]);
        }
    }
    buf_add_str(d->out, "</g>\n");
}

void timeline_svg(const struct timeline *t, const struct timeline_about *about, struct buf *out)
{
    struct drawing d = {.t = t, .about = about, .out = out};
    d.lane = t->worker_count <= 12 ? 24 : t->worker_count <= 32 ? 14 : 9;
    d.pitch = d.lane + (t->worker_count <= 12 ? 8 : 2);
    d.per_ns = t->length > 0 ? PLOT / (double)t->length : 0;
    for (size_t i = 0; i < t->push_count; i++) {
        uint64_t stale = timeline_staleness(&t->pushes[i]);
        d.stalest = stale > d.stalest ? stale : d.stalest;
        d.stalest = d.stalest < STALEST_MAX ? d.stalest : STALEST_MAX;
    }
    add_head(&d);
    for (size_t i = 0; i < t->lane_count; i++) {
        add_lane(&d, i);
    }
    add_boxes(&d);
    add_versions(&d);
    add_pushes(&d);
    add_axis(&d);
    timeline_legend(t, LEFT, bottom(&d) + 30, d.stalest, out);
    buf_add_str(out, "</svg>\n");
}
