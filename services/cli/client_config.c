/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client_config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "config/config.h"
#include "os/file.h"

#define CONFIG_BYTES_MAX ((size_t)1 << 20)

const char *const client_config_keys[] = {"master",   "tls_cert",   "tls_key", "tls_ca",
                                          "tls_name", "token_file", "timeout", NULL};

static bool is_path(const char *key)
{
    return strcmp(key, "tls_cert") == 0 || strcmp(key, "tls_key") == 0 ||
           strcmp(key, "tls_ca") == 0 || strcmp(key, "token_file") == 0;
}

static bool is_key(const char *key)
{
    for (size_t i = 0; client_config_keys[i] != NULL; i++) {
        if (strcmp(client_config_keys[i], key) == 0) {
            return true;
        }
    }
    return false;
}

static char *config_path(void)
{
    const char *given = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (given != NULL && given[0] == '/') {
        return file_join(given, "gradus/config.yaml");
    }
    return home != NULL && home[0] == '/' ? file_join(home, ".config/gradus/config.yaml") : NULL;
}

/* ---- checks ---- */

static void check_cluster(const char *file, const struct yaml_entry *cluster, struct diags *diags)
{
    bool master = false;
    if (!text_is_name(cluster->key, 128) || cluster->key[0] == '\0' ||
        strcmp(cluster->key, CLIENT_CLUSTER_NONE) == 0) {
        yaml_diag_key(diags, file, cluster, "'%.128s' cannot be the name of a cluster",
                      cluster->key);
    }
    if (cluster->value->kind != YAML_MAPPING) {
        yaml_diag(diags, file, cluster->value, "cluster %.128s: keys and values are expected",
                  cluster->key);
        return;
    }
    for (size_t i = 0; i < cluster->value->count; i++) {
        const struct yaml_entry *e = &cluster->value->items[i];
        if (!is_key(e->key)) {
            yaml_diag_key(diags, file, e,
                          "unknown key '%.64s'; allowed: master, tls_cert, tls_key, tls_ca, "
                          "tls_name, token_file, timeout",
                          e->key);
        } else if (e->value->kind != YAML_SCALAR) {
            yaml_diag(diags, file, e->value, "%s: a text is expected", e->key);
        }
        master = master || strcmp(e->key, "master") == 0;
    }
    if (!master) {
        yaml_diag_key(diags, file, cluster, "cluster %.128s: master is missing", cluster->key);
    }
}

static void check(const struct client_config *c, struct diags *diags)
{
    for (size_t i = 0; i < c->root->count; i++) {
        const struct yaml_entry *e = &c->root->items[i];
        if (strcmp(e->key, "current") == 0) {
            if (e->value->kind != YAML_SCALAR) {
                yaml_diag(diags, c->path, e->value, "current: the name of a cluster is expected");
            }
        } else if (strcmp(e->key, "clusters") != 0) {
            yaml_diag_key(diags, c->path, e, "unknown key '%.64s'; allowed: current, clusters",
                          e->key);
        } else if (e->value->kind != YAML_MAPPING && !yaml_is_null(e->value)) {
            yaml_diag(diags, c->path, e->value, "clusters: names of clusters are expected");
        } else {
            for (size_t j = 0; e->value->kind == YAML_MAPPING && j < e->value->count; j++) {
                check_cluster(c->path, &e->value->items[j], diags);
            }
        }
    }
}

/* ---- the file ---- */

static int invalid(const struct diags *diags, struct err *err)
{
    struct buf text = {0};
    diags_format(diags, &text);
    text.len -= text.len > 0; /* the last newline */
    int rc = err_set(err, ERR_INVALID, "%.*s", (int)text.len, text.data);
    buf_release(&text);
    return rc;
}

int client_config_open(struct client_config *c, struct err *err)
{
    struct buf text = {0};
    struct diags diags = {0};
    *c = (struct client_config){.path = config_path()};
    int rc = c->path == NULL ? ERR_NOT_FOUND : file_read(c->path, CONFIG_BYTES_MAX, &text, err);
    if (rc == ERR_NOT_FOUND) {
        rc = 0;
        c->root = yaml_mapping();
    } else if (rc == 0) {
        c->root = yaml_parse(buf_str(&text), text.len, c->path, &diags);
        if (c->root != NULL && c->root->kind != YAML_MAPPING) {
            yaml_diag(&diags, c->path, c->root, "keys and values are expected");
        } else if (c->root != NULL) {
            check(c, &diags);
        }
        rc = diags.count > 0 ? invalid(&diags, err) : 0;
    }
    diags_release(&diags);
    buf_release(&text);
    return rc;
}

void client_config_close(struct client_config *c)
{
    yaml_node_free(c->root);
    free(c->path);
    *c = (struct client_config){0};
}

int client_config_save(const struct client_config *c, struct err *err)
{
    struct buf text = {0};
    if (c->path == NULL) {
        return err_set(
            err, ERR_STATE,
            "there is no place for the file: set HOME or XDG_CONFIG_HOME to a directory, "
            "with a path that begins with /");
    }
    char *dir = mem_printf("%.*s", (int)(strrchr(c->path, '/') - c->path), c->path);
    yaml_write(c->root, &text);
    int rc = file_make_dirs(dir, err);
    rc = rc != 0 ? rc : file_write_atomic(c->path, buf_str(&text), text.len, err);
    buf_release(&text);
    free(dir);
    return rc;
}

