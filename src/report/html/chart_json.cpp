#include "report/html/chart_json.hpp"

#include <string_view>
#include <variant>

#include "memest/diag/expect.hpp"
#include "report/html/palette.hpp"

namespace memest {
namespace {

std::string_view name_of(AxisScale scale) {
  switch (scale) {
    case AxisScale::linear:
      return "linear";
    case AxisScale::logarithmic:
      return "logarithmic";
    case AxisScale::symmetric:
      return "symmetric";
  }
  unreachable("a scale beyond the enum");
}

Json axis_json(const ChartAxis& axis) {
  Json json{{"title", axis.title},   {"scale", name_of(axis.scale)},
            {"least", axis.least},   {"low", axis.low},
            {"high", axis.high},     {"lanes", axis.lanes},
            {"ticks", Json::array()}};
  for (const AxisTick& tick : axis.ticks) json["ticks"].push_back({tick.at, tick.text});
  return json;
}

Json series_json(const ChartSeries& series) {
  Json json{{"name", series.name},     {"hue", series.hue},           {"hollow", series.hollow},
            {"joined", series.joined}, {"labelled", series.labelled}, {"marks", Json::array()}};
  for (const ChartMark& mark : series.marks) {
    json["marks"].push_back({mark.x, mark.y, mark.share, mark.name, mark.detail});
  }
  return json;
}

Json form_json(const MarkChart& chart) {
  Json json{{"form", "marks"},
            {"x", axis_json(chart.x)},
            {"y", axis_json(chart.y)},
            {"series", Json::array()},
            {"lines", Json::array()}};
  for (const ChartSeries& series : chart.series) json["series"].push_back(series_json(series));
  for (const ChartLine& line : chart.lines) {
    json["lines"].push_back(
        {{"name", line.name}, {"points", line.points}, {"name_at", line.name_at}});
  }
  return json;
}

Json area_json(const ChartArea& area) {
  Json json{{"name", area.name}, {"text", area.text}, {"number", area.number}, {"hue", area.hue}};
  for (const ChartArea& part : area.parts) json["parts"].push_back(area_json(part));
  return json;
}

Json form_json(const AreaChart& chart) {
  Json json{{"form", "areas"}, {"areas", Json::array()}};
  for (const ChartArea& area : chart.areas) json["areas"].push_back(area_json(area));
  return json;
}

Json form_json(const CourseChart& chart) {
  Json json{{"form", "course"},           {"kinds", Json::array()},    {"events", chart.events},
            {"reserved", chart.reserved}, {"bytes", chart.bytes},      {"kind", chart.kind},
            {"name", chart.name},         {"names", chart.names},      {"stretches", Json::array()},
            {"peak", chart.peak},         {"capacity", chart.capacity}};
  for (const CourseChart::Kind& kind : chart.kinds) {
    json["kinds"].push_back({{"name", kind.name}, {"hue", kind.hue}});
  }
  for (const CourseChart::Stretch& stretch : chart.stretches) {
    json["stretches"].push_back({stretch.group, stretch.name, stretch.begin, stretch.end});
  }
  if (chart.failure) {
    json["failure"] = {{"sentence", chart.failure->sentence}, {"bytes", chart.failure->bytes}};
  }
  return json;
}

}  // namespace

Json json_of(const Drawing& drawing) {
  return std::visit([](const auto& chart) { return form_json(chart); }, drawing);
}

Json palette_json() {
  Json json{{"light", Json::array()}, {"dark", Json::array()}};
  for (const HueColors& colors : kPalette) {
    json["light"].push_back(colors.light);
    json["dark"].push_back(colors.dark);
  }
  return json;
}

}  // namespace memest
