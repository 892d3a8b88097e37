# Builds, tests and runs the workspace. `make` alone lists the targets.
#
# Demo, tests and benchmarks share one profile and the features of every dependency, so that each is compiled once,
# see Cargo.toml and crates/workspace-hack. `make test FEATURES=clew-model/wgpu` builds and tests another backend.

.DEFAULT_GOAL := help
.PHONY: help setup build release install dist dist-test dist-check docs demo cluster-demo test clients fault-test check style features bench cluster-bench scale-bench screenshots load simulate proto \
	config-reference openapi train train-check manifests charts-check deploy-check deploy-test gpu-programs gpu-day gpu-measured vulkan-test cuda-check images images-cuda

# The folder in which rustup puts cargo, for shells that were opened before it did.
export PATH := $(PATH):$(HOME)/.cargo/bin

FEATURES ?=
SELECTION = --workspace $(addprefix --features=,$(FEATURES))

CLEW := $(abspath $(or $(CARGO_TARGET_DIR),target)/debug/clew)
RELEASE := $(abspath $(or $(CARGO_TARGET_DIR),target)/release)
PREFIX := $(HOME)/.local
INSTALLED = $(DESTDIR)$(PREFIX)
MODEL = $(or $(CLEW_MODEL_DIR),.cache/models/all-MiniLM-L6-v2)
PYTHON := .cache/python/bin/python
PYTHON_PACKAGES := .cache/python/packages.installed
CLIENT_PACKAGES := .cache/python/clients.installed
DEPLOY_PACKAGES := .cache/python/deploy.installed
DIST_PACKAGES := .cache/python/dist.installed
# An environment of its own, because PyTorch takes 5 GB.
TRAINING_PYTHON := .cache/training/bin/python
TRAINING_PACKAGES := .cache/training/packages.installed
READER := crates/model/reader

# Backend of the programs that measure a GPU, and the tests that can compute on one.
GPU_FEATURES = $(if $(filter vulkan:%,$(DEVICE)),wgpu,cuda)
DEVICE_TESTS := encoders decoders generation memorag memory_training memory_trainer gpu_day

# Settings of `make images`.
CONTAINER_ENGINE := podman
REPOSITORY := clew
VERSION := $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' Cargo.toml | head -1)
IMAGES := gateway retriever memory-encoder generator graph-builder clew

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what is missing: compilers, Redis, Python environment, embedding model
	@.setup/install

build: setup ## Build the programs
	cargo build $(SELECTION) --bins

# Compiles every dependency once more: most of an hour on two cores.
release: setup
	cargo build --release --package clew --locked

install: release ## Build the fast `clew` and install it with its embedding model: PREFIX=folder
	$(PYTHON) packaging/prefix.py $(INSTALLED) --clew $(RELEASE)/clew --model $(MODEL)

dist: release $(DIST_PACKAGES) ## Make a tarball and a Python wheel of the fast `clew` in target/dist
	$(PYTHON) packaging/dist.py target/dist --clew $(RELEASE)/clew --model $(MODEL)

dist-test: setup $(DIST_PACKAGES) ## Install what `make dist` made, and use it
	$(PYTHON) tests/dist/check.py target/dist

# Compresses little, because the development program is large.
dist-check: build $(DIST_PACKAGES) ## The same with the program of `make build`
	$(PYTHON) packaging/dist.py target/dist-check --clew $(CLEW) --model $(MODEL) --quick
	$(PYTHON) tests/dist/check.py target/dist-check

docs: ## Build the documentation as a website in target/docs
	@.setup/install docs
	PATH="$(CURDIR)/.cache/tools/bin:$$PATH" mdbook build docs

# Links one program instead of seven.
demo: setup ## Remember the documentation of Clew's own dependencies and ask about it
	cargo build --package clew --locked
	@CLEW=$(CLEW) $(PYTHON) examples/demo/demo.py

cluster-demo: build ## The same with every service a process of its own, over a real Redis
	@CLEW=$(CLEW) $(PYTHON) examples/demo/cluster.py

# tests/promises, tests/interfaces and tests/answers run the program, the examples and scripts in Python.
test: build $(PYTHON_PACKAGES) deploy-check dist-check ## Run all tests
	@.setup/install tests
	$(PYTHON) tests/telemetry/check.py
	cargo test $(SELECTION)

