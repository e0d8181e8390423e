/* SPDX-License-Identifier: Apache-2.0 */
/* The roles that data.columns gives to the columns of a CSV file; part of csv_columns.h. */
#ifndef GRADUS_DATA_CSV_DECLARED_H
#define GRADUS_DATA_CSV_DECLARED_H

#include "data/csv_columns.h"

/* Does an entry name its column by a name, which only a header can have? */
bool csv_declared_names(const struct data_spec *spec);
/* Roles and entries of all columns; what no entry means is ignored.
 * Errors: ERR_INVALID a column that does not exist or is declared twice. */
int csv_declared_assign(struct csv_columns *c, const char *path, const struct data_spec *spec,
                        struct err *err);
/* True if an entry of data.columns means column @j. */
bool csv_is_declared(const struct csv_columns *c, size_t j);

#endif
