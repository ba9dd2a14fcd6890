#include "report/record/reads_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "memest/report/numbers.hpp"
#include "memest/units/text.hpp"
#include "report/pages/nouns.hpp"

namespace memest {
namespace {

constexpr std::size_t kReadsShown = 5;

/// The reads of one place.
struct ReadPlace {
  std::int64_t count = 0;  ///< of all its values
  const DeviceRead* most = nullptr;
  bool others = false;  ///< whether other sizes or values were read there, too
};

std::vector<ReadPlace> places_read(const std::vector<DeviceRead>& reads) {
  std::vector<ReadPlace> places;
  for (const DeviceRead& read : reads) {
    const auto known = std::ranges::find_if(
        places, [&read](const ReadPlace& place) { return place.most->place == read.place; });
    if (known == places.end()) {
      places.push_back({read.count, &read, false});
      continue;
    }
    known->count += read.count;
    known->others = true;
    if (read.count > known->most->count) known->most = &read;
  }
  std::ranges::stable_sort(places, std::ranges::greater(), &ReadPlace::count);
  return places;
}

std::string place_text(const ReadPlace& place) {
  const DeviceRead& read = *place.most;
  return fmt::format("{} at {} ({} told {}{})",
                     place.count == 1 ? "once" : grouped(place.count) + " times",
                     read.place.empty() ? "a thread without Python" : read.place,
                     sized_text(read.size), read.first, place.others ? ", and other values" : "");
}

}  // namespace

std::string assumptions_text(const std::vector<DeviceRead>& reads) {
  if (reads.empty()) return "";
  const std::vector<ReadPlace> places = places_read(reads);
  std::string text =
      "Nothing was computed. What the program read back from the device was answered as in a "
      "healthy program, else with zero; what depends on such a value is an assumption: ";
  for (std::size_t i = 0; i < std::min(places.size(), kReadsShown); ++i) {
    text += (i == 0 ? "" : "; ") + place_text(places[i]);
  }
  if (places.size() > kReadsShown) {
    text += "; and at " +
            nouns_text(static_cast<std::int64_t>(places.size() - kReadsShown), "other place");
  }
  return text + ".";
}

}  // namespace memest
