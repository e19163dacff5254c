# make help lists the targets. Everything needs Go; conformance, golden, permissions and
# pictures also need java, mvn, python3, python3.13, npm, chromium, systemd, prometheus and redis.

SHELL = bash
.SHELLFLAGS = -eo pipefail -c

# Where the real counterparts are installed; git ignores the default.
export PEERS_DIR ?= $(CURDIR)/.cache/peers
# How long each fuzz target runs: inputs, or a duration. A duration now and then
# fails with "context deadline exceeded", a race in go test's own coordinator.
FUZZTIME ?= 50000x
# How many seeds the simulation runs.
SIM_SEEDS ?= 2000
# How many histories a round of make laws has.
LAW_CHECKS ?= 5000
# How long processes contend in make contests, in virtual time.
CONTEST ?= 1m
# How often a writing process is killed.
KILLS ?= 200
# How often each benchmark runs.
BENCHCOUNT ?= 6

# The race detector takes three times as long: make race, make long and CI have it. It needs a C
# compiler; without one the tests run all the same, except where CI is set.
race = $(if $(filter 1,$(shell go env CGO_ENABLED)),-race,$(if $(CI),$(error the race detector needs a C compiler: install gcc)))

# No package needs more than a minute of one processor, or five under the race detector. An hour of real time ends
# only a test that hangs, even where twenty processes share a processor.
gotest = go test -timeout 60m

# A long test is called TestLong…: it lets hours to weeks of virtual time pass, or kills process after process. make
# quick and make test leave it to make long and to .ci/run. One called TestLongest… does many times what make race
# does already: contests of many processes, loads for hours of virtual time, or seed after seed until the simulation
# reports a defect that the test has planted. It runs without the race detector, in a fraction of the time.
long    = '^TestLong'
longest = '^TestLongest'
# The packages that have one. The others need not be compiled for it.
having = $(sort $(dir $(shell grep -rE --include='*_test.go' '^func $(1)' [a-z]*/ | sed 's,^\([^:]*\):.*,./\1,')))
long_packages    = $(call having,TestLong[A-Z])
longest_packages = $(call having,TestLongest)
# The package whose largest cases make long adds, and which takes longest. .ci/run has less than an hour: it leaves
# them out.
apart = ./internal/acquire/

library = github.com/zeroae/zae-limiter-go
# The modules of go.work, which a release tags together. One command builds and tests them all.
program  = ./cmd/zae-limiter
modules  = . $(program) ./metrics/otellimit ./middleware/grpclimit
packages = $(modules:%=%/...)
# Modules that are never released: what they compare with, or build with, must not get into anybody's go.mod. make
# bench runs the tests of benchmarks, make package those of deploy.
separate = internal/test/benchmarks internal/test/routers deploy

tool          = $$(GOWORK=off go tool -modfile=$(CURDIR)/tools/go.mod -n $(1))
golangci-lint = $(call tool,golangci-lint)
benchstat     = $(call tool,benchstat)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: quick
quick: ## most tests, with few seeds and without the race detector
	$(gotest) -short -vet=off -skip $(long) $(packages)
	cd internal/test/routers && GOWORK=off $(gotest) -short -vet=off ./...

.PHONY: check
check: lint test ## what to run before a commit

.PHONY: test
test: ## every test that needs nothing but Go, except the long ones
	$(gotest) -vet=off -shuffle=on -skip $(long) $(packages)
	cd internal/test/routers && GOWORK=off $(gotest) -vet=off -shuffle=on ./...

.PHONY: race
race: ## the same under the race detector
	@$(if $(race),:,echo "no C compiler found: running without the race detector")
	$(gotest) $(race) -vet=off -shuffle=on -skip $(long) $(packages)
	cd internal/test/routers && GOWORK=off $(gotest) $(race) -vet=off -shuffle=on ./...

.PHONY: long
long: ## the long tests under the race detector, with their largest cases
	$(gotest) $(race) -vet=off -shuffle=on -run $(long) -skip $(longest) $(long_packages)
	$(gotest) -vet=off -shuffle=on -run $(longest) $(if $(CI),$(apart)) $(filter-out $(apart),$(longest_packages))
	$(if $(CI),,$(gotest) -vet=off -shuffle=on -run $(longest) $(apart) -contest.large)

.PHONY: lint
lint: ## linters and formatters, over the tagged files too
	@for m in $(modules); do (cd $$m && $(golangci-lint) run --allow-serial-runners --build-tags conformance ./...); done
	@for m in $(separate); do (cd $$m && GOWORK=off $(golangci-lint) run --allow-serial-runners --build-tags conformance ./...); done

