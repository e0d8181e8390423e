/* SPDX-License-Identifier: Apache-2.0 */
/* Pins: versions that stay readable while the training goes on. */
#include <inttypes.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mutant.h"
#include "base/text.h"
#include "ps/core/shard_internal.h"

const struct shard_pin *shard_pin_find(const struct shard *s, const char *id)
{
    for (size_t i = 0; id != NULL && id[0] != 0 && i < SHARD_PINS_MAX; i++) {
        if (strcmp(s->pins[i].id, id) == 0) {
            return &s->pins[i];
        }
    }
    return NULL;
}

static struct shard_pin *find(struct shard *s, const char *id)
{
    const struct shard_pin *pin = shard_pin_find(s, id);
    return pin == NULL ? NULL : &s->pins[pin - s->pins];
}

static void reply_pin(const struct shard *s, const struct shard_pin *pin, void *tag,
                      struct shard_actions *out)
{
    struct shard_action *a = shard_act(out, SHARD_REPLY);
    a->tag = tag;
    a->version = pin->version;
    a->generation = s->generation;
    a->ledger = pin->ledger.done == NULL ? NULL : &pin->ledger;
    a->examples_applied = pin->examples;
}

static struct shard_pin *free_pin(struct shard *s)
{
    for (size_t i = 0; i < SHARD_PINS_MAX; i++) {
        if (s->pins[i].id[0] == 0) {
            return &s->pins[i];
        }
    }
    return NULL;
}

/* True if the pin was taken away already. A call may come twice, and late: a pin that nobody will
 * take away must not be made. */
static bool was_unpinned(const struct shard *s, const char *id)
{
    const uint64_t sum = checksum_of(id, strlen(id));
    for (size_t i = 0; i < s->unpinned_count && i < SHARD_UNPINNED_KEPT; i++) {
        if (s->unpinned[i] == sum) {
            return true;
        }
    }
    return false;
}

static void remember_unpinned(struct shard *s, const char *id)
{
    size_t length = id == NULL ? 0 : strnlen(id, SHARD_PIN_ID_BYTES);
    if (length > 0 && length < SHARD_PIN_ID_BYTES && !was_unpinned(s, id)) {
        s->unpinned[s->unpinned_count++ % SHARD_UNPINNED_KEPT] = checksum_of(id, length);
    }
}

int shard_pin_check(struct shard *s, const struct shard_event *e, struct err *err)
{
    int rc = shard_check_filled(s, err);
    if (rc != 0) {
        return rc;
    }
    size_t length = e->pin_id == NULL ? 0 : strnlen(e->pin_id, SHARD_PIN_ID_BYTES);
    if (length == 0 || length == SHARD_PIN_ID_BYTES) {
        return err_set(err, ERR_INVALID, "a pin_id must have 1 to %d bytes",
                       SHARD_PIN_ID_BYTES - 1);
    }
    const struct shard_pin *pin = find(s, e->pin_id);
    char shown[64];
    if (was_unpinned(s, e->pin_id)) {
        return err_set(err, ERR_ABORTED, "'%s' was unpinned before",
                       text_shown(e->pin_id, shown, sizeof shown));
    }
    if (pin != NULL && e->slots && !pin->slots) {
        return err_set(err, ERR_EXISTS, "version %" PRIu64 " is pinned as '%s' without its slots",
                       pin->version, text_shown(e->pin_id, shown, sizeof shown));
    }
    if (pin == NULL && free_pin(s) == NULL) {
        return err_set(err, ERR_EXHAUSTED, "%d versions are pinned already; unpin one",
                       SHARD_PINS_MAX);
    }
    return 0;
}

const struct shard_pin *shard_pin_take(struct shard *s, const struct shard_event *e,
                                       struct shard_actions *out)
{
    shard_record_event(s, SHARD_RECORD_PIN, out);
    struct shard_pin *pin = free_pin(s);
    memcpy(pin->id, e->pin_id, strlen(e->pin_id) + 1);
    pin->version = s->version;
    pin->slots = e->slots;
    pin->slots_buffer = e->slots_buffer;
    pin->examples = s->examples;
    if (s->consistency.mode != TRAINING_SYNC) {
        ledger_copy(&pin->ledger, &s->ledger);
    }
    struct shard_action *a = shard_act(out, SHARD_KEEP);
    a->version = pin->version;
    a->buffer = pin->slots_buffer;
    return pin;
}

