#!/usr/bin/env python3
"""pages_test.py MEMEST [--screenshots FOLDER] [--pictures FOLDER] [--only NAME]: every page of the program in a real browser: no request, no
message of the console, no chart without its marks, no text over another or cut off, a name for who hears it, keys that walk,
light and dark, wide and narrow, and paper."""
import argparse
import base64
import itertools
import pathlib
import subprocess
import sys
import tempfile

import browser

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_BYTES = 2_000_000
SKIPPED = 77

# A name, the command line, and how many charts its page has.
PAGES = (
    ("plan", "plan llama-3-8b --gpus 8", 1),
    ("estimate", "estimate gpt2 --gpu rtx-4090 --set training.micro_batch=8", 2),
    ("estimate-over", "estimate llama-3-8b --gpu h100-sxm-80gb", 2),
    ("timeline", "timeline gpt2", 1),
    ("timeline-oom", "timeline gpt2 --set training.micro_batch=16 --set training.global_batch=16 --set hardware.memory=18GiB", 1),
    ("timeline-micro-steps", "timeline llama-3-8b --gpus 8 --gpu h200-sxm-141gb --set training.global_batch=128 "
     "--set training.micro_batch=1", 1),
    ("roofline", "roofline gpt2 --gpu a100-sxm-80gb", 1),
    ("roofline-mixture", "roofline mixtral-8x7b --gpu h100-sxm-80gb --gpus 8", 1),
    ("check", "check tests/browser/within.yaml tests/browser/over.yaml", 1),
    ("diff", "diff gpt2 gpt2-medium --gpu rtx-4090", 1),
    ("fit", "fit gpt2 --memory 6GiB", 1),
    ("validate", "validate tests/truth/nanogpt.records.jsonl.gz tests/truth/torchtitan.records.jsonl.gz", 1),
)
PICTURES = {"plan", "estimate", "timeline", "roofline"}  # of docs/pages.md: the first chart of each
SIZES = (("wide", 1280, 900), ("narrow", 420, 900))

# Every text of a drawing as it stands: [text, left, top, right, bottom].
TEXTS = """[...document.querySelectorAll('.drawing svg')].flatMap((svg, i) => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(text => text.textContent.trim()).map(text => {
    const box = text.getBoundingClientRect();
    return [i, text.textContent, box.left - frame.left, box.top - frame.top, box.right - frame.left, box.bottom - frame.top,
            frame.width, frame.height];
  });
})"""


def messages_of(events):
    """What the console says, and what the page asks for beside itself."""
    for event in events:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                yield "exception: " + params["exceptionDetails"].get("exception", {}).get("description", "?")
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                yield "console: " + " ".join(str(a.get("value", a.get("description"))) for a in params["args"])
            case "Log.entryAdded":
                yield "log: " + params["entry"]["text"]
            case "Network.requestWillBeSent" if params["request"]["url"] != params["documentURL"]:
                yield "request: " + params["request"]["url"][:100]


def faults_of_texts(texts):
    """Texts that cover each other by more than a pixel or two, or leave their drawing."""
    slack = 2.5
    for i, text, left, top, right, bottom, width, height in texts:
        if left < -slack or top < -slack or right > width + slack or bottom > height + slack:
            yield f"drawing {i}: '{text}' is cut off"
    for a, b in itertools.combinations(texts, 2):
        over = min(a[4], b[4]) - max(a[2], b[2]), min(a[5], b[5]) - max(a[3], b[3])
        if a[0] == b[0] and min(over) > slack:
            yield f"drawing {a[0]}: '{a[1]}' covers '{b[1]}'"


def faults_of_charts(page, charts, has_library):
    drawn = page.ask("[...document.querySelectorAll('figure.chart .drawing')]"
                     ".map(box => box.querySelectorAll('svg path, svg circle').length)")
    if has_library and len(drawn) != charts:
        yield f"{len(drawn)} charts instead of {charts}"
    for i, shapes in enumerate(drawn):
        if shapes < 4:
            yield f"chart {i} is empty"
    names = {node["name"]["value"] for node in page.send("Accessibility.getFullAXTree")["nodes"]
             if node.get("role", {}).get("value") in ("image", "img", "graphics-document")}
    for label in page.ask("[...document.querySelectorAll('.drawing')].map(box => box.getAttribute('aria-label'))"):
        if label not in names:
            yield f"nobody hears '{label}'"


