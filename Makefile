# Martlet's front door. `make` alone says what there is.
#
#   make run ARGS="-p 1884 -v"        arguments of the broker
#   make test PYTEST_ARGS="-k will"   arguments of the integration tests
#   make fuzz SECONDS=600 TARGETS="codec core"

SHELL := /bin/bash
.DEFAULT_GOAL := help

ARGS ?=
PYTEST_ARGS ?=
TARGETS ?=
ROUNDS ?= 5
PREFIX ?= /usr/local
DESTDIR ?=

martlet := .build/release/martlet
python := .build/python/bin/python
python-is-here := .build/python/installed
# Tests of tasks that wait for each other, in a process of their own: all others at once would let them wait for minutes.
waiting-tests := '^Martlet(Client|Testing)Tests\.'
tsan := suppressions=$(CURDIR)/.ci/not-races
release = -c release --static-swift-stdlib $(debug)
# Debug information costs a tenth of the time and two thirds of the size: only packages have it, apart.
debug := -debug-info-format none
# Where the C library reads them (glibc 2.36), relocations take a byte each, not 24.
linked := $(if $(shell ldconfig --version 2>/dev/null | awk 'NR == 1 && $$NF >= 2.36'),-Xlinker -z -Xlinker pack-relative-relocs)
# The broker of packages.
packed := .build-packages
arrows := --explicit-target-dependency-import-check error
# What Python has compiled of the tests stays apart from the sources, and is there for the next worker and the next time.
export PYTHONPYCACHEPREFIX := $(CURDIR)/.build/python/cache
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## Show this list
	@echo "Martlet, an MQTT broker. Targets:"
	@sed -nE 's/^([a-z-]+):.*## (.*)$$/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

.PHONY: run
run: build ## Install what is missing, build and start the broker (ARGS="-p 1884 -v" for its arguments)
	$(martlet) $(ARGS)

.PHONY: build
build: tools-build ## Build the release binary, .build/release/martlet
	swift build $(release) $(linked) $(arrows) --product martlet

.PHONY: install
install: ## Install what `make build` has built (PREFIX=/usr/local, DESTDIR= in front of it for packagers)
	PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" config/packaging/install

.PHONY: deb
deb: build-packed ## Pack a Debian package, and its debug information as another, in .build/packages (builds anew, with that)
	@.ci/install package
	config/packaging/deb $(packed)/release/martlet

.PHONY: tarball
tarball: build-packed ## Pack the same for /usr/local of any other Linux, in .build/packages
	config/packaging/tarball $(packed)/release/martlet

.PHONY: build-packed
build-packed: debug := -debug-info-format dwarf
build-packed: tools-build
	swift build $(release) $(arrows) --scratch-path $(packed) --product martlet

.PHONY: image
image: build ## Pack the container image, without a container engine, as an OCI image archive in .build/packages
	@.ci/install package
	docker/image

.PHONY: test
test: tools-test ## Run every check: lint, arrows, unit tests, integration tests, examples
	@$(MAKE) --no-print-directory lint unit
	@# Who compiles for minutes wants to hear of all that is wrong, not of the first thing alone.
	@$(MAKE) --no-print-directory --keep-going integration examples

.PHONY: unit
unit: tools-build ## Build and run the Swift tests
	swift build --build-tests $(arrows)
	.ci/check-fuzzers
	swift test --skip-build --skip $(waiting-tests)
	swift test --skip-build --filter $(waiting-tests)

.PHONY: integration
integration: build tools-test ## Run real clients against the release binary (BROKER=mosquitto for the reference)
	swift build $(release) $(arrows) --product endurance
	swift build $(release) $(arrows) --product collectionclient
	swift build $(release) $(arrows) --product consumerclient
	$(python) -m pytest Tests/Integration --ignore=Tests/Integration/examples --ignore=Tests/Integration/incidents $(PYTEST_ARGS)

