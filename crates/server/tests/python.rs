//! The Python client and its worker against a server that really listens: their own tests, end to end (E7).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use backstop::rejects::{RejectLimit, RejectSettings};
use backstop::{Backstop, Config, MaintenanceHandle};
use backstop_server::{Api, ServerSettings, serve};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

fn client() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/python")
}

/// A store in a file of its own, and somebody who takes back quickly what the dead have held.
async fn engine(folder: &Path) -> (Backstop, MaintenanceHandle) {
    let rejects = RejectSettings::default()
        .limit_of("picky", RejectLimit::NONE.most(50))
        .limit_of("fussy", RejectLimit::NONE.percent(0.5).unwrap());
    let url = format!("sqlite:{}", folder.join("jobs.db").display());
    let engine = Backstop::open_with(&url, Config::default().rejects(rejects)).await.unwrap();
    let keeper = engine.maintenance().lease(Duration::from_millis(600)).start();
    (engine, keeper)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_workers_lose_nothing_and_end_everything_once() {
    // E7, L5, L15, C1
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("python-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (engine, keeper) = engine(&folder).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let served = tokio::spawn(serve(
        listener,
        Api::new(engine, ServerSettings::default()),
        stop.clone().cancelled_owned(),
    ));
    let tests = Command::new("python3")
        .args(["-m", "unittest", "discover", "-t", ".", "-s", "tests", "-v"])
        .current_dir(client())
        .env("BACKSTOP_SERVER", format!("http://{address}"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("BACKSTOP_TOKEN")
        .kill_on_drop(true)
        .output()
        .await
        .expect("python3 is needed to test the client for Python");
    let said = String::from_utf8_lossy(&tests.stderr);
    assert!(tests.status.success(), "{said}");
    assert!(said.contains("\nOK"), "{said}");
    stop.cancel();
    served.await.unwrap().unwrap();
    keeper.stop().await;
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn the_client_for_python_compiles_everywhere() {
    let code = "import ast, pathlib; \
        [ast.parse(f.read_text(), str(f), feature_version=(3, 9)) for f in pathlib.Path('.').rglob('*.py')]";
    let parsed = Command::new("python3").args(["-c", code]).current_dir(client()).output().await.unwrap();
    assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pycache-{}", std::process::id()));
    let compiled = Command::new("python3")
        .args(["-m", "compileall", "-q", "backstop", "tests"])
        .env("PYTHONPYCACHEPREFIX", &cache)
        .current_dir(client())
        .output()
        .await
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stdout));
    let _ = std::fs::remove_dir_all(cache);
}
