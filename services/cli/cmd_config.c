/* SPDX-License-Identifier: Apache-2.0 */
/* gradus config: the user's clusters by name, and which of them commands are for. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/client_config.h"
#include "client/master_client.h"

static const struct field fields[] = {
    {.path = "master",
     .type = FIELD_STRING,
     .offset = offsetof(struct cli_common, master),
     .def = "",
     .help = "Address of the cluster's master, host:port, or host where the port is 7000"},
    TLS_SETTINGS_ROWS(struct cli_common, tls),
};

/* ---- list ---- */

static int list(struct client_config *c)
{
    const struct yaml_entry *all = yaml_find(c->root, "clusters");
    const char *current = client_config_current(c);
    const size_t count = all != NULL && all->value->kind == YAML_MAPPING ? all->value->count : 0;
    if (count == 0) {
        cli_note("no cluster has a name; `gradus config set-cluster NAME --master HOST` gives one");
        return CLI_OK;
    }
    (void)printf("  %-20s %-36s %s\n", "CLUSTER", "MASTER", "WITH");
    for (size_t i = 0; i < count; i++) {
        const struct yaml_entry *e = &all->value->items[i];
        char *master = client_config_value(c, e->value, "master");
        const bool tls = yaml_find(e->value, "tls_ca") != NULL;
        const bool token = yaml_find(e->value, "token_file") != NULL;
        (void)printf("%c %-20s %-36s %s%s%s\n",
                     current != NULL && strcmp(current, e->key) == 0 ? '*' : ' ', e->key, master,
                     tls ? "TLS" : "", tls && token ? ", " : "", token ? "token" : "");
        free(master);
    }
    return CLI_OK;
}

/* ---- changes ---- */

static int use(struct client_config *c, const char *name, struct err *err)
{
    const struct yaml_node *cluster = NULL;
    int rc =
        strcmp(name, CLIENT_CLUSTER_NONE) == 0 ? 0 : client_config_find(c, name, &cluster, err);
    if (rc == 0) {
        (void)yaml_put(c->root, "current", yaml_scalar(name, YAML_FLAG));
    }
    return rc;
}

static struct yaml_node *clusters_of(struct client_config *c)
{
    struct yaml_entry *all = yaml_find(c->root, "clusters");
    if (all == NULL || all->value->kind != YAML_MAPPING) {
        all = yaml_put(c->root, "clusters", yaml_mapping());
    }
    return all->value;
}

/* The file may be read from another directory. */
static char *absolute(const char *path)
{
    char *dir = path[0] == '/' ? NULL : getcwd(NULL, 0);
    char *out = dir == NULL ? mem_strdup(path) : mem_printf("%s/%s", dir, path);
    free(dir);
    return out;
}

static void put(struct yaml_node *cluster, const char *key, const char *value, bool path)
{
    if (value[0] != '\0') {
        char *text = path ? absolute(value) : mem_strdup(value);
        (void)yaml_put(cluster, key, yaml_scalar(text, YAML_FLAG));
        free(text);
    }
}

static int set(struct client_config *c, const char *name, const struct cli_common *o,
               struct err *err)
{
    if (!text_is_name(name, 128) || name[0] == '\0' || strcmp(name, CLIENT_CLUSTER_NONE) == 0) {
        return err_set(err, ERR_INVALID,
                       "\"%.128s\" cannot be the name of a cluster: letters, digits, '.', '_' and "
                       "'-', and not %s",
                       name, CLIENT_CLUSTER_NONE);
    }
    if (o->master[0] == '\0') {
        return err_set(err, ERR_INVALID,
                       "--master HOST[:PORT] is missing: gradus config set-cluster %s --master "
                       "HOST",
                       name);
    }
    struct client asked = {0};
    if (client_open(&asked, o->master, NULL, err) != 0) { /* it is no address */
        return err->code;
    }
    client_close(&asked);
    struct yaml_node *cluster = yaml_put(clusters_of(c), name, yaml_mapping())->value;
    put(cluster, "master", o->master, false);
    put(cluster, "tls_ca", o->tls.ca, true);
    put(cluster, "tls_cert", o->tls.cert, true);
    put(cluster, "tls_key", o->tls.key, true);
    put(cluster, "tls_name", o->tls.name, false);
    put(cluster, "token_file", o->tls.token_file, true);
    if (client_config_current(c) == NULL && yaml_find(c->root, "current") == NULL) {
        (void)yaml_put(c->root, "current", yaml_scalar(name, YAML_FLAG));
    }
    return 0;
}

