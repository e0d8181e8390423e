/* SPDX-License-Identifier: Apache-2.0 */
/* Who a certificate makes of its holder, what each role may call, and what a refusal says. */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "auth/auth_table.h"

static struct auth_identity shows(const char *name, const char *subject, const char *uri,
                                  const char *second)
{
    const char *const uris[] = {uri, second};
    const struct auth_certificate c = {.common_name = name,
                                       .subject = subject,
                                       .uris = uris,
                                       .uri_count = (size_t)(uri != NULL) + (second != NULL)};
    struct auth_identity who;
    auth_identity_certificate(&c, &who);
    assert_int_equal(who.proof, AUTH_CERTIFICATE);
    return who;
}

static void test_certificates(void **state)
{
    (void)state;
    struct auth_identity who = shows("ann", "CN=ann,O=Gradus", "gradus:role/submitter", NULL);
    assert_string_equal(who.name, "ann");
    assert_int_equal(who.roles, AUTH_SUBMITTER);
    assert_string_equal(who.node, "");
    who = shows("w", NULL, "gradus:role/node", "gradus:node/worker-1");
    assert_int_equal(who.roles, AUTH_NODE);
    assert_string_equal(who.node, "worker-1");
    /* Those of before. */
    assert_int_equal(shows("c", NULL, "gradus:role/client", NULL).roles, AUTH_ADMIN);
    assert_int_equal(shows("c", NULL, "https://a/gradus:role/admin", "gradus:role/").roles, 0);
    assert_int_equal(shows(NULL, NULL, "gradus:role/admin2", "gradus:role/Admin").roles, 0);
}

static void test_roles_in_the_subject(void **state)
{
    (void)state;
    assert_int_equal(shows("a", "CN=a,OU=gradus-viewer", NULL, NULL).roles, AUTH_VIEWER);
    assert_int_equal(shows("a", "OU=gradus-node+OU=gradus-viewer,CN=a", NULL, NULL).roles,
                     AUTH_NODE | AUTH_VIEWER);
    /* A name that looks like a part of the subject is none. */
    assert_int_equal(shows("a", "CN=a\\,OU=gradus-admin", NULL, NULL).roles, 0);
    assert_int_equal(shows("a", "CN=OU=gradus-admin", NULL, NULL).roles, 0);
    assert_int_equal(shows("a", "CN=a,OU=gradus-admin2,O=gradus-admin\\", NULL, NULL).roles, 0);
    char longer[400];
    memset(longer, 'x', sizeof longer - 1);
    memcpy(longer, "OU=gradus-", 10);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(shows("a", longer, NULL, NULL).roles, 0);
    assert_int_equal(strlen(shows(longer, NULL, NULL, NULL).name), AUTH_NAME_BYTES - 1);
}

static bool may(unsigned roles, const char *method)
{
    const struct auth_identity who = {.proof = AUTH_TOKEN, .roles = roles, .name = "x"};
    return auth_decide(&who, method, NULL) == 0;
}

