//! What the host gives is told, and the exit code says whether scripts can run.

use crate::world::{World, ended};

#[test]
fn every_layer_is_told_and_the_exit_code_follows() {
    let world = World::with("");
    let json = ended(world.pinfold(&["doctor", "--json"]));
    let found: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    let offered = found["run_script_offered"].as_bool().unwrap();
    assert_eq!(json.code, Some(if offered { 0 } else { 1 }), "{json:#?}");
    let text = ended(world.pinfold(&["doctor"]));
    assert_eq!(text.code, json.code, "{text:#?}");
    if offered {
        let layers = found["isolation"]["layers"].as_array().unwrap();
        assert!(layers.len() >= 4, "{found:#}");
        for layer in layers {
            assert!(text.stdout.contains(layer["name"].as_str().unwrap()), "{text:#?}");
            // What does not work says what to do.
            assert!(layer["works"] == true || layer["hint"].is_string(), "{layer:#}");
        }
    }
}

#[test]
fn without_a_usable_python_it_says_so() {
    let world = World::with("[execute]\npython = './no-python-here'\n");
    ended(world.pinfold(&["doctor"]))
        .code(1)
        .prints("run_script: not offered")
        .prints("python: none");
}

#[test]
fn a_configuration_that_nobody_trusts_does_not_keep_the_host_from_being_examined() {
    let world = World::with("[execute]\npython = '/nowhere/python3'\n");
    let mut command = world.pinfold(&["doctor"]);
    command.env_remove("PINFOLD_CONFIG");
    let found = ended(command).says("is not trusted").prints("isolation:");
    // What the file names was not looked at either.
    assert!(!found.stdout.contains("/nowhere"), "{found:#?}");
}
