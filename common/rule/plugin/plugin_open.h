/* SPDX-License-Identifier: Apache-2.0 */
/* The shared object of a plug-in, and whether what it says of itself is sound; for plugin.c. */
#ifndef GRADUS_RULE_PLUGIN_PLUGIN_OPEN_H
#define GRADUS_RULE_PLUGIN_PLUGIN_OPEN_H

#include "base/err.h"
#include "gradus/rule.h"

/* Loads the shared object and checks its table. It is closed again when it is refused. Errors:
 * ERR_UNSUPPORTED; ERR_EXISTS; ERR_INVALID. */
int plugin_open(const char *path, const struct gradus_rule **out, struct err *err);

#endif
