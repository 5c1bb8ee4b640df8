#!/usr/bin/env bash
# Python with everything that this project needs, in the versions of constraints.txt. On first use, and when that or
# pyproject.toml has changed, it makes .venv (about 2.5 GB from the package index); then it runs what it is given, with
# this project's modules to import.
#   ./py experiments/exp1529_mantis.py      ./py -m marin plan experiments/exp1529_mantis.py
#   ./py --upgrade                          writes constraints.txt anew, with the newest versions that go together
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
venv="$here/.venv"
stamp="$venv/.installed"
uv=0.13.9  # installs the packages; one version for everybody

# A Python >= 3.12 that really starts (a shim on the PATH may not).
find_python() {
  local candidate
  for candidate in "${MARIN_PYTHON:-}" python3.12 python3.13 python3 python \
    "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-3]*/bin/python \
    /opt/homebrew/bin/python3.1[2-3] /usr/local/bin/python3.1[2-3]; do
    [ -n "$candidate" ] || continue
    if "$candidate" -c 'import sys; sys.exit(not (3, 12) <= sys.version_info < (3, 14))' >/dev/null 2>&1; then
      echo "$candidate"
      return
    fi
  done
  # uv brings a Python of its own where there is none.
  if command -v uv >/dev/null 2>&1 && uv python find '>=3.12,<3.14' 2>/dev/null; then
    return
  fi
  # A login shell's Pythons are on the PATH of whoever owns the machine, even when HOME is not theirs.
  local shim
  shim="$(command -v pyenv || true)"
  if [ -n "$shim" ]; then
    for candidate in "$(dirname "$(dirname "$(readlink -f "$shim")")")"/versions/3.1[2-3]*/bin/python \
      "$(pyenv root 2>/dev/null)"/versions/3.1[2-3]*/bin/python; do
      if [ -x "$candidate" ]; then
        echo "$candidate"
        return
      fi
    done
  fi
  return 1
}

exact="$here/constraints.txt"  # the version of every package, the same for everybody
digest() { { cat "$here/pyproject.toml" "$exact" 2>/dev/null || true; } | cksum; }
wanted="$(digest)"
if [ "${1:-}" = --upgrade ] || [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ]; then
  if ! python="$(find_python)"; then
    cat >&2 <<'MISSING'
marin needs Python 3.12 or 3.13 (the trainer requires it) and found none.
Install one (apt install python3.12, brew install python@3.12, pyenv install 3.12, or uv python install 3.12),
or name one: MARIN_PYTHON=/path/to/python3.12 ./py …
MISSING
    exit 1
  fi
  echo "setting up .venv with $("$python" --version) (once; about 2.5 GB)" >&2
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
  # An environment that uv has made holds no pip.
  "$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null
  "$venv/bin/python" -m pip install -q "uv==$uv" >&2
  upgrade=false
  if [ "${1:-}" = --upgrade ] || [ ! -s "$exact" ]; then
    upgrade=true
    (
      scratch="$(mktemp -d)"
      trap 'rm -rf "$scratch"' EXIT
      cp "$here/pyproject.toml" "$here/README.md" "$scratch"
      cd "$scratch"
      "$venv/bin/python" -m uv lock -q --python "$venv/bin/python"
      "$venv/bin/python" -m uv export -q --frozen --python "$venv/bin/python" --all-extras --all-groups \
        --no-hashes --no-emit-project --no-annotate --no-header >constraints.txt
      mv constraints.txt "$exact"
    ) >&2
    wanted="$(digest)"
  fi
  # copy: the cache may lie on another file system, and a warning per file would hide what matters.
  UV_LINK_MODE="${UV_LINK_MODE:-copy}" "$venv/bin/python" -m uv pip install -q --python "$venv/bin/python" \
    --constraint "$exact" --build-constraint "$exact" -e "$here" --group "$here/pyproject.toml:dev" >&2
  echo "$wanted" >"$stamp"
  [ "$upgrade" = false ] || echo "constraints.txt holds the newest versions that go together; ./check --slow tells whether they do" >&2
fi
[ "${1:-}" != --upgrade ] || exit 0
# Each process of a run imports what takes longer to compile than to run. Who wants no bytecode beside sources gets it here.
if [ -n "${PYTHONDONTWRITEBYTECODE:-}" ] && [ -z "${PYTHONPYCACHEPREFIX:-}" ]; then
  unset PYTHONDONTWRITEBYTECODE
  export PYTHONPYCACHEPREFIX="$venv/bytecode"
fi
exec "$venv/bin/python" "$@"
