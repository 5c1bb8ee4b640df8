"""The mixture and batch tables of the Marin 32B and 8B retrospectives, digit for digit as printed (percent)."""

PRETRAINING = {
    "nemotron_cc/medium": "30.69",
    "nemotron_cc/hq_synth": "24.70",
    "nemotron_cc/medium_low": "13.98",
    "nemotron_cc/hq_actual": "8.30",
    "nemotron_cc/medium_high": "7.49",
    "nemotron_cc/low_actual": "6.37",
    "nemotron_cc/low_synth": "5.70",
    "starcoderdata": "2.27",
    "proofpile_2": "0.50",
}

BISON = {
    "nemotron_cc/medium": "21.49",
    "nemotron_cc/hq_synth": "17.29",
    "nemotron_cc/medium_low": "9.79",
    "nemotron_cc/hq_actual": "5.81",
    "nemotron_cc/medium_high": "5.24",
    "nemotron_cc/low_actual": "4.46",
    "nemotron_cc/low_synth": "3.99",
    "arxiv_markdownified": "7.41",
    "dolmino/pes2o": "7.41",
    "finemath-3-plus": "4.33",
    "dolmino/flan": "4.33",
    "stackexchange_custom": "2.18",
    "dolmino/stackexchange": "2.18",
    "starcoderdata": "1.59",
    "all_math": "1.08",
    "proofpile_2": "0.35",
    "wikipedia_markdown": "0.47",
    "dolmino/wiki": "0.47",
    "medu_science_qa": "0.15",
}

MANTIS = {
    "nemotron_cc/medium": "21.49",
    "nemotron_cc/hq_synth": "17.29",
    "nemotron_cc/medium_low": "9.79",
    "nemotron_cc/hq_actual": "5.81",
    "nemotron_cc/medium_high": "5.24",
    "nemotron_cc/low_actual": "4.46",
    "nemotron_cc/low_synth": "3.99",
    "megamath/web": "5.57",
    "arxiv_markdownified": "4.54",
    "megamath/text_code_block": "4.24",
    "dolmino/pes2o": "4.54",
    "megamath/web_pro": "1.27",
    "megamath/translated_code": "0.61",
    "megamath/qa": "0.59",
    "finemath-3-plus": "2.66",
    "dolmino/flan": "2.66",
    "stackexchange_custom": "1.34",
    "dolmino/stackexchange": "1.34",
    "starcoderdata": "1.59",
    "proofpile_2": "0.35",
    "wikipedia_markdown": "0.29",
    "dolmino/wiki": "0.29",
    "medu_science_qa": "0.09",
}

# First optimizer step -> global batch in sequences of 4096 tokens.
BATCH_SCHEDULE = {0: 8192, 18_500: 7680, 21_010: 8192}
SEQUENCE_TOKENS = 4096
# (first step, end step) -> trillions of tokens, as printed for phases 1, 3 and 4.
PHASE_TOKENS = {(0, 80_000): "2.679", (80_000, 160_000): "2.684", (160_000, 192_000): "1.074"}

# Marin 8B retrospective (marin-8b-retro.md at 021da3e1): phases 1, 3 and 5, to one digit.
KESTREL = {"dclm_baseline": "92.6", "starcoderdata": "6.1", "proofpile_2": "1.3"}
JELLYFISH = {
    "dolmino/dclm": "67.8",
    "dolma/pes2o": "10.8",
    "finemath-3-plus": "6.3",
    "dolma/arxiv": "5.2",
    "dolma/stackexchange": "3.2",
    "starcoderdata": "2.2",
    "dolma/algebraic-stack": "2.1",
    "dolma/open-web-math": "0.9",
    "dolma/megawika": "0.8",
    "dolma/wiki": "0.7",
}
# Share, and oversampling as printed.
STARLING = {
    "nemotron_cc/medium": ("22.1", 1),
    "nemotron_cc/hq_synth": ("17.8", 1),
    "nemotron_cc/medium_low": ("10.1", 1),
    "nemotron_cc/hq_actual": ("6.0", 1),
    "nemotron_cc/medium_high": ("5.4", 1),
    "nemotron_cc/low_actual": ("4.6", 1),
    "nemotron_cc/low_synth": ("4.1", 1),
    "arxiv_markdownified": ("5.2", 5),
    "dolmino/pes2o": ("5.2", 5),
    "starcoderdata": ("4.5", 1),
    "proofpile_2": ("4.5", 1),
    "finemath-3-plus": ("3.0", 5),
    "dolmino/flan": ("3.0", 10),
    "dolmino/stackexchange": ("1.5", 5),
    "stackexchange_custom": ("1.5", 5),
    "all_math": ("0.8", 10),
    "wikipedia_markdown": ("0.3", 5),
    "dolmino/wiki": ("0.3", 5),
    "medu_science_qa": ("0.1", 5),
}

# No retrospective prints these shares. They follow from the weights in the runs' code, e.g. 1.54 / 10.957 and
# 3.8 / 14.812.
PHOENIX = {
    "nemotron_cc/medium": "30.85",
    "nemotron_cc/hq_synth": "24.82",
    "nemotron_cc/medium_low": "14.05",
    "nemotron_cc/hq_actual": "8.34",
    "nemotron_cc/medium_high": "7.53",
    "nemotron_cc/low_actual": "6.40",
    "nemotron_cc/low_synth": "5.73",
    "starcoderdata": "2.28",
}
PHOENIX_BRIDGE = {"dclm_baseline": "25.65", "nemotron_cc": "72.29", "starcoderdata": "1.69", "proofpile_2": "0.37"}
MANTIS_PYTHON = {
    "common_pile_stackv2_edu_filtered_python": "1.10",
    "megamath/web": "5.36",
    "megamath/text_code_block": "4.09",
    "megamath/web_pro": "1.23",
    "dolmino/pes2o": "4.37",
    "arxiv_markdownified": "4.37",
    "dolmino/flan": "2.56",
    "finemath-3-plus": "2.56",
    "dolmino/stackexchange": "1.29",
    "stackexchange_custom": "1.29",
}
# Chats of each set of the 8B's fine-tuning, 4,899,256 in all.
SFT_CHATS = 4_899_256