# By itself, for it compiles, and other tests want the processors.
.PHONY: examples
examples: build tools-test ## Compile the client library's examples as packages of a stranger, and run them
	$(python) -m pytest Tests/Integration/examples --numprocesses 0 $(PYTEST_ARGS) || [ $$? -eq 5 ]  # 5: none was asked for

.PHONY: attacks
attacks: build tools-test ## Attack the broker in every way that SECURITY.md names, beside a client that must not notice (PYTEST_ARGS="-k bans")
	$(python) -m pytest Tests/Integration/abuse $(PYTEST_ARGS)

.PHONY: incidents
incidents: build tools-test ## Put a cluster through its incidents on real servers and nodes, and print for each what clients saw and what the operator was told (ten minutes; PYTEST_ARGS="-k clock")
	$(python) -m pytest Tests/Integration/incidents --numprocesses 2 $(PYTEST_ARGS)

.PHONY: nightly
nightly: build tools-test growth build-time fuzz sanitize ## What `make test` does for seconds, for hours: sanitizers, 30 s of fuzzing each, 50 crashes of each kind, 50 faults of a cluster and its incidents, 40 power cuts of its nodes, 5,000 clients of a drained node, 10,000 simulated seeds, five million messages (1.5 GB) for a client that is away, a million in an outbox, ten thousand clients, a dashboard of 100,000 sessions, a role of 100,000 clients, hours of clients that come and go
	swift build --build-tests $(arrows)
	MARTLET_SEEDS=10000 swift test --skip-build --filter '(Crash|BridgeStorm|BusStorm|DispatchStorm|DispatchedStepStorm|DeliveryStorm|GroupStorm|InterestTable|LogStorm|LostNode|MoveStorm|ReceiptStorm|RetainedStorm|SessionStorm|SubscriptionStorm)Tests'
	MARTLET_SEEDS=10000 swift test --skip-build --filter MartletTestingTests
	swift build $(release) $(arrows) --product endurance
	swift build $(release) $(arrows) --product collectionclient
	swift build $(release) $(arrows) --product consumerclient
	swift build --build-tests --scratch-path .build-traits --traits Logging,Metrics,Tracing,ServiceLifecycle
	swift test --skip-build --scratch-path .build-traits --traits Logging,Metrics,Tracing,ServiceLifecycle --filter MartletClientServicesTests
	MARTLET_CRASH_ROUNDS=50 $(python) -m pytest Tests/Integration/durability --numprocesses 4 --ignore=Tests/Integration/durability/test_long_queue.py $(PYTEST_ARGS)
	MARTLET_QUEUE=5000000 $(python) -m pytest Tests/Integration/durability/test_long_queue.py -n 0 $(PYTEST_ARGS)
	MARTLET_BRIDGE_ROUNDS=50 $(python) -m pytest Tests/Integration/bridges $(PYTEST_ARGS)
	MARTLET_CLUSTER_ROUNDS=50 MARTLET_CLUSTER_SEED=$${RANDOM} $(python) -m pytest Tests/Integration/cluster/test_faults.py -n 0 $(PYTEST_ARGS)
	$(python) -m pytest Tests/Integration/incidents --numprocesses 2 $(PYTEST_ARGS)
	MARTLET_CLUSTER_ROUNDS=10 MARTLET_CLUSTER_SEED=$${RANDOM} $(python) -m pytest Tests/Integration/cluster/test_lost_nodes.py Tests/Integration/cluster/test_killed_members.py -n 0 $(PYTEST_ARGS)
	MARTLET_CLUSTER_ROUNDS=20 MARTLET_CLUSTER_SEED=$${RANDOM} $(python) -m pytest Tests/Integration/cluster/test_node_power.py -n 0 $(PYTEST_ARGS)
	MARTLET_CROWD=5000 $(python) -m pytest Tests/Integration/cluster/test_administration.py -n 0 -k crowd $(PYTEST_ARGS)
	MARTLET_BACKLOG=1000000 MARTLET_CROWD=10000 MARTLET_SOAK_SECONDS=1800 $(python) -m pytest Tests/Integration/endurance $(PYTEST_ARGS)
	MARTLET_SESSIONS=100000 $(python) -m pytest Tests/Integration/administration/test_dashboard_crowd.py -n 0 $(PYTEST_ARGS)
	MARTLET_SESSIONS=100000 $(python) -m pytest Tests/Integration/security/test_role_of_a_crowd.py -n 0 $(PYTEST_ARGS)
	MARTLET_ALL_TRAITS=1 $(python) -m pytest Tests/Integration/examples --numprocesses 0 $(PYTEST_ARGS)
	MARTLET_EXAMPLES=100 $(python) -m pytest Tests/Integration/administration/test_openapi.py -n 0 $(PYTEST_ARGS)
	MARTLET_ABUSE_SECONDS=10 MARTLET_SOAK_SECONDS=1800 $(python) -m pytest Tests/Integration/abuse $(PYTEST_ARGS)

