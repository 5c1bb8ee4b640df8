"""Put each test into one of the three parts of the check: by the first rule that matches its id, or by its own mark.

CHECK proves every promise of the README once, in about five minutes. SLOW has tests that train, start Ray or a browser,
make projects and wheels, compare with other libraries, or use further kinds of store. STRESS has tests that race, kill,
cut the power or fail at random.
"""

from __future__ import annotations

import re

CHECK, SLOW, STRESS = "check", "slow", "stress"
REMOTE = r"\[(?:.*-)?(?:gs|s3)(?:-.*)?\]"
RULES = [
    # Races, kill loops, power cuts, lost nodes, stores that fail.
    (r"stories/test_(crashes|races|gc_crashes|mirror_crashes|power|ray_crashes)\.py", STRESS),
    (r"stories/test_gc_processes.*experiments_and_gc_at_once", STRESS),
    (r"executor/test_(late|random_graphs|ray_private|ray_node_death)\.py", STRESS),
    (r"executor/test_signals.*(SIGHUP|SIGTERM|object_store|ignored)", STRESS),
    (r"executor/test_ray\.py.*(killed|kill_9|dies)|executor/test_(ray_errors.*dies_under|gangs.*taken_away)", STRESS),
    (r"executor/test_shards.*(kill|cut|torn)|executor/test_other_drivers.*at_one_moment", STRESS),
    (r"upkeep/test_gc\.py.*(any_history|refuses_to_delete)", STRESS),
    (r"upkeep/test_adopt.*(killed_in_the_middle|at_one_moment)|upkeep/test_mirror.*two_at_once", STRESS),
    (r"store/test_stores.*(stumbles|fails_in_the_middle|denies|lags)", STRESS),
    (r"store/test_objects.*(busy|cut_connection|log_waits|away_is_named|half_written)", STRESS),
    (r"store/test_creation.*(racers|racing|killed|answer_was_lost|that_is_away)", STRESS),
    (r"store/test_directories.*(fails_now_and_then|falls_off|cut|refus)|store/test_ends.*many_threads", STRESS),
    (r"operators/test_download_troubles", STRESS),
    # Stays in the check although a rule below would move it.
    (r"plan/test_outside.*is_named_and_stops\[(folder|web page|s3)\]", CHECK),
    (r"store/test_stores.*(everything_runs_once|verify_finds|milestones_are|tools_that_need)", CHECK),
    (r"cli/test_next_command.*\[store-file\]", CHECK),
    (r"cli/test_new.*(is_an_experiment_an|it_plans_as_it_is\[marin run-rehearsal)", CHECK),
    (r"cli/test_wheel.*(every_name|every_file)|cli/test_new.*hides_marins_own.program0", CHECK),
    (r"plan/test_drift_table.*\[(helper|constant), same module|\[helper, other module|\[comment", CHECK),
    (r"plan/test_drift_table.*\[(body|version|input|field)", CHECK),
    (r"fingerprint/test_observed.*(nothing_drifts|alone\[[01]\]|what_nobody_can_see)", CHECK),
    (r"cli/test_cli_diff.*(working_tree|each_side|errors_say|nothing_differs)", CHECK),
    (r"stories/test_checkouts.*(is_refused_and_the|same_code)", CHECK),
    (r"training/test_tracking.*(tells_its_steps|not_installed|no_such_tracker)", CHECK),
    (r"store/test_garbage.*\[(binary|.*-record)", CHECK),
    # Commands and projects in new interpreters, and many rows of one table.
    (r"cli/test_(new|wheel|site|next_command|cli_diff)\.py", SLOW),
    (r"cli/test_every_command.*(what_there_is\[|reader|no_store)", SLOW),
    (r"cli/test_habits.*on_ray_holds|cli/test_completion.*(every_kind|nothing_fits)", SLOW),
    (r"cli/test_extras.*(commands_name|that_it_needs)", SLOW),
    (r"cli/test_gc_command.*both_scales|cli/test_mirror_command.*the_way_is_said", SLOW),
    (r"docs/test_commands.*page_run|experiments/test_howto.*(shares_by_tokens|judges_opinion|text_is_cleaned)", SLOW),
    (r"experiments/test_rehearsed.*(durations_are|another_version)", SLOW),
    (r"training/test_tracking|report/serve/test_in_chromium|benchmarks/", SLOW),
    (r"report/test_live.*(trainings_are_seen|no_color)|report/test_drawn_page.*(equal_pages|dense|long_run)", SLOW),
    (r"report/serve/test_views.*milestones_stand|cli/test_habits.*(module_is_the_command|a_level_leaves)", SLOW),
    (r"fingerprint/test_processes.*python_overlooks|report/serve/test_views.*every_link", SLOW),
    (r"experiments/test_(howto.*reads_the_hub|suites.*cannot_ask|shrunk)", SLOW),
    (r"plan/test_drift_table|plan/test_outside.*is_named_and_stops", SLOW),
    (r"fingerprint/test_(observed|mutations)", SLOW),
    (r"stories/test_(checkouts|shared_by_a_group)", SLOW),
    (r"store/test_garbage.*never_a_traceback", SLOW),
    # Agreement with other libraries and rates of detectors, on real text.
    (r"evaluation/test_contamination.*(real_gsm8k|cooldown)|operators/test_evaluation.*contaminated_arm", SLOW),
    (r"text/test_overlap.*gsm8k_training|cli/test_inspect_command.*what_is_looked_at", SLOW),
    (r"operators/test_quality_model.*labelled_again|experiments/test_marin_8b.*side_runs", SLOW),
    (r"evaluation/test_exposure.*(eight_items|not_read)", SLOW),
    (r"evaluation/test_(questions|generated_code)|operators/test_(datatrove|evaluate_tasks)", SLOW),
    (r"text/test_published|text/test_quality.*datatrove|text/test_format_gap", SLOW),
    (r"operators/test_(check_tasks|inspect)\.", SLOW),
    (r"data/test_inspection.*(real_text|every_fault)|operators/test_shuffle_evidence.*both_arms", SLOW),
    (r"training/test_health.*rates_on_curves|training/test_run_files.*made_ahead", SLOW),
    (r"operators/test_tokenize.*transformers|operators/datasets/test_catalogue.*large_enough", SLOW),
    # Further kinds of store, where the check has the local one.
    (r"(upkeep|report|executor|plan|cli)/.*" + REMOTE, SLOW),
    (r"store/test_(stores|control_integrity|uses|packs|credentials|download_resumes).*" + REMOTE, SLOW),
]  # fmt: skip
_COMPILED = [(re.compile(pattern), part) for pattern, part in RULES]


def part(test: str, *, is_slow: bool = False) -> str:
    """Return the part of a test by its id, ``tests/store/test_ends.py::test_…[gs]``. is_slow: its own mark is SLOW."""
    return next((part for pattern, part in _COMPILED if pattern.search(test)), SLOW if is_slow else CHECK)
