# The same targets for developers and CI.
.PHONY: tools build demo package install deb image deploy-test test check lint docs instructions counter ratchet bench bench-tools flamegraph calibrate real-servers hostile agents comparisons ceilings coverage experiments findings page

# The recipes run target/release/…, a link into this folder, so the caller's setting can't apply.
export CARGO_TARGET_DIR := $(CURDIR)/build

# Tests mostly wait: for a window to end, for a target that stalls. So at least four run at a time,
# even on fewer cores; those that need the cores to themselves take turns.
RUST_TEST_THREADS ?= $(shell cores=$$(nproc); echo $$((cores < 4 ? 4 : cores)))
export RUST_TEST_THREADS

# The build tools besides make; a missing one is reported with the line that installs it.
tools:
	@missing=; \
	command -v cargo >/dev/null || { missing=1; echo "cargo is missing. Install Rust:" \
		"curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"; }; \
	command -v cc >/dev/null || { missing=1; echo "gcc is missing. Install it:" \
		"apt-get install gcc libc6-dev (Debian, Ubuntu), dnf install gcc (Fedora)"; }; \
	test -z "$$missing"

# In a checkout without symbolic links, the link is a text file, which is replaced. If there is a
# folder, ln fails and names it.
build: tools
	cargo build --release --locked -p cli
	@test target/release -ef build/release || ln -sfnT ../build/release target/release

demo: build
	target/release/truetail demo

