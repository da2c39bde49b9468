# Every target installs what it needs first: `make demo` and `make test` work in a fresh clone.
PYTHON ?= python3
BIN := .venv/bin
LAB := $(BIN)/hermes-lab
# The same demo against any endpoint: make demo MODEL_URL=http://host:8000/v1 MODEL_NAME=my-model
ENDPOINT := $(if $(MODEL_URL),-c model.provider=openai -c model.base_url=$(MODEL_URL) -c model.name=$(or $(MODEL_NAME),$(error give MODEL_NAME too)))
DEMO := runs/demo$(if $(MODEL_URL),-$(subst /,-,$(MODEL_NAME)))
LOOP := runs/loop
SFT := $(LOOP)/adapters/sft-v1
comma := ,
PARTS := ledger labels menus rosters small_services small_builds
# The demonstrations in this folder, as a list for `data`.
shown = [$(subst $() ,$(comma),$(foreach part,$(PARTS),$(1)/$(part)/demonstrator))]
HERMES := runs/real-hermes$(if $(MODEL_URL),-$(subst /,-,$(MODEL_NAME)))
# The scripted model's gain is large enough for 6 worlds; 20 detect one of 16 points with power 0.8.
WORLDS ?= $(if $(MODEL_URL),20,6)
PROGRAMS := .venv/programs
SESSION := --dist loadfile --no-loadscope-reorder --durations 60 --durations-min 10
# Resumes the run or training that has left this file or folder.
resume = $(if $(wildcard $(1)),--resume)

.DEFAULT_GOAL := help
.PHONY: help setup demo loop real-hermes programs results results-small gpu-check notebooks docs check fast test simulations bench dist clean distclean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' Makefile

setup: .venv/ready ## install into .venv

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -U pip
	@echo "installing torch, vLLM and the rest: about 3 minutes, 5 GB"
	$(BIN)/pip install -q -c constraints.txt -e '.[cpu,qlora,docker,postgres,dev,bfcl,reasoning-gym,humaneval,ray,wandb,mlflow]'
	@# Third-party suites and Atropos, without requirements that they do not use: 45 MB instead of 3 GB. The ones they do use
	@# are installed first, so that pip does not warn about them. jericho is built with make and cc.
	$(BIN)/pip install -q -c constraints.txt hashids mementos more-itertools prompt_toolkit tatsu termcolor \
	  aiofiles jsonlines markdown pydantic-cli tenacity
	$(BIN)/pip install -q -c constraints.txt --no-deps bfcl-eval textworld atroposlib
	-$(BIN)/pip install -q -c constraints.txt --no-deps jericho
	@# vLLM's CPU build requires these, but they do not load with a CPU build of torch, and nothing here uses them.
	$(BIN)/pip uninstall -q -y torchvision torchaudio torchcodec
	touch $@

demo: setup ## a learning experiment with the packaged model: run, fit, compare, report
	$(LAB) doctor
	$(LAB) experiment -c configs/demo.yaml $(ENDPOINT) --out $(DEMO) $(call resume,$(DEMO)/run.json)
	$(LAB) fit $(DEMO)
	$(LAB) compare $(DEMO)
	$(LAB) report $(DEMO)

loop: setup ## the full training loop: demonstrations, SFT, held-out evaluation, GRPO, held-out evaluation, comparison
	$(LAB) study configs/experiments/demonstrations.yaml -c out=$(LOOP)/demonstrations
	test -e $(SFT)/card.json || $(LAB) train sft -c configs/train/sft.yaml -c 'data=$(call shown,$(LOOP)/demonstrations)' \
	  -c adapters=$(LOOP)/adapters $(call resume,$(SFT))
	$(LAB) experiment -c configs/heldout.yaml --out $(LOOP)/base $(call resume,$(LOOP)/base/run.json)
	$(LAB) experiment -c configs/heldout.yaml -c model.adapter=$(SFT) --out $(LOOP)/sft $(call resume,$(LOOP)/sft/run.json)
	$(LAB) train grpo -c configs/train/grpo.yaml -c parent=$(SFT) -c adapters=$(LOOP)/adapters \
	  -c out=$(LOOP)/rounds $(call resume,$(LOOP)/rounds/checkpoints/made_from.json) > $(LOOP)/grpo.txt
	$(LAB) experiment -c configs/heldout.yaml -c model.adapter=$$(tail -n 1 $(LOOP)/grpo.txt) \
	  --out $(LOOP)/grpo $(call resume,$(LOOP)/grpo/run.json)
	$(LAB) compare $(LOOP)/base $(LOOP)/sft
	$(LAB) compare $(LOOP)/sft $(LOOP)/grpo
	$(LAB) fit $(LOOP)/base $(LOOP)/sft $(LOOP)/grpo
	$(LAB) report $(LOOP)/base $(LOOP)/sft $(LOOP)/grpo -o $(LOOP)/report.html

