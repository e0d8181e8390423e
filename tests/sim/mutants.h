/* SPDX-License-Identifier: Apache-2.0 */
/* Deliberate bugs in the cores and in tables, one line each: does the simulator find them?
 *
 * The hooks are MUTANT(name) in their code (base/mutant.h); only sim-mutants has them compiled in.
 * To add one: a line here, and the hook. */
#ifndef GRADUS_SIM_MUTANTS_H
#define GRADUS_SIM_MUTANTS_H

/* X(name, modes in which to look first, what is wrong) */
#define SIM_MUTANTS(X)                                                                             \
    X(sync_push_again, SYNC, "a sync push that is in already is taken once more")                  \
    X(sync_old_step, SYNC, "a push of a step that is over counts for the present one")             \
    X(sync_without_last, SYNC, "a step is applied without its last replica")                       \
    X(sync_as_they_come, SYNC, "sums are added as they come, not along the tree")                  \
    X(tree_off_by_one, SYNC, "the reduction tree splits one replica too early")                    \
    X(async_push_again, ASYNC, "an async push that was applied is applied once more")              \
    X(ack_before_apply, ASYNC, "a push that waits for a snapshot is answered APPLIED at once")     \
    X(push_of_any_generation, ANY, "a push of an old generation is taken")                         \
    X(pull_of_any_generation, ANY, "a pull of an old generation is answered or parked")            \
    X(membership_of_any_generation, ANY, "an old SetMembership takes the generation back")         \
    X(queue_over_generations, ASYNC, "pushes that wait survive a change of generation")            \
    X(everyone_decides, PARTIAL, "every shard of a partial step decides for itself")               \
    X(decision_forgotten, PARTIAL, "decisions are forgotten when the generation changes")          \
    X(stale_everywhere, ASYNC, "shards that are not the lead drop what is too stale, too")         \
    X(idle_worker_counts, BOUNDED, "a worker that says it is idle stays in the minimum")           \
    X(base_forgotten, ASYNC, "the version for delay compensation is not kept")                     \
    X(highest_progress, ASYNC, "who takes a split over begins at the highest progress")            \
    X(leases_over_generations, ASYNC, "a worker keeps its leases when the generation changes")     \
    X(mixed_versions, SYNC, "a worker only looks which version the lead sent")                     \
    X(dropped_is_done, ASYNC, "a batch that was dropped as too stale counts as done")              \
    X(hold_forgets_step, CHANGE, "a worker on hold does not count the step that it has begun")     \
    X(late_assign, CHANGE, "an Assign that was overtaken by a later one is taken")                 \
    X(late_start, LATE, "a StartJob of another start is answered: it is started already")          \
    X(order_of_another_start, LATE, "an Assign, or an Evaluate, of an earlier start is obeyed")    \
    X(lease_always_fresh, ASYNC, "a lease that somebody had is given as fresh")                    \
    X(lease_lost_with_worker, ASYNC, "the leases of a lost worker are not given to others")        \
    X(highest_version, SYNC, "after a loss workers go on from the highest version")                \
    X(restore_from_the_start, ANY, "the ledger does not go back with the checkpoint")              \
    X(unlevel_cut, ASYNC, "a cut is made where shards have different batches")                     \
    X(position_falls, CHANGE, "a late report takes back where a worker holds")                     \
    X(generation_not_stored, ANY, "a generation is used before it is stored")                      \
    X(generation_not_awaited, ANY, "a generation is used although its row was refused")            \
    X(end_not_awaited, ANY, "clients are told of an end that is not stored")                       \
    X(last_checkpoint_once, ANY, "a job ends without its last checkpoint when it fails once")      \
    X(base_is_the_last, ANY, "a delta is one of the checkpoint before it, be that a delta itself") \
    X(last_evaluation_once, ANY, "a job ends without its last evaluation when it fails once")      \
    X(stop_runs_on, ANY, "training goes on beside the evaluation that ends it")                    \
    X(stop_not_restored, ANY, "what was the best is not gone back to with a checkpoint")           \
    X(revived_anew, RESUMED, "a job that is resumed after its end begins anew")                    \
    X(revived_at_once, RESUMED, "it begins while nodes still have what it was")                    \
    X(revived_is_over, RESUMED, "it counts as trained to its end")                                 \
    X(revived_not_stored, RESUMED, "a client is told that it goes on before that is stored")       \
    X(stops_again, RESUMED, "one that was stopped early is stopped there again")                   \
    X(best_is_passing, ASYNC, "all go on while a version that may have to be kept is evaluated")   \
    X(best_forgotten, ANY, "the checkpoint of the best version is not noted")                      \
    X(begins_anew, ANY, "a job whose checkpoints are gone begins anew")                            \
    X(damage_forgotten, ANY, "a damaged checkpoint is tried for ever")                             \
    X(row_not_stored_again, ANY, "a row that was refused is not stored later")                     \
    X(grant_on_hold, CHANGE, "a lease is given again to a worker on hold")                         \
    X(old_totals, SUMS, "totals of a round that is over count for the present one")                \
    X(last_totals_forgotten, SUMS, "a shard does not keep the totals of the step it applied last") \
    X(sums_over_generations, SUMS, "sums that are begun survive a change of generation")           \
    X(totals_not_told, SUMS, "a worker joins anew what a shard knows the totals of")               \
    X(lost_values_known, ANY, "parameters of which a part never came are not pulled again")        \
    X(given_up_is_done, ANY, "a batch that was given up for want of parameters counts as done")    \
    X(no_room_is_done, ASYNC, "a SetMembership that a shard has no memory for counts as answered") \
    X(era_not_recorded, UPDATES, "a change of the update section is in the file and in no record") \
    X(era_begins_late, UPDATES, "a change is recorded as one of the version after")                \
    X(eras_pile_up, UPDATES, "a job that went back keeps what was to become of its update")        \
    X(era_start_not_awaited, UPDATES, "a job starts with a change whose place is not stored")      \
    X(era_not_taken, UPDATES, "a shard goes on with the update section that it was opened with")   \
    X(era_of_lead, UPDATES, "only the lead takes a changed update section")                        \
    X(era_of_next, UPDATES, "the last version before a change is made with what comes after it")   \
    X(era_of_base, UPDATES, "a gradient is applied as of the version that it was computed on")     \
    X(newest_era, UPDATES, "a shard that is restored knows the newest update section alone")       \
    X(era_kept_undone, UPDATES, "a change that did not fit stays in the record")                   \
    X(undone_not_awaited, UPDATES,                                                                 \
      "a client hears that its change was undone before that is stored")                           \
    X(first_eras, UPDATES, "a worker keeps to the rounds of its first assignment")                 \
    X(change_half_undone, CHANGE, "only the master takes back a change that did not fit")          \
    X(opening_not_compared, ANY, "a push for another opening of the shard is taken")               \
    X(closed_opens_again, LATE, "an OpenShard that comes late opens what was closed")              \
    X(closing_overtakes, ANY,                                                                      \
      "a CloseShard that finds no shard forgets what is about to be opened")                       \
    X(any_shard_will_do, ANY,                                                                      \
      "a server that names the job is taken to have the shard of this start")                      \
    X(secret_not_compared, ANY, "whoever names a high generation is taken for the master")         \
    X(failure_of_any_generation, ANY, "a failure of a generation that is over fails the job")      \
    X(spare_waits_for_its_step, PARTIAL, "who has brought a late replica asks for no other")       \
    X(lead_has_all, SPECULATE, "only the lead is asked what is late")                              \
    X(silence_is_deafness, STILL,                                                                  \
      "a node that is silent is given up for the calls that are open to it")                       \
    X(server_as_a_worker, STILL, "a server with shards is waited for no longer than a worker")     \
    X(waited_for_ever, STILL, "a server with shards is never given up for its silence")            \
    X(silence_of_the_master, STILL,                                                                \
      "the time that the master stood still is taken for a server's")                              \
    X(name_of_a_late_node, STILL, "another process gets the name of a node that is only late")     \
    X(probe_is_proof, STILL, "a node is given up for what was seen before it spoke")               \
    X(dropped_when_it_is_back, STILL, "a server that was silent is told to drop its shards")       \
    X(silent_is_unknown, STILL, "a node that was silent for the time-out is told to join again")   \
    X(evaluation_gone, STILL,                                                                      \
      "a worker without the job costs the job its steps when it is to evaluate")                   \
    X(late_and_does_not_know, ANY, "a master that stood still judges what it has not heard")       \
    X(late_while_it_reads, ANY, "a master that stood still while it read judges what is unread")   \
    X(work_is_silence, ANY, "a node that says what it is at counts as one that is silent")         \
    X(waits_for_all, ANY, "a job that recovers waits for as many workers as its file says")        \
    X(kept_gradient_of_any_step, SYNC, "a gradient that is kept is taken for one of another step") \
    X(never_steps_back, PARTIAL, "a worker waits for a shard that is a step behind, for ever")     \
    X(budget_reserve_short, MEMORY, "a shard reserves memory for one gradient too few")            \
    X(budget_reserve_of_some, MEMORY, "a partial step reserves for as many replicas as it takes")  \
    X(budget_no_room_for_totals, MEMORY, "a complete step that waits for totals takes all memory") \
    X(budget_keeps_reserve, MEMORY, "the reserve of a shard that closes is for nobody else")       \
    X(budget_head_blocks, MEMORY, "who waits for memory keeps others from their reserve")          \
    X(budget_lends_reserves, MEMORY, "memory that a shard reserved is given to another one")       \
    X(budget_cancel_keeps, MEMORY, "who gives up keeps the memory that it was granted")            \
    X(budget_closed_sleeps, MEMORY, "who waits for memory does not hear that the shard closed")    \
    X(budget_return_unseen, MEMORY, "memory that comes back is given to nobody who waits")         \
    X(trace_workers_first, TRACED, "workers record before all servers do")                         \
    X(trace_taken_early, TRACED, "servers are taken from while workers record")                    \
    X(trace_left_behind, TRACED, "servers record on when the client of a trace goes away")         \
    X(trace_waits_for_failed, TRACED, "a round of a trace waits for a node that has failed")       \
    X(trace_servers_give_up, TRACED, "servers record no longer than workers may")                  \
    X(record_after_take, TRACED, "a RECORD that comes after its TAKE begins a recording")          \
    X(record_replaced, TRACED, "a RECORD of another trace replaces the one that is recorded")      \
    X(record_for_ever, TRACED, "a recording whose time is up keeps others from theirs")            \
    X(record_ends_early, TRACED, "a worker does not wait for the exchanges of its last step")      \
    X(pause_forgotten, FAIR, "a master that is started again does not know what is paused")        \
    X(held_goes_on, FAIR, "a master that is to let nothing go on does")                            \
    X(yield_without_checkpoint, FAIR, "a job whose checkpoint fails gives up its nodes")           \
    X(yield_does_not_stand, FAIR, "workers go on while what a job yields with is written")         \
    X(yield_keeps_nodes, FAIR, "a job that yields tells no node to drop it")                       \
    X(resize_waits_for_all, CHANGE, "a job waits for the servers that it wants, with none")        \
    X(resize_plan_of_file, CHANGE, "the plan is for as many servers as are wanted")                \
    X(resize_keeps_nobody, FAIR, "a job that moves keeps no worker")                               \
    X(resize_before_servers, CHANGE, "a job moves before the servers are there")                   \
    X(resize_is_recovery, CHANGE, "a job that moves counts that as a recovery")                    \
    X(resize_not_withdrawn, CHANGE, "a move that does not fit stays wanted")                       \
    X(resize_never, CHANGE, "a job never moves to the servers that it wants")                      \
    X(resume_anew, FAIR, "a job that is resumed begins anew")                                      \
    X(queue_by_age, FAIR, "the queue does not look at priorities")                                 \
    X(quota_one_more, FAIR, "an owner may have one running job more")                              \
    X(quota_at_start_only, FAIR, "a running job takes workers beyond the quota")                   \
    X(quota_without_memory, FAIR, "memory of servers has no quota")                                \
    X(quota_blocks_others, FAIR, "a job that waits for a quota has the right to the next nodes")   \
    X(preempts_equals, FAIR, "a job makes way for one of its own priority")                        \
    X(preempts_at_once, FAIR, "a job makes way although it has just begun")                        \
    X(preempts_in_vain, FAIR, "jobs make way although all of them would not do")                   \
    X(rows_of_present, TABLES,                                                                     \
      "a shard answers with the newest rows, whatever version is asked for")                       \
    X(pinned_rows_of_present, TABLES, "rows of a pinned version change with the next update")      \
    X(previous_never, TABLES, "the version before is never kept once the mode was looked at")      \
    X(previous_as_opened, TABLES, "a job that becomes sync does not keep the version before")      \
    X(rows_latest, TABLES, "a worker of a sync job reads the newest rows")                         \
    X(rows_outrun_unseen, TABLES,                                                                  \
      "a late worker asks for rows of a version that is gone, for ever")                           \
    X(rows_forget_parameters, TABLES, "with its rows a worker gives up its parameters, too")       \
    X(rows_pushed_along, TABLES, "a gradient leaves before its rows are there")                    \
    X(rows_of_last_step, TABLES, "a worker reads the rows of the version before")                  \
    X(rows_of_any_batch, TABLES, "rows that came ahead are used for whatever batch is next")       \
    X(rows_of_lead, TABLES, "rows that came from the lead are taken for those of all shards")      \
    X(rows_kept, TABLES, "rows that came ahead are used with newer parameters")                    \
    X(rows_not_pinned, TABLES, "an evaluation reads the newest rows")                              \
    X(changed_under_pin, TABLES, "a row is not copied before it changes")                          \
    X(evicted_under_pin, TABLES, "a row is not copied before it is evicted")                       \
    X(new_row_under_pin, TABLES, "who reads an old version gets rows that came later")             \
    X(counts_change_under_pin, TABLES, "what admission counts goes on under a pin")                \
    X(newest_copy, TABLES, "who reads an old version sees its copies, not those of later ones")    \
    X(unpin_forgets, TABLES, "when a version goes, what older ones need of it goes, too")          \
    X(first_table_pinned, TABLES, "only the first table of a job is pinned")                       \
    X(reading_changes, TABLES, "a read row is brought up to date, but not what is noted of it")    \
    X(counted_again, TABLES, "an update that is made again counts its sightings again")            \
    X(counts_not_restored, TABLES, "a checkpoint's counts of admission are not restored")          \
    X(restored_as_new, TABLES, "restored rows count as seen at the checkpoint")                    \
    X(limit_before_admission, TABLES, "max_rows is judged without the rows that just came")        \
    X(evicted_early, TABLES, "a row that was not seen goes one update early")                      \
    X(least_of_any_key, TABLES, "which of two equal rows goes is a matter of where they lie")      \
    X(slots_of_evicted, TABLES, "a row begins with the slots of the one whose place it has")       \
    X(sightings_of_one, TABLES, "a sum has the sightings of one of its rows alone")                \
    X(rows_of_second_lost, TABLES, "a sum that begins without rows stays so")                      \
    X(empty_step_is_none, TABLES, "a step that brings no rows is none for tables")                 \
    X(gone_not_noted, TABLES, "a delta does not say which rows went")                              \
    X(writes_again, TABLES, "a Checkpoint that comes twice writes the rows again")                 \
    X(delta_misses_first, TABLES, "a delta has no rows of the version behind its base")            \
    X(notes_of_base_forgotten, TABLES, "what went is forgotten with the first delta that says so") \
    X(delta_of_any_notes, TABLES, "a delta is written although it is not known what went")         \
    X(reader_pins_any, TABLES, "a reader gets the present version, whichever it wants")            \
    X(reader_reads_present, TABLES, "a reader reads the present version, whatever it has pinned")  \
    X(reader_for_ever, TABLES, "a reader's pin outlives its lease")                                \
    X(reader_pins_late, TABLES, "a reader that waits for a version gets the one behind it")        \
    X(readers_pins_stay, TABLES, "pins of the training are given up before those of readers")      \
    X(read_unfilled, GIVEN, "a shard answers before workers have brought all of its values")       \
    X(fill_counts_repeats, GIVEN, "values that come again count as further ones")                  \
    X(late_fill_overwrites, GIVEN, "a Fill that comes late takes values back")                     \
    X(fill_of_another_opening, GIVEN, "a Fill for another opening of the shard is taken")          \
    X(fill_of_the_lead, GIVEN, "a worker is ready when the first shard is filled")                 \
    X(fill_of_any_generation, GIVEN, "a Fill of a generation that is over is taken")               \
    X(fill_not_again, GIVEN, "a worker does not bring again what may have been lost")              \
    X(from_again, GIVEN, "the source of a job that has a checkpoint is looked at again")           \
    X(from_unknown, GIVEN, "a worker is not told which values of a source the job has")            \
    X(rows_of_nowhere, GIVEN, "servers are not told which rows of a source the job has")           \
    X(rows_once, GIVEN, "they are told once, and not when the job begins again")                   \
    X(encoding_forgotten, GIVEN, "a job that goes on measures its records, and took an encoding")  \
    X(encoding_of_first, GIVEN, "a worker that comes later measures them")                         \
    X(slots_from_zero, GIVEN, "updates are counted from 0 where slots have seen some")             \
    X(never_adopts, STILL, "a master that is started again takes no job over")                     \
    X(pins_of_the_dead, STILL, "what an earlier master pinned stays pinned")                       \
    X(sync_point_lost, STILL, "an evaluation or checkpoint that was under way is forgotten")       \
    X(pin_not_noted, STILL, "a row says nothing of the version that is being evaluated")           \
    X(writes_for_any_base, STILL, "a delta of an earlier master is taken for a whole file")        \
    X(adopted_from_the_start, ASYNC, "who takes a job over leases the epoch that it began with")   \
    X(handover_of_start, STILL, "a row names the nodes with which the job began")                  \
    X(adopted_into_next_epoch, STILL, "what is due between two epochs is passed over")             \
    X(adopted_as_it_was, STILL, "who takes a job over goes on in its generation")                  \
    X(shown_before_received, STANDBY, "a shard answers what its backup has not received")          \
    X(receipt_of_all, STANDBY, "a receipt of one record counts for all")                           \
    X(decision_not_said, STANDBY, "the backup of the lead does not hear what it decides")          \
    X(last_sum_not_said, STANDBY, "a record lacks the sum that the update adds last")              \
    X(old_primary_is_heard, STANDBY, "a backup that took over follows the old primary, too")       \
    X(membership_not_said, STANDBY, "a backup does not hear of a generation")                      \
    X(unpin_not_said, STANDBY, "a backup keeps what was unpinned")                                 \
    X(fill_not_said, STANDBY, "initial values that workers bring do not go to the backup")         \
    X(joining_takes_over, STANDBY, "the master lets a backup take over that does not follow yet")  \
    X(alone_by_itself, STANDBY, "a primary goes on when its backup is silent for half a second")   \
    X(records_go_on, STANDBY, "records to a backup that joins go on from those to the one before") \
    X(state_not_kept, STANDBY, "nothing is kept of the state that a backup which joins is sent")   \
    X(state_with_present_slots, STANDBY, "a state has the slots of the moment when it leaves")     \
    X(state_of_generation_before, STANDBY, "a state is said to be of the generation before")       \
    X(state_without_ledger, STANDBY, "a state does not have the data position")                    \
    X(state_without_eras, STANDBY, "a state does not have the update sections")                    \
    X(joining_without_bound, STANDBY,                                                              \
      "a primary is as far ahead of a backup that catches up as it likes")                         \
    X(follows_before_received, STANDBY, "a backup follows when it has the state, whatever waits")  \
    X(follows_without_version_before, STANDBY, "a backup follows that has one version of sync")    \
    X(sent_not_said, STANDBY, "a backup does not hear which version a worker has")                 \
    X(record_without_worker, STANDBY, "a backup does not hear whose gradient an update is of")     \
    X(rows_before_received, STANDBY, "rows are read of a version that the backup lacks")           \
    X(rows_of_first_table_said, STANDBY, "a record has the rows of a job's first table alone")     \
    X(state_of_present_rows, STANDBY, "a state has the rows of the moment when it leaves")         \
    X(state_of_rows_as_read, STANDBY, "a state has rows as they read, not as they lie")            \
    X(state_without_notes, STANDBY, "a state does not say how often a row was seen")               \
    X(state_without_counts, STANDBY, "a state does not have what admission has counted")           \
    X(joining_is_ready, STANDBY, "a server may be ended while the backup of its shard joins")      \
    X(backup_is_ready, STANDBY, "a server may be ended while a backup on it joins")                \
    X(drained_is_free, DRAIN, "a node that drains is given jobs")                                  \
    X(backup_on_drained, DRAIN, "backups join on servers that drain")                              \
    X(drained_for_good, DRAIN, "who takes a drain back is not heard")                              \
    X(moved_before_stored, DRAIN, "a shard moves before it is stored that its backup follows")     \
    X(moves_to_one_that_joins, DRAIN, "a shard moves to a backup that does not follow yet")        \
    X(drains_last_worker, DRAIN, "a job loses the workers that it needs to one who drains them")   \
    X(moved_is_backup, DRAIN, "who takes over a job without backups promotes no backup")           \
    X(ends_before_copied, DRAIN, "a server may end while the backup of its shard joins")           \
    X(ends_without_backup, DRAIN, "a server may end whose shard others could have")                \
    X(leaves_until_undone, DRAIN, "who takes a drain back takes back that a server is to end")     \
    X(moved_to_leaving, DRAIN, "shards move to servers that are to end")                           \
    X(leaves_gets_backup, DRAIN, "backups join on servers that are to end")                        \
    X(leaves_is_free, DRAIN, "a server that is to end is given jobs")                              \
    X(leaves_not_emptied, DRAIN, "a server that is to end waits, and its shards stay")             \
    X(leaves_covers, DRAIN, "what is on a server that is to end counts as a backup")               \
    X(cover_may_end, DRAIN, "a server may end that another one which may end counts upon")         \
    X(cover_drained_first, DRAIN, "a drain closes the backup for which a server may end")          \
    X(leaves_for_ever, DRAIN, "a server that has nothing is told to wait")                         \
    X(first_places, ANY, "a worker looks for a shard where it was in its first generation")        \
    X(late_places, LATE, "an Evaluate that comes late takes a worker back to where shards were")

enum mutant {
    MUTANT_NONE,
#define X(name, mode, text) MUTANT_##name,
    SIM_MUTANTS(X)
#undef X
        MUTANT_COUNT
};
extern enum mutant mutant_active;

struct mutant_info {
    const char *name, *text;
    int mode; /* enum sim_mode */
};
extern const struct mutant_info mutant_infos[MUTANT_COUNT];

#endif