# Without the line tables, which only profiles need; function names stay.
package: build
	@rm -rf build/package && mkdir -p build/package/completions
	strip --strip-debug -o build/package/truetail target/release/truetail
	@build/package/truetail man --out build/package/man && gzip -9n build/package/man/*
	@for shell in bash zsh fish; do \
		build/package/truetail completions $$shell >build/package/completions/$$shell || exit; \
	done

# The program with its man pages and completions, for this user or under PREFIX.
PREFIX ?= $(HOME)/.local
SHARE := $(DESTDIR)$(PREFIX)/share
install: package
	install -D -m 755 -t "$(DESTDIR)$(PREFIX)/bin" build/package/truetail
	@install -D -m 644 -t "$(SHARE)/man/man1" build/package/man/*
	@cd build/package/completions && \
	install -D -m 644 bash "$(SHARE)/bash-completion/completions/truetail" && \
	install -D -m 644 zsh "$(SHARE)/zsh/site-functions/_truetail" && \
	install -D -m 644 fish "$(SHARE)/fish/vendor_completions.d/truetail.fish"

# The same as a package for Debian and Ubuntu.
deb: package
	@command -v cargo-deb >/dev/null || { \
		echo "cargo-deb is missing. Install it: cargo install --locked cargo-deb"; exit 1; }
	cargo deb --package cli --no-build --no-strip --output build/package

# The same as an image, by podman, or by ENGINE=docker or buildah. Nothing is pulled.
image: build
	deploy/image.sh

# The image, the manifests' pods, the scripts for ssh and Slurm, and the unit, as far as this machine
# has what they need: in about two minutes, as root.
deploy-test: build
	deploy/test.sh

# FEATURES adds features, such as cli/real-servers. The whole workspace is always built, because
# parts of it have other features, and would be compiled anew. There are no documentation tests. Two
# tests a core: most of them wait for a target or a window's end.
TESTS = RUST_TEST_THREADS=$$((2 * $$(nproc))) cargo test --workspace --locked --tests $(if $(FEATURES),--features "$(FEATURES)")
test:
	$(TESTS)

# Tests mostly wait, so the other slow builds run beside them, in the time they leave. Pods and jobs
# wait as well, and instruction counts hardly depend on the machine's other work.
check: override FEATURES += cli/experiments
check:
	@! git grep -nE '^(<{7}|>{7}) ' || { echo "Conflict markers in the files above: resolve them."; exit 1; }
	cargo fmt --all --check
	$(TESTS) --no-run
	chrt --idle 0 $(MAKE) counter lint docs & builds=$$!; \
	$(TESTS); tests=$$?; \
	wait $$builds && exit $$tests
	deploy/test.sh build/debug/truetail & deployed=$$!; \
	$(MAKE) instructions; counted=$$?; \
	wait $$deployed && exit $$counted

lint:
	+cargo clippy --workspace --all-targets --all-features --locked -- -D warnings

# The types of the fuzz targets, each a workspace of its own, and the documentation. Neither needs a
# nightly compiler, and libFuzzer isn't built, since nothing is linked.
docs:
	+CUSTOM_LIBFUZZER_PATH=./unused cargo check --locked --manifest-path http1/fuzz/Cargo.toml
	+CUSTOM_LIBFUZZER_PATH=./unused cargo check --locked --manifest-path http2/fuzz/Cargo.toml
	+CUSTOM_LIBFUZZER_PATH=./unused cargo check --locked --manifest-path agents/fuzz/Cargo.toml
	+RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# Fails if a request takes more user-space instructions than perf/instructions.toml allows. Only the
# counter is built with optimisation.
instructions: counter
	+@if command -v valgrind >/dev/null; then \
		build/release/truetail-bench instructions; \
	else \
		echo "Instructions are not counted: valgrind is not installed."; \
	fi

counter:
	+@if command -v valgrind >/dev/null; then \
		cargo build --release --locked -p perf --bin truetail-bench; \
	fi

# Writes today's counts as the new limits.
ratchet:
	cargo build --release --locked -p perf --bin truetail-bench
	build/release/truetail-bench --update-limits

# Tests against nginx, nghttpd, Apache, HAProxy, openssl and Python's http.server, which must be
# installed. `make check` sends a tenth of the requests over HTTP/2, and does without Apache and
# HAProxy.
real-servers:
	TEST_REAL_SERVERS_SCALE=10 cargo test --workspace --locked --features cli/real-servers --test suite real_servers::

# Hostile servers, with windows of 3 s and more, one at a time, since many of them take a whole core:
# about nine minutes. `make test` runs them with a tenth of that.
hostile:
	TEST_HOSTILE_SCALE=10 cargo test --workspace --locked --test suite hostile:: -- --test-threads 1

# Agents and a controller on machines of their own, which are network namespaces, as root. Windows
# and rates are twenty times those of `make test`: 9,000 requests per second for a minute.
agents:
	TEST_AGENTS_SCALE=20 TEST_NAMESPACES_NEEDED=1 \
		cargo test --release --locked -p cli --test suite agents:: -- --nocapture --test-threads 1

# How often compare and ab call a difference where there is none, or find a small one, how often
# ceilings are above a target's capacity, and how many runs are doubted: in about an hour and a
# half, on an otherwise idle machine.
comparisons:
	cargo test --release --locked -p cli --features comparisons --test suite comparisons:: -- \
		--nocapture --test-threads 1

# How often a ceiling or a knee is above the target's capacity, and the load that it takes, in
# simulation: 100 of each target, in about a minute. probe/README.md has the table.
ceilings:
	TEST_CEILINGS=100 cargo test --release --locked -p probe --lib simulated -- --nocapture

# The benchmarks as Markdown, in about 25 minutes.
bench: build
	cargo build --release --locked -p perf
	target/release/truetail-bench

# The other load generators and tools of the bench: as root, on Debian. oha, which Debian doesn't
# package, is built from crates.io with OHA=1.
bench-tools:
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
		wrk nghttp2-client nghttp2-server hey apache2-utils nginx-light valgrind >/dev/null
	$(if $(filter 1,$(OHA)),cargo install --locked oha)

# A flamegraph of a request's CPU time: a closed loop against the null target on another core.
flamegraph: build
	@target/release/truetail null-target --listen 127.0.0.1:0 >build/null-target & server=$$!; \
	trap "kill $$server" EXIT; \
	timeout 10 sh -c 'until grep -q http build/null-target; do sleep 0.1; done' && \
	target/release/truetail run "$$(grep -o 'http://[^ ,]*' build/null-target)" \
		--conns 64 --duration 10s --allow-invalid --flamegraph flamegraph.svg

# Measurements against arithmetic, in about five minutes; exits 1 if a figure is out of its band,
# and 3 if other load on the machine may be the cause.
calibrate: build
	target/release/truetail calibrate --truth

# Simulated coverage: how often the intervals of reports contain the true value, in about a quarter
# of an hour.
coverage:
	cargo run --release --locked -p calibration --example coverage -- calibration/coverage.md

# Every experiment, scaled down, in about five minutes. `make check` does this, `make test` doesn't.
experiments:
	cargo test --workspace --locked --features cli/experiments --test experiments

# The committed results: every experiment at full size, in about two hours on a quiet machine, and
# the page and READMEs written from them.
findings: build
	target/release/truetail experiment all --out findings --page FINDINGS.md

# Only the page and READMEs, from the existing results.
page:
	cargo run --locked --bin truetail -- experiment page --out findings --page FINDINGS.md