def faults_of_keys(page):
    """Arrow keys say one thing after another, in every chart."""
    for i in range(page.ask("document.querySelectorAll('.drawing').length")):
        said = []
        page.ask(f"document.querySelectorAll('.drawing')[{i}].focus()")
        for key in ("Home", "ArrowRight", "ArrowRight", "ArrowLeft"):
            page.press(key)
            said.append(page.ask(f"document.querySelectorAll('.reading')[{i}].textContent"))
        if "" in said or said[0] == said[1] and said[1] == said[2]:
            yield f"chart {i}: keys say {said}"


def faults_of_pointer(page):
    """The pointer over the stack names the tensor under it."""
    left, top, width, height = page.ask("""(() => {
      const box = document.querySelector('.drawing');
      box.scrollIntoView();
      const frame = box.getBoundingClientRect();
      return [frame.left, frame.top, frame.width, frame.height];
    })()""")
    page.move(left + 0.6 * width, top + 0.78 * height - 30)
    said = page.ask("document.querySelector('.reading').textContent")
    if not said.startswith("Under the cursor: "):
        yield f"the pointer says '{said}'"


def faults_of_policy(page):
    """The browser itself refuses what would be a request."""
    refused = page.ask("""new Promise(done => {
      addEventListener('securitypolicyviolation', event => done(event.effectiveDirective));
      const image = new Image();
      image.onload = () => done('nothing');
      image.src = 'http://127.0.0.1:9/image.png';
    })""")
    if refused != "img-src":
        yield f"a request is refused by {refused}"


class Visit:
    """One page in every look."""

    def __init__(self, page, name, charts, arguments):
        self.page, self.name, self.charts = page, name, charts
        self.folder = arguments.screenshots
        self.pictures = arguments.pictures if name in PICTURES else None

    def keep_pictures(self, size, theme):
        if self.folder:
            picture = self.folder / f"{self.name}-{size}-{theme}.png"
            picture.write_bytes(base64.b64decode(self.page.screenshot()))
        if self.pictures and (size, theme) == ("wide", "light"):
            chart = self.page.ask("(box => ({x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height, scale: 0.8}))"
                                  "(document.querySelector('.drawing').getBoundingClientRect())")
            picture = self.pictures / f"{self.name}.webp"
            picture.write_bytes(base64.b64decode(self.page.screenshot(clip=chart, format="webp", quality=55)))

    def faults(self, path):
        self.page.open(path.as_uri())
        has_library = self.page.ask("typeof echarts !== 'undefined'")
        for (size, width, height), theme in itertools.product(SIZES, ("light", "dark")):
            self.page.show(width, height, theme)
            look = f"{size}, {theme}"
            yield from (f"{look}: {fault}" for fault in faults_of_texts(self.page.ask(TEXTS)))
            if self.page.ask("document.documentElement.scrollWidth") > width:
                yield f"{look}: the page is wider than the window"
            if self.page.ask("document.documentElement.dataset.theme") != theme:
                yield f"{look}: the theme does not follow"
            self.keep_pictures(size, theme)
        yield from faults_of_charts(self.page, self.charts, has_library)
        if has_library:
            yield from faults_of_keys(self.page)
            if self.name.startswith("timeline"):
                yield from faults_of_pointer(self.page)
        self.page.send("Page.printToPDF")
        yield from messages_of(self.page.events)
        yield from faults_of_policy(self.page)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("memest")
    parser.add_argument("--screenshots", type=pathlib.Path)
    parser.add_argument("--pictures", type=pathlib.Path)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    program = browser.find()
    if program is None:
        print("skipped: there is no Chromium here to show pages in")
        return SKIPPED
    for written in filter(None, (arguments.screenshots, arguments.pictures)):
        written.mkdir(parents=True, exist_ok=True)
    faults = 0
    with tempfile.TemporaryDirectory() as folder, browser.Browser(program) as page:
        for name, words, charts in PAGES:
            if arguments.only not in ("", name):
                continue
            path = pathlib.Path(folder) / f"{name}.html"
            ran = subprocess.run([arguments.memest, *words.split(), "--format", "html", "--output", path], cwd=ROOT,
                                 stderr=subprocess.PIPE, text=True, check=False)
            found = [f"exit code {ran.returncode}: {ran.stderr}"] if ran.returncode > 1 else []
            if path.exists():
                size = path.stat().st_size
                found += [f"{size} bytes"] if size > MOST_BYTES else []
                found += Visit(page, name, charts, arguments).faults(path)
                print(f"{name}: {size:,} bytes, {len(found)} faults")
            for fault in found:
                print(f"  {name}: {fault}")
            faults += len(found)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
