"""Test hints for names in an experiment file that are nearly right, and for files that are elsewhere."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from marin.cli.commands import main
from marin.errors import ExperimentError
from marin.steps.experiment_file import load_build

MISTAKES = {
    "from marin import Experimnt": "did you mean Experiment?",
    "from marin import Shuffle; Shuffle.FEISTL": "Did you mean: 'FEISTEL'?",
    "from operators.filter import Filtr": "did you mean Filter?",
    "length = 1; lenght": "Did you mean: 'length'?",
    "import operators.filtr": "did you mean operators.filter?",
    "import operator.filter": "did you mean operators.filter?",
    "from marin_operators.filter import Filter": "it is called operators now",
    "from experiments.datasets import catalogue": "did you mean operators.datasets?",
    "import marinn.text": "did you mean marin?",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(line: str, tmp_path: Path) -> None:
    file = tmp_path / f"exp{list(MISTAKES).index(line)}_mistaken.py"
    file.write_text(f"{line}\n\n\ndef build(scale): ...\n")
    with pytest.raises(ExperimentError, match=f"{file.stem}.py:1 in <module>") as refused:
        load_build(str(file))
    assert MISTAKES[line] in str(refused.value)


def test_a_package_of_ones_own_that_python_does_not_find_is_found(tmp_path: Path) -> None:
    (tmp_path / "my_lab").mkdir()
    (tmp_path / "deep").mkdir()
    file = tmp_path / "deep/exp1_deep.py"
    file.write_text("import my_lab.words\n\n\ndef build(scale): ...\n")
    with pytest.raises(ExperimentError) as refused:
        load_build(str(file))
    assert f"it lies in {tmp_path}, where Python does not look: move exp1_deep.py there" in str(refused.value)


def test_a_file_that_is_a_folder_deeper_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study").mkdir()
    (tmp_path / "study/exp1_filter.py").write_text("")
    with pytest.raises(ExperimentError, match=r"no such experiment file; did you mean study/exp1_filter\.py\?"):
        load_build("exp1_fliter.py")
    with pytest.raises(ExperimentError, match=r"study is a folder; wanted an experiment file, such as study/exp1_filt"):
        load_build("study")


def test_a_command_that_was_left_out_is_named() -> None:
    done = CliRunner().invoke(main, ["exp1_filter.py", "--dry-run"])
    assert done.exit_code == 2
    assert "no command 'exp1_filter.py'; did you mean run exp1_filter.py or plan exp1_filter.py?" in done.output
