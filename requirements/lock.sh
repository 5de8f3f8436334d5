#!/usr/bin/env bash
# Rewrites the hashed requirement files from pyproject.toml. Needs uv; names no package index.
set -euo pipefail
cd "$(dirname "$0")/.."
lock() { uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate -q "$@"; }
lock -o requirements/runtime.txt
lock --extra dev -c requirements/runtime.txt -o requirements/dev.txt
lock --extra eval -c requirements/runtime.txt -o requirements/eval.txt
for others in outside home-assistant; do
  uv pip compile "requirements/$others.in" --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate -q -o "requirements/$others.txt"
done
