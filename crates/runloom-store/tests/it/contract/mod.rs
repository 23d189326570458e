//! What every store does, one behaviour per function. `suite!` writes a test for each of them.

pub(crate) mod approvals;
pub(crate) mod claiming;
pub(crate) mod commits;
pub(crate) mod creating;
pub(crate) mod feedback;
pub(crate) mod ledger;
pub(crate) mod lists;
pub(crate) mod mail;
pub(crate) mod memories;
pub(crate) mod oauth;
pub(crate) mod registry;
pub(crate) mod retention;
pub(crate) mod sessions;
pub(crate) mod tenancy;
pub(crate) mod threads;
pub(crate) mod trees;

/// Writes one test for each behaviour, on stores that `$make` makes.
macro_rules! suite {
    ($make:ident: $($room:ident { $($behaviour:ident,)* })*) => {$(
        mod $room {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $behaviour() {
                    $crate::contract::$room::$behaviour(super::$make().await).await;
                }
            )*
        }
    )*};
    ($make:ident) => {
        $crate::contract::suite!($make:
            approvals {
                a_decision_wakes_the_run_and_is_kept,
                an_approval_is_decided_once,
                of_two_deciders_at_once_one_wins,
                what_has_expired_is_not_decided_any_more,
                the_end_of_a_run_cancels_its_approvals,
                a_run_that_is_being_cancelled_takes_no_decision,
                the_starter_does_not_decide_for_others,
                unknown_approvals_and_runs_are_told_apart,
                an_idempotency_key_repeats_the_decision,
                the_inbox_is_filtered_and_paged,
            }
            claiming {
                a_claim_carries_what_a_worker_needs,
                a_held_run_cannot_be_claimed,
                a_run_that_is_over_cannot_be_claimed,
                a_silent_workers_run_can_be_claimed,
                every_claim_raises_the_epoch_and_counts_an_attempt,
                progress_and_nothing_else_that_is_written_resets_the_attempts,
                a_run_that_was_tried_too_often_is_refused_and_not_counted,
                a_new_process_takes_over_from_a_dead_one,
                a_parked_run_is_claimed_only_when_its_timer_is_due,
                a_released_run_is_claimable_at_once,
                only_a_lease_given_back_in_order_is_no_attempt,
                the_next_timer_is_the_earliest,
                claimable_lists_oldest_first_and_no_more_than_asked,
                runs_that_were_tried_often_and_the_others_do_not_hide_each_other,
                a_workspace_with_many_runs_does_not_hide_the_others,
                parked_and_orphaned_runs_take_turns_with_queued_ones,
                the_backlog_is_what_waits_for_its_first_worker,
                an_unknown_run_is_not_to_be_had,
            }
            commits {
                frames_come_back_byte_for_byte,
                an_old_epoch_is_fenced_and_writes_nothing,
                a_lease_is_gone_after_park_release_and_finish,
                reading_in_small_pieces_has_no_gap,
                reading_from_the_middle_of_a_chunk_starts_with_that_chunk,
                notes_are_for_the_owner_only,
                a_batch_of_nothing_leaves_no_trace_in_the_log,
                a_batch_that_rests_on_silence_is_refused_when_mail_came,
                folded_mail_is_deleted_and_later_mail_is_kept,
                parking_with_unread_mail_leaves_the_run_claimable,
                a_status_changes_with_the_batch_that_names_it,
                the_end_of_a_run_is_in_its_row,
                everything_survives_a_restart,
                many_runs_commit_at_once_and_each_log_is_in_order,
            }
            creating {
                a_new_run_is_queued_and_claimable,
                a_started_run_has_its_lease_and_first_event,
                another_workspaces_run_is_not_found,
                text_with_a_nul_comes_back_whole,
                an_idempotency_key_replays_the_first_run,
                an_idempotency_key_with_another_body_is_refused,
                idempotency_keys_of_workspaces_do_not_meet,
                a_key_tells_what_it_was_used_for,
                an_id_that_exists_is_refused_and_changes_nothing,
            }
            oauth {
                a_person_put_again_is_changed_where_something_is_given,
                an_app_is_its_workspaces_and_keeps_its_secret,
                a_code_is_redeemed_once,
                who_has_left_allows_nothing_any_more,
                leaving_wins_against_a_yes_at_the_same_time,
                the_oldest_codes_that_nobody_redeemed_give_way,
                tokens_go_alone_and_with_their_grant,
                an_app_that_acts_for_itself_has_one_grant,
                grants_are_found_by_what_they_concern,
                what_somebody_allowed_goes_with_them,
                the_oldest_grants_and_tokens_give_way,
                what_has_expired_is_purged_a_page_at_a_time,
            }
            retention {
                purge_removes_old_runs_and_only_those,
                purge_forgets_old_idempotency_keys,
                run_numbers_do_not_come_back_after_a_purge,
                an_old_ended_session_goes_with_all_that_was_said,
                what_is_purged_leaves_no_row_behind,
                a_session_that_nobody_uses_goes_when_it_is_asked_for,
                a_session_with_a_live_run_stays,
                runs_outlive_their_session_and_join_no_other,
                a_long_conversation_goes_in_pieces_and_is_continued_by_nobody,
                sessions_go_page_by_page,
            }
            trees {
                a_child_belongs_to_its_parents_tree,
                a_child_is_created_once,
                a_refused_batch_creates_no_child,
                a_root_has_room_for_so_many_runs,
                mail_wakes_a_parked_run,
                mail_to_a_held_run_goes_to_its_owner,
                mail_to_an_ended_run_is_dropped,
                the_end_of_a_child_and_its_mail_are_one,
                stopping_reaches_every_live_run_below,
                lists_show_roots_unless_asked,
                children_are_purged_with_their_root,
            }
            mail {
                an_answer_to_a_parked_run_makes_it_claimable,
                an_answer_to_a_held_run_goes_to_its_owner,
                a_call_is_answered_once,
                an_answer_to_a_closed_or_unknown_call_is_refused,
                an_answer_after_the_end_is_terminal,
                an_answer_after_a_cancel_is_ignored,
                an_answer_with_a_key_is_replayed,
                an_answer_from_another_workspace_finds_no_run,
                a_cancel_of_a_parked_run_makes_it_claimable,
                a_cancel_of_a_held_run_goes_to_its_owner,
                a_second_cancel_is_nothing,
                a_cancel_after_the_end_is_nothing,
                a_cancel_from_another_workspace_finds_no_run,
                mail_is_read_in_order_and_after_a_number,
                mail_and_calls_end_with_the_run,
            }
            sessions {
                messages_of_a_session_run_one_after_the_other,
                a_message_behind_another_is_not_started_at_once,
                a_cancelled_message_needs_no_turn,
                the_end_of_a_run_names_the_next_of_its_session,
                a_session_stays_on_the_model_that_a_run_ended_with,
                messages_are_appended_when_the_ending_has_them,
                the_next_run_knows_the_sessions_history,
                a_message_is_started_at_once_by_who_knows_all_that_was_said,
                an_ended_session_takes_no_messages_and_cancels_its_runs,
                a_session_of_another_workspace_is_not_found,
                a_session_with_a_key_is_made_once,
                pages_of_messages_are_the_last_before_a_number,
                pages_of_messages_are_no_larger_than_asked_but_never_empty,
            }
            threads {
                runs_of_a_session_come_newest_first,
                a_log_tells_when_it_was_written,
                a_thread_has_one_session,
                an_ag_ui_run_is_seen_once,
                the_first_message_of_a_call_keeps_its_id,
            }
            lists {
                runs_come_newest_first_in_pages,
                runs_are_filtered_by_each_field,
                runs_are_filtered_by_all_labels_together,
                a_list_shows_a_run_with_the_beginning_of_its_answer,
                runs_of_one_session_are_listed,
                lists_show_one_workspace_only,
                sessions_come_newest_first_in_pages,
                sessions_are_filtered_by_status_and_labels,
            }
            ledger {
                a_reservation_is_taken_out_of_every_purse_or_none,
                a_grant_is_what_the_emptiest_purse_has,
                what_a_call_did_not_need_goes_back_with_its_batch,
                a_reservation_that_is_forgotten_counts_in_full,
                a_worker_that_lost_its_run_cannot_reserve,
                a_purse_refills_at_the_turn_of_the_month,
                many_runs_cannot_overspend_one_purse,
                the_account_adds_up_by_day_model_and_key,
                what_another_model_used_is_on_its_own_account,
                a_fenced_batch_adds_nothing_to_the_account,
                absurd_amounts_do_not_keep_a_run_from_ending,
            }
            feedback {
                a_runs_feedback_is_replaced_and_keeps_its_id,
                feedback_on_another_workspaces_run_finds_no_run,
                feedback_is_filtered_by_each_field,
                pages_of_feedback_are_bounded_in_number_and_bytes,
                feedback_goes_with_its_run,
            }
            registry {
                a_document_is_found_by_id_and_by_slug,
                a_document_of_another_workspace_or_kind_is_not_found,
                a_replaced_document_keeps_its_id_and_gets_the_next_version,
                old_versions_of_agents_can_be_read_and_those_of_secrets_cannot,
                only_the_last_versions_are_kept,
                a_precondition_guards_every_change,
                a_deleted_document_is_gone_with_its_versions,
                documents_come_by_slug_and_no_more_than_allowed,
                sealed_texts_are_listed_once_each_in_any_page_size,
                resealing_changes_texts_and_nothing_else,
                a_setting_is_made_once_and_changed_on_purpose,
                the_stamp_changes_with_providers_and_secrets_only,
            }
            memories {
                a_memory_put_again_is_replaced_and_found_by_its_new_words,
                memories_are_found_by_beginnings_of_words_best_first,
                the_newer_of_two_equal_matches_comes_first,
                no_word_is_read_as_syntax,
                links_are_seen_from_both_ends_and_replaced_when_given,
                a_link_to_an_unknown_key_keeps_nothing,
                a_workspace_sees_its_own_memories_only,
                memories_of_others_do_not_change_the_order,
                a_full_workspace_takes_changes_but_no_more_memories,
                memories_are_listed_newest_first_in_pages,
                a_forgotten_memory_is_gone_with_its_words_and_links,
                old_memories_are_forgotten_a_few_at_a_time,
            }
            tenancy {
                a_workspace_put_again_is_updated,
                workspaces_come_by_slug,
                a_key_is_found_by_its_prefix_with_its_workspace,
                a_key_put_again_is_updated_and_keeps_its_id,
                a_revoked_key_stays_revoked,
                a_key_of_another_workspace_cannot_be_revoked,
            }
        );
    };
}
pub(crate) use suite;
