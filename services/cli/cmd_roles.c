/* SPDX-License-Identifier: Apache-2.0 */
/* gradus roles: the table that says who may call what, for people and for programs. */
#include <stdio.h>
#include <string.h>

#include "auth/auth_table.h"
#include "cli/cli.h"
#include "cli/terminal.h"
#include "json/json_write.h"

static json_t *row_json(const struct auth_row *row)
{
    json_t *o = json_object();
    json_t *roles = json_array();
    for (unsigned i = 0; auth_role_names[i] != NULL; i++) {
        if (((row->roles | AUTH_ADMIN) >> i & 1U) != 0) {
            json_append(roles, json_text(auth_role_names[i]));
        }
    }
    json_put(o, "method", json_text(row->method));
    json_put(o, "roles", roles);
    json_put(o, "anybody", json_boolean(row->anybody));
    json_put(o, "own_jobs", json_boolean(row->own));
    return o;
}

static void print_json(void)
{
    struct buf out = {0};
    json_t *list = json_array();
    for (size_t i = 0; i < auth_row_count; i++) {
        json_append(list, row_json(&auth_rows[i]));
    }
    json_print(list, 0, false, &out);
    (void)fputs(buf_str(&out), stdout);
    buf_release(&out);
}

static int run(const struct cli_args *args)
{
    const struct cli_common *o = args->options;
    if (o->json) {
        print_json();
        return CLI_OK;
    }
    struct buf lines = {0};
    for (size_t i = 0; i < auth_row_count; i++) {
        const struct auth_row *row = &auth_rows[i];
        char roles[AUTH_ROLES_BYTES];
        buf_printf(&lines, "%-42s %s%s\n", row->method,
                   row->anybody ? "anybody" : auth_roles_text(row->roles | AUTH_ADMIN, roles),
                   row->own ? " (submitter: own jobs)" : "");
    }
    terminal_print(&lines);
    buf_release(&lines);
    return CLI_OK;
}

const struct cli_command cmd_roles = {
    .name = "roles",
    .summary = "List who may call what in a cluster",
    .usage = "",
    .examples = "  gradus roles\n"
                "  gradus roles --json\n",
    .notes = "A role comes with a certificate or a token (docs/security.md).",
    .shares = CLI_JSON,
    .run = run,
};
