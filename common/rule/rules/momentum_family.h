/* SPDX-License-Identifier: Apache-2.0 */
/* What momentum and nesterov share. */
#ifndef GRADUS_RULE_RULES_MOMENTUM_FAMILY_H
#define GRADUS_RULE_RULES_MOMENTUM_FAMILY_H

#include <stddef.h>

/* When less than this is left of a momentum, the rest moves no float. */
#define MOMENTUM_GONE 1e-30

/* Skipped updates at once: the parameters move by @moved momenta, and @left of them remains. */
void momentum_coast(double left, double moved, float *values, float *momentum, size_t n);

#endif
