"""Dagster assets, materialized in process; a rerun materializes what Dagster calls missing or stale.

dagster_dag.py FOLDER STEPS
"""

import sys
from typing import Any

from dag import SEED, SEED_VALUE, answer, layers, make
from dagster import AssetIn, AssetsDefinition, DagsterInstance, FilesystemIOManager, asset, materialize
from dagster._core.definitions.assets.graph.asset_graph import AssetGraph
from dagster._core.definitions.data_version import CachingStaleStatusResolver, StaleStatus
from dagster._core.loader import LoadingContextForTest

FOLDER, STEPS = sys.argv[1], int(sys.argv[2])


def asset_of(name: str, reads: tuple[str, ...]) -> AssetsDefinition:
    ins = {read: AssetIn(key=read) for read in reads if read != SEED}

    @asset(name=name, ins=ins, code_version="1")
    def step(**values: str) -> str:
        return make(FOLDER, reads, tuple(values.get(read, SEED_VALUE) for read in reads))

    return step


def main() -> None:
    assets = [asset_of(node.name, node.reads) for layer in layers(STEPS) for node in layer]
    manager = FilesystemIOManager(base_dir=f"{FOLDER}/values")
    with DagsterInstance.get() as instance:
        context = LoadingContextForTest(instance)  # the web server's own needs a workspace
        graph = AssetGraph.from_assets(assets)
        resolver = CachingStaleStatusResolver(instance=instance, asset_graph=graph, loading_context=context)
        stale = [key for key in graph.get_all_asset_keys() if resolver.get_status(key) is not StaleStatus.FRESH]
        if stale:
            done = materialize(assets, instance=instance, selection=stale, resources={"io_manager": manager})
            assert done.success
        import pickle

        last: list[Any] = []
        for node in list(layers(STEPS))[-1]:
            with open(f"{FOLDER}/values/{node.name}", "rb") as handle:
                last.append(pickle.load(handle))
        print("answer", answer(last))


if __name__ == "__main__":
    main()
