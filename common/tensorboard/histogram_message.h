/* SPDX-License-Identifier: Apache-2.0 */
/* A histogram as TensorBoard reads it. */
#ifndef GRADUS_TENSORBOARD_HISTOGRAM_MESSAGE_H
#define GRADUS_TENSORBOARD_HISTOGRAM_MESSAGE_H

#include "tensor/histogram.h"
#include "tensorboard/event.pb-c.h"

/* Buckets from the first to the last that have a value, where several without any are
 * one. @ends, @counts [HISTOGRAM_BUCKETS]: memory that it points to. */
void histogram_message(const struct histogram *h, const double limits[HISTOGRAM_BUCKETS],
                       double *ends, double *counts, Tensorboard__Histogram *out);

#endif
