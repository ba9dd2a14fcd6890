// The timeline as a page to explore: the curve, and what is alive at the event under the pointer.
// It needs no network.
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>

#include "memest/report/timeline_files.hpp"
#include "report/pages/json.hpp"
#include "report/pages/modelled.hpp"
#include "report/pages/replaced.hpp"
#include "report/pages/title.hpp"

namespace memest {
namespace {

// The page counts itself: alive blocks add up to what is allocated, as in PeakMoment.
constexpr std::string_view kHead = R"html(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>memest timeline</title><style>
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5em; color: #222; background: #fff; }
h1 { font-size: 1.2em; margin: 0; } p { margin: .3em 0; color: #555; }
canvas { width: 100%; height: 24em; display: block; margin: 1em 0; cursor: crosshair; }
#below { display: flex; flex-wrap: wrap; gap: 3em; align-items: flex-start; }
table { border-collapse: collapse; }
td { padding: .1em 1em .1em 0; } td + td { text-align: right; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: bold; padding-bottom: .3em; }
i { padding-left: 1em; margin-right: .5em; }
</style></head><body>
)html";

constexpr std::string_view kBody = R"html(
<p>Shown is the peak. A click lets the pointer choose the event, the next one holds it there; the
wheel zooms, a double click shows all. Across go the events, not the time.</p>
<canvas></canvas><p id="moment"></p>
<div id="below"><table id="holdings"></table><table id="tensors"></table></div>
<script>
const data = )html";

// Okabe and Ito's colours, which people of every colour vision tell apart.
constexpr std::string_view kScript = R"html(;
const colors = ['#0072B2', '#56B4E9', '#D55E00', '#E69F00', '#000000', '#009E73', '#CC79A7',
                '#F0E442', '#999999', '#666666'];
const count = data.events.length, shown = 20;
const allocated = new Float64Array(count), reserved = new Float64Array(count);
let sum = 0, next = 0;
for (let i = 0; i < count; ++i) {
  const e = data.events[i];
  sum += e < 0 ? -data.bytes[-e - 1] : data.bytes[e];
  allocated[i] = sum;
  while (next < data.reserved.length && data.reserved[next][0] <= i) ++next;
  reserved[i] = next > 0 ? data.reserved[next - 1][1] : 0;
}
const top_ = reserved.reduce((a, b) => Math.max(a, b), 1);
let first = 0, last = count, held = data.peak, pinned = true;
const canvas = document.querySelector('canvas'), pen = canvas.getContext('2d');
const get = id => document.getElementById(id);

function sized(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  for (; bytes >= 1024 && unit < 4; ++unit) bytes /= 1024;
  return (unit ? bytes.toPrecision(4) : bytes) + ' ' + units[unit];
}
const spanAt = event => data.spans.find(s => s[3] <= event && event < s[4]);
const nameOf = span => span ? (span[0] ? 'step ' + span[0] + ', ' : '') +
  (span[1] ? 'micro-step ' + span[1] + ', ' : '') + span[2] : 'between two phases';

function draw() {
  const ratio = devicePixelRatio || 1;
  const width = canvas.width = canvas.clientWidth * ratio;
  const height = canvas.height = canvas.clientHeight * ratio;
  const foot = 22 * ratio, y = bytes => (height - foot) * (1 - bytes / top_ * 0.95);
  const x = event => (event - first) / (last - first) * width;
  pen.font = 12 * ratio + 'px system-ui, sans-serif';
  for (const [series, color] of [[reserved, '#e4e4e4'], [allocated, '#7fb8dd']]) {
    pen.fillStyle = color;
    for (let pixel = 0; pixel < width; ++pixel) {
      const begin = Math.floor(first + pixel * (last - first) / width);
      const end = Math.max(begin + 1, Math.floor(first + (pixel + 1) * (last - first) / width));
      let most = 0;
      for (let i = begin; i < Math.min(end, count); ++i) most = Math.max(most, series[i]);
      pen.fillRect(pixel, y(most), 1, height - foot - y(most));
    }
  }
  pen.fillStyle = '#555';
  for (const span of data.spans) {
    const begin = Math.max(x(span[3]), 0), room = Math.min(x(span[4]), width) - begin;
    if (room < 2) continue;
    pen.fillRect(begin, 0, 1, height);
    const name = [nameOf(span), span[2]].find(text => pen.measureText(text).width + 8 < room);
    if (name) pen.fillText(name, begin + 4 * ratio, height - 7 * ratio);
  }
  pen.fillText(sized(top_) + ' reserved', 4 * ratio, y(top_) - 4);
  pen.fillStyle = '#D55E00';
  pen.fillRect(x(held), 0, ratio, height - foot);
}

function fill(table, caption, rows) {
  table.replaceChildren();
  table.createCaption().textContent = caption;
  for (const [name, bytes, color] of rows) {
    const row = table.insertRow(), cell = row.insertCell();
    const mark = document.createElement('i');
    mark.style.background = color;
    cell.append(mark, name);
    row.insertCell().textContent = sized(bytes);
  }
}

function show(event) {
  held = event;
  const alive = new Set();
  for (let i = 0; i <= event; ++i) {
    const e = data.events[i];
    if (e < 0) alive.delete(-e - 1); else alive.add(e);
  }
  const sums = data.holdings.map(() => 0);
  for (const id of alive) sums[data.holding[id]] += data.bytes[id];
  fill(get('holdings'), 'Alive', sums.map((bytes, i) => [data.holdings[i], bytes, colors[i]])
    .filter(row => row[1] > 0));
  const largest = [...alive].sort((a, b) => data.bytes[b] - data.bytes[a] || a - b);
  fill(get('tensors'), 'The largest of ' + alive.size + ' tensors', largest.slice(0, shown)
    .map(id => [data.names[data.name[id]], data.bytes[id], colors[data.holding[id]]]));
  const e = data.events[event], id = e < 0 ? -e - 1 : e;
  get('moment').textContent = 'Event ' + event + (event === data.peak ? ', the peak' : '') + ': ' +
    nameOf(spanAt(event)) + '. ' + (e < 0 ? 'Frees ' : 'Allocates ') + sized(data.bytes[id]) +
    ': ' + data.names[data.name[id]] + '. ' + sized(allocated[event]) + ' allocated, ' +
    sized(reserved[event]) + ' reserved.';
  draw();
}

const eventAt = e => Math.max(0, Math.min(count - 1,
  Math.floor(first + e.offsetX / canvas.clientWidth * (last - first))));
canvas.onmousemove = e => { if (!pinned) show(eventAt(e)); };
canvas.onclick = e => { pinned = !pinned; show(eventAt(e)); };
canvas.ondblclick = () => { first = 0; last = count; draw(); };
canvas.onwheel = e => {
  e.preventDefault();
  const at = first + e.offsetX / canvas.clientWidth * (last - first);
  const factor = e.deltaY < 0 ? 0.8 : 1.25;
  first = Math.max(0, at - (at - first) * factor);
  last = Math.min(count, Math.max(first + 20, at + (last - at) * factor));
  draw();
};
onresize = draw;
if (count > 0) show(held);
</script></body></html>
)html";