# Needs npm, and Java for Spark. The packages are those of tests/clients/package-lock.json, with a Node.js of their own
# on most platforms, of tests/clients/requirements.txt, and of clients/python/uv.lock.
clients: build $(CLIENT_PACKAGES) ## Call a server with clients that others wrote
	npm ci --prefix tests/clients --no-audit --no-fund
	cargo test $(SELECTION) --test interfaces clients:: -- --ignored
	PATH="$(CURDIR)/.cache/python/bin:$$PATH" PROGRAM_UNDER_TEST=$(CLEW) $(PYTHON) clients/python/check.py --integrations

# Needs root on Linux, because every process gets a host of its own.
fault-test: build ## Inflict every fault on clusters at least three times, and show the disturbance
	CLEW_FAULTS=$(or $(CLEW_FAULTS),45) cargo test --package clew --test faults -- --nocapture whatever_happens
	CLEW_FAULT_CASES=all cargo test --package clew-index --test shard -- --nocapture any_put_or_removal

simulate: ## Simulate 1,000 clusters under faults, and one of 1,000 retrievers (most of an hour)
	CLEW_SIMULATION_SEEDS=1000 cargo test --package clew-cluster --lib -- --nocapture whatever_happens_to_a_cluster
	CLEW_SIMULATION_NODES=$(or $(NODES),1000) cargo test --package clew-cluster --lib -- --nocapture a_large_cluster_moves

# Quick checks first.
check: style ## Check format, dependencies and lints
	cargo clippy $(SELECTION) --all-targets --locked -- -D warnings

style: setup $(PYTHON_PACKAGES) ## Check format, dependencies, links and structure only
	cargo fmt --all --check
	$(PYTHON) tests/policy/dependencies.py
	$(PYTHON) tests/policy/features.py
	$(PYTHON) tests/policy/links.py
	$(PYTHON) tests/policy/structure.py
	@if cargo deny --version >/dev/null 2>&1; then cargo deny --locked check; \
	else echo "cargo-deny is not installed: advisories were not checked"; fi

features: setup ## Unite the features of dependencies, after a dependency was added or its features changed
	$(PYTHON) tests/policy/features.py --write

bench: demo ## Measure encoder, ingestion and search on this machine
	cargo bench --profile dev --workspace --bench '*'
	@CLEW=$(CLEW) $(PYTHON) examples/demo/demo.py bench

cluster-bench: build ## Measure what a cluster costs and gains on this machine
	@CLEW=$(CLEW) $(PYTHON) benches/bench_cluster.py

# `make scale-bench TEXTS="folder another"` fills it with your own texts, and `FOLDER=` keeps the shard there.
scale-bench: release ## Fill a shard with a million chunks and measure at 10,000, 100,000 and 1,000,000 (half an hour behind the build, 6 GB of disk)
	$(RELEASE)/clew bench growth --sizes $(or $(SIZES),10000,100000,1000000) \
		$(addprefix --folder=,$(FOLDER)) $(if $(TEXTS),--texts $(TEXTS))

screenshots: build $(PYTHON_PACKAGES) ## Take the pictures of the console's pages for the documentation
	@.setup/install tests
	@CLEW=$(CLEW) $(PYTHON) tests/console/screenshots.py

# `make load SCENARIOS="search-ladder tenant-storm"`. Without SCENARIOS, the short mixed one runs.
load: build ## Measure a fresh server under load; reports go to .cache/load
	$(dir $(CLEW))clew-loadtest $(patsubst %,loadtest/scenarios/%.toml,$(or $(SCENARIOS),mixed)) \
		--serve $(CLEW) --out .cache/load

# A single package, in a folder of its own: on a machine with a GPU nothing else is needed. The programs can be
# carried to one without a network, where `benches/gpu_day.py` runs them.
gpu-programs: ## Build the programs that measure a GPU into target/gpu-day/programs
	mkdir -p target/gpu-day
	CARGO_TARGET_DIR=target/gpu-day cargo build --release --package clew-model --features $(GPU_FEATURES) --example gpu_day --tests \
		--locked --message-format=json-render-diagnostics > target/gpu-day/built.json
	python3 benches/gpu_day.py collect target/gpu-day/programs < target/gpu-day/built.json

# `DEVICE=vulkan:0` measures a GPU of AMD or Intel.
gpu-day: ## Measure a GPU with models of real shapes, and check them on it; without one, try that in software
	@if [ -n "$(DEVICE)$(wildcard /dev/nvidia0)" ]; then $(MAKE) gpu-measured; else $(MAKE) vulkan-test; fi

gpu-measured: gpu-programs
	python3 benches/gpu_day.py measure target/gpu-day/programs target/gpu-day/measured --device $(or $(DEVICE),cuda:0)

