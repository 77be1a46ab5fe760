//! Chromium under its own driver (Debian: chromium, chromium-driver), by the W3C protocol.

use fantoccini::actions::{InputSource, KeyAction, KeyActions, MouseActions, PointerAction};
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, ClientBuilder, Locator};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use url::{ParseError, Url};

/// Unicode of the driver's keys.
pub const TAB: char = '\u{e004}';
pub const ENTER: char = '\u{e007}';
pub const LEFT: char = '\u{e012}';

/// A page in a browser.
pub struct Browser {
    client: Client,
    address: String,
}

/// Opens `page` from a file of its own and runs `test` on it. Without a browser it is skipped, and fails where
/// RESLAB_REQUIRE_TOOLS is set.
pub fn with_page(page: &str, test: impl AsyncFnOnce(&Browser)) {
    let Some(driver) = Driver::start() else {
        assert!(std::env::var_os("RESLAB_REQUIRE_TOOLS").is_none(), "no chromium or chromedriver");
        println!("skipped: no chromium or chromedriver (Debian: chromium, chromium-driver)");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.html");
    std::fs::write(&file, page).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = driver.connect().await;
        let browser = Browser { client, address: format!("file://{}", file.display()) };
        browser.show(1400, "light").await;
        test(&browser).await;
        browser.client.close().await.unwrap();
    });
}

impl Browser {
    /// Loads the page anew at a width and in a colour scheme.
    pub async fn show(&self, width: u32, scheme: &str) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", features).await;
        self.client.goto(&self.address).await.unwrap();
    }

    /// The value of an expression in the page.
    pub async fn value(&self, expression: &str) -> Value {
        self.client
            .execute(&format!("return {expression}"), vec![])
            .await
            .unwrap_or_else(|e| panic!("{expression}: {e}"))
    }

    /// Runs statements in the page.
    pub async fn run(&self, script: &str) -> Value {
        self.client.execute(script, vec![]).await.unwrap()
    }

    /// Runs a script that calls its last argument when it is done.
    pub async fn run_async(&self, script: &str) -> Value {
        self.client.execute_async(script, vec![]).await.unwrap()
    }

    pub async fn click(&self, css: &str) {
        self.center(css).await;
        self.client.find(Locator::Css(css)).await.unwrap_or_else(|e| panic!("{css}: {e}")).click().await.unwrap();
    }

    /// The page's bar stands over what is at the upper edge.
    async fn center(&self, css: &str) {
        self.run(&format!("document.querySelector('{css}').scrollIntoView({{block: 'center'}})")).await;
    }

    /// Presses and lets go of a key.
    pub async fn press(&self, key: char) {
        let keys = KeyActions::new("keys".into());
        let keys = keys.then(KeyAction::Down { value: key }).then(KeyAction::Up { value: key });
        self.client.perform_actions(keys).await.unwrap();
    }

    /// Puts the pointer onto an element, so far from its middle.
    pub async fn point(&self, css: &str, x: f64, y: f64) {
        self.center(css).await;
        let element = self.client.find(Locator::Css(css)).await.unwrap();
        let action = PointerAction::MoveToElement { element, duration: Some(Duration::from_millis(50)), x, y };
        self.client.perform_actions(MouseActions::new("mouse".into()).then(action)).await.unwrap();
    }

    /// What stands in the browser's console, errors of the page's policy and of loading included.
    pub async fn console(&self) -> Vec<Value> {
        let log = self.client.issue_cmd(Vendor { path: "se/log", body: json!({"type": "browser"}) }).await.unwrap();
        log.as_array().unwrap().clone()
    }

    async fn devtools(&self, command: &str, parameters: Value) {
        let body = json!({"cmd": command, "params": parameters});
        self.client.issue_cmd(Vendor { path: "goog/cdp/execute", body }).await.unwrap();
    }
}

/// A command that the protocol leaves to the browser's maker.
#[derive(Debug)]
struct Vendor {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Vendor {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(self.body.to_string()))
    }
}

/// The driver's process.
struct Driver {
    process: Child,
    port: u16,
}

impl Driver {
    /// `None` where there is no browser or no driver.
    fn start() -> Option<Self> {
        Command::new("chromium").arg("--version").output().ok().filter(|output| output.status.success())?;
        let spawned = Command::new("chromedriver").arg("--port=0").stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut process = match spawned {
            Err(e) if e.kind() == ErrorKind::NotFound => return None,
            spawned => spawned.expect("chromedriver starts"),
        };
        let lines = BufReader::new(process.stdout.take().expect("it was piped")).lines();
        let port = lines.map_while(Result::ok).find_map(|line| {
            let port = line.split("started successfully on port ").nth(1)?.trim_end_matches('.');
            port.parse().ok()
        });
        Some(Self { process, port: port.expect("chromedriver says its port") })
    }

    async fn connect(&self) -> Client {
        let mut arguments = vec!["--headless=new", "--disable-gpu", "--disable-dev-shm-usage"];
        // Chromium's sandbox refuses to be root's.
        if std::fs::metadata("/proc/self").is_ok_and(|of| of.uid() == 0) {
            arguments.push("--no-sandbox");
        }
        let capabilities = json!({
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"args": arguments},
        });
        ClientBuilder::new(HttpConnector::new())
            .capabilities(capabilities.as_object().unwrap().clone())
            .connect(&format!("http://127.0.0.1:{}", self.port))
            .await
            .expect("chromium starts")
    }
}

impl Drop for Driver {
    /// Asked to, the driver ends its browsers too; killed, it would leave them.
    fn drop(&mut self) {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) {
            let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
            let _ = stream.write_all(b"GET /shutdown HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
            let _ = stream.read_to_end(&mut Vec::new());
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
