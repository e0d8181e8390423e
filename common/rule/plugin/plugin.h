/* SPDX-License-Identifier: Apache-2.0 */
/* Update rules from shared objects, as include/gradus/rule.h has them: found in a directory that
 * the operator names, and added to the table of rules when a program starts.
 *
 * A plug-in that is taken stays for the life of the process, and can do what the process can: so
 * plug-ins are only taken from owners who could replace this program, too, and a job names a rule,
 * never a file (decision 24). What a plug-in says of itself is checked; what it computes is not. */
#ifndef GRADUS_RULE_PLUGIN_PLUGIN_H
#define GRADUS_RULE_PLUGIN_PLUGIN_H

#include "base/err.h"
#include "rule/rules/rule.h"

/* Loads the plug-in @path. Call before there is a second thread. Errors say what is wrong with the
 * plug-in: ERR_PERMISSION its owner; ERR_UNSUPPORTED its ABI version; ERR_EXISTS its name;
 * ERR_EXHAUSTED; ERR_INVALID all else. */
int plugin_load(const char *path, const struct rule **rule, struct err *err);

/* The outcome for one file. Without rule and reason it is about to be loaded: if that crashes, this
 * has named the file. */
struct plugin_result {
    const char *path;
    const struct rule *rule; /* it is taken */
    const char *reason;      /* why it is refused */
};

/* plugin_load() for each *.so in @dir, in the order of their names; each is told of before and
 * after. Refused ones are no error. Errors, of the directory: ERR_NOT_FOUND; ERR_PERMISSION;
 * ERR_INVALID. */
int plugin_load_dir(const char *dir, void (*tell)(void *ctx, const struct plugin_result *result),
                    void *ctx, struct err *err);

/* Has `update:` in a job file a key @key for every rule? Then no plug-in may have it. */
bool plugin_key_is_taken(const char *key);

#endif
