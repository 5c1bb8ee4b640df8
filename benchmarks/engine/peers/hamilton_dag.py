"""Hamilton's driver with its cache on.  hamilton_dag.py FOLDER STEPS"""

import sys

from dag import SEED, SEED_VALUE, answer, layers
from hamilton import driver, telemetry

FOLDER, STEPS = sys.argv[1], int(sys.argv[2])
telemetry.disable_telemetry()
sys.path.insert(0, FOLDER)

if __name__ == "__main__":
    import steps

    sys.setrecursionlimit(10_000)
    built = driver.Builder().with_modules(steps).with_cache(path=f"{FOLDER}/cache").build()
    last = [node.name for node in list(layers(STEPS))[-1]]
    done = built.execute(last, inputs={SEED: SEED_VALUE})
    print("answer", answer([done[name] for name in last]))
