// Numbers as people read them: three significant digits and always a unit. Exact bytes are grouped
// digits (units/text.hpp has those).
#pragma once

#include <cstdint>
#include <string>

#include "memest/units/quantity.hpp"

namespace memest {

std::string gib_text(Bytes bytes);           ///< "66.0": the number of GiB alone, for a column
std::string sized_text(Bytes bytes);         ///< "66.0 GiB", "512 B"
std::string flops_text(Flops flops);         ///< "4.12 PFLOP"
std::string rate_text(FlopsPerSecond rate);  ///< "989 TFLOP/s"
std::string rate_text(BytesPerSecond rate);  ///< "3.35 TB/s"
std::string seconds_text(Seconds time);      ///< "9.98 s", "812 ms", "1,240 s"
std::string dollars_text(Dollars amount);    ///< "15.6 USD"
std::string count_text(double count);        ///< "8.03 B", "445 k", "512"
std::string percent_text(double fraction);   ///< "43 %"
std::string significant_text(double value, int digits = 3);  ///< "9.98", "1,240", "0.0123"

/// Digits that read back as the same number, for machines: "0.1", "1e+30".
std::string exact_text(double value);

}  // namespace memest
