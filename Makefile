# Everything here sets itself up first: `make demo` and `make test` work in a fresh clone.
PYTHON ?= python3
BIN := .venv/bin
LAB := $(BIN)/hermes-lab
# The same demo against any endpoint: make demo MODEL_URL=http://host:8000/v1 MODEL_NAME=my-model
ENDPOINT := $(if $(MODEL_URL),-c model.provider=openai -c model.base_url=$(MODEL_URL) -c model.name=$(or $(MODEL_NAME),$(error give MODEL_NAME too)))
DEMO := runs/demo$(if $(MODEL_URL),-$(subst /,-,$(MODEL_NAME)))
LOOP := runs/loop
ADAPTER := $(LOOP)/adapters/sft-v1
# What was interrupted goes on where it was.
resume = $(if $(wildcard $(1)/run.json),--resume)

.DEFAULT_GOAL := help
.PHONY: help setup demo loop check fast test bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: .venv/ready ## install into .venv

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -U pip
	@echo "installing torch, vLLM and the rest: about 3 minutes, 4 GB"
	$(BIN)/pip install -q -c constraints.txt -e '.[cpu,docker,postgres,dev,bfcl,reasoning-gym,humaneval]'
	@# Third-party suites without what they ask for and do not need: 40 MB instead of 3 GB. jericho is built with make and cc.
	$(BIN)/pip install -q -c constraints.txt hashids mementos more-itertools prompt_toolkit tatsu termcolor
	$(BIN)/pip install -q -c constraints.txt --no-deps bfcl-eval textworld
	-$(BIN)/pip install -q -c constraints.txt --no-deps jericho
	@# vLLM's CPU build asks for these, but they do not load beside a CPU torch, and nothing here needs them.
	$(BIN)/pip uninstall -q -y torchvision torchaudio torchcodec
	touch $@

demo: setup ## the main job on the packaged model: run, learn, fit, draw
	$(LAB) doctor
	$(LAB) learn -c configs/demo.yaml $(ENDPOINT) --out $(DEMO) $(call resume,$(DEMO))
	$(LAB) fit $(DEMO)
	$(LAB) compare $(DEMO)

loop: setup ## demonstrations -> LoRA -> vLLM -> the held-out split again: did it get better?
	$(LAB) learn -c configs/demonstrations.yaml --out $(LOOP)/demonstrations $(call resume,$(LOOP)/demonstrations)
	test -e $(ADAPTER)/card.json || $(LAB) train sft -c configs/train/sft.yaml -c data=[$(LOOP)/demonstrations] \
	  -c adapters=$(LOOP)/adapters -c resume=$(if $(wildcard $(ADAPTER)),true,false)
	$(LAB) learn -c configs/heldout.yaml --out $(LOOP)/base $(call resume,$(LOOP)/base)
	$(LAB) learn -c configs/heldout.yaml -c model.adapter=$(ADAPTER) --out $(LOOP)/tuned $(call resume,$(LOOP)/tuned)
	$(LAB) fit $(LOOP)/base $(LOOP)/tuned
	$(LAB) compare $(LOOP)/base $(LOOP)/tuned
	$(LAB) compare $(LOOP)/tuned

check: setup ## format, lint, strict types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fast: setup ## unit and contract tests
	$(BIN)/pytest -m "not real" -n 2 --dist loadfile

test: check ## everything: checks, fast tests, then the real model, vLLM and training
	$(BIN)/pytest -m "not real" -n 2 --dist loadfile
	$(BIN)/pytest -m real

bench: setup ## what the harness itself costs
	for file in tests/benchmarks/bench_*.py; do $(BIN)/python $$file || exit 1; done

clean: ## remove the environment and the runs
	rm -rf .venv runs
