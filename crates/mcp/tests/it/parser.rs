//! Whatever the bytes, reading them does not panic.

use proptest::prelude::*;
use serde_json::{Value, json};

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(
                prop_oneof![
                    Just("id".to_owned()),
                    Just("method".to_owned()),
                    Just("params".to_owned()),
                    Just("result".to_owned()),
                    Just("error".to_owned()),
                    Just("code".to_owned()),
                    Just("message".to_owned()),
                    ".{0,8}",
                ],
                inner,
                0..5,
            )
            .prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = mcp::message::parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn any_text_after_a_plausible_start(rest in ".{0,60}") {
        for start in ["{\"id\":", "{\"method\":\"", "[{\"id\":1,\"error\":", "{\"result\":"] {
            let _ = mcp::message::parse(&format!("{start}{rest}"));
        }
    }

    #[test]
    fn any_json_value(value in any_json()) {
        let _ = mcp::message::parse(&value.to_string());
    }

    #[test]
    fn any_parameters_are_written_as_one_line_that_reads_back(params in any_json()) {
        let pretty = serde_json::to_string_pretty(&json!({"p": params})).unwrap();
        let text = mcp::message::request(7, "x/\"y\n", &pretty);
        prop_assert!(!text.contains('\n'));
        prop_assert_eq!(mcp::message::parse(&text).unwrap().len(), 1);
    }
}
