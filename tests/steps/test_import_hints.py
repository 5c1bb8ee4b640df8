"""Test hints for names in an experiment file that are nearly right, and for experiment files that are elsewhere."""

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
    "from marin_operators.filter import Filter": "did you mean operators?",
    "import marinn.text": "did you mean marin?",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(line: str, tmp_path: Path) -> None:
    file = tmp_path / f"exp{list(MISTAKES).index(line)}_mistaken.py"
    file.write_text(f"{line}\n\n\ndef build(scale): ...\n")
    with pytest.raises(ExperimentError, match=f"{file.stem}.py:1 in <module>") as refused:
        load_build(str(file))
    assert MISTAKES[line] in str(refused.value)


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