vulkan-test: FEATURES := $(or $(FEATURES),clew-model/wgpu)
vulkan-test: setup ## Test the models on a GPU with a Vulkan driver, or on one in software, and try what `make gpu-day` does
	@.setup/install vulkan
	cargo build $(SELECTION) --locked --example gpu_day
	CLEW_TEST_DEVICE=vulkan:0 cargo test $(SELECTION) --locked $(addprefix --test=,$(DEVICE_TESTS)) -- --test-threads=2

cuda-check: ## Compile all programs with CUDA, with Clippy as the compiler of our crates
	RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings CARGO_TARGET_DIR=target/cuda \
		cargo build --workspace --features clew/cuda --bins --locked

# A single package, because it must work if the generated code does not compile.
proto: ## Generate the code in crates/proto from proto/
	cargo run --package clew-proto-codegen

config-reference: ## Write the keys into docs/configuration.md from their types
	CLEW_UPDATE_REFERENCE=1 cargo test --package clew --bin clew the_page_of_the_configuration_reference_is_current

openapi: ## Write the calls of HTTP into docs/openapi.json from proto/
	CLEW_UPDATE_REFERENCE=1 cargo test --package clew-http --test openapi

# Goes on where it was stopped. TOKENS=7.8e6, the default, takes an hour and a half of one core with instructions for bfloat16.
train: setup $(TRAINING_PACKAGES) ## Train the reader and write its adapter into the sources: DATA=folder
	$(TRAINING_PYTHON) $(READER)/train.py $(or $(DATA),$(error name the folder of the data: DATA=folder)) \
		--base $(MODEL) --out .cache/training/run --tokens $(or $(TOKENS),7.8e6)
	$(TRAINING_PYTHON) $(READER)/export.py .cache/training/run $(DATA) --base $(MODEL) --out $(READER)/reader.safetensors
	cp .cache/training/run/log.jsonl $(READER)/log.jsonl

train-check: setup $(TRAINING_PACKAGES) ## Train the reader on a tenth of the data and compare with a reference: DATA=folder
	$(TRAINING_PYTHON) $(READER)/check.py $(or $(DATA),$(error name the folder of the data: DATA=folder)) --base $(MODEL)

manifests: setup $(DEPLOY_PACKAGES) ## Render the manifests in k8s from the chart
	@.setup/install deploy-check
	$(PYTHON) tests/deploy/check.py --write

charts-check: setup $(DEPLOY_PACKAGES)
	@.setup/install deploy-check
	$(PYTHON) tests/deploy/check.py

# Continuous integration checks the charts before it compiles, and sets CHARTS_CHECKED.
deploy-check: build $(if $(CHARTS_CHECKED),,charts-check) ## Check the chart, the manifests, compose.yaml and the Containerfile
	$(PYTHON) tests/deploy/check.py --clew $(CLEW)

# Needs root on Linux, with the buildah and podman of Debian.
deploy-test: deploy-check $(PYTHON_PACKAGES) ## Build the images and run the chart's pods with them
	@.setup/install deploy-test
	$(PYTHON) tests/deploy/cluster.py --programs $(dir $(CLEW)) $(addprefix --model=,$(CLEW_MODEL_DIR))

images: ## Build the images: REPOSITORY=name, CONTAINER_ENGINE=docker
	@for image in $(IMAGES); do \
		$(CONTAINER_ENGINE) build --build-arg PROGRAMS=compiled --target $$image --tag $(REPOSITORY)/$$image:$(VERSION) \
			--file Containerfile . || exit 1; \
	done

images-cuda: ## Build the images for NVIDIA GPUs, with the same settings
	@for image in memory-encoder-cuda generator-cuda; do \
		$(CONTAINER_ENGINE) build --build-arg PROGRAMS=compiled --build-arg FEATURES=clew/cuda \
			--target $$image --tag $(REPOSITORY)/$$image:$(VERSION) --file Containerfile . || exit 1; \
	done

$(PYTHON_PACKAGES): tests/python/requirements.txt | setup
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

$(CLIENT_PACKAGES): tests/clients/requirements.txt $(PYTHON_PACKAGES) | setup
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

$(DEPLOY_PACKAGES): tests/deploy/requirements.txt | setup
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

$(DIST_PACKAGES): packaging/requirements.txt | setup
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

$(TRAINING_PACKAGES): $(READER)/requirements.txt | setup
	$(PYTHON) -m venv .cache/training
	$(TRAINING_PYTHON) -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@
