"""Test the same experiments on every kind of store: a disk, memory, Google Cloud Storage and S3."""

import json
import os
from pathlib import Path

import pytest

from marin import Context, Directory, ExecutorStep
from marin.errors import BadPrefix, CorruptOutput, Drift, StoreFull
from marin.executor.log_capture import captured
from marin.executor.run_results import Run
from marin.plan.acceptance import accept_planned
from marin.plan.plan import Action, OnDrift
from marin.store.files.verify import Check
from marin.store.layout import LOG, RECORD
from marin.store.objects.objects import open_objects
from marin.store.record import Record
from marin.store.store import Store
from tests.support.servers import Act, Operation, Rule, StoreServer
from tests.support.toy import Blob, Count, Fail, Join, Outside, Slowly, Write, planned, ran, run, statuses
from tests.support.visible import visible


def chain(text: str = "hello", separator: str = " ") -> Join:
    a, b = Write(text=text, label="a"), Write(text="world", label="b")
    first = Join(parts=(a, b), separator=separator, label="first")
    return Join(parts=(first, b), label="second")


class ByPath(ExecutorStep[Blob], op="toy-by-path"):
    """Read and write through local paths alone, like tools that know no object store."""

    source: ExecutorStep[Blob]

    def run(self, ctx: Context) -> Blob:
        text = (ctx[self.source].directory.path / "text.txt").read_bytes()
        local_folder(ctx.out / "deep/er").joinpath("ünï çode.txt").write_bytes(text * 2)
        assert (ctx.out / "deep").read_bytes("er/ünï çode.txt") == text * 2
        local_folder(ctx.out).joinpath("text.txt").write_bytes(text)
        ctx.out.write_bytes("streamed.txt", text)
        assert ctx.out.names() == ["deep/er/ünï çode.txt", "streamed.txt", "text.txt"]
        sizes = ctx.map(write_part, [(ctx.out, number) for number in range(3)])
        return Blob(bytes=sum(sizes))


def write_part(item: tuple[Directory, int]) -> int:
    out, number = item
    local_folder(out / "parts").joinpath(f"{number}.bin").write_bytes(bytes(number))
    out.write_bytes(f"open-{number}.bin", b"\r" * number)
    return number


def local_folder(directory: Directory) -> Path:
    directory.path.mkdir(parents=True, exist_ok=True)
    return directory.path


class StateByPath(ExecutorStep[Blob], op="toy-state-by-path"):
    """Keep work in progress through a local path. The step fails until an outside file exists."""

    switch: str

    def run(self, ctx: Context) -> Blob:
        kept = local_folder(ctx.state / "work")
        done = len(list(kept.iterdir()))
        (kept / f"piece-{done}").write_text("done")
        if not Path(self.switch).exists():
            raise RuntimeError("the power went out")
        ctx.out.write_text("text.txt", str(done))
        return Blob(bytes=done)


def record_of(made: Run, step: ExecutorStep[Blob]) -> Record:
    record = made.results[step].record
    assert record is not None
    return record


def test_everything_runs_once_and_a_change_reruns_what_it_reaches(any_prefix: str) -> None:
    first = run(any_prefix, end=chain())
    assert ran(first) == {"toy-write/a", "toy-write/b", "toy-join/first", "toy-join/second"}
    assert Store(any_prefix).output(record_of(first, chain())).read_text("text.txt") == "hello world world"
    assert ran(run(any_prefix, end=chain())) == set()
    assert ran(run(any_prefix, end=chain(separator="-"))) == {"toy-join/first", "toy-join/second"}
    plan = planned(any_prefix, end=chain(text="bye"))
    assert {d.step.name for d in plan.having(Action.RUN, Action.RECHECK)} == {
        "toy-write/a",
        "toy-join/first",
        "toy-join/second",
    }
    assert "text: hello → bye" in plan.of(Write(text="bye")).reason
    assert ran(run(any_prefix, rebuild=("a",), end=chain())) == {"toy-write/a"}


