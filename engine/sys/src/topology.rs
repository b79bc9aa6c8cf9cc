//! The machine's topology from the kernel's files: which hardware threads share a physical core,
//! their memory nodes and kinds, and where a network interface is; and the default cores of a run.
//!
//! By default a run has one shard on each physical core, near the interface. Two hardware threads
//! of one physical core slow each other down, an efficiency core makes its shard the slow one, and
//! interrupts stop a shard: the default cores avoid all three if they can. The first allowed core
//! is left free, since a local target runs there by default.
//!
//! All of it is read below a root folder, so a recorded tree can stand in for a machine. The crate
//! `procfs` isn't used here or in `host`: it numbers the cores of `/proc/stat` and `/proc/cpuinfo`
//! by position, which is wrong once a core is offline, reads `/proc/net/tcp` into a list of all
//! sockets, and refuses a whole file if one unrelated field is missing.

use std::fs;
use std::path::{Path, PathBuf};

use crate::kernel_files::{cores_in, read};

/// A core below this share of the largest core's capacity is an efficiency core. Equal cores may
/// differ by a few percent if their frequencies do.
const PERFORMANCE_CAPACITY: f64 = 0.75;
/// The most levels of interfaces, such as a VLAN on a bond of two ports.
const LOWER_MAX: usize = 4;

/// The known facts about each core; empty if the kernel doesn't report them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    places: Vec<Place>,
}

/// The place of one core. A core is one hardware thread, as the kernel counts them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    core: usize,
    siblings: Vec<usize>,
    node: Option<usize>,
    is_efficiency: bool,
}

/// Where a network interface is attached; `None` if the kernel doesn't report it, and for
/// interfaces without a device, such as the loopback.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attachment {
    /// Its memory node.
    pub node: Option<usize>,
    /// The cores that serve its interrupts.
    pub interrupt_cores: Option<Vec<usize>>,
}

impl Topology {
    /// The topology of this machine.
    pub fn here() -> Topology {
        Topology::read(Path::new("/"))
    }

    /// The topology of the machine whose `/sys` is below `root`.
    pub fn read(root: &Path) -> Topology {
        let devices = root.join("sys/devices");
        let nodes: Vec<(usize, Vec<usize>)> = numbered(&devices.join("system/node"), "node")
            .filter_map(|(node, folder)| Some((node, cores_in(&read(folder.join("cpulist"))?)?)))
            .collect();
        let performance = performance_cores(&devices);
        let mut places: Vec<Place> = numbered(&devices.join("system/cpu"), "cpu")
            .filter_map(|(core, folder)| {
                let siblings = cores_in(&read(folder.join("topology/thread_siblings_list"))?)?;
                let node = nodes.iter().find(|(_, cores)| cores.contains(&core));
                Some(Place {
                    core,
                    siblings,
                    node: node.map(|(node, _)| *node),
                    is_efficiency: !performance.is_empty() && !performance.contains(&core),
                })
            })
            .collect();
        places.sort_by_key(|place| place.core);
        Topology { places }
    }

    fn place(&self, core: usize) -> Option<&Place> {
        self.places.iter().find(|place| place.core == core)
    }

    /// The hardware threads of a core's physical core, including itself; `None` if unknown.
    pub fn siblings(&self, core: usize) -> Option<&[usize]> {
        self.place(core).map(|place| place.siblings.as_slice())
    }

    /// A core's memory node; `None` if unknown.
    pub fn node(&self, core: usize) -> Option<usize> {
        self.place(core)?.node
    }

    /// The cores of each memory node, by its number.
    pub fn nodes(&self) -> Vec<(usize, Vec<usize>)> {
        let mut nodes: Vec<(usize, Vec<usize>)> = Vec::new();
        for place in &self.places {
            let Some(node) = place.node else { continue };
            match nodes.iter_mut().find(|(known, _)| *known == node) {
                Some((_, cores)) => cores.push(place.core),
                None => nodes.push((node, vec![place.core])),
            }
        }
        nodes.sort_unstable();
        nodes
    }

    /// The physical cores, each with its hardware threads.
    pub fn physical_cores(&self) -> Vec<&[usize]> {
        let is_first = |place: &&Place| place.siblings.first() == Some(&place.core);
        self.places.iter().filter(is_first).map(|place| place.siblings.as_slice()).collect()
    }

    /// True for an efficiency core of a machine that also has performance cores.
    pub fn is_efficiency(&self, core: usize) -> bool {
        self.place(core).is_some_and(|place| place.is_efficiency)
    }

