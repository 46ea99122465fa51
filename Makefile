# One command each: demo, test, check, figures, lock.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

SIZE ?=

# Python keeps what it has compiled, whatever this machine's environment says: otherwise each of the many processes that
# Spark and the tests start compiles all its modules anew, which takes longer than most of them run.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo demo-sites bench figures test test-jars test-kernel test-classes test-pure test-spark test-long test-faults check lock clean

setup: $(STAMP)

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Watersmeet needs Python 3.11 or newer; point PYTHON at one: make setup PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $(STAMP)

demo: setup
	@$(BIN)/watersmeet demo

demo-sites: setup
	@$(BIN)/watersmeet demo --sites

# Side by side: Spark's tests wait for Spark much of the time, the others are at work all of it.
test: setup
	@$(MAKE) --no-print-directory --jobs=2 test-spark test-pure

test-spark: test-jars test-classes
	$(BIN)/python -m pytest -m spark --numprocesses=2 --dist=loadfile --no-loadscope-reorder

# The connectors and the Kafka broker that some of Spark's tests need, fetched once into the user's cache.
test-jars: setup
	@$(BIN)/python -m tests.spark.kafka.broker --fetch

# The kernel's loops, compiled once before several processes would each compile them.
test-kernel: setup
	@$(BIN)/python -c 'from watersmeet.kernel.warm_up import warm_up; warm_up()'

# Spark's classes in an archive, so that each JVM that the tests start takes two thirds of the time.
test-classes: test-kernel
	@$(BIN)/python -m tests.spark.class_archive

test-pure: test-kernel
	$(BIN)/python -m pytest -m "not spark" --numprocesses=auto --dist=loadfile --no-loadscope-reorder

test-long: test-jars test-classes
	$(BIN)/python -m pytest --long

# Puts faults into the engine, one by one, and fails if the tests in process miss any.
test-faults: setup
	$(BIN)/python -m tests.faults.run

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Our engine beside Spark's own joins; fails if netmon3 is less than RATIO times as fast as the faster cascade.
RATIO ?= 5
bench: setup
	$(BIN)/watersmeet bench joins --quick --batch-rows 500000 --warm-up 30 --at-least $(RATIO)

# Our engine beside Flink and Pathway, each in an environment of its own; PEERS="--rows 100000" for a short run.
PEERS ?=
.PHONY: bench-peers
bench-peers: setup
	@$(MAKE) --no-print-directory -C benchmarks/peers environments PYTHON=$(PYTHON)
	$(BIN)/python -m benchmarks.peers.compare $(PEERS)

# Every figure of the papers, at full size, and the pages that show them; SIZE=--quick for small ones.
WAN := pmjoin|semijoin
figures: setup
	@for name in $$($(BIN)/watersmeet lab list | cut -d' ' -f1 | grep -vE '$(WAN)'); do \
	  $(BIN)/watersmeet lab figure $$name $(SIZE) --out figures || exit 1; \
	done
	@$(BIN)/watersmeet lab page figures $(SIZE) --pictures --out docs/figures.md
	@for name in $$($(BIN)/watersmeet lab list | cut -d' ' -f1 | grep -E '$(WAN)'); do \
	  $(BIN)/watersmeet lab figure $$name $(SIZE) --out figures/wan || exit 1; \
	done
	@$(BIN)/watersmeet lab page figures/wan $(SIZE) --pictures --out docs/wan-figures.md

lock: setup
	$(BIN)/pip-compile --quiet --extra dev --strip-extras --allow-unsafe --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
