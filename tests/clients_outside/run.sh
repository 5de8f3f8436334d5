#!/usr/bin/env bash
# Other people's newest clients against a daemon of this checkout: `make outside [OUTSIDE="-k litellm"]`.
#
# Environments of their own, without hearsay, made once and again when their requirements change:
#   .envs/outside          requirements/outside.txt
#   .envs/outside/node     the JavaScript SDKs of package.json, where node and npm are installed
#   .envs/home-assistant   requirements/home-assistant.txt: Home Assistant pins all that it uses (450 MB)
# The daemon runs from .venv. Installing needs a network, the tests use none.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=tests/clients_outside env=.envs/outside
export PYTHONDONTWRITEBYTECODE=1

for made in outside home-assistant; do
  stamp=$(sha256sum <"requirements/$made.txt" | cut -c1-64)
  if [[ ! -f .envs/$made/stamp || $(<".envs/$made/stamp") != "$stamp" ]]; then
    echo "Making .envs/$made."
    .venv/bin/python -m venv --clear ".envs/$made"
    ".envs/$made/bin/python" -m pip install -q --disable-pip-version-check --require-hashes -r "requirements/$made.txt"
    echo "$stamp" >".envs/$made/stamp"
  fi
done
if command -v npm >/dev/null && ! cmp -s "$here/package.json" "$env/node/package.json"; then
  echo "Making $env/node."
  mkdir -p "$env/node"
  npm install --silent --no-audit --no-fund --no-package-lock --prefix "$env/node" \
    $("$env/bin/python" -c 'import json, sys
for name, version in json.load(open(sys.argv[1]))["dependencies"].items(): print(f"{name}@{version}")' "$here/package.json")
  cp "$here/package.json" "$env/node/package.json"
fi

# No price list from the network for LiteLLM; no proxy, no telemetry for anyone.
export LITELLM_LOCAL_MODEL_COST_MAP=True OTEL_SDK_DISABLED=true NO_PROXY=127.0.0.1,localhost
# The daemon's own conftest and warnings are not for these packages.
of_others() { "$1/bin/python" -m pytest -q -c "$here/pytest.ini" --rootdir . --confcutdir "$here" -p no:cacheprovider "${@:2}" \
  || [[ $? == 5 ]]; }  # 5: none of these tests was asked for
of_others "$env" "$here" "$@"
of_others .envs/home-assistant "$here/test_home_assistant.py" "$@"
