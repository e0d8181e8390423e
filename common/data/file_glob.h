/* SPDX-License-Identifier: Apache-2.0 */
/* glob(3) within the roots of data: it looks into no directory outside of them, whatever stars,
 * links and ".." the pattern has. A result may be a link that leads out: opening it is refused. */
#ifndef GRADUS_DATA_FILE_GLOB_H
#define GRADUS_DATA_FILE_GLOB_H

#include <glob.h>
#include <stdbool.h>

#include "data/data_roots.h"

/* As glob() with GLOB_ERR | GLOB_NOSORT; globfree() @found in any case. *@outside: the pattern
 * would have led out of @roots (NULL: nothing does), and the result is of no use. */
int file_glob(const struct data_roots *roots, const char *pattern, glob_t *found, bool *outside);

#endif
