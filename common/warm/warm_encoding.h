/* SPDX-License-Identifier: Apache-2.0 */
/* What the source of a job has measured of its records (from.encoding): variables of a model mean
 * the same only to records that are encoded in the same way. */
#ifndef GRADUS_WARM_WARM_ENCODING_H
#define GRADUS_WARM_WARM_ENCODING_H

#include "data/data_roots.h"
#include "job/spec/job_spec.h"

/* Of a job with job_spec_takes_encoding(): what to give to data_spec.measured (owned), and NULL
 * where `auto` finds that the source has nothing. @roots: as warm_start_open(). Errors: those of
 * warm_source_open(); ERR_INVALID a data section that says otherwise what records become, with both
 * lists; `source`, and it has none. They name the source. */
int warm_encoding_read(const struct job_spec *spec, const struct data_roots *roots, char **out,
                       struct err *err);

#endif
