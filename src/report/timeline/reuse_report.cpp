#include "report/timeline/reuse_report.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "memest/diag/expect.hpp"
#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"

namespace memest {
namespace {

std::string sentence_of(const InPlaceRow& row) {
  switch (row.verdict) {
    case InPlace::may:
      return "may";
    case InPlace::already:
      return "does";
    case InPlace::raises:
      return fmt::format("does, and the backward raises: {} has kept its input", row.other);
    case InPlace::keeps_input:
      return "no: its own backward reads its input";
    case InPlace::kept:
      return fmt::format("no: {} has kept its input", row.other);
    case InPlace::read_later:
      return fmt::format("no: {} reads its input later", row.other);
    case InPlace::not_its_own:
      return "no: a parameter, the pass's input or an answer";
    case InPlace::checkpoint:
      return "no: a checkpoint begins with its input";
    case InPlace::other_size:
      return "no: its result has another size or type";
    case InPlace::wider_noise:
      return "no: in place its noise takes more than a mask";
  }
  unreachable("every verdict has a sentence");
}

Table in_place_table(const TimelineRun& run) {
  Table table{{{"operation"},
               {"times", Align::right},
               {"its result", Align::right},
               {.title = "may write into its input", .fold = Fold::cut}},
              {}};
  const Graph& graph = run.memory.graph;
  for (const InPlaceRow& row : run.reuse->rows) {
    if (row.verdict == InPlace::already) continue;  // counted below
    const Block& block = graph.blocks[row.block];
    const bool may = row.verdict == InPlace::may;
    table.rows.push_back({{fmt::format("{} {}", block.name, block.ops[row.op].name),
                           grouped(row.times), sized_text(Bytes(row.bytes)), sentence_of(row)},
                          may ? "▸" : "",
                          row.verdict == InPlace::raises ? Tone::bad : Tone::plain});
  }
  return table;
}

std::string in_place_sentence(const TimelineRun& run) {
  std::int64_t could = 0;
  std::int64_t does = 0;
  Bytes bytes;
  for (const InPlaceRow& row : run.reuse->rows) {
    if (row.verdict == InPlace::already) does += row.times;
    if (row.verdict != InPlace::may) continue;
    could += row.times;
    bytes += Bytes(row.bytes) * row.times;
  }
  std::string text;
  if (does > 0) text = fmt::format("{} write into their input as they are. ", grouped(does));
  if (could == 0) return text + "No other operation could.";
  return text + fmt::format(
                    "In place {} {} would ask for {} less in a forward; what the backward keeps "
                    "stays the same.",
                    grouped(could), could == 1 ? "operation" : "operations", sized_text(bytes));
}

Table buffers_table(const ForwardBuffers& buffers) {
  Table table{{{"one forward with nothing kept, beside the parameters"},
               {"bytes", Align::right},
               {"in place", Align::right}},
              {}};
  const auto add = [&](const char* name, std::int64_t BufferHeights::*height) {
    table.rows.push_back({{name, sized_text(Bytes(buffers.as_they_are.*height)),
                           sized_text(Bytes(buffers.in_place.*height))},
                          "",
                          Tone::plain});
  };
  add("a buffer for each result", &BufferHeights::apart);
  add("MXNet's plan: shared by reference count", &BufferHeights::counted);
  add("one arena, with offsets", &BufferHeights::packed);
  add("alive at once, which no plan is below", &BufferHeights::bound);
  add("PyTorch's caching allocator, for the same lives", &BufferHeights::cached);
  return table;
}

Json heights_json(const BufferHeights& heights) {
  return {{"buffers", heights.buffers},       {"apart_bytes", heights.apart},
          {"counted_bytes", heights.counted}, {"packed_bytes", heights.packed},
          {"bound_bytes", heights.bound},     {"cached_bytes", heights.cached}};
}

}  // namespace

void append_reuse(const TimelineRun& run, Page& page) {
  if (run.reuse == nullptr) return;
  Table operations = in_place_table(run);
  if (!operations.rows.empty()) page.parts.emplace_back(std::move(operations));
  if (!run.reuse->rows.empty()) page.parts.emplace_back(Paragraph{in_place_sentence(run)});
  page.parts.emplace_back(buffers_table(run.reuse->buffers));
}

Json in_place_json(const TimelineRun& run) {
  Json rows = Json::array();
  const Graph& graph = run.memory.graph;
  for (const InPlaceRow& row : run.reuse->rows) {
    const Block& block = graph.blocks[row.block];
    rows.push_back({{"block", block.name},
                    {"op", block.ops[row.op].name},
                    {"kind", name_of(block.ops[row.op].kind)},
                    {"times", row.times},
                    {"verdict", name_of(row.verdict)},
                    {"by", row.other},
                    {"bytes", row.bytes}});
  }
  return rows;
}

Json forward_buffers_json(const ForwardBuffers& buffers) {
  return {{"as_they_are", heights_json(buffers.as_they_are)},
          {"in_place", heights_json(buffers.in_place)}};
}

}  // namespace memest