.PHONY: format
format: ## rewrite the files as lint wants them
	@for m in $(modules) $(separate); do (cd $$m && $(golangci-lint) fmt ./...); done

.PHONY: tidy
tidy: ## tidy the go.mod of every module, with the library of the repository
	GOWORK=off go mod tidy
	@for m in $(filter-out .,$(modules)); do \
		go mod edit -replace=$(library)=$(CURDIR) -replace=$(library)/metrics/otellimit=$(CURDIR)/metrics/otellimit $$m/go.mod; \
		GOWORK=off go mod tidy -C $$m; \
		go mod edit -dropreplace=$(library) -dropreplace=$(library)/metrics/otellimit $$m/go.mod; \
	done
	@for m in $(separate); do GOWORK=off go mod tidy -C $$m; done

.PHONY: build
build: ## the programs, stripped, in bin/
	go build -trimpath -tags lambda.norpc -ldflags "-s -w" -o bin/ $(program)

.PHONY: image
image: ## the OCI image for amd64 and arm64, as a layout in bin/image; the same commit gives the same digest
	GOWORK=off go run -C deploy ./image

.PHONY: package
package: ## the image, the chart of Kubernetes and the file of Docker Compose, tested; root runs the image confined
	cd deploy && GOWORK=off $(gotest) -vet=off -shuffle=on ./...

.PHONY: tools
tools: ## the tools that lint and benchmarks use, in bin/
	GOWORK=off go build -C tools -o ../bin/ tool

.PHONY: vet
vet: ## compile every package, and vet the tests of a real account: lint vets all others
	go build $(packages)
	go vet -tags aws $(program)/internal/test/conformance/account

# The tests that need a counterpart are those in files with the tag conformance. The other tests of their packages
# run in make race.
tagged_files = $(shell grep -rl --include='*_test.go' '^//go:build conformance' $(filter-out internal/,$(wildcard */)) internal/test/peers | grep -v benchload | grep -v benchservice)
tagged_tests = $(shell sed -n 's/^func \(Test[A-Za-z0-9_]*\).*/\1/p' $(tagged_files))
# The longest first: the others run beside it.
tagged_packages = $(program)/internal/test/conformance/ $(filter-out $(program)/internal/test/conformance/,$(sort $(dir $(tagged_files:%=./%))))
# One package more than processors at a time: some wait for their servers most of the time.
at_once = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
empty =
one_of = '^($(subst $(empty) $(empty),|,$(strip $(1))))$$'

.PHONY: conformance
conformance: ## the tests against DynamoDB Local, the Python peer, boto3, the AWS command line, moto, Locust, Envoy, linters of templates, IAM Simulate, LocalStack, Prometheus, the OpenTelemetry collector, grpcurl and envoyproxy/ratelimit
	internal/test/peers/install
	$(gotest) -p $(at_once) -race -vet=off -count=1 -tags conformance -run $(call one_of,$(tagged_tests)) $(tagged_packages)

.PHONY: aws
aws: ## the stack on a real account: ZAEL_AWS_TESTS=ACCOUNT-ID; it costs some cents and deletes what it made
	@mkdir -p bin
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build -trimpath -o bin/zae-limiter-arm64 $(program)
	go run $(program) lambda-export --binary bin/zae-limiter-arm64 --arch arm64 --out bin/functions.zip --force
	ZAEL_AWS_TESTS_ZIP=$(CURDIR)/bin/functions.zip go test -count=1 -timeout 3h -v -tags aws -run '^TestOnARealAccount$$' $(program)/internal/test/conformance/account

.PHONY: golden
golden: ## record again what DynamoDB Local answers to the differential cases
	internal/test/peers/install
	go test -count=1 -tags conformance -run '^TestLive$$' ./dynamolite/internal/differential -update

.PHONY: permissions
permissions: ## record again what calls and commands ask of IAM, judge it, and write docs/permissions.md
	internal/test/peers/install
	go test -count=1 -run '^TestTheJudgedPolic' $(program)/internal/deploy $(program)/internal/deploy/loadstack -update.policies
	go test -count=1 -run '^TestLibrary$$' $(program)/internal/test/permissions -update
	go test -count=1 -run '^TestScripts$$' $(program)/internal/cli -update.permissions
	go test -count=1 -tags conformance -run '^TestTheJudgeAgrees$$' $(program)/internal/test/permissions -update
	go test -count=1 -run '^TestTheDocumentIsUpToDate$$' $(program)/internal/test/permissions -update

