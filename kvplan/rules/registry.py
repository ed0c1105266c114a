"""All rules, listed once, in the order of their codes."""

from __future__ import annotations

from kvplan.rules.blocks import (
    kv501_pages_cannot_be_unified,
    kv502_block_size_changed,
    kv503_bare_assertion,
    kv504_padding_waste,
    kv505_hybrid_manager_off,
    kv506_no_common_block_size,
    kv507_block_larger_than_request,
    kv508_cache_layout_impossible,
)
from kvplan.rules.cache import (
    kv201_packed_cache_viewed_plain,
    kv202_skip_list_ignored,
    kv203_skip_list_without_quantisation,
    kv204_skip_list_stops_at_indexer,
    kv205_skipped_layer_packed_again,
    kv206_checkpoint_overrides_flag,
    kv207_auto_is_quantised,
    kv208_layer_name_rejected,
    kv209_cache_dtype_differs_from_model,
    kv210_scales_are_one,
    kv211_dtype_becomes_packed,
)
from kvplan.rules.capacity import (
    kv601_nothing_left,
    kv602_request_does_not_fit,
    kv603_memory_unknown,
    kv604_few_long_requests,
)
from kvplan.rules.hardware import (
    kv301_no_backend,
    kv302_chosen_backend_impossible,
    kv303_block_size_costs_backend,
)
from kvplan.rules.limits import (
    kv901_not_covered,
    kv902_release_beyond_known,
    kv903_gpu_assumed,
    kv904_memory_estimated,
    kv905_unexplained_failure,
    kv906_architecture_not_emulated,
    kv907_release_assumed,
    kv908_value_not_known,
)
from kvplan.rules.options import (
    kv101_value_not_accepted,
    kv102_option_not_in_release,
    kv103_skip_token_matches_nothing,
    kv104_repeated_option,
    kv105_other_model_served,
    kv106_environment_without_effect,
    kv107_abbreviated_option,
    kv108_command_line_refused,
    kv109_context_too_long,
    kv110_architecture_not_in_release,
    kv111_config_file_not_read,
)
from kvplan.rules.parallel import (
    kv401_heads_not_divisible,
    kv402_cache_replicated,
    kv404_pipeline_impossible,
)
from kvplan.rules.rule import Rule

FALLBACK = kv905_unexplained_failure.RULE
"""Speaks for start-up errors that no other rule claims."""

RULES: tuple[Rule, ...] = (
    kv101_value_not_accepted.RULE,
    kv102_option_not_in_release.RULE,
    kv103_skip_token_matches_nothing.RULE,
    kv104_repeated_option.RULE,
    kv105_other_model_served.RULE,
    kv106_environment_without_effect.RULE,
    kv107_abbreviated_option.RULE,
    kv108_command_line_refused.RULE,
    kv109_context_too_long.RULE,
    kv110_architecture_not_in_release.RULE,
    kv111_config_file_not_read.RULE,
    kv201_packed_cache_viewed_plain.RULE,
    kv202_skip_list_ignored.RULE,
    kv203_skip_list_without_quantisation.RULE,
    kv204_skip_list_stops_at_indexer.RULE,
    kv205_skipped_layer_packed_again.RULE,
    kv206_checkpoint_overrides_flag.RULE,
    kv207_auto_is_quantised.RULE,
    kv208_layer_name_rejected.RULE,
    kv209_cache_dtype_differs_from_model.RULE,
    kv210_scales_are_one.RULE,
    kv211_dtype_becomes_packed.RULE,
    kv301_no_backend.RULE,
    kv302_chosen_backend_impossible.RULE,
    kv303_block_size_costs_backend.RULE,
    kv401_heads_not_divisible.RULE,
    kv402_cache_replicated.RULE,
    kv404_pipeline_impossible.RULE,
    kv501_pages_cannot_be_unified.RULE,
    kv502_block_size_changed.RULE,
    kv503_bare_assertion.RULE,
    kv504_padding_waste.RULE,
    kv505_hybrid_manager_off.RULE,
    kv506_no_common_block_size.RULE,
    kv507_block_larger_than_request.RULE,
    kv508_cache_layout_impossible.RULE,
    kv601_nothing_left.RULE,
    kv602_request_does_not_fit.RULE,
    kv603_memory_unknown.RULE,
    kv604_few_long_requests.RULE,
    kv901_not_covered.RULE,
    kv902_release_beyond_known.RULE,
    kv903_gpu_assumed.RULE,
    kv904_memory_estimated.RULE,
    FALLBACK,
    kv906_architecture_not_emulated.RULE,
    kv907_release_assumed.RULE,
    kv908_value_not_known.RULE,
)
