/* SPDX-License-Identifier: Apache-2.0 */
/* The update rules that an operator adds to a service: plug-ins of the directory --rules-dir. */
#ifndef GRADUS_SERVICE_SERVICE_RULES_H
#define GRADUS_SERVICE_SERVICE_RULES_H

#include "base/err.h"

/* Loads the plug-ins in @dir (empty: none); each has a line in the log, taken or refused. Before
 * there is a second thread. Errors: of the directory. */
int service_load_rules(const char *dir, struct err *err);

#endif
