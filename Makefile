# The commands of this project; `make` alone lists them. Each one sets up what it needs.
.DEFAULT_GOAL := help
.PHONY: help setup test test-unit matrix mutants image node demo chaos soak bench scale screenshots release docs docs-serve check format clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

setup: ## make .venv, and install Java where it is missing and may be installed
	@scripts/setup

test: ## check the code and run all tests; Kafka and a database are started as needed
	@scripts/test

test-unit: ## run the tests that need no service, in about eight minutes
	@scripts/test --no-lint --unit

matrix: ## kill a pipeline at every point, with every sink and variant, the location in a folder and in a bucket (`test` takes a part of it)
	@EOS_MATRIX_SEED=all scripts/test --no-lint integration_tests/test_matrix.py -n 2

mutants: ## break the product line by line and see its tests fail (AT_ONCE=2 trials; SERVICES=native: also those on servers)
	@scripts/setup
	@$(if $(SERVICES),EOS_SERVICES=$(SERVICES)) .venv/bin/python -m tests.mutants --at-once $(or $(AT_ONCE),2) $(if $(SERVICES),--services)

image: ## build the product's image, and kill it beside Kafka and MySQL in containers (about 5 minutes)
	@scripts/test --kind docker --no-lint integration_tests/test_image.py --image

node: ## run the Helm chart on a node of Kubernetes, and kill its pods (root, Docker, Go; 20 minutes of builds, once)
	@scripts/setup
	@.venv/bin/python -m integration_tests.services build --node
	@scripts/test --kind native --no-lint integration_tests/test_kubelet.py --image

demo: ## run the example job, kill it in the middle, restart it, and count (SERVICES=docker|native for real servers)
	@scripts/demo

chaos: ## faults of every kind against a pipeline under load, MINUTES=10 long (SEED=n LOG=file: taken up again; FAULTS RATE KIND)
	@scripts/setup
	@.venv/bin/python -m integration_tests.chaos run --minutes $(or $(MINUTES),10) --log $(or $(LOG),chaos.jsonl) \
	  $(if $(SEED),--seed $(SEED)) $(if $(FAULTS),--faults $(FAULTS)) $(if $(RATE),--rate $(RATE)) $(if $(KIND),--kind $(KIND))

soak: ## thousands of checkpoints at full speed: nothing may grow (CHECKPOINTS=5000, half an hour)
	@scripts/setup
	@.venv/bin/python -m benchmarks.soak --checkpoints $(or $(CHECKPOINTS),5000)

bench: ## measure this project beside Flink, Debezium (EOS_PEERS=folder) and Spark alone, with tables and a picture (an hour and a half)
	@scripts/bench compare
	@scripts/bench report

scale: ## how the cost of a checkpoint grows: the coordinator alone, many partitions, workers and tables (half an hour)
	@scripts/setup
	@.venv/bin/python -m benchmarks.coordinator --plots docs/images
	@.venv/bin/python -m benchmarks.scale partitions
	@.venv/bin/python -m benchmarks.scale workers
	@.venv/bin/python -m benchmarks.scale tables

screenshots: ## make the docs' pictures of the page anew, with a browser
	@scripts/setup
	@.venv/bin/python -m integration_tests.screenshots

release: ## build the wheel and the source distribution into dist/, and check them
	@scripts/release

docs: ## build the documentation site into .docs/site; broken links and anchors fail
	@scripts/docs build

docs-serve: ## serve the documentation site, and rebuild it after each change (ADDRESS=127.0.0.1:8000)
	@scripts/docs serve $(or $(ADDRESS),127.0.0.1:8000)

check: ## check style, format, types, direction of imports and scripts
	@scripts/check

format: ## put the code into its format
	@scripts/setup
	@.venv/bin/ruff check --fix --quiet . ; .venv/bin/ruff format .

clean: ## stop the services and remove what was made here
	@[ ! -x .venv/bin/python ] || .venv/bin/python -m integration_tests.services down || true
	@rm -rf .venv .release-venv .services build dist ./*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .docs .docs-venv
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
