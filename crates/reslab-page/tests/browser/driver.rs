//! Chromium under its own driver (Debian: chromium, chromium-driver), by the W3C protocol: JSON over HTTP to this machine.
//! Not by a crate for it: fantoccini needs one under a licence that is not on our list, thirtyfour brings some seventy others.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Unicode of the driver's keys.
pub const TAB: char = '\u{e004}';
pub const ENTER: char = '\u{e007}';
pub const LEFT: char = '\u{e012}';

/// The protocol's name of the field that an element's id stands in.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A page in a browser.
pub struct Browser {
    agent: ureq::Agent,
    /// Of the driver, with the session.
    base: String,
    /// Of the page.
    address: String,
}

/// Opens `page` from a file of its own and runs `test` on it. Without a browser it is skipped, and fails where
/// RESLAB_REQUIRE_TOOLS is set.
pub fn with_page(page: &str, test: impl FnOnce(&Browser)) {
    let Some(driver) = Driver::start() else {
        assert!(std::env::var_os("RESLAB_REQUIRE_TOOLS").is_none(), "no chromium or chromedriver");
        println!("skipped: no chromium or chromedriver (Debian: chromium, chromium-driver)");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.html");
    std::fs::write(&file, page).unwrap();
    let browser = driver.open(format!("file://{}", file.display()));
    browser.show(1400, "light");
    test(&browser);
}

impl Browser {
    /// Loads the page anew at a width and in a colour scheme.
    pub fn show(&self, width: u32, scheme: &str) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", size);
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.devtools("Emulation.setEmulatedMedia", features);
        self.post("url", json!({"url": self.address}));
    }

    /// The value of an expression in the page.
    pub fn value(&self, expression: &str) -> Value {
        self.run(&format!("return {expression}"))
    }

    /// Runs statements in the page.
    pub fn run(&self, script: &str) -> Value {
        self.post("execute/sync", json!({"script": script, "args": []}))
    }

    /// Runs a script that calls its last argument when it is done.
    pub fn run_async(&self, script: &str) -> Value {
        self.post("execute/async", json!({"script": script, "args": []}))
    }

    pub fn click(&self, css: &str) {
        let element = self.centred(css);
        self.post(&format!("element/{}/click", element[ELEMENT].as_str().unwrap()), json!({}));
    }

    /// Presses and lets go of a key.
    pub fn press(&self, key: char) {
        let actions = ["keyDown", "keyUp"].map(|kind| json!({"type": kind, "value": key}));
        self.act(json!({"type": "key", "id": "keys", "actions": actions}));
    }

    /// Puts the pointer onto an element, so far from its middle.
    pub fn point(&self, css: &str, x: i32, y: i32) {
        let origin = self.centred(css);
        let action = json!({"type": "pointerMove", "duration": 50, "x": x, "y": y, "origin": origin});
        self.act(json!({"type": "pointer", "id": "mouse", "actions": [action]}));
    }

    /// What stands in the browser's console, errors of the page's policy and of loading included.
    pub fn console(&self) -> Vec<Value> {
        self.post("se/log", json!({"type": "browser"})).as_array().unwrap().clone()
    }

    /// An element in the middle of the window: the page's bar stands over what is at the upper edge.
    fn centred(&self, css: &str) -> Value {
        self.run(&format!("document.querySelector('{css}').scrollIntoView({{block: 'center'}})"));
        self.post("element", json!({"using": "css selector", "value": css}))
    }

    fn act(&self, source: Value) {
        self.post("actions", json!({"actions": [source]}));
    }

    fn devtools(&self, command: &str, parameters: Value) {
        self.post("goog/cdp/execute", json!({"cmd": command, "params": parameters}));
    }

    fn post(&self, command: &str, body: Value) -> Value {
        post(&self.agent, &format!("{}/{command}", self.base), &body)
    }
}

/// Sends a command; an error of the driver's is a failure of the test.
fn post(agent: &ureq::Agent, address: &str, body: &Value) -> Value {
    let mut response = agent.post(address).send(body.to_string()).unwrap_or_else(|e| panic!("{address}: {e}"));
    let text = response.body_mut().read_to_string().unwrap();
    let value =
        serde_json::from_str::<Value>(&text).unwrap_or_else(|e| panic!("{address}: {e}: {text}"))["value"].take();
    assert!(response.status().is_success(), "{address}: {}: {}", value["error"], value["message"]);
    value
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

    fn open(&self, address: String) -> Browser {
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
        let agent = self.agent();
        let sessions = format!("http://127.0.0.1:{}/session", self.port);
        let session = post(&agent, &sessions, &json!({"capabilities": {"alwaysMatch": capabilities}}));
        Browser { agent, base: format!("{sessions}/{}", session["sessionId"].as_str().unwrap()), address }
    }

    /// The driver says what is wrong in the body of an answer. It is on this machine, whatever proxy is set.
    fn agent(&self) -> ureq::Agent {
        let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None);
        config.timeout_global(Some(Duration::from_secs(120))).build().into()
    }
}

impl Drop for Driver {
    /// Asked to, the driver ends its browsers too; killed, it would leave them.
    fn drop(&mut self) {
        let _ = self.agent().get(format!("http://127.0.0.1:{}/shutdown", self.port)).call();
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
