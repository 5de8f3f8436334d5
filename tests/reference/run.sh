#!/usr/bin/env bash
# Exports against the official code: `make reference`, and at true 0.6B dimensions: `make export-check`.
#
# Two environments beside .venv, made once and again when their requirements change:
#   .envs/reference   .venv's packages plus torch, transformers, onnx: exports and compares
#   .envs/ort124      onnxruntime 1.24.4 (the newest DirectML build) and numpy: loads and runs every exported graph
# REFERENCE_PYTHON and ORT124_PYTHON name interpreters of environments that exist already.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PYTHONDONTWRITEBYTECODE=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false

# environment NAME REQUIREMENTS… : makes .envs/NAME if its stamp is not that of the requirement files.
environment() {
  local directory=".envs/$1" stamp
  shift
  stamp=$(cat "$@" | sha256sum | cut -c1-64)
  if [[ ! -f $directory/stamp || $(<"$directory/stamp") != "$stamp" ]]; then
    echo "Making $directory."
    .venv/bin/python -m venv --clear "$directory"
    if [[ $directory == .envs/reference ]]; then
      # What the runtime and its tests need is there already, llama.cpp compiled for this machine included.
      .venv/bin/python - "$directory" <<'PYTHON'
import sys, sysconfig
from pathlib import Path
own = sysconfig.get_path("purelib")
theirs = sysconfig.get_path("purelib", vars={"base": str(Path(sys.argv[1]).resolve())})
Path(theirs, "hearsay-runtime.pth").write_text(f"import site; site.addsitedir({own!r})\n")
PYTHON
    fi
    local files=()
    for file in "$@"; do files+=(-r "$file"); done
    "$directory/bin/python" -m pip install -q --disable-pip-version-check "${files[@]}"
    echo "$stamp" >"$directory/stamp"
  fi
}

if [[ -z ${ORT124_PYTHON:-} ]]; then
  environment ort124 requirements/ort124.txt
  ORT124_PYTHON=.envs/ort124/bin/python
fi
if [[ -z ${REFERENCE_PYTHON:-} ]]; then
  environment reference requirements/torch.txt requirements/reference.txt
  REFERENCE_PYTHON=.envs/reference/bin/python
fi

export ORT124_PYTHON
if [[ ${1:-} == --true-models ]]; then
  shift
  exec "$REFERENCE_PYTHON" -W ignore -m tests.reference.true_models "$@"
fi
if [[ ${1:-} == --true-dims ]]; then
  shift
  "$REFERENCE_PYTHON" -W ignore -m export.trace.keep --check
  "$REFERENCE_PYTHON" -W ignore -m tests.reference.true_dims --noise --ort124 "$ORT124_PYTHON" "$@"
  bash tests/reference/funasr/run.sh --true-dims
  exec bash tests/reference/tts/run.sh --true-dims
fi

"$REFERENCE_PYTHON" -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec("resemblyzer"))' \
  || "$REFERENCE_PYTHON" -m pip install -q --disable-pip-version-check --no-deps Resemblyzer==0.1.4
# Tracing keeps one core busy: tests run two at a time, each in one thread, those of a file one after the other.
# The official packages warn about their own deprecations; ours are caught by `make test`.
export OMP_NUM_THREADS=1
export REFERENCE_PYTEST="-q -n 2 --dist loadfile --no-loadscope-reorder -W default -p no:logging --disable-warnings"
# The recipes' own tests need torch too, and so does one of the judges of `make eval`; the others are compiled here.
HEARSAY_REFERENCE=asr HEARSAY_ORT124=$ORT124_PYTHON \
  "$REFERENCE_PYTHON" -m pytest $REFERENCE_PYTEST tests/reference tests/training tests/bench/test_cloning.py "$@"
make -s eval-extra
if .venv/bin/python -c 'import matplotlib, pesq, pystoi, pocketsphinx' 2>/dev/null; then
  .venv/bin/python -m pytest -q tests/bench/test_judges.py
else
  echo "The judges of make eval could not be installed here: tests/bench/test_judges.py was not run."
fi
bash tests/reference/funasr/run.sh
if [[ -f tests/reference/tts/run.sh ]]; then
  bash tests/reference/tts/run.sh
fi