const char *client_config_current(const struct client_config *c)
{
    const struct yaml_entry *e = yaml_find(c->root, "current");
    return e == NULL || yaml_is_null(e->value) || e->value->text[0] == '\0' ||
                   strcmp(e->value->text, CLIENT_CLUSTER_NONE) == 0
               ? NULL
               : e->value->text;
}

int client_config_find(const struct client_config *c, const char *name,
                       const struct yaml_node **out, struct err *err)
{
    const struct yaml_entry *all = yaml_find(c->root, "clusters");
    const bool any = all != NULL && all->value->kind == YAML_MAPPING && all->value->count > 0;
    const struct yaml_entry *found = any ? yaml_find(all->value, name) : NULL;
    if (found != NULL) {
        *out = found->value;
        return 0;
    }
    struct buf names = {0};
    for (size_t i = 0; any && i < all->value->count; i++) {
        buf_printf(&names, "%s%.128s", i == 0 ? "; there are " : ", ", all->value->items[i].key);
    }
    int rc = err_set(err, ERR_NOT_FOUND, "no cluster %.128s in %s%s", name,
                     c->path != NULL ? c->path : "any file", buf_str(&names));
    buf_release(&names);
    return rc;
}

char *client_config_value(const struct client_config *c, const struct yaml_node *cluster,
                          const char *key)
{
    const struct yaml_entry *e = yaml_find(cluster, key);
    if (e == NULL || e->value->text[0] == '\0') {
        return NULL;
    }
    if (!is_path(key) || e->value->text[0] == '/') {
        return mem_strdup(e->value->text);
    }
    return mem_printf("%.*s/%s", (int)(strrchr(c->path, '/') - c->path), c->path, e->value->text);
}

/* ---- the environment of a command ---- */

/* The value of --NAME among @words, "" where it is the last one; NULL: it is not there. */
static const char *typed(char *const *words, const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; words[i] != NULL && strcmp(words[i], "--") != 0; i++) {
        if (strncmp(words[i], "--", 2) != 0 || strncmp(words[i] + 2, name, n) != 0) {
            continue;
        }
        const char *end = words[i] + 2 + n;
        if (*end == '=') {
            return end + 1;
        }
        if (*end == '\0') {
            return words[i + 1] != NULL ? words[i + 1] : "";
        }
    }
    return NULL;
}

/* NULL: not set, or empty. */
static const char *variable(char *const *environment, const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; environment[i] != NULL; i++) {
        if (strncmp(environment[i], name, n) == 0 && environment[i][n] == '=') {
            return environment[i][n + 1] != '\0' ? environment[i] + n + 1 : NULL;
        }
    }
    return NULL;
}

static char **copy(char *const *environment, size_t more, size_t *count)
{
    size_t n = 0;
    while (environment[n] != NULL) {
        n++;
    }
    char **out = mem_new(n + more + 1, sizeof *out);
    for (size_t i = 0; i < n; i++) {
        out[i] = mem_strdup(environment[i]);
    }
    *count = n;
    return out;
}

void client_config_environment_free(char **environment)
{
    for (size_t i = 0; environment != NULL && environment[i] != NULL; i++) {
        free(environment[i]);
    }
    free(environment);
}

/* The variables of @cluster go first: the first of one name counts. */
static char **with_cluster(const struct client_config *c, const struct yaml_node *cluster,
                           char *const *environment, bool before)
{
    enum { KEYS = sizeof client_config_keys / sizeof client_config_keys[0] };
    size_t count = 0;
    char **out = copy(environment, KEYS, &count);
    for (size_t i = 0; client_config_keys[i] != NULL; i++) {
        char *name = config_variable_name(client_config_keys[i]);
        char *value = client_config_value(c, cluster, client_config_keys[i]);
        if (value != NULL && (before || variable(environment, name) == NULL)) {
            for (size_t j = 0; j < count; j++) { /* an empty one, or one that was named otherwise */
                if (strncmp(out[j], name, strlen(name)) == 0 && out[j][strlen(name)] == '=') {
                    free(out[j]);
                    out[j--] = out[--count];
                    out[count] = NULL;
                }
            }
            out[count++] = mem_printf("%s=%s", name, value);
        }
        free(name);
        free(value);
    }
    return out;
}

char **client_config_environment(char *const *words, char *const *environment, struct err *err)
{
    struct client_config c = {0};
    const struct yaml_node *cluster = NULL;
    const char *name = typed(words, "cluster");
    const bool named = name != NULL;
    size_t count = 0;
    char **out = NULL;
    const bool elsewhere = typed(words, "master") != NULL || typed(words, "state-dir") != NULL ||
                           variable(environment, "GRADUS_MASTER") != NULL ||
                           variable(environment, "GRADUS_STATE_DIR") != NULL;
    name = named ? name : elsewhere ? NULL : variable(environment, "GRADUS_CLUSTER");
    if (name == NULL && elsewhere) {
        return copy(environment, 0, &count);
    }
    int rc = client_config_open(&c, err);
    if (rc == 0 && name == NULL) {
        name = client_config_current(&c);
    }
    if (rc == 0 && name != NULL && name[0] != '\0' && strcmp(name, CLIENT_CLUSTER_NONE) != 0) {
        rc = client_config_find(&c, name, &cluster, err);
    }
    if (rc == 0) {
        out = cluster == NULL ? copy(environment, 0, &count)
                              : with_cluster(&c, cluster, environment, named);
    }
    client_config_close(&c);
    return out;
}
