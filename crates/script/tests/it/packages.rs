//! Packages with compiled code and threads of their own, under the default bounds.

use std::path::PathBuf;

use script::{Ending, Python};

use crate::ground::{Ground, skip};

#[tokio::test]
async fn numpy_and_pandas_work_under_the_limits() {
    let venv = std::env::var_os("PINFOLD_TEST_TOOLS")
        .map(|tools| PathBuf::from(tools).join("venv/bin/python"));
    let Some(python) = venv.filter(|python| python.exists()) else {
        let missing = "no venv with numpy and pandas in PINFOLD_TEST_TOOLS";
        if std::env::var_os(crate::ordinary::MARK).is_some() {
            // It may be there and not be readable for this user.
            let _ = std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("SKIPPED: {missing} for an ordinary user\n"),
            );
            return;
        }
        return skip(&format!("{missing} (install with .ci/test-tools)"));
    };
    let python = Python::find(python.to_str().unwrap()).await.unwrap();
    let ground = Ground::with(python).await;
    let code = r"
import numpy as np
import pandas as pd
from agent_tools import call, call_many

rows = call_many('echo', [{'sn': i, 'load': i * 1.5} for i in range(500)])
frame = pd.DataFrame(rows)
print(frame.shape, frame['load'].sum())
print(call('echo', {'sn': frame['sn'][3], 'mean': frame['load'].mean(), 'all': frame['sn'].head(2), 'flag': np.bool_(True), 'array': np.arange(3)}))
a = np.random.default_rng(1).random((600, 600))
print((a @ a).shape, np.linalg.svd(a, compute_uv=False).shape)
frame.groupby(frame.sn % 7).load.mean().to_csv('out.csv')
print(pd.read_csv('out.csv').shape)
print(pd.DataFrame(await call_many('echo', [{'a': 1}, {'a': 2}])).a.sum())
try:
    call('echo', {'x': np.nan})
except Exception as error:
    print(error.kind)
frame['nothing']
";
    let ran = ground.run(code).await;
    let expected = "(500, 2) 187125.0\n{'sn': 3, 'mean': 374.25, 'all': [0, 1], 'flag': True, 'array': [0, 1, 2]}\n(600, 600) (600,)\n(7, 2)\n3\ninvalid_arguments\n";
    assert_eq!(ran.stdout, expected, "{}", ran.shown());
    let Ending::Failed { traceback } = &ran.finished.ending else { panic!("{}", ran.shown()) };
    assert!(traceback.contains("line 19, in <module>\n    frame['nothing']"), "{traceback}");
    assert!(traceback.ends_with("KeyError: 'nothing'"), "{traceback}");
    assert!(!traceback.contains("pandas/"), "{traceback}");
}