.PHONY: screenshots
screenshots: ## take the pictures of the service's pages in docs/pictures again, in Chromium
	internal/test/peers/install
	go test -count=1 -tags conformance -run '^TestPicturesOfThePages$$' $(program)/internal/service/page -pictures $(CURDIR)/docs/pictures

.PHONY: pictures
pictures: ## draw docs/pictures again from what commands print
	internal/test/peers/install
	@rm -rf bin/pictures && mkdir -p bin/pictures
	go test -count=1 -run '^(TestScripts|TestThePicture.*)$$' $(program)/internal/cli -pictures $(CURDIR)/bin/pictures
	$(PEERS_DIR)/pictures/bin/python docs/pictures/draw.py bin/pictures docs/pictures
	go test -count=1 -run '^(TestScripts|TestThePicture.*|TestEveryPictureIsDrawn)$$' $(program)/internal/cli

.PHONY: reference
reference: ## write the golden help and the pages of docs/cli from the commands
	go test -count=1 -run '^(TestHelp|TestReference)$$' $(program)/internal/cli -update

# The theme tells of its successor at every run; NO_MKDOCS_2_WARNING keeps the output to what is wrong.
mkdocs = internal/test/peers/install site && NO_MKDOCS_2_WARNING=1 $(PEERS_DIR)/site/bin/mkdocs

.PHONY: docs
docs: ## the documentation site, in bin/site; a broken link, or a page that mkdocs.yml lacks, fails
	@$(mkdocs) build

.PHONY: docs-serve
docs-serve: ## the documentation site at http://127.0.0.1:8000, built again after each change
	@$(mkdocs) serve

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME
	@for pkg in $$(go list $(packages)); do \
		targets=$$(go test -list '^Fuzz' $$pkg); \
		for target in $$(grep '^Fuzz' <<<"$$targets" || true); do \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

.PHONY: sim
sim: ## the simulation over SIM_SEEDS seeds
	$(gotest) -vet=off -count=1 -run '^TestSim$$' ./internal/test/sim -sim.seeds=$(SIM_SEEDS)

.PHONY: laws
laws: ## the laws over any writes, over histories that no run had before: LAW_CHECKS a round
	$(gotest) -vet=off -count=1 -run 'AnyWrites$$|^TestNeverAboveTheCap$$' ./dynamo ./internal/slots -rapid.seed=0 -rapid.checks=$(LAW_CHECKS)

.PHONY: contests
contests: ## processes that share a limit for a minute of virtual time
	$(gotest) -count=1 -run '^Test(Longest)?(Processes|AProcess)' ./internal/acquire -contest=$(CONTEST) -contest.large

.PHONY: crash
crash: ## a writing process killed KILLS times, and the log's own, with nothing lost
	$(gotest) -count=1 -run '^TestLongKilled$$' ./dynamolite -v -dynamolite.kills=$(KILLS)
	$(gotest) -count=1 -run '^TestKill' ./dynamolite/internal/journal -v -journal.kills=$(KILLS)

.PHONY: bench
bench: ## every benchmark BENCHCOUNT times, with their summary, and the ratios held
	@mkdir -p bin
	GOWORK=off go test -C internal/test/benchmarks -count=1 -timeout 30m -v -run '^Test' ./...
	GOWORK=off go test -C internal/test/benchmarks -run '^$$' -bench . -benchmem -count $(BENCHCOUNT) -timeout 60m ./... | tee bin/bench.txt
	$(benchstat) -col /via bin/bench.txt

.PHONY: benchengine
benchengine: ## the engine beside DynamoDB Local and the disk; half an hour
	internal/test/peers/install
	GOWORK=off go test -C internal/test/benchmarks -count=1 -timeout 90m -v -tags conformance -run '^TestEngine' . \
		-engine.items 1000000 -engine.slice 300ms -engine.rounds 31

.PHONY: benchlocal
benchlocal: ## what the client adds to the calls it makes, on DynamoDB Local
	internal/test/peers/install
	GOWORK=off go test -C internal/test/benchmarks -count=1 -timeout 30m -v -tags conformance -run '^Test' ./...

.PHONY: benchservice
benchservice: ## the service beside envoyproxy/ratelimit with Redis
	internal/test/peers/install service
	go test -count=1 -timeout 30m -v -tags conformance $(program)/internal/test/benchservice

.PHONY: benchload
benchload: ## a load test beside the Python peer's, on DynamoDB Local
	internal/test/peers/install
	go test -count=1 -timeout 30m -v -tags conformance $(program)/internal/test/benchload
