# make help lists the targets. Everything needs Go; conformance, golden, permissions and
# pictures also need java, mvn, python3, python3.13, npm and prometheus.

SHELL = bash
.SHELLFLAGS = -eo pipefail -c

# Where the real counterparts are installed; git ignores the default.
export PEERS_DIR ?= $(CURDIR)/.cache/peers
# How long each fuzz target runs: inputs, or a duration. A duration now and then
# fails with "context deadline exceeded", a race in go test's own coordinator.
FUZZTIME ?= 50000x
# How many seeds the simulation runs.
SIM_SEEDS ?= 2000
# How long processes contend in make contests, in virtual time.
CONTEST ?= 1m
# How often a writing process is killed.
KILLS ?= 200
# How often each benchmark runs.
BENCHCOUNT ?= 6

# The race detector needs a C compiler; without one the tests run all the same,
# except where CI is set.
race = $(if $(filter 1,$(shell go env CGO_ENABLED)),-race,$(if $(CI),$(error the race detector needs a C compiler: install gcc)))

# The long tests let hours to weeks of virtual time pass, kill process after process, or try seed after
# seed until the simulation reports a defect that they have planted. make quick and make test leave them to make long and to .ci/run.
# arch_test.go checks that the packages have a test of each name, and that no other package has one.
long = TestACombinedLoadCostsWhatTheLedgerSays \
	TestABusyBucketIsDoubledAhead TestAClockThatStaysAhead TestADegradedLeaseIsCommitted \
	TestADegradedLeaseIsDropped TestADegradedLeaseIsRolledBack \
	TestADegradedLeaseIsRolledBackInTheBackground TestAFrozenWriteLimitDoublesNothing \
	TestAHotPartitionDoublesItsBucket TestAProcessThatAsksForLittleGetsIt \
	TestAQuietBucketIsNeverDoubled TestASlowBucketNeverDoubles \
	TestASmallBurstBesideAClientThatIsALittleAhead TestBrokenAggregatorsAreSeen \
	TestBrokenHealingsAreSeen TestBrokenIsSeen TestBrokenMergesAreSeen TestBrokenSeasonsAreSeen \
	TestBrokenShardsAreSeen TestFollowerReadsParentsBeforeTheirChildren TestGoldenOverHTTP TestKilled \
	TestLongRunRateIsTheConfiguredRateUnderLatency TestMemoryDoesNotGrowWithHistory TestNeverStarved \
	TestNeverStarvedByAnAggregator TestNeverStarvedOnShards \
	TestOneWriteFromTheFutureDoesNotStopABucket TestOnlyAQuietBucketIsMerged TestPowerCutAtEveryStep \
	TestProcessesFarAwayGetAtLeastHalfAShare TestProcessesOnLocal TestProcessesShareALimitEqually TestProcessesTakeTurns \
	TestSimWithDates TestSlowLimitAccruesBesideAFastOne TestStoreOverHTTP TestSteadyLoadStaysOnTheOneRoundTripPath \
	TestTenThousandEntitiesStayWithinABoundOfMemory TestTheAttack TestTheAttackOnABucketThatIsNotSharded TestTheEndOfAShardWithSomethingPutOff \
	TestTheIntervalsContainOne \
	TestUnequalSharesAreSeen \
	TestUsageCostsWhatTheLedgerSays
long_packages = . ./aggregator ./conformance ./dynamo ./dynamo/stream ./dynamolite ./estimate \
	./dynamolite/internal/differential ./dynamolite/internal/journal ./internal/sim ./loadtest ./loadtest/compare ./manifest
space := $(subst ,, )
long_pattern = '^($(subst $(space),|,$(strip $(long))))$$'

# Modules of their own, in folders with a go.mod: what they need must not get into everybody else's
# go.mod. lint, format and vet cover them all. make test runs the tests of the libraries among them, and
# make bench those of benchmarks.
modules   = $(patsubst %/go.mod,%,$(filter-out tools/go.mod,$(wildcard */go.mod)))
libraries = $(filter-out benchmarks,$(modules))

