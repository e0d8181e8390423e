/* SPDX-License-Identifier: Apache-2.0 */
/* Decimal numbers in text, fast: what text_to_double() takes, with the same value to the last bit.
 */
#ifndef GRADUS_DATA_DECIMAL_H
#define GRADUS_DATA_DECIMAL_H

#include <stdbool.h>

/* The number at @s up to the first blank, tab or NUL, which *@end is set to. False: there is no
 * finite number, or something else follows it. */
bool decimal_read(const char *s, double *value, const char **end);

#endif