.PHONY: growth
growth: tools-build ## Count with callgrind how the broker's work grows with what clients send (minutes)
	@.ci/install growth
	swift build --build-tests $(arrows)
	.ci/growth

.PHONY: function-order
function-order: build ## Write down anew which functions a broker runs, which the linker puts together (before a release; the next link follows it)
	@.ci/install growth
	.ci/order-functions

.PHONY: build-time
build-time: tools-build ## Measure what a build costs by target, fresh and after one changed line (twenty minutes; ARGS="--only release --fresh")
	.ci/build-time $(ARGS)

.PHONY: fuzz
fuzz: tools-build ## Throw changed inputs at what reads them, 30 s at each (SECONDS=600 TARGETS="codec core")
	Tests/Fuzz/run $(or $(SECONDS),30) $(TARGETS)

.PHONY: sanitize
sanitize: tools-build ## Run the tests of core, codec and cluster under AddressSanitizer, those of the shell under ThreadSanitizer
	swift build --build-tests --sanitize=address --scratch-path .build-asan
	ASAN_OPTIONS=detect_leaks=0 swift test --skip-build --sanitize=address --scratch-path .build-asan \
	  --filter '^(BrokerCore|ClientCore|Cluster|Conformance|MQTTCodec|NATSClient)Tests\.'
	swift build --build-tests --sanitize=thread --scratch-path .build-tsan
	TSAN_OPTIONS='$(tsan)' swift test --skip-build --sanitize=thread --scratch-path .build-tsan \
	  --filter '^(ClientStore|MartletServer|Persistence|Platform|Security|Transports)Tests\.'
	TSAN_OPTIONS='$(tsan)' swift test --skip-build --sanitize=thread --scratch-path .build-tsan --filter $(waiting-tests)

.PHONY: bench
bench: build ## Compare with every broker found here (ROUNDS=2 SECONDS=2 for a quick look; ARGS="--rows pair")
	Benchmarks/compare --rounds $(ROUNDS) --seconds $(or $(SECONDS),3) $(ARGS)

.PHONY: bench-clients
bench-clients: build tools-test ## Give the client library and others the same jobs (ROUNDS=2 for a quick look; ARGS="--jobs publish1")
	@.ci/install clients
	Benchmarks/compare-clients --rounds $(ROUNDS) $(ARGS)

.PHONY: microbench
microbench: tools-build ## Measure codec, subscription tree, fan-out, client session, mailbox and timers each by itself
	swift run -c release --package-path Benchmarks microbench $(ARGS)

