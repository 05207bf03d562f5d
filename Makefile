# make demo     builds bin/abide and shows what it does, in 15 seconds and without a network
# make run      builds bin/abide and runs the proxy, on 127.0.0.1:3128
# make test     everything, with the race detector; installs what is missing
# make          bin/abide, static
# make release  archives, Debian packages, lists of modules and checksums, in dist
# make man      the man pages, in dist/man
# make check    format, vet, staticcheck, go.mod, other systems
# make bench    abide beside its peers; writes bench/RESULTS.md and bench/JOBS.txt
# make fleet    abides that share budgets on a real Redis; writes bench/FLEET.md
# make hosts    memory of a million hosts; writes bench/HOSTS.md
# make worth    what each mechanism of the search for hidden limits is worth; 45 minutes
# make services  54 kinds of services in real time, through the built binary; writes bench/KIT.md
# make kills    a thousand times kill -9, with a daily quota and of a backfill
# make histories  what processes do to budgets that they share, with faults, 25 times as many as in make test
# make jobs     units and records a second of SQLite and PostgreSQL, beside raw inserts; writes bench/JOBS.txt
# make records  memory of ten million records in a backfill and in exports
# make screenshots  pictures of the page, of a crawl of 8 minutes; writes docs/page.png and docs/page-dark.png
# make chaos    whole abides with faults at random, in fake time; SEEDS=1000 and FIRST=1 say which
# make fuzz     every fuzz target for FUZZTIME
# make cover    coverage of the tests, in cover.out
# make image    the container image

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# The time of the commit is the time of the files of a release.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
FUZZTIME ?= 20s
LDFLAGS  := -s -w -X main.version=$(VERSION)
TOOL     := go tool -modfile=tools/go.mod

# Go before 1.26.9 has a hole in net/http's CONNECT (CVE-2026-56866), so all this
# is done with a toolchain that does not, where that can be fetched, and says so
# where it cannot.
FIXED_GO := go1.26.11
export GOTOOLCHAIN := $(shell GOTOOLCHAIN=$(FIXED_GO) go version >/dev/null && echo $(FIXED_GO) || echo local)

.PHONY: build
build: toolchain
	@tools/build -trimpath -ldflags '$(LDFLAGS)' -o bin/abide ./cmd/abide

.PHONY: demo
demo: build
	bin/abide demo

.PHONY: run
run: build
	bin/abide serve

# The same commit gives the same bytes, which takes the same Go.
.PHONY: release
release:
ifeq ($(GOTOOLCHAIN),local)
	@echo "a release is built with $(FIXED_GO), which cannot be fetched here" >&2; exit 1
endif
	rm -rf dist
	go -C tools run ./release -source .. -out ../dist -version '$(VERSION)' -time '$(SOURCE_DATE_EPOCH)'

.PHONY: man
man: toolchain
	mkdir -p dist/man
	SOURCE_DATE_EPOCH='$(SOURCE_DATE_EPOCH)' go run -tags man ./cmd/abide dist/man

.PHONY: toolchain
toolchain:
ifeq ($(GOTOOLCHAIN),local)
	@echo "$(FIXED_GO) cannot be fetched here, so this is $$(go env GOVERSION); release nothing older than $(FIXED_GO)" >&2
endif

.PHONY: setup
setup:
	@tools/setup
	@$(MAKE) --no-print-directory test/clients/node_modules

# The clients that npm has, for the tests in test/clients.
test/clients/node_modules: test/clients/package.json test/clients/package-lock.json
	cd test/clients && npm ci --no-audit --no-fund
	@touch $@

.PHONY: test
test: toolchain setup
	tools/test

