/* SPDX-License-Identifier: Apache-2.0 */
/* Stands before common/base/release.c in the services that are linked with it: the same programs
 * as another release, for tests of an upgrade. None of them is installed. */
#include "base/release.h"

const char *release_version(void)
{
    return GRADUS_VERSION "+next";
}