.PHONY: lint
lint: tools-build ## Check the formatting, the import arrows and their drawing, the place of bounds, the columns of comments, the words of names, that what is public is documented, that statements and options have their tests, and that openapi.json says what the API does
	swift format lint --strict --parallel --recursive Package.swift Sources Tests
	.ci/check-arrows
	.ci/check-limits
	.ci/check-parameters
	.ci/check-documentation
	.ci/check-seeds
	.ci/check-closures
	.ci/statements --quiet
	.ci/options --quiet
	.ci/check-words
	.ci/check-columns
	.ci/architecture
	.ci/check-pages
	.ci/check-openapi
	.ci/test-checks

.PHONY: openapi
openapi: tools-build ## Write the API's description, Sources/Administration/openapi.json, as routes and resources have it
	.ci/check-openapi --write

.PHONY: words
words: ## Check that no word in the sources' names has a second meaning (.ci/words has those that were given up)
	@.ci/check-words

.PHONY: house
house: ## Print fields, functions, files and lines by type, and files, lines and build seconds by target, beside the last release's, and what is too much (ARGS="--types 40")
	@.ci/house $(ARGS)

.PHONY: limits
limits: ## Print the bounds, each with its value, its unit and what happens beyond it (ARGS="queue bytes" for those alone)
	@.ci/limits $(ARGS)

.PHONY: statements
statements: ## Print the standard's statements, each with its tests or the reason why it has none
	@.ci/statements

.PHONY: options
options: ## Print the configuration's options, each with what becomes of it and the tests that show it
	@.ci/options

.PHONY: format
format: swift-is-here ## Format every Swift source in place
	swift format --in-place --parallel --recursive Package.swift Sources Tests

# The plugin is a dependency of the package only while MARTLET_DOCS is set: who builds the broker never fetches it.
documented := $(foreach target,Bytes HTTP JSON JSONReader JSONWebTokens MQTTCodec BrokerModel BrokerCore ClientCore Federation Cluster Platform Transports HTTPServer RowStore Persistence Security NATSClient \
  Configuration Administration ServerLoops ClusterGateway MartletServer Bench ClientStore MartletClient MartletClientJSON MartletClientServices MartletTesting Commands,--target $(target))

.PHONY: docs
docs: tools-build ## Build all documentation into one site, .build/docs; fails on warnings
	MARTLET_DOCS=1 swift package --allow-writing-to-directory .build/docs generate-documentation $(documented) \
	  --enable-experimental-combined-documentation --warnings-as-errors --disable-indexing \
	  --transform-for-static-hosting --output-path .build/docs
	@echo "The site is in .build/docs; see it with: python3 -m http.server --directory .build/docs"

.PHONY: clean
clean: ## Remove everything that was built
	rm -rf .build .build-*

# What the machine has to have. Each does nothing, and needs neither network nor root, when all is there.

.PHONY: swift-is-here
swift-is-here:
	@command -v swift >/dev/null || { \
	  echo "Martlet is built with Swift 6.3, and there is no 'swift' on the PATH." >&2; \
	  echo "Install it from https://www.swift.org/install/linux/ and try again." >&2; exit 1; }

# The compiler's module cache holds absolute paths: in a checkout that was built elsewhere and moved or copied since, it fails with errors that
# do not say so.
.PHONY: checkout-is-where-it-was
checkout-is-where-it-was:
	@for plan in .build/debug.yaml .build/release.yaml; do \
	  [ ! -e $$plan ] || grep -qFm1 '"$(CURDIR)/.build/' $$plan || { \
	    echo "This checkout was built in another place and has been moved or copied since; what the compiler keeps names the old one." >&2; \
	    echo "Run 'make clean' and try again." >&2; exit 1; }; \
	done

.PHONY: tools-build
tools-build: swift-is-here checkout-is-where-it-was
	@.ci/install build

.PHONY: tools-test
tools-test: tools-build $(python-is-here)
	@.ci/install test
	@.ci/mosquitto

# Python's test libraries, pinned, apart from the machine's own.
$(python-is-here): Tests/Integration/requirements.txt
	@.ci/install python
	.ci/python-environment .build/python Tests/Integration/requirements.txt
	@touch $@