def test_equal_outputs_have_equal_digests_wherever_they_are(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    prefixes = [str(tmp_path / "store"), f"memory://{request.node.name}"]
    for kind in ("_gs", "_s3"):
        prefixes.append(request.getfixturevalue(kind).new_prefix())
    runs = [run(prefix, end=chain(), path=ByPath(source=chain())) for prefix in prefixes]
    roots = [{name: record_of(made, step).root for name, step in made.plan.experiment.results.items()} for made in runs]
    assert all(held == roots[0] for held in roots)


def test_drift_stops_and_is_accepted_or_rebuilt(prefix: str, tmp_path: Path) -> None:
    source = tmp_path / "source.txt"
    source.write_text("one")
    outside = Outside(path=str(source), label="o")
    end = Join(parts=(outside,), label="end")
    run(prefix, end=end)
    source.write_text("two")
    with pytest.raises(Drift, match="outside data"):
        run(prefix, end=end)
    accept_planned(planned(prefix, on_drift=OnDrift.ACCEPT, end=end))
    assert planned(prefix, end=end).of(outside).action is Action.CACHED
    source.write_text("three")
    assert ran(run(prefix, on_drift=OnDrift.REBUILD, end=end)) == {"toy-outside/o", "toy-join/end"}
    assert ran(run(prefix, end=end)) == set()


def test_a_failure_leaves_its_log_and_is_tried_again(any_prefix: str, tmp_path: Path) -> None:
    switch = tmp_path / "switch"
    broken = Fail(source=Write(text="a", label="a"), switch=str(switch), label="broken")
    beside = Join(parts=(Write(text="a", label="a"),), label="beside")
    first = run(any_prefix, one=Join(parts=(broken,), label="behind"), two=beside)
    assert statuses(first) == {
        "toy-write/a": "ran",
        "toy-fail/broken": "failed",
        "toy-join/behind": "skipped",
        "toy-join/beside": "ran",
    }
    log = Store(any_prefix).objects.read_log(first.results[broken].log)
    assert b"ValueError: the disk of dreams is empty" in log
    assert "failed last time: ValueError" in planned(any_prefix, one=broken).of(broken).reason
    switch.touch()
    assert ran(run(any_prefix, one=broken)) == {"toy-fail/broken"}


def test_work_in_progress_survives_a_failure_and_goes_with_the_commit(any_prefix: str, tmp_path: Path) -> None:
    switch = tmp_path / "switch"
    slowly, by_path = Slowly(text="x", switch=str(switch), label="s"), StateByPath(switch=str(switch), label="p")
    for _ in range(2):
        assert statuses(run(any_prefix, end=slowly, path=by_path)) == {
            "toy-slowly/s": "failed",
            "toy-state-by-path/p": "failed",
        }
    store = Store(any_prefix)
    assert store.state(slowly.identity).names() == ["piece-0.txt"]
    assert store.state(by_path.identity).names() == ["work/piece-0", "work/piece-1"]
    switch.touch()
    made = run(any_prefix, end=slowly, path=by_path)
    assert store.output(record_of(made, slowly)).names() == ["made-1.txt", "made-2.txt", "text.txt"]
    assert store.output(record_of(made, by_path)).read_text("text.txt") == "2"
    assert store.state_identities() == set()


def test_milestones_are_committed_by_their_run(any_prefix: str) -> None:
    count = Count(end=5, label="count")
    made = run(any_prefix, end=count, early=count.at(2))
    store = Store(any_prefix)
    early = made.results[count.at(2)].record
    assert early is not None
    assert store.output(early).read_text("count.txt") == "2"
    assert store.verify(early, Check.BYTES) == []
    assert store.state_identities() == set()
    assert ran(run(any_prefix, end=count, early=count.at(2))) == set()


def test_tools_that_need_paths_work_everywhere(any_prefix: str) -> None:
    step = ByPath(source=Write(text="one\r", label="a"), label="path")
    made = run(any_prefix, end=step)
    store, record = Store(any_prefix), record_of(made, step)
    output = store.output(record)
    assert output.names() == [
        "deep/er/ünï çode.txt", "open-0.bin", "open-1.bin", "open-2.bin", "parts/0.bin", "parts/1.bin", "parts/2.bin",
        "streamed.txt", "text.txt",
    ]  # fmt: skip
    assert store.verify(record, Check.BYTES) == []
    assert (output / "deep").path.joinpath("er/ünï çode.txt").read_bytes() == b"one\rone\r"
    assert output.path.joinpath("parts/2.bin").read_bytes() == bytes(2)


def test_verify_finds_what_is_missing_changed_truncated_and_extra(any_prefix: str) -> None:
    made = run(any_prefix, end=chain())
    store, record = Store(any_prefix), record_of(made, chain())
    output = store.output(record)
    whole = output.read_text("text.txt")
    for check in Check:
        assert store.verify(record, check) == []
    output.write_text("text.txt", whole.upper())
    assert store.verify(record, Check.SIZES) == []
    for check in (Check.CHECKSUMS, Check.BYTES):
        assert store.verify(record, check) == ["changed: text.txt (same size, other bytes)"]
    output.write_text("text.txt", whole)
    assert store.verify(record, Check.CHECKSUMS) == []
    output.write_text("text.txt", whole[:-1])
    output.write_text("more/extra.txt", "")
    for check in Check:
        found = store.verify(record, check)
        assert found == ["truncated: text.txt has 16 bytes, the manifest says 17", "extra: more/extra.txt"]
    output.remove()
    assert "missing" in store.verify(record, Check.SIZES)[0]


@pytest.mark.parametrize("label", ["ünï çode ☃", "a b/c", "../../up", "x" * 300, ".hidden", "-rf *", "%2e#?"])
def test_a_label_may_be_anything(prefix: str, label: str) -> None:
    step = Write(text="here", label=label)
    assert len(ran(run(prefix, end=step))) == 1
    assert ran(run(prefix, end=step)) == set()
    store = Store(prefix)
    record = store.record(step.identity)
    assert record is not None
    assert store.output(record).read_text("text.txt") == "here"
    assert record.label == label
    assert record.attempt.count("/") == 1
    assert len(record.attempt) < 100


class BadlyNamed(ExecutorStep[Blob], op="toy-badly-named"):
    file: str

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text(self.file, "1")
        return Blob(bytes=1)


@pytest.mark.parametrize("name", ["../../escaped.txt", "/etc/escaped.txt", "x" * 300, "a\nb"])
def test_a_file_with_an_impossible_name_fails_its_step_alone(any_prefix: str, name: str) -> None:
    bad, good = BadlyNamed(file=name, label="bad"), Write(text="good", label="good")
    made = run(any_prefix, one=bad, two=good)
    assert statuses(made) == {"toy-badly-named/bad": "failed", "toy-write/good": "ran"}
    assert made.results[bad].error.startswith("BadName: ")
    files = [file for file in Store(any_prefix).directory.names() if "/.marin/" not in file]
    assert files == [f"{record_of(made, good).attempt}/text.txt"]


def test_a_commit_reads_nothing_back_and_verify_compares_one_listing(server: StoreServer, remote_prefix: str) -> None:
    run(remote_prefix, end=chain())
    step = ByPath(source=chain(), label="path")
    server.obey()
    made = run(remote_prefix, end=step)
    store, record = Store(remote_prefix), record_of(made, step)
    read = [name for operation, name, _ in server.calls() if operation is Operation.READ and record.attempt in name]
    assert read == []
    server.obey()
    assert store.verify(record, Check.CHECKSUMS) == []
    assert server.counts(remote_prefix) == {Operation.READ: 1, Operation.LIST: 1}  # the manifest, the files
    server.obey()
    assert store.verify(record, Check.BYTES) == []
    assert (
        server.counts(remote_prefix)[Operation.READ] == record.files - 1
    )  # the manifest, and all but two that are empty


def test_an_input_is_downloaded_once_and_checked(server: StoreServer, remote_prefix: str) -> None:
    made = run(remote_prefix, end=chain())
    store, record = Store(remote_prefix), record_of(made, chain())
    output = store.output(record)
    server.obey()
    first = output.path
    assert (first / "text.txt").read_text() == "hello world world"
    assert output.path == first
    reads = [name for operation, name, _ in server.calls() if operation is Operation.READ]
    assert len([name for name in reads if name.endswith("text.txt")]) == 1
    (first / "text.txt").unlink()
    assert (output.path / "text.txt").read_text() == "hello world world"
    other = run(remote_prefix, end=chain(text="bye"))
    damaged = store.output(record_of(other, chain(text="bye")))
    damaged.write_text("text.txt", "bye world WORLD")
    with pytest.raises(CorruptOutput, match=r"text.txt differs from the manifest"):
        _ = damaged.path


def test_local_copies_are_bounded_and_what_is_in_use_stays(remote_prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [Write(text=letter * 600_000, label=letter) for letter in "abc"]
    made = run(remote_prefix, **{step.label: step for step in steps})
    store = Store(remote_prefix)
    outputs = [store.output(record_of(made, step)) for step in steps]
    monkeypatch.setenv("MARIN_CACHE_GIB", str(1_500_000 / 2**30))
    kept = outputs[0].path
    left = Path(os.environ["MARIN_CACHE"], "0" * 64)
    left.mkdir()  # by a process that ended
    (left / "big").write_bytes(bytes(800_000))
    assert (outputs[1].path / "text.txt").stat().st_size == 600_000
    assert not left.exists()
    assert (kept / "text.txt").exists()
    with pytest.raises(StoreFull, match="MARIN_CACHE_GIB"):
        _ = outputs[2].path
    assert (kept / "text.txt").exists()


def test_what_a_process_prints_is_in_the_log_of_the_attempt(any_prefix: str, capfd: pytest.CaptureFixture[str]) -> None:
    import subprocess

    store, log = Store(any_prefix), f"op/label-0123456789ab.0001/{LOG}"
    store.objects.append(log, b"first\n")
    if any_prefix.startswith("memory://"):
        pytest.skip("memory is one process's: its backend captures nothing")
    with captured(store, log):
        subprocess.run(["sh", "-c", "echo from a child; echo loudly >&2"], check=True)
    store.objects.flush(log)
    assert store.objects.read_log(log) == b"first\nfrom a child\nloudly\n"
    assert "from a child" not in capfd.readouterr().out


def test_a_listing_that_lags_behind_changes_no_result(server: StoreServer, remote_prefix: str) -> None:
    run(remote_prefix, end=chain())
    server.obey(Rule(act=Act.HIDE, operations=[Operation.LIST], hidden=r"\.marin/(claims|ends)/"))
    again = run(remote_prefix, end=chain())
    assert ran(again) == set()
    assert {result.reason for result in again.results.values()} == {"another driver made it meanwhile"}


def test_a_store_that_denies_writes_is_read_and_nothing_is_lost(server: StoreServer, remote_prefix: str) -> None:
    run(remote_prefix, end=chain())
    changes = [Operation.WRITE, Operation.BEGIN, Operation.PART, Operation.DELETE]
    server.obey(Rule(act=Act.ANSWER, operations=changes, status=403))
    assert ran(run(remote_prefix, end=chain())) == set()
    with pytest.raises(BadPrefix, match="the store refused to write it"):
        run(remote_prefix, end=chain(text="bye"))
    server.obey()
    assert ran(run(remote_prefix, end=chain(text="bye"))) == {"toy-write/a", "toy-join/first", "toy-join/second"}


def test_a_store_that_denies_outputs_only_fails_the_step_with_one_clear_error(
    server: StoreServer, remote_prefix: str
) -> None:
    server.obey(Rule(act=Act.ANSWER, name="text.txt$", operations=[Operation.WRITE], status=403))
    made = run(remote_prefix, end=Write(text="a", label="a"))
    error = made.results[Write(text="a")].error
    assert error.startswith("BadPrefix: ")
    assert "text.txt: the store refused to write it" in error
    server.obey()
    assert ran(run(remote_prefix, end=Write(text="a", label="a"))) == {"toy-write/a"}


def test_a_store_that_stumbles_all_the_time_gets_everything_done(server: StoreServer, remote_prefix: str) -> None:
    server.obey(
        Rule(act=Act.ANSWER, status=503, skip=3, times=1),
        Rule(act=Act.LOSE, operations=[Operation.WRITE], skip=5, times=1),
        Rule(act=Act.LOSE, name=r"\.marin/claims/", operations=[Operation.WRITE], skip=1, times=1),
        Rule(act=Act.CUT, operations=[Operation.READ], skip=5, times=1),
        Rule(act=Act.LOSE, name=r"\.marin/ends/", operations=[Operation.WRITE], times=1),
    )
    step = Join(parts=(Write(text="a", label="a"),), label="b")
    assert ran(run(remote_prefix, end=step)) == {"toy-write/a", "toy-join/b"}
    server.obey()
    assert ran(run(remote_prefix, end=step)) == set()
    store = Store(remote_prefix)
    assert {record.token for record in visible(store).values()} == {1}


def test_a_store_that_fails_in_the_middle_keeps_what_was_committed(server: StoreServer, remote_prefix: str) -> None:
    a, b = Write(text="a", label="a"), Write(text="b", label="b")
    identity = b.identity[:12]
    server.obey(Rule(act=Act.ANSWER, name=f"b-{identity}.0001/", status=403))
    made = run(remote_prefix, end=Join(parts=(a, b), label="end"))
    assert statuses(made) == {"toy-write/a": "ran", "toy-write/b": "failed", "toy-join/end": "skipped"}
    server.obey()
    assert ran(run(remote_prefix, end=Join(parts=(a, b), label="end"))) == {"toy-write/b", "toy-join/end"}


def test_manifests_name_the_stores_own_checksums(server: StoreServer, remote_prefix: str) -> None:
    made = run(remote_prefix, end=Write(text="a", label="a"))
    record = record_of(made, Write(text="a"))
    listed = json.loads(open_objects(remote_prefix).read(f"{record.attempt}/{RECORD}") or b"")["manifest"]
    kind = {"gs": "md5", "s3": "etag"}[server.kind]
    assert [entry["checksum"] for entry in listed] == [f"{kind}:0cc175b9c0f1b6a831c399e269772661"]
