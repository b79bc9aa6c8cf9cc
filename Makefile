# One line a verb, the same for people and for CI.
.PHONY: build demo test check bench calibrate real-servers

build:
	cargo build --release --locked --bins --examples

demo: build
	target/release/truetail demo

test:
	cargo test --workspace --locked

check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	$(MAKE) test
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

# Tests against nginx and Python's http.server, which must be installed.
real-servers:
	cargo test --locked -p cli --features real-servers --test real_servers

bench: build
	target/release/truetail-bench

# The instrument against arithmetic: about five minutes; exits 1 when a figure lies outside its band.
calibrate: build
	target/release/examples/experiments
