"""The evaluations of Marin's retrospectives: lm-evaluation-harness' own tasks, with the shots that were published.

CORE are the tasks that Marin ran during Kestrel to Jellyfish. BASE_8B and BASE_32B are the tables of the two
retrospectives. Source: marin-community/marin, experiments/evals/task_configs.py. The 32B's table says "LM Eval Harness
defaults", so GSM8K has the shots of the stock task. HumanEval runs the model's code; an evaluation must allow that.
"""

from collections.abc import Mapping

from marin import CPU, Checkpoint, ExecutorStep, RawFiles, Resources, Tokenizer
from marin.errors import BadField
from marin.evaluation.harness_task import HarnessTask
from marin.evaluation.olmes import PROMPTS, as_olmes
from operators.download import HuggingFace
from operators.evaluate import Weights
from operators.evaluate_tasks import EvaluateTasks

# Commits that public evaluation code pins: marin-community/marin (experiments/eval_datasets.py), inspect_evals and
# lighteval name the same commits. Any other dataset has no published commit: give revisions={…}.
REVISIONS = {
    "DigitalLearningGmbH/MATH-lighteval": "0530c78699ea5e8eb5530600900e1f328b48acad",
    "EleutherAI/lambada_openai": "900124bf3b8235c6daf21033af9948b3f07346c4",
    "Idavidrein/gpqa": "633f5ee89ab8ad4522a9f850766b73f62147ffdd",  # gated: accept its terms first
    "Rowan/hellaswag": "218ec52e09a7e7462a5400043bb9a69a41d06b76",
    "TIGER-Lab/MMLU-Pro": "3373e0b32277875b8db2aa555a333b78a08477ea",
    "allenai/ai2_arc": "210d026faf9955653af8916fad021475a3f00453",
    "allenai/openbookqa": "388097ea7776314e93a529163e0fea805b8a6454",
    "allenai/winogrande": "01e74176c63542e6b0bcb004dcdea22d94fb67b5",
    "aps/super_glue": "3de24cf8022e94f4ee4b9d55a6f539891524d646",
    "baber/piqa": "142f6d7367fd9877f0fb3b5734ea6a545f54cdd1",
    "cais/mmlu": "c30699e8356da336a370243923dbaf21066bb9fe",
    "hails/agieval-lsat-ar": "052cc636b612f5563329dd182fb6c2cad56681c8",
    "openai/gsm8k": "740312add88f781978c0658806c59bc2815b9866",
    "openai/openai_humaneval": "7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544",
    "tau/commonsense_qa": "94630fe30dad47192a8546eb75f094926d47e155",
}
UNPINNED = ("SaylorTwift/bbh", "lighteval/winograd_wsc")


def _task(name: str, folder: str, dataset: str, shots: int | None = None) -> HarnessTask:
    return HarnessTask(name=name, folder=folder, dataset=dataset, shots=shots)


CORE = {
    # The task's own target is a list of one number, which lm-eval 0.4.13 cannot show as an example.
    "agieval_lsat_ar": HarnessTask("agieval_lsat_ar", "agieval", "hails/agieval-lsat-ar", 3, target="{{gold[0]}}"),
    "arc_challenge": _task("arc_challenge", "arc", "allenai/ai2_arc", 10),
    "arc_easy": _task("arc_easy", "arc", "allenai/ai2_arc", 10),
    "boolq": _task("boolq", "super_glue/boolq", "aps/super_glue", 10),
    "commonsense_qa": _task("commonsense_qa", "commonsense_qa", "tau/commonsense_qa", 10),
    "copa": _task("copa", "super_glue/copa", "aps/super_glue", 0),
    "hellaswag": _task("hellaswag", "hellaswag", "Rowan/hellaswag", 10),
    "hellaswag_0shot": _task("hellaswag", "hellaswag", "Rowan/hellaswag", 0),
    "lambada_openai": _task("lambada_openai", "lambada", "EleutherAI/lambada_openai", 0),
    "openbookqa": _task("openbookqa", "openbookqa", "allenai/openbookqa", 0),
    "piqa": _task("piqa", "piqa", "baber/piqa", 10),
    "winogrande": _task("winogrande", "winogrande", "allenai/winogrande", 0),
    "wsc273": _task("wsc273", "wsc273", "lighteval/winograd_wsc", 0),
}
MMLU = {
    "mmlu": _task("mmlu", "mmlu/default", "cais/mmlu", 5),
    "mmlu_0shot": _task("mmlu", "mmlu/default", "cais/mmlu", 0),
}
# The same items in OLMES' form: beside CORE and MMLU they show whether a model knows an answer or only a form.
OLMES = {f"{name}/olmes": as_olmes(task) for name, task in (CORE | MMLU).items() if name in PROMPTS}
BASE = {
    **CORE,
    **MMLU,
    "bbh": _task("leaderboard_bbh", "leaderboard/bbh_mc", "SaylorTwift/bbh", 3),
    "gpqa": _task("leaderboard_gpqa", "leaderboard/gpqa", "Idavidrein/gpqa", 0),
    "mmlu_pro": _task("leaderboard_mmlu_pro", "leaderboard/mmlu_pro", "TIGER-Lab/MMLU-Pro", 5),
}
BASE_8B = {
    **BASE,
    "bbh_cot": _task("bbh_cot_fewshot", "bbh/cot_fewshot", "SaylorTwift/bbh", 3),
    "gsm8k": _task("gsm8k_cot", "gsm8k", "openai/gsm8k", 8),
}
BASE_32B = {
    **BASE,
    "gsm8k": _task("gsm8k", "gsm8k", "openai/gsm8k", 5),
    "humaneval": HarnessTask("humaneval", "humaneval", "openai/openai_humaneval", runs_code=True),
    # The variant of MATH is not published. The shots are those of the tuned models; numbers this low fit the hard part.
    "math": _task("leaderboard_math_hard", "leaderboard/math", "DigitalLearningGmbH/MATH-lighteval", 4),
}


def evaluation(
    label: str,
    checkpoint: ExecutorStep[Checkpoint],
    tokenizer: ExecutorStep[Tokenizer],
    tasks: Mapping[str, HarnessTask],
    *,
    revisions: Mapping[str, str] | None = None,
    weights: Weights = Weights.LAST,
    run_generated_code: bool = False,
    resources: Resources = CPU,
) -> EvaluateTasks:
    """Return the evaluation of a checkpoint on these tasks, with each dataset downloaded at its commit.

    revisions: commits of datasets by repository, in addition to REVISIONS. Raises BadField for a dataset without one.
    """
    pinned = REVISIONS | dict(revisions or {})
    datasets = sorted({task.dataset for task in tasks.values()})
    if missing := [dataset for dataset in datasets if dataset not in pinned]:
        raise BadField(
            f"{label}: no commit is published for {', '.join(missing)}; look the commit up on the dataset's page under "
            "Files → History and give revisions={repository: commit}, or leave the dataset's tasks out"
        )
    return EvaluateTasks(
        label=label,
        checkpoint=checkpoint,
        tokenizer=tokenizer,
        tasks=tasks,
        data={dataset: _download(dataset, pinned[dataset]) for dataset in datasets},
        weights=weights,
        run_generated_code=run_generated_code,
        resources=resources,
    )


def _download(repo: str, revision: str) -> ExecutorStep[RawFiles]:
    return HuggingFace(repo=repo, revision=revision, label=repo.rpartition("/")[2])