    /// True if two different cores are hardware threads of one physical core.
    pub fn are_siblings(&self, one: usize, other: usize) -> bool {
        one != other && self.siblings(one).is_some_and(|siblings| siblings.contains(&other))
    }

    /// The default cores of a run, out of the allowed ones, which are in ascending order; never
    /// empty.
    ///
    /// The first allowed core and its siblings are left to the target and the rest of the machine.
    /// Of the rest, the default is the performance cores, one hardware thread per physical core, on
    /// the interface's memory node and away from its interrupts. A preference that no core
    /// satisfies is dropped.
    ///
    /// # Panics
    /// If no core is allowed.
    pub fn default_cores(&self, allowed: &[usize], interface: &Attachment) -> Vec<usize> {
        let first = *allowed.first().expect("a process has a core to run on");
        let mut cores = allowed.to_vec();
        prefer(&mut cores, |core| !self.is_efficiency(core));
        prefer(&mut cores, |core| core != first);
        prefer(&mut cores, |core| !self.are_siblings(core, first));
        let all = cores.clone();
        cores.retain(|core| !all.iter().any(|one| one < core && self.are_siblings(*one, *core)));
        if let Some(node) = interface.node {
            prefer(&mut cores, |core| self.node(core) == Some(node));
        }
        let interrupted = interface.interrupt_cores.as_deref().unwrap_or_default();
        prefer(&mut cores, |core| !interrupted.contains(&core));
        prefer(&mut cores, |core| !interrupted.iter().any(|one| self.are_siblings(*one, core)));
        cores
    }

    /// The cores on which a thread disturbs no shard on a busy core: neither that core nor a
    /// sibling, unless none would remain.
    pub fn cores_away_from(&self, busy_cores: &[usize], mut cores: Vec<usize>) -> Vec<usize> {
        prefer(&mut cores, |core| !busy_cores.contains(&core));
        prefer(&mut cores, |core| !busy_cores.iter().any(|busy| self.are_siblings(*busy, core)));
        cores
    }
}

/// Keeps the wanted cores, if there are any.
fn prefer(cores: &mut Vec<usize>, is_wanted: impl Fn(usize) -> bool) {
    if cores.iter().any(|core| is_wanted(*core)) {
        cores.retain(|core| is_wanted(*core));
    }
}

/// The entries of a folder named by this prefix and a number, such as `cpu7`.
fn numbered(folder: &Path, name: &'static str) -> impl Iterator<Item = (usize, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let number = entry.file_name().to_str()?.strip_prefix(name)?.parse().ok()?;
        Some((number, entry.path()))
    })
}

/// The performance cores, as listed by the kernel or by their capacities; empty if all cores are
/// alike.
fn performance_cores(devices: &Path) -> Vec<usize> {
    if let Some(cores) = read(devices.join("cpu_core/cpus")).and_then(|text| cores_in(&text)) {
        return cores;
    }
    let capacities: Vec<(usize, f64)> = numbered(&devices.join("system/cpu"), "cpu")
        .filter_map(|(core, folder)| Some((core, read(folder.join("cpu_capacity"))?.parse().ok()?)))
        .collect();
    let largest = capacities.iter().map(|(_, capacity)| *capacity).fold(0.0, f64::max);
    let is_performance =
        |(_, capacity): &&(usize, f64)| PERFORMANCE_CAPACITY * largest <= *capacity;
    capacities.iter().filter(is_performance).map(|(core, _)| *core).collect()
}

impl Attachment {
    /// The attachment of an interface of this machine.
    pub fn here(interface: &str) -> Attachment {
        Attachment::read(Path::new("/"), interface)
    }

    /// The attachments, by name, of this machine's interfaces whose own device has interrupts.
    pub fn all_here() -> Vec<(String, Attachment)> {
        Attachment::all(Path::new("/"))
    }

    fn all(root: &Path) -> Vec<(String, Attachment)> {
        let entries = fs::read_dir(root.join("sys/class/net")).into_iter().flatten().flatten();
        let mut found: Vec<(String, Attachment)> = entries
            .filter(|entry| entry.path().join("device").exists())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .map(|name| (name.clone(), Attachment::read(root, &name)))
            .filter(|(_, attachment)| attachment.interrupt_cores.is_some())
            .collect();
        found.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        found
    }

