/* SPDX-License-Identifier: Apache-2.0 */
/* The user's clusters by name, in gradus/config.yaml of $XDG_CONFIG_HOME or ~/.config:
 *
 *     current: prod
 *     clusters:
 *       prod: {master: "gradus.example.com:7000", tls_ca: ca.crt, token_file: token}
 *
 * The keys of a cluster are those flags of a command that say where the master is and who asks;
 * relative paths start from the file's directory. They stand for variables of the environment that
 * are not set, and all of them together: no token goes to a master that was named another way. */
#ifndef GRADUS_CLI_CLIENT_CONFIG_H
#define GRADUS_CLI_CLIENT_CONFIG_H

#include "base/err.h"
#include "config/yaml.h"

#define CLIENT_CLUSTER_NONE "none" /* as the name of a cluster: none of them */
/* "master", "tls_ca", …; NULL-terminated */
extern const char *const client_config_keys[];

struct client_config {
    char *path;
    struct yaml_node *root; /* a mapping */
};

/* The user's file; one that is not there is empty. Errors: ERR_INVALID, a line for each problem;
 * those of reading it. In any case client_config_close(). */
int client_config_open(struct client_config *c, struct err *err);
void client_config_close(struct client_config *c);
int client_config_save(const struct client_config *c, struct err *err);
const char *client_config_current(const struct client_config *c); /* NULL: none; borrows */
/* The mapping of @name. Errors: ERR_NOT_FOUND, with the names that there are. */
int client_config_find(const struct client_config *c, const char *name,
                       const struct yaml_node **out, struct err *err);
/* The value of @key of a cluster, a path from the file's directory; NULL: it has none. Owned. */
char *client_config_value(const struct client_config *c, const struct yaml_node *cluster,
                          const char *key);

/* @environment ("NAME=VALUE", NULL-terminated) with the variables of the cluster that @words, a
 * command line, or GRADUS_CLUSTER or the file names; without them where a master or state directory
 * is named otherwise. Returns owned, NULL with an error: those above. */
char **client_config_environment(char *const *words, char *const *environment, struct err *err);
void client_config_environment_free(char **environment); /* NULL is fine */

#endif
