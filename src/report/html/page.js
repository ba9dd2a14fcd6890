'use strict';
// Charts of a page. #data holds, compressed, the colours by hue and a drawing for each figure.chart; `forms` knows how each form of
// drawing is drawn: forms.NAME(drawing, tools) returns
//   height(width)        pixels that it wants
//   option(ink, width)   what the library draws
//   count(), show(i)     things that the keyboard walks through, and what is said of each
//   start(chart, redraw, reading), redrawn()  optional: once, what else it listens to; and whenever it was drawn anew
const forms = {};

async function unpacked(id) {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), sign => sign.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return JSON.parse(await new Response(stream).text());
}

/** Colours of the page as it is now; charts have the same. */
function inkOf(theme, palette) {
  const style = getComputedStyle(document.documentElement);
  const get = name => style.getPropertyValue('--' + name).trim();
  return {ink: get('ink'), faint: get('faint'), line: get('line'), paper: get('paper'), bad: get('bad'),
          hues: palette[theme]};
}

/** Three significant digits and a unit, as the answer's text has them. */
function sized(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; Math.abs(bytes) >= 1024 && unit < 4; ++unit) bytes /= 1024;
  if (unit === 0) return bytes + ' B';
  return bytes.toFixed(Math.max(0, 2 - Math.floor(Math.log10(Math.abs(bytes) || 1)))) + ' ' + units[unit];
}

/** Text in an element: nothing that a spec says becomes markup. */
function element(tag, text, parent) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

function tipOf(title, detail) {
  const tip = element('div', '');
  tip.className = 'tip';
  element('strong', title, tip);
  element('div', detail, tip);
  return tip;
}

/** Lines that a legend takes, at the usual width of a letter. */
function legendLines(names, width) {
  let lines = 1, at = 0;
  for (const name of names) {
    const room = name.length * 7 + 40;
    if (at > 0 && at + room > width) { ++lines; at = 0; }
    at += room;
  }
  return lines;
}

function legendOf(names, ink, more) {
  return {left: 0, top: 0, itemWidth: 14, itemHeight: 10, textStyle: {color: ink.ink}, data: names, ...more};
}

function tooltip(ink, formatter) {
  return {confine: true, backgroundColor: ink.paper, borderColor: ink.line, textStyle: {color: ink.ink},
          formatter};
}