static int remove_cluster(struct client_config *c, const char *name, struct err *err)
{
    const struct yaml_node *cluster = NULL;
    const char *current = client_config_current(c);
    int rc = client_config_find(c, name, &cluster, err);
    if (rc != 0) {
        return rc;
    }
    if (current != NULL && strcmp(current, name) == 0) {
        (void)yaml_put(c->root, "current", yaml_scalar(CLIENT_CLUSTER_NONE, YAML_FLAG));
    }
    const struct yaml_node *before = clusters_of(c);
    struct yaml_node *left = yaml_mapping();
    for (size_t i = 0; i < before->count; i++) {
        if (strcmp(before->items[i].key, name) != 0) {
            struct yaml_node *kept = yaml_put(left, before->items[i].key, yaml_mapping())->value;
            for (size_t j = 0; j < before->items[i].value->count; j++) {
                const struct yaml_entry *e = &before->items[i].value->items[j];
                (void)yaml_put(kept, e->key, yaml_scalar(e->value->text, e->value->style));
            }
        }
    }
    (void)yaml_put(c->root, "clusters", left);
    return 0;
}

/* ---- the command ---- */

static int change(struct client_config *c, const char *what, const char *name,
                  const struct cli_common *o, struct err *err)
{
    int rc = strcmp(what, "use-cluster") == 0   ? use(c, name, err)
             : strcmp(what, "set-cluster") == 0 ? set(c, name, o, err)
             : strcmp(what, "remove-cluster") == 0
                 ? remove_cluster(c, name, err)
                 : err_set(err, ERR_INVALID,
                           "what is %.64s? There are use-cluster NAME, set-cluster NAME and "
                           "remove-cluster NAME",
                           what);
    return rc != 0 ? rc : client_config_save(c, err);
}

static int run(const struct cli_args *args)
{
    const struct cli_common *o = args->options;
    struct client_config c = {0};
    struct err err = {0};
    int rc = client_config_open(&c, &err), code = CLI_OK;
    if (rc == 0 && args->positional_count == 1) {
        rc = err_set(&err, ERR_INVALID, "which cluster? gradus config %.64s NAME",
                     args->positional[0]);
    } else if (rc == 0 && args->positional_count == 2) {
        rc = change(&c, args->positional[0], args->positional[1], o, &err);
    }
    code = rc != 0 ? cli_fail(&err) : list(&c);
    client_config_close(&c);
    return code;
}

const struct cli_command cmd_config = {
    .name = "config",
    .summary = "Give clusters names, and choose the one that commands are for",
    .usage = "[use-cluster|set-cluster|remove-cluster NAME]",
    .examples = "  gradus config set-cluster prod --master gradus.example.com\n"
                "  gradus config use-cluster prod\n"
                "  gradus config\n",
    .notes = "They stand in gradus/config.yaml of $XDG_CONFIG_HOME or ~/.config, with the flags of "
             "set-cluster: --master, --tls-ca, --tls-cert, --tls-key, --tls-name, --token-file. "
             "Commands that ask a master are for the chosen one (*), unless --master, --state-dir "
             "or their variables name another; --cluster NAME or GRADUS_CLUSTER takes another one "
             "once, none takes none: then jobs of `gradus run` are found, too.",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .positional_max = 2,
    .run = run,
};
