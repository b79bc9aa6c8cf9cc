//! The shop: what users must carry from step to step, and what the ledger says of them.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use serde_json::Value;
use target::{Ledger, Route, ShopErrors, ShopLedger, Stall, TargetConfig};

use crate::client::{Client, Response, config, now_ns, start};
use crate::http2_client::{Answer, Http2, read, run};
use crate::ledger::assert_closes;

const MS: u64 = 1_000_000;

fn shop_config() -> TargetConfig {
    TargetConfig { shop: true, ..config() }
}

/// What a user carries.
#[derive(Clone, Debug)]
struct User {
    token: String,
    cookie: String,
    id: String,
    csrf: String,
}

impl User {
    /// A user who hasn't logged in.
    fn new() -> User {
        let none = || "none".to_owned();
        User { token: none(), cookie: none(), id: none(), csrf: none() }
    }

    /// The user's request for this step, on one line: method, path, body.
    fn ask(&self, step: &str) -> (&'static str, String, String) {
        let User { id, csrf, .. } = self;
        match step {
            "login" => ("POST", "/login".to_owned(), "user=Zo%C3%AB+%22Z%22".to_owned()),
            "search" => ("GET", "/search?q=tea".to_owned(), String::new()),
            "items" => ("GET", format!("/items/{id}"), String::new()),
            "basket" => ("POST", "/basket".to_owned(), format!("id={id}&csrf={csrf}")),
            "view" => ("GET", "/basket".to_owned(), String::new()),
            "pay" => ("POST", "/pay".to_owned(), String::new()),
            _ => panic!("{step}: no step"),
        }
    }

