#!/usr/bin/env bash
# Fun-ASR-Nano exports against the official code (funasr): part of `make reference`.
#
# Makes .envs/reference-funasr: .envs/reference's packages (tests/reference/run.sh makes it) plus the official code,
# without its dependencies: most serve training and downloads. REFERENCE_FUNASR_PYTHON names an interpreter instead.
set -euo pipefail
cd "$(dirname "$0")/../../.."
export PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false
directory=.envs/reference-funasr

if [[ -z ${REFERENCE_FUNASR_PYTHON:-} ]]; then
  stamp=$(cat requirements/reference-funasr.txt .envs/reference/stamp "$0" | sha256sum | cut -c1-64)
  if [[ ! -f $directory/stamp || $(<"$directory/stamp") != "$stamp" ]]; then
    echo "Making $directory."
    .venv/bin/python -m venv --clear "$directory"
    "$directory/bin/python" -m pip install -q --disable-pip-version-check --no-deps -r requirements/reference-funasr.txt
    .envs/reference/bin/python - "$directory" <<'PYTHON'
import sys, sysconfig
from pathlib import Path
own = sysconfig.get_path("purelib")
theirs = sysconfig.get_path("purelib", vars={"base": str(Path(sys.argv[1]).resolve())})
Path(theirs, "hearsay-reference.pth").write_text(f"import site; site.addsitedir({own!r})\n")
PYTHON
    echo "$stamp" >"$directory/stamp"
  fi
  REFERENCE_FUNASR_PYTHON=$directory/bin/python
fi
if [[ -z ${ORT124_PYTHON:-} && -x .envs/ort124/bin/python ]]; then
  ORT124_PYTHON=.envs/ort124/bin/python
fi
if [[ ${1:-} == --true-dims ]]; then
  shift
  exec "$REFERENCE_FUNASR_PYTHON" -W ignore -m tests.reference.funasr.true_dims "$@"
fi
HEARSAY_REFERENCE=funasr HEARSAY_ORT124=${ORT124_PYTHON:-} \
  "$REFERENCE_FUNASR_PYTHON" -m pytest ${REFERENCE_PYTEST:--q -W default -p no:logging --disable-warnings} tests/reference/funasr "$@"
