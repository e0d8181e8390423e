/* SPDX-License-Identifier: Apache-2.0 */
/* A core: what a tensor of a source is called in the job (from.map). */
#ifndef GRADUS_WARM_WARM_NAMES_H
#define GRADUS_WARM_WARM_NAMES_H

#include "base/buf.h"
#include "job/spec/from_spec.h"

/* Appends the name that @name of the source has in the job to @out. The first of @map [count] whose
 * pattern matches gives it; without one the name stays. @used (may be NULL): the number of that
 * pattern, or @count. False: it is left out. */
bool warm_name(const struct from_map *map, size_t count, const char *name, struct buf *out,
               size_t *used);

#endif
