# The same verbs for people and for CI.
.PHONY: build demo test check instructions ratchet bench bench-tools flamegraph calibrate real-servers hostile agents experiments findings

# The recipes run target/release/…, a link into this folder, so a caller's own choice can't apply.
export CARGO_TARGET_DIR := $(CURDIR)/build

# In a checkout without symbolic links, a text file stands in for the link and is replaced. A folder
# there makes ln fail and name it.
build:
	cargo build --release --locked --bins
	@test target/release -ef build/release || ln -sfnT ../build/release target/release

demo: build
	target/release/truetail demo

test:
	cargo test --workspace --locked

# Each fuzz target is a workspace of its own. Checking its types needs no nightly compiler, and its
# libFuzzer isn't built, since nothing is linked.
check:
	@! git grep -nE '^(<{7}|>{7}) ' || { echo "Conflict markers in the files above: resolve them."; exit 1; }
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
	CUSTOM_LIBFUZZER_PATH=./unused cargo check --locked --manifest-path http1/fuzz/Cargo.toml
	CUSTOM_LIBFUZZER_PATH=./unused cargo check --locked --manifest-path agents/fuzz/Cargo.toml
	$(MAKE) test
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
	$(MAKE) instructions

# Fails if a request takes more user-space instructions than perf/instructions.toml allows. Only what
# counts them is built with optimisation.
instructions:
	@if command -v valgrind >/dev/null; then \
		cargo build --release --locked -p perf && build/release/truetail-bench instructions; \
	else \
		echo "Instructions are not counted: valgrind is not installed."; \
	fi

# Writes today's counts as the new limits.
ratchet:
	cargo build --release --locked -p perf
	build/release/truetail-bench --update-limits

# Tests against nginx and Python's http.server, which must be installed.
real-servers:
	cargo test --locked -p cli --features real-servers --test real_servers

# Servers that misbehave, with windows of 3 s and more. `make test` runs them with a tenth of that.
hostile:
	TEST_HOSTILE_SCALE=10 cargo test --locked -p cli --test hostile

# Agents and a controller on machines of their own, which are network namespaces, as root. Windows and
# rates are twenty times those of `make test`: 9,000 requests per second for a minute.
agents:
	TEST_AGENTS_SCALE=20 TEST_NAMESPACES_NEEDED=1 \
		cargo test --release --locked -p cli --test agents -- --nocapture --test-threads 1

# In about twelve minutes; as Markdown.
bench: build
	target/release/truetail-bench

# What the bench measures beside truetail, and with: as root, on Debian. oha, which Debian doesn't
# have, is built from crates.io with OHA=1.
bench-tools:
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
		wrk nghttp2-client hey apache2-utils nginx-light valgrind >/dev/null
	$(if $(filter 1,$(OHA)),cargo install --locked oha)

# Where a request's CPU time goes: a closed loop against the null target on another core.
flamegraph: build
	@target/release/truetail null-target --listen 127.0.0.1:0 >build/null-target & server=$$!; \
	trap "kill $$server" EXIT; \
	timeout 10 sh -c 'until grep -q http build/null-target; do sleep 0.1; done' && \
	target/release/truetail run "$$(grep -o 'http://[^ ,]*' build/null-target)" \
		--conns 64 --duration 10s --allow-invalid --flamegraph flamegraph.svg

# Measurements against arithmetic, in about five minutes; exits 1 if a figure is out of its band, and 3 if
# others on the machine may have caused that.
calibrate: build
	target/release/truetail calibrate --truth

# Every experiment, scaled down, in about five minutes. `make test` runs the shortest.
experiments:
	TEST_EXPERIMENTS=all cargo test --locked -p cli --test experiments

# The committed results: every experiment at full size, in about an hour on a quiet machine, and the
# page that is written from them.
findings: build
	target/release/truetail experiment all --out calibration/results
