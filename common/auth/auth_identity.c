/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the identity of a caller out of a certificate, and decides what depends on the name of the
 * caller. */
#include "auth/auth_identity.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define ROLE_URI "gradus:role/"
#define NODE_URI "gradus:node/"
#define ROLE_UNIT "OU=gradus-"

/* The part of @text behind @prefix; NULL: it does not begin with that. */
static const char *behind(const char *text, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

/* A comma in a value has a backslash before it, so it ends none. */
static size_t part_length(const char *text)
{
    size_t n = 0;
    while (text[n] != '\0' && text[n] != ',' && text[n] != '+') {
        n += text[n] == '\\' && text[n + 1] != '\0' ? 2 : 1;
    }
    return n;
}

static unsigned roles_of_subject(const char *subject)
{
    unsigned roles = 0;
    for (const char *at = subject; *at != '\0';) {
        size_t n = part_length(at);
        char part[64];
        if (n < sizeof part) {
            memcpy(part, at, n);
            part[n] = '\0';
            const char *name = behind(part, ROLE_UNIT);
            roles |= name != NULL ? auth_role_find(name) : 0;
        }
        at += n + (at[n] != '\0');
    }
    return roles;
}

void auth_identity_certificate(const struct auth_certificate *c, struct auth_identity *out)
{
    *out = (struct auth_identity){.proof = AUTH_CERTIFICATE};
    (void)text_shown(c->common_name != NULL ? c->common_name : "", out->name, sizeof out->name);
    out->roles = c->subject != NULL ? roles_of_subject(c->subject) : 0;
    for (size_t i = 0; i < c->uri_count; i++) {
        const char *role = behind(c->uris[i], ROLE_URI);
        const char *node = behind(c->uris[i], NODE_URI);
        if (role != NULL) {
            out->roles |= auth_role_find(role);
        } else if (node != NULL) {
            (void)text_shown(node, out->node, sizeof out->node);
        }
    }
}

void auth_identity_open(struct auth_identity *out)
{
    *out = (struct auth_identity){.proof = AUTH_OPEN, .roles = AUTH_ADMIN};
}

void auth_identity_same_user(struct auth_identity *out)
{
    *out = (struct auth_identity){.proof = AUTH_SAME_USER, .roles = AUTH_ADMIN};
}

const char *auth_proof_name(enum auth_proof proof)
{
    static const char *const names[] = {"nothing", "no access control", "socket of this user",
                                        "certificate", "token"};
    return names[proof];
}

const char *auth_identity_text(const struct auth_identity *who, char out[AUTH_WHO_BYTES])
{
    char roles[AUTH_ROLES_BYTES];
    const char *name = who->name[0] != '\0'             ? who->name
                       : who->proof == AUTH_NOBODY      ? "somebody unknown"
                       : who->proof == AUTH_CERTIFICATE ? "a holder of a certificate without a name"
                                                        : "anybody";
    (void)snprintf(out, AUTH_WHO_BYTES, "%s (%s, by %s)", name, auth_roles_text(who->roles, roles),
                   auth_proof_name(who->proof));
    return out;
}

int auth_check_node(const struct auth_identity *who, const char *node, struct err *err)
{
    char text[AUTH_WHO_BYTES];
    char shown[AUTH_NAME_BYTES];
    if (who->node[0] == '\0' || node[0] == '\0' || strcmp(who->node, node) == 0) {
        return 0;
    }
    return err_set(err, ERR_PERMISSION, "%s is node %s by its %s, and may not speak as node %s",
                   auth_identity_text(who, text), who->node, auth_proof_name(who->proof),
                   text_shown(node, shown, sizeof shown));
}

int auth_check_owner(const struct auth_identity *who, const char *action, const char *job,
                     const char *owner, struct err *err)
{
    char text[AUTH_WHO_BYTES];
    char shown[AUTH_NAME_BYTES];
    if ((who->roles & AUTH_ADMIN) != 0 ||
        (owner[0] != '\0' && strcmp(owner, who->name) == 0 && (who->roles & AUTH_SUBMITTER) != 0)) {
        return 0;
    }
    return err_set(err, ERR_PERMISSION, "%s may not %s job %s, which %s%s; that takes %sadmin",
                   auth_identity_text(who, text), action, text_shown(job, shown, sizeof shown),
                   owner[0] != '\0' ? "was submitted by " : "nobody known has submitted", owner,
                   owner[0] != '\0' ? "who submitted it, or " : "");
}
