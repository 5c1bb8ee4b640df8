"""The mixture and batch tables of the Marin 32B retrospective, digit for digit as printed (percent)."""

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
