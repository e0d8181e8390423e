/* SPDX-License-Identifier: Apache-2.0 */
/* What every unit test includes first: cmocka needs these headers before its own. */
#ifndef GRADUS_TESTS_SUPPORT_TEST_H
#define GRADUS_TESTS_SUPPORT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