    /// The attachment of an interface of the machine whose `/sys` and `/proc` are below `root`; for
    /// a bond or a VLAN that of the interfaces below it, without a node if they are on several.
    pub fn read(root: &Path, interface: &str) -> Attachment {
        let mut buses = Vec::new();
        find_buses(&root.join("sys/class/net").join(interface), LOWER_MAX, &mut buses);
        let mut nodes: Vec<Option<usize>> = buses.iter().map(|bus| node_of(bus)).collect();
        nodes.dedup();
        let interrupts = buses.iter().flat_map(|bus| interrupts_of(bus));
        let mut cores: Vec<usize> =
            interrupts.filter_map(|number| served_by(root, &number)).flatten().collect();
        cores.sort_unstable();
        cores.dedup();
        Attachment {
            node: if let [node] = nodes[..] { node } else { None },
            interrupt_cores: (!cores.is_empty()).then_some(cores),
        }
    }
}

/// Adds the bus folders of the devices that carry an interface; these folders list the interrupts.
fn find_buses(interface: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let device = interface.join("device");
    // A virtio device sits on a bus device, and each has only its own part of the data.
    let on_bus = [device.clone(), device.join("..")].into_iter();
    found.extend(on_bus.into_iter().find(|folder| folder.join("irq").exists()));
    if depth == 0 {
        return;
    }
    for entry in fs::read_dir(interface).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with("lower_")) {
            find_buses(&entry.path(), depth - 1, found);
        }
    }
}

/// A device's memory node; the kernel writes -1 if there is only one.
fn node_of(bus: &Path) -> Option<usize> {
    read(bus.join("numa_node"))?.parse().ok()
}

/// The numbers of a device's interrupts: those of its queues, or its only one without MSI.
fn interrupts_of(bus: &Path) -> Vec<String> {
    let entries = fs::read_dir(bus.join("msi_irqs")).into_iter().flatten().flatten();
    let queues: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    // The kernel writes 0 for none.
    let pin = || read(bus.join("irq")).filter(|number| number != "0").into_iter().collect();
    if queues.is_empty() { pin() } else { queues }
}