# Pinned, each in an environment of its own.
# Nothing here depends on .venv/ready, so that `make -j` installs both at the same time.
$(PROGRAMS)/hermes/ready:
	$(PYTHON) -m venv $(PROGRAMS)/hermes
	$(PROGRAMS)/hermes/bin/pip install -q hermes-agent==0.19.0
	touch $@

$(PROGRAMS)/synapse/ready:
	$(PYTHON) -m venv $(PROGRAMS)/synapse
	$(PROGRAMS)/synapse/bin/pip install -q matrix-synapse==1.163.2
	touch $@

$(PROGRAMS)/mini/ready:
	$(PYTHON) -m venv $(PROGRAMS)/mini
	$(PROGRAMS)/mini/bin/pip install -q mini-swe-agent==2.4.6
	touch $@

$(PROGRAMS)/npm/ready:
	mkdir -p $(PROGRAMS)/npm
	command -v npm > /dev/null && npm install --silent --no-audit --no-fund --prefix $(PROGRAMS)/npm \
	  @anthropic-ai/claude-code@2.1.197 @openai/codex@0.169.0 @qwen-code/qwen-code@0.15.10 opencode-ai@1.18.33 \
	  @modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem@2026.8.31 \
	  @modelcontextprotocol/conformance@0.1.16 || \
	  echo "npm is missing: Claude Code, Codex, Qwen Code, OpenCode and MCP's reference servers are not installed"
	touch $@

$(PROGRAMS)/ready: $(foreach name,hermes synapse mini npm,$(PROGRAMS)/$(name)/ready)
	touch $@

programs: $(PROGRAMS)/ready ## install what tests run: hermes-agent, Claude Code, Codex and others, MCP's reference servers, and Synapse

real-hermes: setup $(PROGRAMS)/hermes/ready ## the real hermes-agent in four arms: does it get better? MODEL_URL and MODEL_NAME for your model, WORLDS for smaller gains
	$(LAB) agents check hermes --at $(PROGRAMS)/hermes
	$(LAB) experiment -c configs/real-hermes.yaml -c agent.at=$(PROGRAMS)/hermes -c learning.worlds=$(WORLDS) $(ENDPOINT) \
	  --out $(HERMES) $(call resume,$(HERMES)/run.json)
	$(LAB) compare $(HERMES)
	$(LAB) report $(HERMES)

results: setup ## reproduce the study of docs/results.md, its trainings included (takes hours; resumable)
	$(LAB) study configs/experiments/demonstrations.yaml
	for seed in 1 2; do \
	  adapter=runs/adapters/sft-seed-$$seed-v1; test -e $$adapter/card.json || \
	  $(LAB) train sft -c configs/train/sft.yaml -c lock=configs/locks/sft-cpu-seed-$$seed.yaml -c name=sft-seed-$$seed \
	    -c 'data=$(call shown,runs/demonstrations)' $$(test ! -e $$adapter || echo --resume) || exit 1; \
	done
	$(LAB) study configs/experiments/flagship.yaml
	$(LAB) study configs/experiments/course.yaml
	test -e runs/adapters/grpo-reviews-v4/card.json || \
	  $(LAB) train grpo -c configs/train/grpo-reviews.yaml -c parent=packaged \
  $$(test ! -e runs/grpo-reviews || echo --resume)
	$(LAB) study configs/experiments/reviews.yaml

results-small: setup ## the same study on one task family (takes minutes)
	$(LAB) study configs/experiments/flagship-small.yaml

# In an environment of its own, with the CUDA builds of torch and vLLM; where there is no GPU nothing is installed.
gpu-check: ## train and serve on this machine's NVIDIA GPU, and print memory and speed beside the plan
	@if ! nvidia-smi -L > /dev/null 2>&1; then echo "gpu-check: skipped: nvidia-smi finds no NVIDIA GPU"; else \
	  $(MAKE) .venv-gpu/ready && .venv-gpu/bin/python tests/gpu_check.py; fi

