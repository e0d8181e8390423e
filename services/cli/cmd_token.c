/* SPDX-License-Identifier: Apache-2.0 */
/* gradus token: draw bearer tokens. The token is shown once; files have its hash alone. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "auth/token_list.h"
#include "cli/cli.h"
#include "os/file.h"

#define DAY_S 86400
#define DAYS_MAX 36500
#define FILE_MODE 0600

struct options {
    char *role;
    char *name;
    char *node;
    char *tokens;
    int64_t days;
};

static const struct field fields[] = {
    {.path = "role",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, role),
     .help = "What its holder is to the cluster: node, submitter, viewer or admin; several with "
             "commas between them"},
    {.path = "name",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, name),
     .help = "Who its holder is: the owner of what is submitted with it"},
    {.path = "node",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, node),
     .def = "",
     .help = "Name of the only node that its holder may be; empty: any"},
    {.path = "days",
     .type = FIELD_INT,
     .offset = offsetof(struct options, days),
     .def = "365",
     .min = 0,
     .max = DAYS_MAX,
     .help = "Days that it is valid; 0: until its line is taken out"},
    {.path = "tokens",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, tokens),
     .def = "",
     .help = "File that the line is appended to, that of --tokens of the services; empty: the line "
             "is printed below the token"},
};

static int fill(const struct options *o, struct token_entry *entry, struct err *err)
{
    *entry = (struct token_entry){0};
    int rc = token_check_name(o->name, err);
    rc = rc != 0 ? err_wrap(err, "--name") : token_roles(o->role, &entry->roles, err);
    if (rc == 0 && o->node[0] != '\0' && token_check_name(o->node, err) != 0) {
        rc = err_wrap(err, "--node");
    }
    if (rc == 0) {
        (void)snprintf(entry->name, sizeof entry->name, "%s", o->name);
        (void)snprintf(entry->node, sizeof entry->node, "%s", o->node);
        entry->expires_s = o->days > 0 ? (int64_t)time(NULL) + o->days * DAY_S : 0;
    }
    return rc;
}

/* The file of tokens to which a line is appended. */
struct token_file {
    bool ended;  /* with the end of a line */
    size_t same; /* tokens of the same holder */
};

/* Checks that the file, if it is there, is one of tokens. */
static int look_at_file(const char *path, const char *name, struct token_file *out, struct err *err)
{
    struct buf text = {0};
    *out = (struct token_file){.ended = true};
    int rc = file_exists(path) ? file_read(path, TOKEN_LIST_BYTES_MAX, &text, err) : 0;
    if (rc == 0 && text.len > 0) {
        struct token_list *list = token_list_parse(buf_str(&text), text.len, path, err);
        rc = list != NULL ? 0 : ERR_INVALID;
        out->same = list != NULL ? token_list_count_of(list, name) : 0;
        token_list_free(list);
        out->ended = text.data[text.len - 1] == '\n';
    }
    buf_release(&text);
    return rc;
}

static int append(const char *path, const struct token_entry *entry, struct err *err)
{
    struct token_file file;
    int rc = look_at_file(path, entry->name, &file, err);
    if (rc != 0) {
        return rc;
    }
    if (file.same > 0) {
        (void)fprintf(
            stderr,
            "gradus: tokens of %s in %s: %zu, of which each counts until its line is taken out\n",
            entry->name, path, file.same + 1);
    }
    struct buf line = {0};
    buf_add_str(&line, file.ended ? "" : "\n");
    token_line(entry, &line);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, FILE_MODE);
    if (fd < 0) {
        rc = err_errno(err, errno, "open %s", path);
    } else if (write(fd, line.data, line.len) != (ssize_t)line.len || fsync(fd) != 0) {
        rc = err_errno(err, errno, "write %s", path);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    buf_release(&line);
    return rc;
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    struct err err = {0};
    struct token_entry entry;
    char token[TOKEN_BYTES];
    int rc =
        strcmp(args->positional[0], "new") == 0
            ? fill(o, &entry, &err)
            : err_set(&err, ERR_INVALID, "unknown action %s; there is new", args->positional[0]);
    rc = rc != 0 ? rc : token_draw(&entry, token, &err);
    if (rc == 0 && o->tokens[0] != '\0') {
        rc = append(o->tokens, &entry, &err);
    }
    if (rc != 0) {
        return cli_fail(&err);
    }
    (void)printf("%s\n", token);
    if (o->tokens[0] == '\0') {
        struct buf line = {0};
        token_line(&entry, &line);
        (void)printf("\nIts line in the file of --tokens of each service:\n%s", buf_str(&line));
        buf_release(&line);
    }
    return CLI_OK;
}

const struct cli_command cmd_token = {
    .name = "token",
    .summary = "Draw a bearer token for somebody who calls a cluster",
    .usage = "new",
    .examples = "  gradus token new --role submitter --name ann\n"
                "  gradus token new --role viewer --name dashboard --days 90 --tokens tokens\n",
    .notes = "The token is printed once, and nobody can find it again: lines have its hash. Who "
             "takes its line out of the file ends it. docs/security.md tells how tokens are used.",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
