#!/usr/bin/env bash
# Pack the packages that benchmarks/gpu/check.py needs beyond the machine's own into one archive.
#   benchmarks/gpu/bring.sh .gpu/site.tar.gz
# packages.txt names them; constraints.txt has their versions. Two folders that the check never reads are left out:
# wandb's server, and botocore's descriptions of Amazon's services.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
"$here/.venv/bin/uv" pip install --quiet --no-deps --only-binary :all: --target "$folder" --python-version 3.12 \
  --python-platform x86_64-manylinux_2_28 --constraints "$here/constraints.txt" \
  --requirements "$here/benchmarks/gpu/packages.txt"
rm -rf "$folder/wandb/bin" "$folder/botocore/data"
mkdir -p "$(dirname "$1")"
tar -C "$folder" -czf "$1" .
du -h "$1"
