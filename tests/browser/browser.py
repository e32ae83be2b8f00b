"""A headless Chromium, driven through its debugging pipe: needs nothing but Python and the browser."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")


def executable():
    """The browser, if there is one: `$QUINCUNX_BROWSER`, or one on the path."""
    return os.environ.get("QUINCUNX_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page in a browser of its own."""

    def __init__(self):
        self.profile = tempfile.mkdtemp(prefix="quincunx-browser-")
        to_browser, self.write = os.pipe()
        self.read, from_browser = os.pipe()
        # The browser reads from 3 and writes to 4.
        start = f"exec 3<&{to_browser} 4>&{from_browser}; exec \"$@\""
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--no-first-run", "--disable-extensions", "--hide-scrollbars",
                 "--remote-debugging-pipe", f"--user-data-dir={self.profile}", "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", start, "bash", executable(), *flags], pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.session, self.buffer, self.events = 0, None, b"", []
        pages = self.call("Target.getTargets")["targetInfos"]
        page = next(info["targetId"] for info in pages if info["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        self.session = None
        try:
            self.call("Browser.close")
        except (OSError, RuntimeError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.write)
        os.close(self.read)
        shutil.rmtree(self.profile, ignore_errors=True)

    def message(self, seconds):
        """The next message; None when there is none for so long."""
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            if not select.select([self.read], [], [], max(end - time.monotonic(), 0))[0]:
                return None
            part = os.read(self.read, 1 << 16)
            if not part:
                raise RuntimeError("the browser ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            request["sessionId"] = self.session
        data = json.dumps(request).encode() + b"\0"
        while data:
            data = data[os.write(self.write, data):]
        while True:
            message = self.message(60)
            if message is None:
                raise RuntimeError(f"{method}: no answer")
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def wait_for(self, method, seconds=30):
        """Waits for an event that has not been seen."""
        end = time.monotonic() + seconds
        while not any(event.get("method") == method for event in self.events):
            message = self.message(max(end - time.monotonic(), 0))
            if message is None:
                raise RuntimeError(f"no {method}")
            self.events.append(message)

    def open(self, path, width=1200, height=900, dark=False, media=""):
        """Opens a file; gives the milliseconds until it is loaded and drawn."""
        self.size(width, height)
        self.look(dark, media)
        self.events.clear()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        self.wait_for("Page.loadEventFired")
        return self.run("""new Promise(done => requestAnimationFrame(() => setTimeout(() =>
            done(performance.now()))))""")

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def look(self, dark=False, media=""):
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def run(self, script):
        """The value of a script, or of its promise."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def place(self, selector):
        """The middle of an element, after it is scrolled into sight."""
        found = self.run(f"""(() => {{
            const element = document.querySelector({json.dumps(selector)});
            if (!element) return null;
            element.scrollIntoView({{ block: "center", behavior: "instant" }});
            const box = element.getBoundingClientRect();
            return [box.left, box.top, box.width, box.height];
        }})()""")
        if not found:
            raise RuntimeError(f"there is no {selector}")
        return found

    def click(self, selector, at=(0.5, 0.5)):
        """A click of the mouse on an element, at a share of its width and height."""
        left, top, width, height = self.place(selector)
        self.click_at(left + width * at[0], top + height * at[1])

    def click_at(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def key(self, name, code=0, text=None):
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name,
                      windowsVirtualKeyCode=code, **more)

    def problems(self):
        """Errors of scripts, messages of the console, and everything that was fetched."""
        self.run("0")
        found = []
        for event in self.events:
            method, given = event.get("method"), event.get("params", {})
            if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                found.append(json.dumps(given)[:300])
            if method == "Network.requestWillBeSent":
                url = given["request"]["url"]
                if not url.startswith(("file:", "data:")) or "favicon" in url:
                    found.append(url[:300])
        return found

    def picture(self, path, whole=True):
        """A picture of the page, or of what is in sight."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        with open(path, "wb") as file:
            file.write(base64.b64decode(data["data"]))

    def print(self, path):
        """The page as it is printed, as PDF."""
        data = self.call("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)
        with open(path, "wb") as file:
            file.write(base64.b64decode(data["data"]))
