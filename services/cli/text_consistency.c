/* SPDX-License-Identifier: Apache-2.0 */
/* Words for the consistency of a job (its mode and the parameters of it), and for the staleness of
 * its gradients: how many updates came between reading the parameters and applying the gradient. */
#include "cli/text_consistency.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- consistency ---- */

static const char *mode_word(Gradus__V1__Mode mode)
{
    switch (mode) {
    case GRADUS__V1__MODE__SYNC:
        return "sync";
    case GRADUS__V1__MODE__ASYNC:
        return "async";
    case GRADUS__V1__MODE__BOUNDED:
        return "bounded";
    default:
        return "unknown";
    }
}

static void sync_text(const Gradus__V1__Consistency *c, struct buf *out)
{
    buf_printf(out, "sync, %" PRIu32 " %s", c->replicas, c->replicas == 1 ? "replica" : "replicas");
    if (c->aggregate > 0 && c->aggregate < c->replicas) {
        buf_printf(out, ", complete with %" PRIu32, c->aggregate);
    }
    if (c->speculate > 0) {
        buf_printf(out, ", speculative after %g times the usual time", c->speculate);
    }
}

static void policy_text(const Gradus__V1__Consistency *c, struct buf *out)
{
    switch (c->policy) {
    case GRADUS__V1__STALENESS_POLICY__MAX_STALENESS:
        buf_printf(out, ", max_staleness %" PRIu64, c->max_staleness);
        break;
    case GRADUS__V1__STALENESS_POLICY__SCALE_LR:
        buf_add_str(out, ", scale_lr");
        break;
    case GRADUS__V1__STALENESS_POLICY__DELAY_COMPENSATION:
        buf_printf(out, ", delay_compensation %g", c->lambda);
        break;
    default:
        break;
    }
}

void text_consistency(const Gradus__V1__Job *job, struct buf *out)
{
    const Gradus__V1__Consistency *c = job->consistency;
    if (c == NULL) { /* not known yet, or a job of an earlier version */
        buf_add_str(out, mode_word(job->mode));
        return;
    }
    if (c->mode == GRADUS__V1__MODE__SYNC) {
        sync_text(c, out);
        return;
    }
    buf_add_str(out, mode_word(c->mode));
    if (c->mode == GRADUS__V1__MODE__BOUNDED) {
        buf_printf(out, "(%" PRIu64 ")", c->staleness);
    }
    policy_text(c, out);
    if (c->push_every > 1) {
        buf_printf(out, ", push every %" PRIu32, c->push_every);
    }
    if (c->pull_every > 1) {
        buf_printf(out, ", pull every %" PRIu32, c->pull_every);
    }
    if (c->overlap) {
        buf_add_str(out, ", overlap");
    }
}

/* ---- staleness ---- */

/* Bucket @i of a histogram of staleness: "0", "1", "2", "3-4", "5-8", "9-16", … */
static const char *bucket_name(size_t i, char *out, size_t n)
{
    if (i <= 2) {
        (void)snprintf(out, n, "%zu", i);
    } else if (i < 64) {
        uint64_t end = UINT64_C(1) << (i - 1);
        (void)snprintf(out, n, "%" PRIu64 "-%" PRIu64, end / 2 + 1, end);
    } else {
        (void)snprintf(out, n, "more");
    }
    return out;
}

struct histogram {
    uint64_t total;
    size_t median, max; /* buckets; 0 when the histogram is empty */
};

static struct histogram histogram_of(const uint64_t *counts, size_t n)
{
    struct histogram h = {0};
    for (size_t i = 0; i < n; i++) {
        h.total += counts[i];
        h.max = counts[i] > 0 ? i : h.max;
    }
    uint64_t below = counts == NULL || n == 0 ? 0 : counts[0];
    while (h.median < h.max && below < h.total - h.total / 2) {
        below += counts[++h.median];
    }
    return h;
}

void text_staleness_brief(const Gradus__V1__Job *job, struct buf *out)
{
    struct histogram h = histogram_of(job->staleness, job->n_staleness);
    if (h.total > 0 && job->mode != GRADUS__V1__MODE__SYNC) {
        /* otherwise they are of the time before a change of mode */
        char median[48], max[48];
        buf_printf(out, "staleness %s (max %s)", bucket_name(h.median, median, sizeof median),
                   bucket_name(h.max, max, sizeof max));
    }
}

void text_staleness(const Gradus__V1__Job *job, struct buf *out)
{
    struct histogram h = histogram_of(job->staleness, job->n_staleness);
    if (h.total == 0) {
        return;
    }
    char name[48], max[48];
    buf_printf(out, "median %s, max %s", bucket_name(h.median, name, sizeof name),
               bucket_name(h.max, max, sizeof max));
    const char *before = ": ";
    for (size_t i = 0; i < job->n_staleness; i++) {
        double percent = 100.0 * (double)job->staleness[i] / (double)h.total;
        if (job->staleness[i] == 0) {
            continue;
        }
        buf_printf(out, percent < 0.5 ? "%s%s <1%%" : "%s%s %.0f%%", before,
                   bucket_name(i, name, sizeof name), percent);
        before = ", ";
    }
}
