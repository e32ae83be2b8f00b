"""Clicks through a page that `quincunx report` wrote: `report.py PAGE [PICTURES]`.

The page is of two machines or more, with data. Ends with 1 and a line for everything that is not as it
should be; pictures go to the folder that is named."""

import os
import re
import sys
import time

from browser import Browser

LOAD = 1000  # milliseconds until a page is loaded and drawn


class Page:
    def __init__(self, path, pictures):
        self.browser, self.path, self.pictures, self.wrong = Browser(), path, pictures, []

    def check(self, holds, what):
        if not holds:
            self.wrong.append(what)

    def run(self, script):
        return self.browser.run(script)

    def text(self, selector):
        return self.run(f"document.querySelector({selector!r}).innerText")

    def picture(self, name, whole=False):
        if self.pictures:
            self.browser.picture(os.path.join(self.pictures, name), whole)

    def wide(self):
        """Pixels by which the page is wider than the screen."""
        return self.run("document.documentElement.scrollWidth - window.innerWidth")


def loads(page):
    best = min(page.browser.open(page.path) for _ in range(3))
    print(f"loaded and drawn in {best:.0f} ms")
    page.check(best < LOAD, f"it takes {best:.0f} ms to load")
    page.check(page.run("document.title").endswith("quincunx"), "the title")
    page.check(page.run("document.querySelectorAll('section').length") >= 3, "sections")


def tabs(page):
    shown = "[...document.querySelectorAll('.panel.open')].map(p => p.id).join()"
    page.check(page.run(shown) == "machine0", "the first machine is shown")
    page.browser.click("#tab1")
    page.check(page.run(shown) == "machine1", "a click on a tab shows its machine")
    page.check(page.run("tab1.getAttribute('aria-selected')") == "true", "aria-selected")
    page.browser.key("ArrowLeft", 37)
    page.check(page.run(shown) == "machine0", "the left arrow chooses the tab before")
    page.check(page.run("document.activeElement.id") == "tab0", "the tab has the focus")


def nodes(page):
    told = "#machine0 .told"
    page.browser.click("#machine0 .node:nth-of-type(2) rect")
    first = page.text(told)
    page.check("on the" in first, f"a click on a node tells who computes it: {first!r}")
    page.browser.key("ArrowDown", 40)
    page.check(page.text(told) != first, "an arrow chooses the next node")
    page.check(page.run("document.querySelectorAll('#machine0 .node[tabindex=\"0\"]').length") >= 1,
               "one node can be reached with the tab key")


def waiting(page, machine):
    """Clicks along the rows of a timeline, until an event is hit that waits for another one."""
    about = f"#machine{machine} .timeline .about"
    left, top, width, height = page.browser.place(f"#machine{machine} .timeline canvas")
    for row in range(int(height // 26) - 1, 0, -1):
        for share in (0.9, 0.75, 0.6, 0.45, 0.3):
            page.browser.click_at(left + width * share, top + 22 + row * 26 - 13)
            if "why it starts then" in page.text(about):
                return True
    return False


def timeline(page):
    machines = page.run("document.querySelectorAll('.panel').length")
    for machine in reversed(range(machines)):
        page.browser.click(f"#tab{machine}")
        if page.run(f"!!document.querySelector('#machine{machine} .timeline')") and waiting(page, machine):
            break
    else:
        page.check(False, "a click on an event tells what it waits for")
        return
    panel = f"#machine{machine}"
    about = f"{panel} .timeline .about"
    page.picture("timeline.png")
    before = page.text(about)
    page.browser.click(f"{about} button")
    page.check(page.text(about) != before, "a click on what it waits for goes there")
    page.check(page.run("document.activeElement.tagName") == "CANVAS", "the timeline has the focus")
    for key, code in (("ArrowRight", 39), ("ArrowLeft", 37), ("Enter", 13), ("+", 187), ("Home", 36)):
        page.browser.key(key, code)
    page.check(page.text(about).strip() != "", "keys keep an event chosen")
    page.browser.key("Escape", 27)
    page.check(page.text(about).strip() == "", "Escape chooses none")
    page.browser.click(f"{panel} .timeline [data-do=in]")
    page.browser.click("#tab0")


def tables(page):
    column = """[...document.querySelectorAll('#machine0 .sortable tr')].slice(1)
        .map(row => row.cells[4].textContent).filter(Boolean).map(Number)"""
    heading = "#machine0 .sortable th:nth-child(5)"
    page.browser.click(f"{heading} button")
    values = page.run(column)
    page.check(values == sorted(values, reverse=True), "a click sorts a table, largest first")
    page.check(page.run(f"document.querySelector('{heading}').ariaSort") == "descending", "aria-sort")
    page.browser.key("Enter", 13, "\r")
    values = page.run(column)
    page.check(values == sorted(values), "another click sorts it the other way round")


def maps(page):
    shown = """[...document.querySelectorAll('.maps.open')]
        .map(m => m.dataset.image + '.' + m.dataset.value).join()"""
    page.check(page.run(shown) == "0.0", "the first value is shown")
    for select, keys, value in (("value", 2, "0.2"), ("image", 1, "1.2")):
        if page.run(f"document.getElementById('{select}').options.length") <= keys:
            continue
        page.run(f"document.getElementById('{select}').focus()")
        for _ in range(keys):
            page.browser.key("ArrowDown", 40)
        page.check(page.run(shown) == value, f"{select}: {page.run(shown)} is shown, not {value}")
    page.check(page.run("[...document.querySelectorAll('.maps.open img')].every(i => "
                        "i.complete && i.naturalWidth > 0)"), "feature maps are pictures")
    page.browser.place("#maps")
    page.picture("maps.png")


def looks(page):
    """Light and dark, wide and narrow, printed."""
    colour = "getComputedStyle(document.body).backgroundColor"
    page.browser.open(page.path)
    page.check(page.run(colour) == "rgb(255, 255, 255)", "light")
    page.picture("light.png", True)
    page.browser.open(page.path, dark=True)
    page.check(page.run(colour) != "rgb(255, 255, 255)", "dark")
    page.picture("dark.png", True)
    for dark in (False, True):
        page.browser.open(page.path, width=390, height=844, dark=dark)
        page.check(page.wide() <= 0, f"it is {page.wide()} pixels wider than a phone")
        page.picture(f"phone{'-dark' * dark}.png", True)
    place = page.pictures or os.path.dirname(os.path.abspath(page.path))
    page.browser.open(page.path, dark=True)
    page.browser.print(os.path.join(place, "print.pdf"))
    with open(os.path.join(place, "print.pdf"), "rb") as file:
        sheets = len(re.findall(rb"/Type\s*/Page\b", file.read()))
    page.check(sheets > 1, "it can be printed")
    print(f"{sheets} sheets when it is printed")


def main():
    pictures = sys.argv[2] if len(sys.argv) > 2 else None
    page = Page(sys.argv[1], pictures)
    started = time.monotonic()
    try:
        for step in (loads, tabs, nodes, timeline, tables, maps):
            step(page)
            page.wrong.extend(f"{step.__name__}: {problem}" for problem in page.browser.problems())
        looks(page)
        page.wrong.extend(page.browser.problems())
    finally:
        page.browser.close()
    print(f"{time.monotonic() - started:.1f} s")
    for what in page.wrong:
        print("wrong:", what)
    sys.exit(1 if page.wrong else 0)


if __name__ == "__main__":
    main()