void shard_on_pin(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    int rc = shard_check_generation(s, e->generation, &out->err);
    if (rc != 0 || shard_pin_check(s, e, &out->err) != 0) {
        shard_release_buffer(out, e->slots_buffer);
        shard_refuse(s, e->tag, out);
        return;
    }
    const struct shard_pin *pin = shard_pin_find(s, e->pin_id);
    if (pin != NULL) {
        shard_release_buffer(out, e->slots_buffer);
    } else {
        pin = shard_pin_take(s, e, out);
    }
    reply_pin(s, pin, e->tag, out);
}

static void release_pin(struct shard_pin *pin, struct shard_actions *out)
{
    shard_act(out, SHARD_FORGET)->version = pin->version;
    shard_release_buffer(out, pin->slots_buffer);
    ledger_release(&pin->ledger);
    *pin = (struct shard_pin){0};
}

void shard_pin_end(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    struct shard_pin *pin = find(s, e->pin_id);
    if (pin != NULL) {
        release_pin(pin, out);
    }
    remember_unpinned(s, e->pin_id);
}

void shard_on_unpin(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    if (shard_check_generation(s, e->generation, &out->err) != 0) {
        shard_refuse(s, e->tag, out);
        return;
    }
    if (!MUTANT(unpin_not_said)) {
        shard_record_event(s, SHARD_RECORD_UNPIN, out);
    }
    shard_pin_end(s, e, out);
    shard_reply_state(s, e->tag, out);
}

void shard_pins_release(struct shard *s, struct shard_actions *out)
{
    for (size_t i = 0; i < SHARD_PINS_MAX; i++) {
        if (s->pins[i].id[0] != 0) {
            release_pin(&s->pins[i], out);
        }
    }
}

void shard_pins_forget(struct shard *s, const char *keep, struct shard_actions *out)
{
    for (size_t i = 0; i < SHARD_PINS_MAX; i++) {
        struct shard_pin *pin = &s->pins[i];
        if (pin->id[0] != 0 && (keep == NULL || strcmp(pin->id, keep) != 0)) {
            remember_unpinned(s, pin->id); /* a call that is late must not pin it again */
            release_pin(pin, out);
        }
    }
}

static int check_checkpoint(const struct shard *s, const struct shard_event *e,
                            const struct shard_pin *pin, struct err *err)
{
    int rc = shard_check_generation(s, e->generation, err);
    if (rc != 0) {
        return rc;
    }
    char shown[64];
    const char *id = text_shown(e->pin_id == NULL ? "" : e->pin_id, shown, sizeof shown);
    if (pin == NULL) {
        return err_set(err, ERR_NOT_FOUND, "no version is pinned as '%s'", id);
    }
    if (s->has_slots && !pin->slots) {
        return err_set(err, ERR_STATE, "version %" PRIu64 " is pinned as '%s' without its slots",
                       pin->version, id);
    }
    return 0;
}

/* Only reads, but an old generation must not put its file in the place of a newer one's. */
void shard_on_checkpoint(struct shard *s, const struct shard_event *e, struct shard_actions *out)
{
    const struct shard_pin *pin = shard_pin_find(s, e->pin_id);
    if (check_checkpoint(s, e, pin, &out->err) != 0 || pin == NULL) {
        shard_refuse(s, e->tag, out);
        return;
    }
    struct shard_action *a = shard_act(out, SHARD_WRITE);
    a->tag = e->tag;
    a->buffer = pin->slots_buffer;
    a->version = pin->version;
    a->generation = s->generation;
    a->ledger = pin->ledger.done == NULL ? NULL : &pin->ledger;
    a->examples_applied = pin->examples;
}

/* ---- its file ---- */

bool shard_written_is(const struct shard_written *w, const char *pin_id, const char *base)
{
    bool same = w->base == checksum_of(base, strlen(base)) || MUTANT(writes_for_any_base);
    return !MUTANT(writes_again) && same && w->pin_id[0] != '\0' && strcmp(w->pin_id, pin_id) == 0;
}

void shard_written_note(struct shard_written *w, const char *pin_id, const char *base,
                        const struct shard_written *written)
{
    *w = *written;
    w->base = checksum_of(base, strlen(base));
    text_copy(w->pin_id, sizeof w->pin_id, pin_id);
}