.venv-gpu/ready: pyproject.toml
	$(PYTHON) -m venv .venv-gpu
	.venv-gpu/bin/pip install -q -e '.[train,serve]'
	touch $@

notebooks: setup ## execute the notebooks and save their outputs
	$(BIN)/python tests/analysis/execute_notebooks.py

# What `make setup` installs has it, too; where that is missing, a small environment of its own does.
SITE := $(if $(wildcard .venv/ready),.venv,.venv-docs)
docs: $(SITE)/ready ## build the documentation site into build/site, with all links checked; no network once it is installed
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict --quiet
	@echo "build/site/index.html; with search: $(SITE)/bin/python -m http.server -d build/site"

.venv-docs/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-docs
	@# The extra `docs`, without the package. Signatures are formatted with ruff.
	.venv-docs/bin/pip install -q -c constraints.txt ruff $$($(PYTHON) -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['docs'])")
	touch $@

check: setup docs ## format, lint, strict types, import contracts, the documentation site
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fast: setup ## fast tests
	$(BIN)/pytest -m "not real and not long" -n 2 --dist loadfile --no-loadscope-reorder

test: check programs ## all checks and tests: fast, long, and with the real model, vLLM and training
	@# One session: collecting the tests takes as long as many of them. In the order of the folders no long file is last.
	@# Three workers on two cores, since many tests wait. A thread for each: torch would start two.
	@# The second session runs after a failure in the first, too, so that one run shows everything.
	@# Tests start thousands of processes. With PYTHONDONTWRITEBYTECODE, each would compile the modules anew.
	export OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=; failed=0; \
	HERMES_LAB_PROGRAMS=$(PROGRAMS) $(BIN)/pytest -m "not real" -n 3 $(SESSION) || failed=1; \
	$(BIN)/pytest -m real -n 2 $(SESSION) tests/real || failed=1; \
	exit $$failed

simulations: setup ## how often tests and intervals err, by simulation (takes hours; apart from `make test`)
	@# Without the limit of 15 minutes for a test.
	$(BIN)/python tests/simulations/agreement.py
	$(BIN)/python tests/simulations/rate_coverage.py
	$(BIN)/python tests/simulations/coverage.py
	$(BIN)/python tests/simulations/identified.py
	$(BIN)/python tests/simulations/peeking.py
	$(BIN)/python tests/simulations/crossed.py
	$(BIN)/python tests/real/comparison_tables.py 400
	SIMULATIONS=1000 $(BIN)/pytest --timeout 0 tests/real/test_curve_coverage.py tests/real/test_null_experiments.py -s
	SIMULATIONS=3 $(BIN)/pytest --timeout 0 tests/real/test_known_curve.py
	SIMULATIONS=12 $(BIN)/pytest --timeout 0 tests/real/test_calibration.py
	SIMULATIONS=100 $(BIN)/pytest --timeout 0 tests/faults/test_faults_kill.py
	SIMULATIONS=30 $(BIN)/pytest --timeout 0 tests/training/test_grpo_reviews_killed.py
	SIMULATIONS=100 $(BIN)/pytest --timeout 0 tests/runners/test_learning_run.py
	SIMULATIONS=100000 $(BIN)/pytest --timeout 0 tests/hermes_lab/memory/test_vector_recall.py

bench: setup ## benchmark the overhead of the harness
	for file in tests/benchmarks/bench_*.py; do $(BIN)/python $$file || exit 1; done

dist: ## build the wheel and the sdist in dist/, byte for byte the same from the same commit
	$(PYTHON) -m venv .venv-dist
	.venv-dist/bin/pip install -q hatchling==1.33.0
	rm -rf dist build/dist
	mkdir -p build/dist
	@# Of the commit, whatever else lies here.
	git archive HEAD -o build/dist.tar
	tar -xf build/dist.tar -C build/dist
	cd build/dist && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(CURDIR)/.venv-dist/bin/hatchling build -t sdist -t wheel \
	  -d $(CURDIR)/dist
	cd dist && sha256sum *.tar.gz *.whl | tee SHA256SUMS

clean: ## delete what was built, and caches; keep runs/ and .venv
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . \( -name .git -o -name '.venv*' -o -name runs \) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## also delete the environments of make: .venv, .venv-dist, .venv-docs, .venv-gpu
	rm -rf .venv .venv-dist .venv-docs .venv-gpu