/// The cores that serve an interrupt: the kernel's choice among the permitted ones.
fn served_by(root: &Path, number: &str) -> Option<Vec<usize>> {
    let folder = root.join("proc/irq").join(number);
    let listed = |name: &str| cores_in(&read(folder.join(name))?);
    listed("effective_affinity_list").or_else(|| listed("smp_affinity_list"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;
    use units::CoreList;

    use super::*;

    /// A machine's files, written from tables.
    struct Recorded(TempDir);

    impl Recorded {
        /// A machine with these cores: number, siblings and memory node.
        fn new(cores: impl IntoIterator<Item = (usize, String, usize)>) -> Recorded {
            let machine = Recorded(tempfile::tempdir().expect("a folder"));
            let mut nodes: Vec<Vec<usize>> = Vec::new();
            for (core, siblings, node) in cores {
                let topology = format!("sys/devices/system/cpu/cpu{core}/topology");
                machine.put(&format!("{topology}/thread_siblings_list"), &siblings);
                nodes.resize(nodes.len().max(node + 1), Vec::new());
                nodes[node].push(core);
            }
            for (node, cores) in nodes.into_iter().enumerate() {
                let file = format!("sys/devices/system/node/node{node}/cpulist");
                machine.put(&file, &CoreList::new(cores).to_string());
            }
            // Folders such as these are next to those of the cores.
            machine.put("sys/devices/system/cpu/cpufreq/boost", "1");
            machine.put("sys/devices/system/node/possible", "0-7");
            machine
        }

        fn put(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            fs::write(path, format!("{text}\n")).expect("written");
        }

        fn link(&self, path: &str, to: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("created");
            symlink(to, path).expect("linked");
        }

        /// A card on a memory node, with each interrupt's number and the core that serves it.
        /// `device` is its folder, below that of the bus for a virtual one.
        fn card(&self, name: &str, device: &str, node: i32, interrupts: &[(u32, &str)]) {
            let bus = format!("sys/devices/pci0000:80/{}", &device[..12]);
            self.put(&format!("{bus}/numa_node"), &node.to_string());
            self.put(&format!("{bus}/irq"), "11");
            for (number, core) in interrupts {
                self.put(&format!("{bus}/msi_irqs/{number}"), "msix");
                self.put(&format!("proc/irq/{number}/smp_affinity_list"), "0-31");
                self.put(&format!("proc/irq/{number}/effective_affinity_list"), core);
            }
            let folder = format!("sys/devices/pci0000:80/{device}/net/{name}");
            self.put(&format!("{folder}/type"), "1");
            self.link(&format!("{folder}/device"), &format!("../../../{}", last(device)));
            self.link(&format!("sys/class/net/{name}"), &format!("../../../{folder}"));
        }

        /// An interface without a device of its own on top of others.
        fn on_top(&self, name: &str, lower: &[&str]) {
            let folder = format!("sys/devices/virtual/net/{name}");
            self.put(&format!("{folder}/type"), "1");
            for below in lower {
                self.link(
                    &format!("{folder}/lower_{below}"),
                    &format!("../../../../class/net/{below}"),
                );
            }
            self.link(&format!("sys/class/net/{name}"), &format!("../../../{folder}"));
        }

        fn topology(&self) -> Topology {
            Topology::read(self.0.path())
        }

        fn attachment(&self, interface: &str) -> Attachment {
            Attachment::read(self.0.path(), interface)
        }

        /// The default cores for a target behind an interface.
        fn chosen(&self, allowed: &str, interface: &str) -> String {
            let allowed = cores_in(allowed).expect("a list");
            let chosen = self.topology().default_cores(&allowed, &self.attachment(interface));
            CoreList::new(chosen).to_string()
        }
    }

    fn last(path: &str) -> &str {
        path.rsplit('/').next().unwrap_or_default()
    }

    fn attached(node: Option<usize>, interrupt_cores: &[usize]) -> Attachment {
        let interrupt_cores = (!interrupt_cores.is_empty()).then(|| interrupt_cores.to_vec());
        Attachment { node, interrupt_cores }
    }

    /// Two sockets of eight physical cores with two threads each; core 16 is core 0's sibling. Of
    /// the cards, `eth0` is on the second socket with its interrupts on two of its cores, `eth1` on
    /// the first with a queue for each of its physical cores.
    fn two_sockets() -> Recorded {
        let core = |core: usize| (core, format!("{},{}", core % 16, core % 16 + 16), core % 16 / 8);
        let machine = Recorded::new((0..32).map(core));
        machine.card("eth0", "0000:81:00.0", 1, &[(120, "8"), (121, "25")]);
        let queues = ["0", "1", "2", "3", "4", "5", "6", "7"];
        let queues: Vec<(u32, &str)> = (60..).zip(queues).collect();
        machine.card("eth1", "0000:01:00.0", 0, &queues);
        machine.on_top("lo", &[]);
        machine
    }

    #[test]
    fn siblings_nodes_and_interrupts_of_two_sockets_are_read() {
        let machine = two_sockets();
        let topology = machine.topology();
        assert_eq!(topology.siblings(3), Some(&[3, 19][..]));
        assert!(topology.are_siblings(19, 3) && !topology.are_siblings(3, 3));
        assert_eq!((topology.node(23), topology.node(24)), (Some(0), Some(1)));
        assert_eq!(topology.physical_cores().len(), 16);
        let [(0, first), (1, second)] = &topology.nodes()[..] else { panic!("two nodes") };
        assert_eq!((first.len(), second.contains(&31)), (16, true));
        let eth0 = attached(Some(1), &[8, 25]);
        assert_eq!(machine.attachment("eth0"), eth0);
        assert_eq!(machine.attachment("lo"), Attachment::default());
        let all = Attachment::all(machine.0.path());
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names, &all[0].1), (vec!["eth0", "eth1"], &eth0));
    }

    #[test]
    fn two_sockets_give_one_thread_per_core_near_the_interface_and_away_from_its_interrupts() {
        let machine = two_sockets();
        for (allowed, interface, chosen) in [
            ("0-31", "eth0", "10-15"),
            // All cores of the node serve interrupts; the first is left out in any case.
            ("0-31", "eth1", "1-7"),
            ("0-31", "lo", "1-15"),
            // No core on the interface's node is allowed.
            ("0-7,16-23", "eth0", "1-7"),
            // Only the interrupts' cores remain, and then only their siblings.
            ("0,8,25", "eth0", "8,25"),
            ("0,8,9,25", "eth0", "9"),
            ("0,9,24", "eth0", "9,24"),
            // The lowest of a core's threads isn't allowed.
            ("0,17-23", "lo", "17-23"),
        ] {
            assert_eq!(machine.chosen(allowed, interface), chosen, "{allowed} {interface}");
        }
    }

    #[test]
    fn other_threads_leave_the_shards_cores_and_siblings() {
        let topology = two_sockets().topology();
        for (busy, allowed, expected) in [
            (&[1, 2][..], "0-3,16-19", "0,3,16,19"),
            (&[1, 2], "1-2,17-18", "17-18"),
            (&[1, 2], "1-2", "1-2"),
        ] {
            let cores = topology.cores_away_from(busy, cores_in(allowed).expect("a list"));
            assert_eq!(CoreList::new(cores).to_string(), expected, "{busy:?} of {allowed}");
        }
    }

    #[test]
    fn efficiency_cores_are_left_out_if_there_are_others() {
        // Four performance cores with two threads each, and four efficiency cores.
        let siblings = |core: usize| match core {
            0..8 => format!("{}-{}", core / 2 * 2, core / 2 * 2 + 1),
            _ => core.to_string(),
        };
        let machine = Recorded::new((0..12).map(|core| (core, siblings(core), 0)));
        machine.put("sys/devices/cpu_core/cpus", "0-7");
        machine.put("sys/devices/cpu_atom/cpus", "8-11");
        let topology = machine.topology();
        assert!(topology.is_efficiency(8) && !topology.is_efficiency(7));
        for (allowed, chosen) in [
            ("0-11", "2,4,6"),
            ("2-11", "4,6"),
            // Only one physical core of that kind: its other thread.
            ("0-1,8-11", "1"),
            ("8-11", "9-11"),
        ] {
            assert_eq!(machine.chosen(allowed, "lo"), chosen, "{allowed}");
        }
    }

    #[test]
    fn capacities_tell_core_kinds_apart_without_a_list() {
        let machine = Recorded::new((0..8).map(|core| (core, core.to_string(), 0)));
        for core in 0..8 {
            // Two clusters of fast cores whose frequencies differ a little.
            let capacity = [530, 1_010, 1_024][core / 4 + usize::from(core / 6 == 1)];
            let file = format!("sys/devices/system/cpu/cpu{core}/cpu_capacity");
            machine.put(&file, &capacity.to_string());
        }
        assert_eq!(machine.chosen("0-7", "lo"), "4-7", "the first is left already");
        assert_eq!(machine.chosen("0-3", "lo"), "1-3");
        let alike = Recorded::new((0..4).map(|core| (core, core.to_string(), 0)));
        (0..4).for_each(|core| {
            alike.put(&format!("sys/devices/system/cpu/cpu{core}/cpu_capacity"), "1024");
        });
        assert_eq!(alike.chosen("0-3", "lo"), "1-3");
    }

    #[test]
    fn a_single_core_is_shared_with_everything() {
        let machine = Recorded::new([(0, "0".to_owned(), 0)]);
        machine.card("eth0", "0000:00:03.0", 0, &[(24, "0")]);
        assert_eq!(machine.chosen("0", "eth0"), "0");
    }

    #[test]
    fn the_siblings_of_one_core_give_one_shard_that_leaves_the_first_free() {
        assert_eq!(two_sockets().chosen("3,19", "lo"), "19");
        let four = Recorded::new((0..4).map(|core| (core, "0-3".to_owned(), 0)));
        assert_eq!(four.chosen("0-3", "lo"), "1");
    }

    #[test]
    fn without_the_kernels_files_each_core_counts_as_a_physical_core() {
        let machine = Recorded::new([]);
        let topology = machine.topology();
        assert_eq!(topology, Topology::default());
        assert_eq!((topology.siblings(0), topology.node(0)), (None, None));
        assert_eq!(machine.attachment("eth0"), Attachment::default());
        assert_eq!(machine.chosen("0-3", "eth0"), "1-3");
        // Neither nodes nor the interrupts' cores are known.
        let machine = two_sockets();
        fs::remove_dir_all(machine.0.path().join("sys/devices/system/node")).expect("removed");
        fs::remove_dir_all(machine.0.path().join("proc")).expect("removed");
        assert_eq!(machine.attachment("eth0"), attached(Some(1), &[]));
        assert_eq!(machine.chosen("0-31", "eth0"), "1-15");
    }

    #[test]
    fn an_interface_is_attached_where_its_devices_are() {
        let machine = two_sockets();
        machine.card("eth2", "0000:82:00.0/virtio2", 1, &[(130, "12")]);
        machine.card("eth3", "0000:83:00.0", -1, &[]);
        machine.put("proc/irq/11/smp_affinity_list", "2");
        machine.on_top("bond0", &["eth0", "eth2"]);
        machine.on_top("bond1", &["eth0", "eth1"]);
        machine.on_top("bond0.7", &["bond0"]);
        let both = attached(Some(1), &[8, 12, 25]);
        for (name, expected) in [
            ("eth2", attached(Some(1), &[12])),
            // It only has the interrupt of its pin, and no node.
            ("eth3", attached(None, &[2])),
            ("bond0", both.clone()),
            ("bond0.7", both),
            ("bond1", attached(None, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 25])),
        ] {
            assert_eq!(machine.attachment(name), expected, "{name}");
        }
    }

    #[test]
    fn this_machines_cores_are_among_their_siblings() {
        let topology = Topology::here();
        for core in crate::placement::online_cores() {
            assert!(topology.siblings(core).is_none_or(|siblings| siblings.contains(&core)));
        }
    }
}
