/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the plug-in loader share; not for other rooms.
 *
 * plugin.c        directories and files, and the plug-in as a struct rule
 * plugin_open.c   the shared object, and whether what it says of itself is sound
 * plugin_try.c    the process in which a plug-in is tried out
 * plugin_trial.c  what it is asked to compute there */
#ifndef GRADUS_RULE_PLUGIN_PLUGIN_IMPL_H
#define GRADUS_RULE_PLUGIN_PLUGIN_IMPL_H

#include "base/err.h"
#include "gradus/rule.h"

/* Load the shared object and check its table. It stays loaded, also when it is refused, so this is
 * done in a child process first. Errors: ERR_UNSUPPORTED; ERR_EXISTS; ERR_INVALID. */
int plugin_open(const char *path, const struct gradus_rule **out, struct err *err);

/* plugin_open() and plugin_trial() in a child process. Errors: theirs; ERR_INVALID it crashed;
 * ERR_TIMEOUT; ERR_EXHAUSTED no process could be had. */
int plugin_try(const char *path, unsigned limit_ms, struct err *err);

enum plugin_stage { PLUGIN_LOADING, PLUGIN_PREPARE, PLUGIN_APPLY };

/* Run the rule on small arrays; @stage is where it is just now, for those who see it crash. Not to
 * be run where a crash matters. Errors: ERR_INVALID. */
int plugin_trial(const struct gradus_rule *g, volatile int *stage, struct err *err);

/* Checks that floats are rounded in the usual way. A library can change that for the process. */
int plugin_check_float_mode(struct err *err);

#endif
