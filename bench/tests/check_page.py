#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Drives a page of `lockstep report` in headless Chromium, over DevTools' pipe, and checks it.

    check_page.py BROWSER PAGE.html

Uses only Python's standard library. Prints each check that fails; exit status 1 if one does.
"""

import json
import os
import subprocess
import sys
import tempfile

KEY_TAB = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
KEY_ENTER = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}

CONTRAST = """(() => {
  const parse = c => (c.match(/[\\d.]+/g) || []).map(Number);
  const lum = c => { const v = c.slice(0, 3).map(x => { x /= 255;
      return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4 });
    return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2] };
  const inverted = getComputedStyle(document.documentElement).filter.includes('invert(0.9)'); // a picture's greys
  const seen = c => parse(c).map(v => inverted ? 229.5 - 0.8 * v : v);
  const base = lum(seen(document.body ? getComputedStyle(document.body).backgroundColor : 'rgb(255,255,255)'));
  const bad = [];
  for (const e of document.querySelectorAll('h1,h2,p,td,th,th button,summary,a,figcaption,pre,label,text')) {
    if (!e.textContent.trim() || !e.getClientRects().length) continue;
    const style = getComputedStyle(e);
    const ink = lum(seen(e.closest('svg') ? style.fill : style.color));
    const ratio = (Math.max(ink, base) + 0.05) / (Math.min(ink, base) + 0.05);
    if (ratio < 4.5) bad.push(e.tagName + ' ' + ratio.toFixed(2) + ' ' + e.textContent.slice(0, 30));
  }
  return bad.slice(0, 5);
})()"""

# Texts of a picture that leave it, or overlap.
CROWDED = """(() => {
  const bad = [], all = document.documentElement.getBoundingClientRect();
  const texts = [...document.querySelectorAll('text')].map(e =>
      [e.getBoundingClientRect(), e.textContent.trim()]).filter(t => t[1]);
  texts.forEach(([a, text], i) => {
    if (a.left < all.left || a.right > all.right || a.bottom > all.bottom) bad.push(text + ' is cut');
    for (const [b, other] of texts.slice(i + 1))
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
          Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > a.height / 3) bad.push(text + ' on ' + other);
  });
  return bad.slice(0, 5);
})()"""


class Browser:
    """Chromium and its messages."""

    def __init__(self, program, profile):
        to_read, self.to = os.pipe()
        self.source, from_write = os.pipe()
        command = f'exec "$0" --headless --no-sandbox --disable-gpu --remote-debugging-pipe ' \
                  f'--user-data-dir="$1" about:blank 3<&{to_read} 4>&{from_write}'
        self.process = subprocess.Popen(
            ["bash", "-c", command, program, profile], pass_fds=(to_read, from_write),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(from_write)
        self.number, self.rest, self.events, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def receive(self):
        """The next message."""
        while b"\0" not in self.rest:
            part = os.read(self.source, 65536)
            if not part:
                raise EOFError("the browser has ended")
            self.rest += part
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        """Returns the browser's answer."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            reply = self.receive()
            if reply.get("id") == self.number:
                if "error" in reply:
                    raise RuntimeError(f"{method}: {reply['error']}")
                return reply["result"]
            self.events.append(reply)

    def wait(self, method):
        """Waits for this event."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.receive())

    def value(self, expression):
        """The value of an expression in the page."""
        return self.call("Runtime.evaluate", expression=expression,
                         returnByValue=True)["result"].get("value")

    def press(self, key):
        """Presses and releases a key."""
        self.call("Input.dispatchKeyEvent", type="keyDown", **key)
        self.call("Input.dispatchKeyEvent", type="keyUp",
                  **{name: value for name, value in key.items() if name != "text"})


def names_of(browser):
    """Roles with names, of the accessibility tree."""
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    return [(node.get("role", {}).get("value"), node.get("name", {}).get("value", ""))
            for node in nodes if not node.get("ignored")]


def check(browser, address):
    """The errors found, as texts."""
    wrong = []

    def expect(what, holds, more=""):
        if not holds:
            wrong.append(f"{what} {more}")

    for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
        browser.call(f"{domain}.enable")
    browser.call("Page.addScriptToEvaluateOnNewDocument", source=(
        "window.shift=0;new PerformanceObserver(l=>l.getEntries().forEach(e=>window.shift+=e.value))"
        ".observe({type:'layout-shift',buffered:true})"))
    browser.call("Page.navigate", url=address)
    browser.wait("Page.loadEventFired")
    expect("no layout shift", browser.value("window.shift") in (0, None), browser.value("window.shift"))
    drawn = browser.value("[...document.querySelectorAll('figure img')].every(e => e.complete && e.naturalWidth > 0)")
    expect("pictures are drawn", drawn)
    for dark in ("light", "dark"):
        browser.call("Emulation.setEmulatedMedia",
                     features=[{"name": "prefers-color-scheme", "value": dark}])
        low = browser.value(CONTRAST)
        expect(f"contrast, {dark}", low == [], low)
        for width in (320, 390, 768, 1280, 1920):
            browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900,
                         deviceScaleFactor=1, mobile=False)
            wide = browser.value("document.documentElement.scrollWidth")
            expect(f"no sideways scrolling at {width}, {dark}", wide <= width, wide)
    names = names_of(browser)
    expect("pictures have names", all(name for role, name in names if role in ("image", "img")))
    expect("there are pictures", sum(role in ("image", "img") for role, _ in names) > 3)
    expect("the filter has a name", ("searchbox", "Only rows with") in names)
    expect("heads are buttons", ("button", "step ms") in names)
    cells = ("[...document.querySelectorAll('#t tbody:not([hidden])')]"
             ".map(b => b.rows[0].cells[4].textContent)")
    browser.value("document.getElementById('filter').focus()")
    for _ in range(20): # from the filter to the button of the steps' times
        if browser.value("document.activeElement.textContent") == "step ms":
            break
        browser.press(KEY_TAB)
    browser.press(KEY_ENTER)
    up = [float(text) for text in browser.value(cells)]
    browser.press(KEY_ENTER)
    down = [float(text) for text in browser.value(cells)]
    expect("sorted by the keyboard, up", up == sorted(up), up)
    expect("and down", down == sorted(up, reverse=True), down)
    expect("which it says", browser.value(
        "document.querySelector('[aria-sort]').getAttribute('aria-sort')") == "descending")
    browser.value("document.getElementById('filter').focus()")
    browser.call("Input.insertText", text="mirrored")
    left = browser.value("[...document.querySelectorAll('#t tbody:not([hidden])')]"
                         ".every(b => b.textContent.includes('mirrored'))")
    expect("filtered by the keyboard", left and browser.value(f"{cells}.length") == 2)
    for event in browser.events:
        method, more = event.get("method"), event.get("params", {})
        if method in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
            wrong.append(f"console: {json.dumps(more)[:200]}")
        if method == "Network.requestWillBeSent":
            asked = more["request"]["url"]
            if asked != address and not asked.startswith("data:"):
                wrong.append(f"asked for {asked}")
    return wrong


def check_pictures(browser, folder):
    """The errors found in each SVG there, as texts."""
    wrong = []
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".svg"):
            continue
        browser.events.clear()
        browser.call("Page.navigate", url=f"file://{folder}/{name}")
        browser.wait("Page.loadEventFired")
        for scheme in ("light", "dark"):
            browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            turned = browser.value("getComputedStyle(document.documentElement).filter !== 'none'")
            found = [("contrast", browser.value(CONTRAST)), ("crowded", browser.value(CROWDED)),
                     ("colours", [] if turned == (scheme == "dark") else ["as in the other scheme"])]
            wrong += [f"{name}, {scheme}: {what}: {errors}" for what, errors in found if errors != []]
    return wrong


def main(program, page):
    """Returns the exit status."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            wrong = check(browser, "file://" + os.path.realpath(page))
            wrong += check_pictures(browser, os.path.dirname(os.path.realpath(page)))
        finally:
            browser.process.terminate()
            browser.process.wait()
    for text in wrong:
        print("FAILED:", text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
