//! The flags of `agent`: where it listens, and the limits that no controller can exceed.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use agents::admission::AllowedTarget;
use agents::agent::PORT;
use clap::Args;
use engine::plan::CONNS_MAX;
use engine::sys::units::{CoreList, Nanos, Rate};

use super::headings::{LIMITS, MACHINE};
use super::values::{file, ip_address, socket_address, whole_number};

/// The largest value of `--max-files`, MiB: a tebibyte.
const FILES_MIB_MAX: u64 = 1 << 20;

/// Arguments of `agent`.
#[derive(Debug, Args)]
pub(crate) struct AgentArgs {
    /// Address to listen on, IP:PORT; port 0 picks a free port. Any but loopback needs a key
    #[arg(
        long,
        value_name = "ADDRESS",
        value_parser = socket_address,
        default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT))
    )]
    pub(crate) listen: SocketAddr,

    /// File with the key that controllers need, 32 to 1,024 bytes [default: $TRUETAIL_KEY; without
    /// either, no key]
    #[arg(long, value_name = "FILE", value_parser = file())]
    pub(crate) key_file: Option<PathBuf>,

    /// Folder for the reports of runs whose controller disappeared [default: truetail in
    /// $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "FOLDER", value_parser = file())]
    pub(crate) state_dir: Option<PathBuf>,

    /// Exit after one run
    #[arg(long)]
    pub(crate) once: bool,

    /// Target that controllers may load, HOST:PORT or a network such as 10.1.0.0/16; repeatable
    /// [default: loopback, which has to be named too if others are]
    #[arg(
        long = "allow-target",
        value_name = "TARGET",
        value_delimiter = ',',
        help_heading = LIMITS
    )]
    pub(crate) allow_targets: Vec<AllowedTarget>,

    /// Most requests per second of this agent, e.g. 20k [default: no limit]
    #[arg(long, value_name = "PER_SECOND", help_heading = LIMITS)]
    pub(crate) max_rate: Option<Rate>,

    /// Most connections of this agent [default: no limit]
    #[arg(
        long,
        value_name = "N",
        value_parser = whole_number(1..=CONNS_MAX),
        help_heading = LIMITS
    )]
    pub(crate) max_conns: Option<usize>,

    /// Longest load, setup and warm-up included [default: no limit]
    #[arg(long, value_name = "DURATION", help_heading = LIMITS)]
    pub(crate) max_duration: Option<Nanos>,

    /// Most MiB of controllers' files that are kept in memory, such as bodies; 0 takes none
    /// [default: 256]
    #[arg(
        long,
        value_name = "MIB",
        value_parser = whole_number(0..=FILES_MIB_MAX),
        help_heading = LIMITS
    )]
    pub(crate) max_files: Option<u64>,

    /// Cores to run on, one shard each, e.g. 0,1 or 0-3 [default: those of `run`]
    #[arg(long, value_name = "LIST", help_heading = MACHINE)]
    pub(crate) cores: Option<CoreList>,

    /// Addresses of this machine to connect from, in turn [default: the kernel chooses]
    #[arg(
        long,
        value_name = "LIST",
        value_parser = ip_address,
        value_delimiter = ',',
        help_heading = MACHINE
    )]
    pub(crate) source_addresses: Vec<IpAddr>,

    /// Exit when the parent process exits
    #[arg(long, hide = true)]
    pub(crate) end_with_parent: bool,
}