golangci-lint = go tool -modfile=$(CURDIR)/tools/go.mod golangci-lint
benchstat     = go tool -modfile=$(CURDIR)/tools/go.mod benchstat

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: quick
quick: ## most tests, with few seeds and without the race detector; under a minute
	@echo 'go test -short ./... without the long tests'
	@go test -short -vet=off -skip $(long_pattern) ./...
	@for m in $(libraries); do go test -C $$m -short -vet=off ./...; done

.PHONY: check
check: lint test ## what to run before a commit

.PHONY: test
test: ## every test that needs nothing but Go, except the long ones, under the race detector
	@$(if $(race),:,echo "no C compiler found: running without the race detector")
	@echo 'go test $(race) ./... without the long tests'
	@go test $(race) -shuffle=on -timeout 20m -skip $(long_pattern) ./...
	@for m in $(libraries); do echo "go test $(race) in $$m"; go test -C $$m $(race) -shuffle=on ./...; done

.PHONY: long
long: ## the long tests under the race detector, with their largest cases
	@echo 'go test $(race) $(long_packages), the long tests'
	@go test $(race) -shuffle=on -timeout 60m -run $(long_pattern) $(filter-out .,$(long_packages))
	@go test $(race) -shuffle=on -timeout 60m -run $(long_pattern) . -contest.large
	@go test $(race) -timeout 60m -run '^TestTheBooksBalance$$' . -books.all

.PHONY: lint
lint: ## linters and formatters, over the tagged files too
	$(golangci-lint) run --allow-serial-runners --build-tags conformance ./...
	@for m in $(modules); do (cd $$m && $(golangci-lint) run --allow-serial-runners --build-tags conformance ./...); done

.PHONY: format
format: ## rewrite the files as lint wants them
	$(golangci-lint) fmt ./...
	@for m in $(modules); do (cd $$m && $(golangci-lint) fmt ./...); done

.PHONY: build
build: ## the programs, stripped, in bin/
	go build -trimpath -tags lambda.norpc -ldflags "-s -w" -o bin/ ./cmd/...

.PHONY: tools
tools: ## the tools that lint and benchmarks use, in bin/
	go build -C tools -o ../bin/ tool

.PHONY: vet
vet: ## compile every package and test, the tagged ones too, and vet them
	go build ./...
	go vet -tags conformance ./...
	go vet -tags aws ./conformance/account
	@for m in $(modules); do go build -C $$m ./...; go vet -C $$m -tags conformance ./...; done

.PHONY: conformance
conformance: ## the tests against DynamoDB Local, the Python peer, boto3, the AWS command line, moto, Locust, linters of templates, IAM Simulate, LocalStack, Prometheus and the OpenTelemetry collector
	conformance/install
	@echo 'go test -race -tags conformance, without the long tests'
	@go test -race -count=1 -timeout 20m -tags conformance -skip $(long_pattern) \
		./aggregator ./aggregator/redrive ./archive ./conformance/... ./deploy ./deploy/loadstack ./deploy/health ./deploy/stack ./dynamo ./dynamo/admin ./dynamo/stream ./dynamo/usage ./dynamolite/internal/differential ./internal/peers ./internal/permissions ./loadtest/locust ./promlimit
	@for m in $(libraries); do go test -C $$m -race -count=1 -tags conformance ./...; done

.PHONY: aws
aws: ## the stack on a real account: ZAEL_AWS_TESTS=ACCOUNT-ID; it costs some cents and deletes what it made
	@mkdir -p bin
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build -trimpath -o bin/zae-limiter-arm64 ./cmd/zae-limiter
	go run ./cmd/zae-limiter lambda-export --binary bin/zae-limiter-arm64 --arch arm64 --out bin/functions.zip --force
	ZAEL_AWS_TESTS_ZIP=$(CURDIR)/bin/functions.zip go test -count=1 -timeout 3h -v -tags aws -run '^TestOnARealAccount$$' ./conformance/account

.PHONY: golden
golden: ## record again what DynamoDB Local answers to the differential cases
	conformance/install
	go test -count=1 -tags conformance -run '^TestLive$$' ./dynamolite/internal/differential -update

