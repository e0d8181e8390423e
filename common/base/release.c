/* SPDX-License-Identifier: Apache-2.0 */
#include "base/release.h"

const char *release_version(void)
{
    return GRADUS_VERSION;
}
