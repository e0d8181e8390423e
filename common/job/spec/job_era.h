/* SPDX-License-Identifier: Apache-2.0 */
/* The update section of a job that exists: what of it may change, and its text for each era. */
#ifndef GRADUS_JOB_SPEC_JOB_ERA_H
#define GRADUS_JOB_SPEC_JOB_ERA_H

#include "job/spec/job_spec.h"

/* The update section in @text, a canonical job file: the line "update:" and those below it.
 * Returns owned; "" when there is none. */
char *job_update_section(const char *text);
/* Read @section, the update section of an earlier or a later version of the file of @of; the
 * names of tables that @out has are borrowed from @of. @out is zeroed by the caller, and its to
 * release with update_spec_release(). Errors: ERR_INVALID, says what is wrong. */
int job_update_parse(const char *section, const struct job_spec *of, struct update_spec *out,
                     struct err *err);
/* May the update section of a job that exists become that of @to, when it is that of @from? Not
 * when its servers would have to keep other slots. Errors: ERR_INVALID, names the key and what can
 * be changed. */
int job_update_check_change(const struct job_spec *from, const struct job_spec *to,
                            struct err *err);

#endif
