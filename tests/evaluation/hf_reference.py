"""Evaluate an exported checkpoint with lm-evaluation-harness' own ``hf`` model; run it by a Python that has torch.

    PYTHON hf_reference.py MODEL_FOLDER BATCH < tasks.json > answers.json

tasks.json: [{"name", "folder", "data", "shots"}]. answers.json: by task its seconds, its processor seconds, metrics,
and the responses for each sample.
"""

import json
import logging
import random
import sys
import time
from pathlib import Path

import lm_eval.tasks
import numpy as np
from lm_eval.evaluator import evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

logging.getLogger("lm_eval").setLevel(logging.ERROR)
folder, batch = sys.argv[1], int(sys.argv[2])
model = HFLM(pretrained=folder, dtype="float32", device="cpu", batch_size=batch)
answers = {}
for task in json.load(sys.stdin):
    where = Path(lm_eval.tasks.__file__).parent / task["folder"]
    random.seed(0)
    np.random.seed(1234)
    settings = {"task": task["name"], "dataset_path": task["data"], "num_fewshot": task["shots"]}
    loaded = TaskManager(include_defaults=False, include_path=[str(where)]).load([{"group": "all", "task": [settings]}])
    for one in loaded["tasks"].values():
        one.set_fewshot_seed(seed=1234)
    began, worked = time.perf_counter(), time.process_time()
    results = evaluate(model, loaded, bootstrap_iters=0)
    seconds, processor = time.perf_counter() - began, time.process_time() - worked
    samples = sorted(results["samples"][task["name"]], key=lambda sample: (sample["doc_id"], sample["filter"]))
    answers[task["name"]] = {
        "seconds": seconds,
        "processor_seconds": processor,
        "metrics": results["results"][task["name"]],
        "responses": [sample["resps"] for sample in samples],
    }
sys.stdout.write("\n" + json.dumps(answers) + "\n")