.PHONY: permissions
permissions: ## record again what calls and commands ask of IAM, judge it, and write docs/permissions.md
	conformance/install
	go test -count=1 -run '^TestTheJudgedPolic' ./deploy ./deploy/loadstack -update.policies
	go test -count=1 -run '^TestLibrary$$' ./internal/permissions -update
	go test -count=1 -run '^TestScripts$$' ./internal/cli -update.permissions
	go test -count=1 -tags conformance -run '^(TestTheJudgeAgrees|TestWhatCloudFormationDoes)$$' ./internal/permissions -update
	go test -count=1 -run '^TestTheDocumentIsUpToDate$$' ./internal/permissions -update

.PHONY: pictures
pictures: ## draw docs/pictures again from what commands print
	conformance/install
	@rm -rf bin/pictures && mkdir -p bin/pictures
	go test -count=1 -run '^(TestScripts|TestThePicture.*)$$' ./internal/cli -pictures $(CURDIR)/bin/pictures
	$(PEERS_DIR)/pictures/bin/python docs/pictures/draw.py bin/pictures docs/pictures
	go test -count=1 -run '^(TestScripts|TestThePicture.*|TestEveryPictureIsDrawn)$$' ./internal/cli

.PHONY: reference
reference: ## write the golden help and the pages of docs/cli from the commands
	go test -count=1 -run '^(TestHelp|TestReference)$$' ./internal/cli -update

# The theme tells of its successor at every run; NO_MKDOCS_2_WARNING keeps the output to what is wrong.
mkdocs = conformance/install site && NO_MKDOCS_2_WARNING=1 $(PEERS_DIR)/site/bin/mkdocs

.PHONY: docs
docs: ## the documentation site, in bin/site; a broken link, or a page that mkdocs.yml lacks, fails
	@$(mkdocs) build

.PHONY: docs-serve
docs-serve: ## the documentation site at http://127.0.0.1:8000, built again after each change
	@$(mkdocs) serve

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME
	@for pkg in $$(go list ./...); do \
		targets=$$(go test -list '^Fuzz' $$pkg); \
		for target in $$(grep '^Fuzz' <<<"$$targets" || true); do \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

.PHONY: sim
sim: ## the simulation over SIM_SEEDS seeds
	go test -count=1 -timeout 60m ./internal/sim -sim.seeds=$(SIM_SEEDS)

.PHONY: contests
contests: ## processes that share a limit for a minute of virtual time
	go test -count=1 -timeout 60m -run 'TestProcesses|TestAProcess' . -contest=$(CONTEST) -contest.large

.PHONY: crash
crash: ## a writing process killed KILLS times, and the log's own, with nothing lost
	go test -count=1 -timeout 60m -run '^TestKilled$$' ./dynamolite -v -dynamolite.kills=$(KILLS)
	go test -count=1 -timeout 60m -run '^TestKill' ./dynamolite/internal/journal -v -journal.kills=$(KILLS)

.PHONY: bench
bench: ## every benchmark BENCHCOUNT times, with their summary, and the ratios held
	@mkdir -p bin
	go test -C benchmarks -count=1 -timeout 30m -v -run '^Test' ./...
	go test -C benchmarks -run '^$$' -bench . -benchmem -count $(BENCHCOUNT) -timeout 60m ./... | tee bin/bench.txt
	$(benchstat) -col /via bin/bench.txt

.PHONY: benchengine
benchengine: ## the engine and its storage beside DynamoDB Local, the disk, Pebble and bbolt; half an hour
	conformance/install
	go test -C benchmarks -count=1 -timeout 90m -v -tags conformance -run '^Test(Engine|Storage)' . \
		-engine.items 1000000 -engine.slice 300ms -engine.rounds 31

.PHONY: benchlocal
benchlocal: ## what the client adds to the calls it makes, on DynamoDB Local
	conformance/install
	go test -C benchmarks -count=1 -timeout 30m -v -tags conformance -run '^Test' ./...

.PHONY: benchload
benchload: ## a load test beside the Python peer's, on DynamoDB Local
	conformance/install
	go test -C benchmarks -count=1 -timeout 30m -v -tags conformance -run '^TestLoadTestsSideBySide$$' .
