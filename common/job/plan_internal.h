/* SPDX-License-Identifier: Apache-2.0 */
/* What plan.c and plan_check.c share. */
#ifndef GRADUS_JOB_PLAN_INTERNAL_H
#define GRADUS_JOB_PLAN_INTERNAL_H

#include "job/plan.h"

/* Names, shapes and limits of the variables of a plan. Errors: ERR_INVALID. */
int plan_check_variables(const struct variable_spec *variables, size_t count, struct err *err);

#endif