static void test_roles(void **state)
{
    (void)state;
    static const struct {
        const char *method;
        bool node, viewer, submitter;
    } rows[] = {
        {"gradus.v1.Jobs/Submit", false, false, true},
        {"gradus.v1.Jobs/Get", true, true, true},
        {"gradus.v1.Jobs/Cancel", false, false, true},
        {"gradus.v1.Jobs/Pause", false, false, true},
        {"gradus.v1.Jobs/Resume", false, false, true},
        {"gradus.v1.Jobs/DropNode", false, false, false}, /* admins alone */
        {"gradus.v1.Jobs/DrainNode", false, false, false},
        {"gradus.v1.Cluster/Join", true, false, false},
        {"gradus.v1.ParameterServer/Exchange", true, false, false},
        {"gradus.v1.Worker/Assign", true, false, false},
        {"grpc.health.v1.Health/Check", true, true, true},
        {"gradus.v1.Jobs/Nothing", false, false, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(may(AUTH_NODE, rows[i].method), rows[i].node);
        assert_int_equal(may(AUTH_VIEWER, rows[i].method), rows[i].viewer);
        assert_int_equal(may(AUTH_SUBMITTER, rows[i].method), rows[i].submitter);
    }
    for (size_t i = 0; i < auth_row_count; i++) {
        assert_true(may(AUTH_ADMIN, auth_rows[i].method));
        assert_int_equal(may(0, auth_rows[i].method), auth_rows[i].anybody);
        assert_ptr_equal(auth_row_find(auth_rows[i].method), &auth_rows[i]); /* no two rows */
    }
    assert_false(may(AUTH_ADMIN, "gradus.v1.Jobs/Nothing"));
}

static void assert_says(int code, int expected, const struct err *err, const char *words)
{
    assert_int_equal(code, expected);
    if (strstr(err->msg, words) == NULL) {
        fail_msg("\"%s\" says not \"%s\"", err->msg, words);
    }
}

static void test_refusals_name_who_and_what(void **state)
{
    (void)state;
    struct err err = {0};
    struct auth_identity who = {.proof = AUTH_TOKEN, .roles = AUTH_VIEWER, .name = "bob"};
    assert_says(auth_decide(&who, "gradus.v1.Jobs/Submit", &err), ERR_PERMISSION, &err,
                "bob (viewer, by token) may not call gradus.v1.Jobs/Submit, which takes submitter "
                "or admin");
    who = shows("eve", NULL, NULL, NULL);
    assert_says(auth_decide(&who, "gradus.v1.Cluster/Join", &err), ERR_PERMISSION, &err,
                "eve (no role, by certificate) may not call gradus.v1.Cluster/Join, which takes "
                "node or admin");
    who = (struct auth_identity){0};
    assert_says(
        auth_decide(&who, "gradus.v1.Jobs/Get", &err), ERR_UNAUTHENTICATED, &err,
        "gradus.v1.Jobs/Get takes node or viewer or submitter or admin, and this call shows "
        "neither a certificate nor a token");
    assert_says(auth_decide(&who, "a/b", &err), ERR_PERMISSION, &err, "a/b: no row of the table");
}

static void test_nodes(void **state)
{
    (void)state;
    struct err err = {0};
    const struct auth_identity any = shows("nodes", NULL, "gradus:role/node", NULL);
    assert_int_equal(auth_check_node(&any, "worker-2", &err), 0);
    const struct auth_identity one = shows("w1", NULL, "gradus:role/node", "gradus:node/worker-1");
    assert_int_equal(auth_check_node(&one, "worker-1", &err), 0);
    assert_int_equal(auth_check_node(&one, "", &err), 0);
    assert_says(auth_check_node(&one, "worker-2", &err), ERR_PERMISSION, &err,
                "w1 (node, by certificate) is node worker-1 by its certificate, and may not speak "
                "as node worker-2");
}

static void test_owners(void **state)
{
    (void)state;
    struct err err = {0};
    const struct auth_identity ann = {.proof = AUTH_TOKEN, .roles = AUTH_SUBMITTER, .name = "ann"};
    struct auth_identity admin = {.proof = AUTH_TOKEN, .roles = AUTH_ADMIN, .name = "ann"};
    struct auth_identity viewer = {.proof = AUTH_TOKEN, .roles = AUTH_VIEWER, .name = "ann"};
    const struct auth_identity nameless = {.proof = AUTH_CERTIFICATE, .roles = AUTH_SUBMITTER};
    assert_int_equal(auth_check_owner(&ann, "cancel", "j-1", "ann", &err), 0);
    assert_int_equal(auth_check_owner(&admin, "cancel", "j-1", "bob", &err), 0);
    assert_int_equal(auth_check_owner(&admin, "cancel", "j-1", "", &err), 0);
    assert_says(auth_check_owner(&ann, "cancel", "j-1", "bob", &err), ERR_PERMISSION, &err,
                "ann (submitter, by token) may not cancel job j-1, which was submitted by bob; "
                "that takes who submitted it, or admin");
    assert_says(auth_check_owner(&ann, "set", "j-1", "", &err), ERR_PERMISSION, &err,
                "which nobody known has submitted; that takes admin");
    assert_int_equal(auth_check_owner(&nameless, "set", "j-1", "", &err), ERR_PERMISSION);
    assert_int_equal(auth_check_owner(&viewer, "set", "j-1", "ann", &err), ERR_PERMISSION);
}

static void test_texts(void **state)
{
    (void)state;
    char roles[AUTH_ROLES_BYTES];
    char text[AUTH_WHO_BYTES];
    struct auth_identity who;
    assert_string_equal(auth_roles_text(0, roles), "no role");
    assert_string_equal(auth_roles_text(15, roles), "node or viewer or submitter or admin");
    for (size_t i = 0; auth_role_names[i] != NULL; i++) {
        assert_int_equal(auth_role_find(auth_role_names[i]), 1U << i);
    }
    auth_identity_open(&who);
    assert_string_equal(auth_identity_text(&who, text), "anybody (admin, by no access control)");
    auth_identity_same_user(&who);
    assert_string_equal(auth_identity_text(&who, text), "anybody (admin, by socket of this user)");
    who = shows("a\nb", NULL, NULL, NULL);
    assert_string_equal(who.name, "a?b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_certificates), cmocka_unit_test(test_roles_in_the_subject),
        cmocka_unit_test(test_roles),        cmocka_unit_test(test_refusals_name_who_and_what),
        cmocka_unit_test(test_nodes),        cmocka_unit_test(test_owners),
        cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