/// Names by number: a timeline repeats few of them often.
class Names {
 public:
  std::size_t number_of(const std::string& name) {
    const auto [entry, is_new] = numbers_.try_emplace(name, numbers_.size());
    if (is_new) list_.push_back(name);
    return entry->second;
  }
  Json take() { return std::move(list_); }

 private:
  std::unordered_map<std::string, std::size_t> numbers_;
  Json list_ = Json::array();
};

/// How many storages the first `events` make: they are numbered as they come.
StorageId storages_until(const Timeline& timeline, std::size_t events) {
  StorageId count = 0;
  for (std::size_t i = 0; i < events; ++i) {
    if (timeline.events[i].kind == EventKind::allocate) count = timeline.events[i].storage + 1;
  }
  return count;
}

/// The data that the page's script reads. A run that ends out of memory ends there. An event is
/// its storage, or for a free -1 - storage.
Json page_data(const TimelineRun& run) {
  const Timeline& timeline = run.memory.timeline;
  Json json{{"peak", run.memory.replay.peak.event}};
  for (const char* list : {"events", "reserved", "bytes", "holding", "name", "holdings", "spans"}) {
    json[list] = Json::array();
  }
  Bytes reserved(-1);
  for (std::size_t i = 0; i < run.course.points.size(); ++i) {
    const Event event = timeline.events[i];
    const auto storage = static_cast<std::int64_t>(event.storage);
    json["events"].push_back(event.kind == EventKind::allocate ? storage : -1 - storage);
    const Bytes now = run.course.points[i].reserved;
    if (now != reserved) json["reserved"].push_back({i, now.value()});
    reserved = now;
  }
  Names names;
  for (StorageId id = 0; id < storages_until(timeline, run.course.points.size()); ++id) {
    json["bytes"].push_back(run.memory.replay.blocks[id].value());
    json["holding"].push_back(static_cast<int>(timeline.storages[id].label.holding));
    json["name"].push_back(names.number_of(moment_name(run.memory, id)));
  }
  json["names"] = names.take();
  for (std::size_t i = 0; i < kHoldings; ++i) {
    json["holdings"].push_back(name_of(static_cast<Holding>(i)));
  }
  for (const Span& span : timeline.spans) {
    if (span.begin >= run.course.points.size()) break;
    json["spans"].push_back(
        {span.step, span.micro_step, name_of(span.phase), span.begin, span.end});
  }
  return json;
}

}  // namespace

std::string timeline_page(const TimelineRun& run) {
  // No name can end the script that it stands in.
  constexpr std::array kInScript = {Replacement{'<', "\\u003c"}};
  std::string out(kHead);
  out += "<h1>" + xml(title_of(run.job, count_parameters(run.job.model).total)) + "</h1>\n";
  out += "<p>" + xml(setting_of(run.job)) + ". Modelled: eager " +
         modelled_programs(run.job, " with ") + ".</p>";
  out += kBody;
  out += replaced(printed(page_data(run)), kInScript);
  out += kScript;
  return out;
}

}  // namespace memest