# Two modules besides the product's: what benches and tests in a browser need, and the tools.
.PHONY: check
check: toolchain
	@echo "check: format, vet and staticcheck of three modules, go.mod, other systems"
	@unformatted=$$($(TOOL) gofumpt -l $$(git ls-files -co --exclude-standard '*.go')); \
	  if [ -n "$$unformatted" ]; then echo "gofumpt would change: $$unformatted" >&2; exit 1; fi
	@set -e; tools=$$(mktemp -d); trap 'rm -rf "$$tools"' EXIT; \
	go build -modfile=tools/go.mod -o "$$tools/staticcheck" honnef.co/go/tools/cmd/staticcheck; \
	for module in . bench tools; do echo "check: module $$module"; \
	  (cd $$module && go vet ./... && "$$tools/staticcheck" ./... && go mod tidy -diff); \
	done
	go vet -tags man ./cmd/abide
	go -C tools run ./systems windows/amd64 darwin/arm64 linux/arm64

.PHONY: bench
bench: toolchain
	@tools/setup bench
	go -C bench run .
	@$(MAKE) --no-print-directory jobs

# Fleets of abides on a real Redis, and what becomes of them when something fails.
.PHONY: fleet
fleet: toolchain
	@tools/setup
	go -C bench run ./fleet

# Memory of hosts that were seen once, with the built binary and its defaults.
.PHONY: hosts
hosts: toolchain
	go -C bench run ./hosts

# Crawls of simulated services, in fake time, beside two usual ways.
.PHONY: simulate
simulate: toolchain
	go -C bench run ./services > bench/SERVICES.md.new
	mv bench/SERVICES.md.new bench/SERVICES.md

# What each mechanism of the search for hidden limits is worth: the same crawls without it.
.PHONY: worth
worth: toolchain
	go -C bench run ./worth

# Crawls of 54 kinds of services on loopback, in real time, through the built binary with its
# defaults and beside urllib3's Retry; within ten minutes. One crawl:
#   go -C bench run ./services kit -only notion -clients 8 -keep /tmp/kit
# Each crawl ten times in virtual time, within a minute:
#   go -C bench run ./services kit -virtual 10
.PHONY: services
services: toolchain
	go -C bench run ./services kit

# A thousand times kill -9 under load, with a daily quota.
.PHONY: kills
kills: toolchain
	ABIDE_KILLS=1000 go test ./cmd/abide -run "TestKill|TestABackfill" -count=1 -v -timeout 30m

# Histories of processes that share budgets, with faults: linearizable, and no window over its promise.
.PHONY: histories
histories: toolchain
	@tools/setup
	ABIDE_HISTORIES=25 go test ./test/history -count=1 -v -timeout 120m

# Outputs of jobs, beside raw inserts in the same run.
.PHONY: jobs
jobs: toolchain
	@tools/setup
	go test ./jobs/output -run '^$$' -bench . -benchtime 3s | tee bench/JOBS.txt

# Backfills of an API of which half of the answers fail, beside a plain script that knows the API perfectly.
.PHONY: failing
failing: toolchain
	@tools/setup
	go -C bench run ./jobs/failing | tee bench/FAILING.md

# Ten million records through a backfill and each form of export, with the memory of each.
.PHONY: records
records: toolchain
	ABIDE_RECORDS=10000000 go test ./cmd/abide -run TestMemoryDoesNotGrow -count=1 -v -timeout 60m

# Pictures of the page, for the README.
.PHONY: screenshots
screenshots: toolchain
	@tools/setup
	go -C bench run ./screenshots

# Whole abides with their clients, sites and store in one bubble, and faults from a seed. One again:
#   make chaos FIRST=17 SEEDS=1
SEEDS ?= 1000
FIRST ?= 1
.PHONY: chaos
chaos: toolchain
	go test ./test/chaos -count=1 -timeout 6h -first $(FIRST) -seeds $(SEEDS)

.PHONY: fuzz
fuzz: toolchain
	@set -e; for package in $$(go list ./...); do \
	  for target in $$(go test -run '^$$' -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
	    echo "$$package $$target"; \
	    go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s $$package; \
	  done; \
	done

.PHONY: cover
cover: toolchain setup
	go test -coverpkg=./... -coverprofile=cover.out ./...
	go tool cover -func=cover.out | tail -n 1

.PHONY: image
image:
	docker build --build-arg VERSION=$(VERSION) -t abide:$(VERSION) -t abide .

.PHONY: clean
clean:
	rm -rf bin dist cover.out
