//! The examples of RFC 7541, appendix C.

use http2::hpack::full::{Field, Full};
use http2::hpack::skeleton::Skeleton;

/// The bytes of a hexadecimal text.
fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).expect("ASCII");
        u8::from_str_radix(pair, 16).expect("hexadecimal")
    };
    digits.chunks(2).map(byte).collect()
}

/// Fields as `name: value`.
fn lines<'a>(fields: impl Iterator<Item = &'a Field>) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    fields.map(|field| format!("{}: {}", text(&field.name), text(&field.value))).collect()
}

/// Blocks of one connection: each its bytes, its fields, and the table after it, newest first, with
/// its size. `limit` is a block that sets the table's limit, if there is one.
fn check(limit: &str, blocks: &[(&str, &[&str], &[&str], usize)]) {
    let (mut full, mut skeleton) = (Full::new(), Skeleton::new());
    let mut before = bytes(limit);
    for (hex, fields, table, table_bytes) in blocks {
        let block = [std::mem::take(&mut before), bytes(hex)].concat();
        let section = full.decode(&block).expect("valid");
        assert_eq!(lines(full.fields().iter()), *fields, "{hex}");
        assert_eq!(lines(full.table()), *table, "{hex}");
        assert_eq!(full.table_bytes(), *table_bytes, "{hex}");
        assert_eq!(skeleton.decode(&block), Ok(section), "{hex}");
        let status = fields.iter().find_map(|field| field.strip_prefix(":status: "));
        assert_eq!(section.status.map(|status| status.to_string()).as_deref(), status);
    }
}

#[test]
fn literals_and_indices() {
    let custom: &[&str] = &["custom-key: custom-header"];
    let block = "400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572";
    check("", &[(block, custom, custom, 55)]);
    check("", &[("040c 2f73 616d 706c 652f 7061 7468", &[":path: /sample/path"], &[], 0)]);
    check("", &[("1008 7061 7373 776f 7264 0673 6563 7265 74", &["password: secret"], &[], 0)]);
    check("", &[("82", &[":method: GET"], &[], 0)]);
}

#[test]
fn requests_without_and_with_the_huffman_code() {
    let first: &[&str] =
        &[":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
    let second: &[&str] = &[
        ":method: GET",
        ":scheme: http",
        ":path: /",
        ":authority: www.example.com",
        "cache-control: no-cache",
    ];
    let third: &[&str] = &[
        ":method: GET",
        ":scheme: https",
        ":path: /index.html",
        ":authority: www.example.com",
        "custom-key: custom-value",
    ];
    let table =
        ["custom-key: custom-value", "cache-control: no-cache", ":authority: www.example.com"];
    for blocks in [
        [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ],
        [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ],
    ] {
        check(
            "",
            &[
                (blocks[0], first, &table[2..], 57),
                (blocks[1], second, &table[1..], 110),
                (blocks[2], third, &table, 164),
            ],
        );
    }
}

#[test]
fn responses_without_and_with_the_huffman_code() {
    const PRIVATE: &str = "cache-control: private";
    const DATE: &str = "date: Mon, 21 Oct 2013 20:13:21 GMT";
    const LATER: &str = "date: Mon, 21 Oct 2013 20:13:22 GMT";
    const LOCATION: &str = "location: https://www.example.com";
    const GZIP: &str = "content-encoding: gzip";
    const COOKIE: &str = "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
    for blocks in [
        [
            "4803 3330 3258 0770 7269 7661 7465 611d
             4d6f 6e2c 2032 3120 4f63 7420 3230 3133
             2032 303a 3133 3a32 3120 474d 546e 1768
             7474 7073 3a2f 2f77 7777 2e65 7861 6d70
             6c65 2e63 6f6d",
            "4803 3330 37c1 c0bf",
            "88c1 611d 4d6f 6e2c 2032 3120 4f63 7420
             3230 3133 2032 303a 3133 3a32 3220 474d
             54c0 5a04 677a 6970 7738 666f 6f3d 4153
             444a 4b48 514b 425a 584f 5157 454f 5049
             5541 5851 5745 4f49 553b 206d 6178 2d61
             6765 3d33 3630 303b 2076 6572 7369 6f6e
             3d31",
        ],
        [
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe
             9410 54d4 44a8 2005 9504 0b81 66e0 82a6
             2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8
             e9ae 82ae 43d3",
            "4883 640e ffc1 c0bf",
            "88c1 6196 d07a be94 1054 d444 a820 0595
             040b 8166 e084 a62d 1bff c05a 839b d9ab
             77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b
             3960 d5af 2708 7f36 72c1 ab27 0fb5 291f
             9587 3160 65c0 03ed 4ee5 b106 3d50 07",
        ],
    ] {
        // The examples have a table of 256 bytes.
        check(
            "3fe1 01",
            &[
                (
                    blocks[0],
                    &[":status: 302", PRIVATE, DATE, LOCATION],
                    &[LOCATION, DATE, PRIVATE, ":status: 302"],
                    222,
                ),
                (
                    blocks[1],
                    &[":status: 307", PRIVATE, DATE, LOCATION],
                    &[":status: 307", LOCATION, DATE, PRIVATE],
                    222,
                ),
                (
                    blocks[2],
                    &[":status: 200", PRIVATE, LATER, LOCATION, GZIP, COOKIE],
                    &[COOKIE, GZIP, LATER],
                    215,
                ),
            ],
        );
    }
}
