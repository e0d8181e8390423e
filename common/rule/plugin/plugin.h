/* SPDX-License-Identifier: Apache-2.0 */
/* Update rules from shared objects, as include/gradus/rule.h has them: found in a directory that
 * the operator names, tried out in a process of their own, and added to the table of rules.
 *
 * A plug-in that is taken stays for the life of the process. What it may break is the process that
 * takes it, so the trial is there to find mistakes; it is no fence against an enemy, and for that
 * reason plug-ins are only taken from owners who could replace this program, too.
 *
 * A job names a rule; the files that are loaded stand on the command line of each program (decision
 * 24). The child process that tries a plug-in loads it and computes with it between pages that may
 * not be touched, within a time limit. */
#ifndef GRADUS_RULE_PLUGIN_PLUGIN_H
#define GRADUS_RULE_PLUGIN_PLUGIN_H

#include "base/err.h"
#include "rule/rules/rule.h"

#define PLUGIN_TRIAL_MS 10000 /* a trial takes milliseconds, but machines may be busy */

/* Loads the plug-in @path. Call before there is a second thread: this forks. Errors say what is
 * wrong with the plug-in: ERR_PERMISSION its owner; ERR_UNSUPPORTED its ABI version; ERR_EXISTS its
 * name; ERR_TIMEOUT the trial took longer than @trial_ms; ERR_EXHAUSTED; ERR_INVALID all else. */
int plugin_load(const char *path, unsigned trial_ms, const struct rule **rule, struct err *err);

/* The outcome for one file. */
struct plugin_result {
    const char *path;
    const struct rule *rule; /* NULL: refused */
    const char *reason;      /* then */
};

/* plugin_load() for each *.so in @dir, in the order of their names; each is told of. Refused ones
 * are no error. Errors, of the directory: ERR_NOT_FOUND; ERR_PERMISSION; ERR_INVALID. */
int plugin_load_dir(const char *dir, unsigned trial_ms,
                    void (*tell)(void *ctx, const struct plugin_result *result), void *ctx,
                    struct err *err);

/* Has `update:` in a job file a key @key for every rule? Then no plug-in may have it. */
bool plugin_key_is_taken(const char *key);

#endif
