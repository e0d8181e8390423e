/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/timeline_legend.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define BUCKETS 12
#define BAR_WIDTH 26
#define BAR_HEIGHT 44

unsigned timeline_color(uint64_t staleness, uint64_t stalest)
{
    if (staleness == 0 || stalest == 0) {
        return 0;
    }
    staleness = staleness < stalest ? staleness : stalest;
    if (stalest < TIMELINE_COLORS) {
        return (unsigned)staleness;
    }
    return (unsigned)ceil((TIMELINE_COLORS - 1) * (double)staleness / (double)stalest);
}

const char *timeline_time(int64_t ns, int64_t scale, char *out, size_t n)
{
    static const struct {
        double ns;
        const char *unit;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}};
    size_t i = scale >= 1000000000 ? 0 : scale >= 1000000 ? 1 : 2;
    (void)snprintf(out, n, "%.3g %s", (double)ns / units[i].ns, units[i].unit);
    return out;
}

static double add_swatch(struct buf *out, double x, double y, const char *shape, const char *text)
{
    buf_printf(out, "<g transform=\"translate(%.0f %.0f)\">%s<text x=\"20\" y=\"10\">%s</text></g>",
               x, y, shape, text);
    size_t letters = 0;
    for (const char *c = text; *c != '\0'; c++) {
        letters += ((unsigned char)*c & 0xc0) != 0x80;
    }
    return x + 34 + 6.4 * (double)letters;
}

static void add_parts(double x, double y, struct buf *out)
{
    for (int part = 0; part < TIMELINE_PARTS; part++) {
        char shape[80];
        (void)snprintf(shape, sizeof shape, "<rect class=\"p%d\" width=\"14\" height=\"12\"/>",
                       part);
        x = add_swatch(out, x, y, shape, timeline_part_name((enum timeline_part)part));
    }
}

struct seen {
    uint64_t width;         /* of a bucket */
    uint64_t lead[BUCKETS]; /* gradients of the lead by staleness */
    uint64_t most;
    bool dropped, spare;
};

static struct seen look(const struct timeline *t, uint64_t stalest)
{
    struct seen s = {.width = stalest / BUCKETS + 1};
    for (size_t i = 0; i < t->push_count; i++) {
        const struct timeline_push *p = &t->pushes[i];
        s.dropped |= p->fate == TIMELINE_DROPPED;
        s.spare |= p->spare;
        if (p->shard == t->worker_count && p->made != 0) {
            uint64_t stale = timeline_staleness(p);
            uint64_t *n = &s.lead[(stale < stalest ? stale : stalest) / s.width];
            s.most = ++*n > s.most ? *n : s.most;
        }
    }
    return s;
}

/* A swatch for each colour that can come, with the staleness that has it. */
static void add_arrows(double x, double y, const struct seen *seen, uint64_t stalest,
                       struct buf *out)
{
    for (uint64_t first = 0, last; first <= stalest; first = last + 1) {
        unsigned color = timeline_color(first, stalest);
        char shape[80], text[64];
        for (last = first; last < stalest && timeline_color(last + 1, stalest) == color;) {
            last++;
        }
        (void)snprintf(shape, sizeof shape, "<path class=\"a s%u\" d=\"M0 11L14 1\"/>", color);
        if (first == last) {
            (void)snprintf(text, sizeof text, "%s%" PRIu64,
                           first == 0 ? "gradient, staleness " : "", first);
        } else {
            (void)snprintf(text, sizeof text, "%" PRIu64 "–%" PRIu64, first, last);
        }
        x = add_swatch(out, x, y, shape, text);
    }
    if (seen->dropped) {
        x = add_swatch(out, x, y, "<path class=\"a lost\" d=\"M0 11L14 1\"/>", "dropped");
    }
    if (seen->spare) {
        (void)add_swatch(out, x, y, "<path class=\"a s0 spare\" d=\"M0 11L14 1\"/>",
                         "computed for a late worker");
    }
}

static void add_histogram(double x, double y, const struct seen *seen, uint64_t stalest,
                          struct buf *out)
{
    const uint64_t buckets = stalest / seen->width + 1;
    buf_printf(out, "<text class=\"m r\" x=\"%.0f\" y=\"%.0f\">gradients by staleness</text>",
               x - 8, y + BAR_HEIGHT);
    for (uint64_t i = 0; i < buckets; i++) {
        double height =
            seen->most == 0 ? 0 : (double)seen->lead[i] * BAR_HEIGHT / (double)seen->most;
        double at = x + (double)i * (BAR_WIDTH + 6);
        uint64_t first = i * seen->width, last = first + seen->width - 1;
        buf_printf(out,
                   "<rect class=\"s%u\" stroke=\"none\" x=\"%.0f\" y=\"%.1f\" width=\"%d\" "
                   "height=\"%.1f\"><title>%" PRIu64 " to %" PRIu64 ": %" PRIu64
                   "</title></rect><text class=\"m c\" x=\"%.0f\" y=\"%.0f\">%" PRIu64 "</text>",
                   timeline_color(first, stalest), at, y + BAR_HEIGHT - height, BAR_WIDTH, height,
                   first, last, seen->lead[i], at + BAR_WIDTH / 2.0, y + BAR_HEIGHT + 13, first);
    }
}

void timeline_legend(const struct timeline *t, double x, double y, uint64_t stalest,
                     struct buf *out)
{
    const struct seen seen = look(t, stalest);
    add_parts(x, y, out);
    if (t->push_count > 0) {
        add_arrows(x, y + 22, &seen, stalest, out);
    }
    if (stalest > 0) {
        add_histogram(x + 700, y, &seen, stalest, out);
    }
    buf_add_char(out, '\n');
}
