#include "report/record/places_table.hpp"

#include <cstdint>

#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/pages/nouns.hpp"

namespace memest {

std::string asking_text(const std::string& place) {
  return place.empty() ? "autograd's own thread" : place;
}

Table places_table(const std::vector<PlaceUse>& places) {
  Table table{{{"asked for at"}, {"allocations", Align::right}, {"bytes", Align::right}}, {}};
  constexpr std::size_t kPlacesShown = 12;
  Bytes rest;
  std::int64_t left = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const PlaceUse& use = places[i];
    if (i < kPlacesShown) {
      table.rows.push_back(
          {{asking_text(use.place), grouped(use.allocations), sized_text(use.bytes)}, "", {}});
    } else {
      rest += use.bytes;
      left += use.allocations;
    }
  }
  if (left > 0) {
    const auto more = static_cast<std::int64_t>(places.size() - kPlacesShown);
    table.rows.push_back(
        {{nouns_text(more, "other place"), grouped(left), sized_text(rest)}, "", Tone::faint});
  }
  return table;
}

}  // namespace memest
