"""A headless Chromium, spoken to over two pipes by its DevTools protocol (a JSON message, ended by a zero byte)."""
import json
import os
import shutil
import subprocess
import tempfile

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find():
    """The path of a Chromium, None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """Use as a context; `events` grows with whatever the page reports."""

    def __init__(self, program):
        self.program = program
        self.events = []
        self.number = 0
        self.unread = b""
        self.session = None

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self.out = os.pipe()
        self.inbox, theirs_out = os.pipe()

        def hand_over():  # the protocol's pipes are descriptors 3 and 4 of the browser
            ends = [os.dup(theirs_in), os.dup(theirs_out)]
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen(
            [self.program, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={self.folder.name}", "about:blank"],
            close_fds=False, preexec_fn=hand_over, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        pages = [t for t in self.send("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        self.session = self.send("Target.attachToTarget", targetId=pages[0]["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.send(domain + ".enable")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        os.close(self.inbox)
        os.close(self.out)
        self.folder.cleanup()

    def receive(self):
        while b"\0" not in self.unread:
            read = os.read(self.inbox, 1 << 16)
            if not read:
                raise RuntimeError("the browser has gone away")
            self.unread += read
        message, _, self.unread = self.unread.partition(b"\0")
        return json.loads(message)

    def send(self, method, **params):
        """The answer to a message; what the page reports meanwhile is kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, event):
        while not any(one.get("method") == event for one in self.events):
            self.events.append(self.receive())

    def open(self, url):
        self.events.clear()
        self.send("Page.navigate", url=url)
        self.wait_for("Page.loadEventFired")
        self.ask("started")

    def ask(self, expression):
        """The value of an expression in the page; a mistake in it is an error here."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", "an exception"))
        return answer["result"].get("value")

    def show(self, width, height, theme):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key)

    def move(self, x, y):
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, **how):
        """The whole page, or a clip of it, in base64; PNG unless `how` says otherwise."""
        return self.send("Page.captureScreenshot", **{"format": "png", "captureBeyondViewport": True, **how})["data"]
