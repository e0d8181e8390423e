/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the plug-ins of --rules-dir when a service starts, and logs for each file whether it was
 * taken. One that is refused does not keep the service from starting. */
#include "service/service_rules.h"

#include "os/log.h"
#include "rule/plugin/plugin.h"

static void log_result(void *ctx, const struct plugin_result *result)
{
    char path[512], reason[ERR_MESSAGE_BYTES + 64];
    (void)ctx;
    (void)log_quote(result->path, path, sizeof path);
    if (result->rule != NULL) {
        log_info("rule_loaded", "rule=%s file=%s", result->rule->name, path);
    } else if (result->reason == NULL) {
        log_info("rule_loading", "file=%s", path);
    } else {
        log_warn("rule_refused", "file=%s reason=%s", path,
                 log_quote(result->reason, reason, sizeof reason));
    }
}

int service_load_rules(const char *dir, struct err *err)
{
    if (dir[0] == '\0') {
        return 0;
    }
    return plugin_load_dir(dir, log_result, NULL, err);
}
