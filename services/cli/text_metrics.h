/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics as text and as JSON. */
#ifndef GRADUS_CLI_TEXT_METRICS_H
#define GRADUS_CLI_TEXT_METRICS_H

#include "base/buf.h"
#include "graph/metric.h"
#include "gradus/v1/jobs.pb-c.h"

/* "loss 0.2500  accuracy 0.5000" */
void text_metric_values(Gradus__V1__MetricValue *const *values, size_t count, struct buf *out);
/* The confusion matrix of the last evaluation of @job; nothing where there is none. One that is
 * wider than a screen has a line that says where it is. */
void text_confusion(const Gradus__V1__Job *job, struct buf *out);
void text_metrics(const struct metrics *m, double label_scale, struct buf *out);
/* For `gradus evaluate --json`; the confusion matrix as a list of rows, of labels. */
void text_metrics_json(const char *checkpoint, const char *data, const struct metrics *m,
                       double label_scale, struct buf *out);

#endif
