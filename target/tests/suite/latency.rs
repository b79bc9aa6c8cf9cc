//! Latency guarantees, as lower bounds: a noisy machine can only delay a response.

use std::time::Duration;

use crate::client::{Client, GET, config, now_ns, start};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use target::{Cold, Pause, Stall, TargetConfig};

const MS: u64 = 1_000_000;

/// Sends a GET; returns when it was sent and when its response had arrived, ns.
fn timed(client: &mut Client) -> (u64, u64) {
    let sent_ns = now_ns();
    client.get();
    (sent_ns, now_ns())
}

#[test]
fn every_request_takes_its_base_latency() {
    let target = start(TargetConfig { base_latency: Duration::from_millis(3), ..config() });
    let mut client = Client::connect(target.local_addr());
    let mut shortest_us = f64::MAX;
    for _ in 0..20 {
        let (sent_ns, received_ns) = timed(&mut client);
        assert!(3 * MS <= received_ns - sent_ns);
        shortest_us = shortest_us.min((received_ns - sent_ns) as f64 / 1_000.0);
    }
    let held = target.stop().expect("a ledger").held;
    assert_eq!(held.count, 20);
    assert!(held.min.is_some_and(|min| (3_000.0..=shortest_us).contains(&min)), "{held:?}");
}

#[test]
fn the_seed_decides_which_requests_are_in_the_tail() {
    let seed = 7;
    let config = TargetConfig {
        tail_fraction: 0.3,
        tail_latency: Duration::from_millis(20),
        seed,
        ..config()
    };
    let target = start(config);
    let mut client = Client::connect(target.local_addr());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut tails = 0;
    for _ in 0..40 {
        let (sent_ns, received_ns) = timed(&mut client);
        if ((random.next_u64() >> 11) as f64) < 0.3 * (1_u64 << 53) as f64 {
            tails += 1;
            assert!(20 * MS <= received_ns - sent_ns);
        }
    }
    assert!(0 < tails, "the seed puts some requests in the tail");
    let held = target.stop().expect("a ledger").held.decode().expect("a histogram");
    assert!(tails <= held.count_between(20 * MS, u64::MAX));
}

#[test]
fn a_request_in_a_stall_waits_for_its_end_and_then_the_base_latency() {
    let (every, hold) = (Duration::from_millis(100), Duration::from_millis(50));
    let base_latency = Duration::from_millis(2);
    let target =
        start(TargetConfig { base_latency, stall: Some(Stall { every, hold }), ..config() });
    let started_ns = target.ledger().expect("a ledger").started_ns;
    let mut client = Client::connect(target.local_addr());
    let mut requests = Vec::new();
    // A slow machine may miss one stall, but not all of twenty.
    for _ in 0..20 {
        let since_ns = now_ns() - started_ns;
        let to_stall_ns = 100 * MS - since_ns % (100 * MS);
        std::thread::sleep(Duration::from_nanos(to_stall_ns + 5 * MS));
        requests.push(timed(&mut client));
    }
    let ledger = target.stop().expect("a ledger");
    let since_ns = ledger.taken_ns - ledger.started_ns;
    assert_eq!(ledger.stall_count, since_ns / (100 * MS));
    assert_eq!(ledger.stalls.len() as u64, ledger.stall_count);
    let mut held = 0;
    for (k, stall) in (1..).zip(&ledger.stalls) {
        assert_eq!(stall.begin_ns, ledger.started_ns + k * 100 * MS);
        assert_eq!(stall.end_ns, stall.begin_ns + 50 * MS);
        for (sent_ns, received_ns) in &requests {
            if (stall.begin_ns..stall.end_ns).contains(sent_ns) {
                held += 1;
                assert!(stall.end_ns + 2 * MS <= *received_ns);
            }
        }
    }
    assert!(0 < held, "some requests were sent in a stall");
}

#[test]
fn a_serial_server_takes_one_request_at_a_time() {
    let config = TargetConfig { base_latency: Duration::from_millis(20), serial: true, ..config() };
    let target = start(config);
    let mut clients: Vec<Client> = (0..5).map(|_| Client::connect(target.local_addr())).collect();
    let sent_ns = now_ns();
    for client in &mut clients {
        client.send(GET);
    }
    let mut received_ns: Vec<u64> = Vec::new();
    for client in &mut clients {
        client.receive();
        received_ns.push(now_ns());
    }
    assert!(sent_ns + 100 * MS <= received_ns[4], "five service times, one after the other");
    let held = target.stop().expect("a ledger").held;
    assert!(held.max.is_some_and(|max| 20_000.0 <= max));
}

#[test]
fn a_serial_server_keeps_the_order_of_one_connection() {
    let config = TargetConfig { base_latency: Duration::from_millis(5), serial: true, ..config() };
    let target = start(config);
    let mut client = Client::connect(target.local_addr());
    let sent_ns = now_ns();
    client.send(GET.repeat(8));
    for k in 1..=8 {
        client.receive();
        assert!(sent_ns + k * 5 * MS <= now_ns());
    }
}

#[test]
fn every_nth_request_pauses_the_server() {
    let pause = Pause { every_requests: 3, hold: Duration::from_millis(40) };
    let target = start(TargetConfig { pause: Some(pause), serial: true, ..config() });
    let mut client = Client::connect(target.local_addr());
    let mut edges = Vec::new();
    for k in 1..=7 {
        let (sent_ns, received_ns) = timed(&mut client);
        if k % 3 == 0 {
            assert!(40 * MS <= received_ns - sent_ns);
            edges.push((sent_ns, received_ns));
        }
    }
    let ledger = target.stop().expect("a ledger");
    assert_eq!(ledger.pause_count, 2);
    assert_eq!(ledger.pauses.len(), 2);
    for (pause, (sent_ns, received_ns)) in ledger.pauses.iter().zip(edges) {
        assert_eq!(pause.end_ns - pause.begin_ns, 40 * MS);
        assert!(sent_ns <= pause.begin_ns && pause.end_ns <= received_ns);
    }
}

#[test]
fn the_first_requests_of_the_process_are_cold() {
    let cold = Cold { requests: 3, latency: Duration::from_millis(30) };
    let base_latency = Duration::from_millis(2);
    let target = start(TargetConfig { base_latency, cold: Some(cold), ..config() });
    // The first of the process, not of each connection.
    let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(target.local_addr())).collect();
    for k in 0..3 {
        let (sent_ns, received_ns) = timed(&mut clients[k % 2]);
        assert!(32 * MS <= received_ns - sent_ns);
    }
    assert_eq!(target.ledger().expect("a ledger").cold, 3);
    for _ in 0..2 {
        clients[1].get();
    }
    let ledger = target.stop().expect("a ledger");
    assert_eq!((ledger.received, ledger.cold), (5, 3));
    let held = ledger.held.decode().expect("a histogram");
    assert!(3 <= held.count_between(32 * MS, u64::MAX));
}
