/* SPDX-License-Identifier: Apache-2.0 */
/* The names of roles. */
#include "auth/auth_role.h"

#include <stdio.h>
#include <string.h>

const char *const auth_role_names[] = {"node", "viewer", "submitter", "admin", NULL};

unsigned auth_role_find(const char *name)
{
    for (unsigned i = 0; i < AUTH_ROLE_COUNT; i++) {
        if (strcmp(name, auth_role_names[i]) == 0) {
            return 1U << i;
        }
    }
    return strcmp(name, "client") == 0 ? AUTH_ADMIN : 0;
}

const char *auth_roles_text(unsigned roles, char out[AUTH_ROLES_BYTES])
{
    size_t n = 0;
    (void)snprintf(out, AUTH_ROLES_BYTES, "no role");
    for (unsigned i = 0; i < AUTH_ROLE_COUNT; i++) {
        if ((roles >> i & 1U) != 0) {
            n += (size_t)snprintf(out + n, AUTH_ROLES_BYTES - n, "%s%s", n > 0 ? " or " : "",
                                  auth_role_names[i]);
        }
    }
    return out;
}
