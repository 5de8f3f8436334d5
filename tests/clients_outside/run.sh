#!/usr/bin/env bash
# Other people's newest clients against a daemon of this checkout: `make outside [OUTSIDE="-k litellm"]`.
#
#   .envs/outside        an environment of its own, without hearsay: requirements/outside.txt (made once and again when it
#                        changes)
#   .envs/outside/node   the JavaScript SDKs of package.json, where node and npm are installed
# The daemon runs from .venv. Installing needs a network, the tests use none.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=tests/clients_outside env=.envs/outside
export PYTHONDONTWRITEBYTECODE=1

stamp=$(sha256sum <requirements/outside.txt | cut -c1-64)
if [[ ! -f $env/stamp || $(<"$env/stamp") != "$stamp" ]]; then
  echo "Making $env."
  .venv/bin/python -m venv --clear "$env"
  "$env/bin/python" -m pip install -q --disable-pip-version-check --require-hashes -r requirements/outside.txt
  echo "$stamp" >"$env/stamp"
fi
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
exec "$env/bin/python" -m pytest -q -c "$here/pytest.ini" --rootdir . --confcutdir "$here" -p no:cacheprovider "$here" "$@"