    /// Takes a step; returns the response, and keeps what it gives.
    fn step(&mut self, client: &mut Client, step: &str) -> Response {
        let (method, path, body) = self.ask(step);
        let User { token, cookie, .. } = &self;
        let length = body.len();
        client.send(format!(
            "{method} {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\
             Cookie: a=b; {cookie}\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        let response = client.receive();
        let set = response.head.lines().find_map(|line| line.strip_prefix("Set-Cookie: "));
        self.keep(set, &response.body);
        response
    }

    /// Keeps what a response gives.
    fn keep(&mut self, set_cookie: Option<&str>, body: &[u8]) {
        let text = str::from_utf8(body).expect("text");
        let document: Value = serde_json::from_str(text).unwrap_or_default();
        if let Some(token) = document["access_token"].as_str() {
            self.token = token.to_owned();
        }
        if let Some(id) = document["items"][1]["id"].as_str() {
            self.id = id.to_owned();
        }
        if let Some((_, rest)) = text.split_once("name=\"csrf\" value=\"") {
            self.csrf = rest.split_once('"').expect("a whole value").0.to_owned();
        }
        if let Some(cookie) = set_cookie {
            self.cookie = cookie.strip_suffix("; Path=/").expect("a path").to_owned();
        }
    }

    /// Takes these steps, each with this status.
    fn steps(&mut self, client: &mut Client, steps: &[(&str, &str)]) {
        for (step, status) in steps {
            let response = self.step(client, step);
            assert_eq!(response.status(), *status, "{step}: {response:?}");
        }
    }
}

const WALK: [(&str, &str); 6] = [
    ("login", "200"),
    ("search", "200"),
    ("items", "200"),
    ("basket", "303"),
    ("view", "200"),
    ("pay", "200"),
];

fn json(response: &Response) -> Value {
    assert!(response.head.contains("\r\nContent-Type: application/json\r\n"), "{response:?}");
    serde_json::from_slice(&response.body).expect("JSON")
}

/// The shop's part of a ledger whose sums match.
fn shop_of(ledger: &Ledger) -> ShopLedger {
    assert_closes(ledger);
    let shop = ledger.shop.clone().expect("a shop");
    assert_eq!(shop.paths.values().sum::<u64>(), shop.sessions);
    shop
}

fn paths(shop: &ShopLedger) -> Vec<(&str, u64)> {
    shop.paths.iter().map(|(path, count)| (path.as_str(), *count)).collect()
}

#[test]
fn a_user_walks_from_login_to_payment() {
    let target = start(shop_config());
    let mut client = Client::connect(target.local_addr());
    let mut user = User::new();
    let login = json(&user.step(&mut client, "login"));
    assert_eq!(login["user"], "Zoë \"Z\"");
    assert_eq!(json(&user.step(&mut client, "search"))["items"].as_array().map(Vec::len), Some(3));
    let item = user.step(&mut client, "items");
    assert!(item.head.contains("Content-Type: text/html\r\n"), "{item:?}");
    // The next steps may come on another connection.
    let mut client = Client::connect(target.local_addr());
    let basket = user.step(&mut client, "basket");
    assert_eq!((basket.status(), basket.body.len()), ("303", 0));
    assert!(basket.head.contains("\r\nLocation: /basket\r\n"), "{basket:?}");
    user.steps(&mut client, &[("view", "200")]);
    let paid = json(&user.step(&mut client, "pay"));
    assert_eq!((&paid["ok"], &paid["order"]), (&Value::from(true), &Value::from(1)));
    // Another user, whose order is the next.
    let mut other = User::new();
    other.steps(&mut client, &WALK[..5]);
    assert_eq!(json(&other.step(&mut client, "pay"))["order"], 2);
    assert_ne!(user.token, other.token);
    assert_ne!(user.cookie, other.cookie);

    let shop = shop_of(&target.stop().expect("a ledger"));
    assert_eq!(paths(&shop), [("login>search>items>basket>view>pay", 2)]);
    assert!(WALK.iter().all(|(step, _)| shop.requests[*step] == 2), "{shop:?}");
    assert_eq!(shop.errors, ShopErrors::default());
    assert_eq!(shop.think.len(), 5);
    assert!(shop.think.values().all(|think| think.count == 2), "{shop:?}");
}

#[test]
fn each_fault_has_its_status_and_is_counted() {
    let target = start(shop_config());
    let mut client = Client::connect(target.local_addr());
    let mut user = User::new();
    user.steps(&mut client, &[("search", "401"), ("pay", "401"), ("login", "200")]);
    // Each needs what an earlier step gives.
    user.steps(&mut client, &[("items", "422"), ("basket", "422"), ("search", "200")]);
    user.steps(&mut client, &[("basket", "422"), ("items", "200")]);
    user.steps(&mut client, &[("view", "409"), ("pay", "409")]);
    let cookieless = User { cookie: "basket=0123456789abcdef".to_owned(), ..user.clone() };
    cookieless.clone().steps(&mut client, &[("basket", "403"), ("view", "403"), ("pay", "403")]);
    User { cookie: String::new(), ..user.clone() }.steps(&mut client, &[("basket", "403")]);
    user.steps(&mut client, &[("basket", "303"), ("pay", "200")]);
    // Nothing is paid twice.
    user.steps(&mut client, &[("pay", "409")]);
    client.send("POST /login HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\nusers=a");
    assert_eq!(json(&client.receive())["error"], "wrong_value");

    let shop = shop_of(&target.stop().expect("a ledger"));
    let errors = ShopErrors { wrong_token: 2, wrong_cookie: 4, wrong_value: 4, out_of_order: 3 };
    assert_eq!(shop.errors, errors);
    assert_eq!(paths(&shop), [("login>search>items>basket>pay", 1)]);
    assert_eq!((shop.requests["pay"], shop.requests["login"]), (5, 2));
}

#[test]
fn values_of_another_session_are_noticed() {
    let target = start(shop_config());
    let (mut one, mut two) = (User::new(), User::new());
    let mut client = Client::connect(target.local_addr());
    for step in &WALK[..3] {
        one.steps(&mut client, &[*step]);
        two.steps(&mut client, &[*step]);
    }
    let mixed = |change: fn(&mut User, &User), step: &str, status: &str| {
        let mut client = Client::connect(target.local_addr());
        let mut user = one.clone();
        change(&mut user, &two);
        user.steps(&mut client, &[(step, status)]);
    };
    mixed(|user, other| user.cookie.clone_from(&other.cookie), "basket", "403");
    mixed(|user, other| user.token.clone_from(&other.token), "basket", "403");
    mixed(|user, other| user.id.clone_from(&other.id), "items", "422");
    mixed(|user, other| user.id.clone_from(&other.id), "basket", "422");
    mixed(|user, other| user.csrf.clone_from(&other.csrf), "basket", "422");
    // A token with the number of another session.
    mixed(|user, other| user.token.replace_range(..16, &other.token[..16]), "search", "401");
    one.steps(&mut client, &WALK[3..]);
    two.steps(&mut client, &WALK[3..]);
    let shop = shop_of(&target.stop().expect("a ledger"));
    let errors = ShopErrors { wrong_token: 1, wrong_cookie: 2, wrong_value: 3, out_of_order: 0 };
    assert_eq!((shop.sessions, shop.errors), (2, errors));
    // A target that starts later knows none of this.
    let target = start(shop_config());
    let mut client = Client::connect(target.local_addr());
    User::new().steps(&mut client, &[("login", "200")]);
    one.steps(&mut client, &[("search", "401")]);
}

#[test]
fn paths_are_counted_by_the_steps_that_were_taken() {
    let target = start(shop_config());
    let mut client = Client::connect(target.local_addr());
    let mut user = |steps: &[(&str, &str)]| User::new().steps(&mut client, steps);
    for _ in 0..3 {
        user(&WALK);
    }
    user(&[&WALK[..3], &WALK[1..4], &[("pay", "200"), ("search", "200")]].concat());
    user(&WALK[..2]);
    user(&[("login", "200"), ("pay", "409")]);
    user(&[&WALK[..1], &[("search", "200"); 21]].concat());
    let shop = shop_of(&target.stop().expect("a ledger"));
    let expected = [
        ("login", 1),
        ("login>search", 1),
        ("login>search>items>basket>view>pay", 3),
        ("login>search>items>search>items>basket>pay>search", 1),
        ("other", 1),
    ];
    assert_eq!((shop.sessions, paths(&shop).as_slice()), (7, expected.as_slice()));
}

#[test]
fn think_times_are_from_the_response_to_the_next_step() {
    let base_latency = Duration::from_millis(40);
    let target = start(TargetConfig { base_latency, ..shop_config() });
    let mut client = Client::connect(target.local_addr());
    let mut user = User::new();
    user.steps(&mut client, &[("login", "200")]);
    let received_ns = now_ns();
    std::thread::sleep(Duration::from_millis(20));
    let sent_ns = now_ns();
    user.steps(&mut client, &[("search", "200")]);
    let shop = shop_of(&target.stop().expect("a ledger"));
    let think = shop.think["search"];
    let max_ns = think.max_ns.expect("a think time");
    assert_eq!((think.count, think.p50_ns, think.p99_ns), (1, Some(max_ns), Some(max_ns)));
    assert!(sent_ns - received_ns <= max_ns, "{max_ns}");
    assert!(max_ns < now_ns() - received_ns, "{max_ns}: the latency is no think time");
    assert_eq!((shop.think["pay"].count, shop.think["pay"].max_ns), (0, None));
}

#[test]
fn one_path_may_stall_alone() {
    let mut config = shop_config();
    let hold = Duration::from_millis(300);
    // It begins soon after the start, and the test ends before the next.
    let stall = Some(Stall { every: Duration::from_millis(400), hold });
    config.routes = vec![Route { stall, ..config.route("/pay") }];
    let target = start(config);
    let started_ns = target.ledger().expect("a ledger").started_ns;
    let mut client = Client::connect(target.local_addr());
    let mut user = User::new();
    while now_ns() < started_ns + 450 * MS {
        std::thread::sleep(Duration::from_millis(5));
    }
    let began_ns = now_ns();
    user.steps(&mut client, &WALK[..5]);
    let paid_ns = now_ns();
    user.steps(&mut client, &WALK[5..]);
    let paid_after_ns = now_ns() - started_ns;
    let ledger = target.stop().expect("a ledger");
    shop_of(&ledger);
    // A machine that was too slow to pay within the stall shows nothing.
    if paid_ns < started_ns + 690 * MS {
        assert!(700 * MS <= paid_after_ns, "{paid_after_ns}");
        assert!(paid_ns - began_ns < 240 * MS);
        assert!(ledger.routes[1].held.max.is_some_and(|max| max < 240_000.0), "{ledger:?}");
    }
    assert_eq!((ledger.routes[0].answered, ledger.routes[1].answered), (1, 5));
}

#[test]
fn all_cores_serve_the_same_sessions() {
    let cores = core_affinity::get_core_ids().expect("an affinity mask");
    let cores = cores.into_iter().map(|core| core.id).take(2).collect();
    let target = start(TargetConfig { cores, ..shop_config() });
    let mut users: Vec<User> = (0..20).map(|_| User::new()).collect();
    for step in WALK {
        for user in &mut users {
            // A connection for each step: they land on either core.
            user.steps(&mut Client::connect(target.local_addr()), &[step]);
        }
    }
    let shop = shop_of(&target.stop().expect("a ledger"));
    assert_eq!(paths(&shop), [("login>search>items>basket>view>pay", 20)]);
    assert_eq!((shop.errors, shop.think["pay"].count), (ShopErrors::default(), 20));
}

#[test]
fn chunked_bodies_and_other_requests_are_read() {
    let target = start(shop_config());
    let mut client = Client::connect(target.local_addr());
    let head = "POST /login HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    for piece in [head, "4\r\nus", "er\r\n", "3\r\n=an\r\n2\r\nna\r\n0", "\r\n\r\n"] {
        client.send(piece);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(json(&client.receive())["user"], "anna");
    for line in ["GET / ", "GET /login ", "PUT /basket ", "GET /items ", "POST /items/7 "] {
        client.send(format!("{line}HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.receive().body.len(), 128, "{line}");
    }
    let ledger = target.stop().expect("a ledger");
    let requests = shop_of(&ledger).requests;
    assert_eq!((ledger.answered, requests.values().sum::<u64>()), (6, 1));
    // Without the flag, nothing of this is there.
    let target = start(config());
    let mut client = Client::connect(target.local_addr());
    assert_eq!(User::new().step(&mut client, "login").body.len(), 128);
    let document = target.stop().expect("a ledger").to_json();
    let document: Value = serde_json::from_str(&document).expect("JSON");
    assert!(document.get("shop").is_none());
}

/// Takes a step over HTTP/2.
async fn step(user: &mut User, client: &Http2, step: &str) -> Answer {
    let (method, path, body) = user.ask(step);
    // A browser sends each cookie in a field of its own.
    let request = Request::builder()
        .method(Method::from_bytes(method.as_bytes()).expect("a method"))
        .uri(format!("http://a{path}"))
        .header("authorization", format!("Bearer {}", user.token))
        .header("cookie", "a=b")
        .header("cookie", &user.cookie);
    let request = request.body(()).expect("a request");
    let mut requests = client.requests.clone().ready().await.expect("an open connection");
    let (response, mut stream) = requests.send_request(request, false).expect("sent");
    stream.send_data(Bytes::from(body), true).expect("sent");
    let answer = read(response).await.expect("a response");
    let set = answer.fields.get("set-cookie").map(|value| value.to_str().expect("text"));
    user.keep(set, &answer.body);
    answer
}

#[test]
fn users_may_come_over_http2() {
    let target = start(shop_config());
    run(async {
        let client = Http2::connect(target.local_addr()).await;
        let mut user = User::new();
        assert_eq!(step(&mut user, &client, "pay").await.status, 401);
        for (name, status) in WALK {
            let answer = step(&mut user, &client, name).await;
            assert_eq!(answer.status.as_str(), status, "{name}: {answer:?}");
            let location = answer.fields.get("location").map(|value| value.as_bytes());
            assert_eq!(location, (name == "basket").then_some(b"/basket".as_slice()));
        }
    });
    let shop = shop_of(&target.stop().expect("a ledger"));
    assert_eq!(paths(&shop), [("login>search>items>basket>view>pay", 1)]);
    assert_eq!((shop.errors.wrong_token, shop.think["view"].count), (1, 1));
}
