#include "memest/spec/recorded/recorded_work.hpp"

#include "memest/diag/expect.hpp"

namespace memest {

std::int64_t RecordedTensor::elements() const {
  std::int64_t elements = count;
  for (const std::int64_t size : shape) elements = checked_multiply(elements, size);
  return elements;
}

Bytes RecordedTensor::bytes() const {
  return Bytes(checked_multiply(checked_multiply(count, stored), element_bytes));
}

const std::vector<RecordedTensor>& RecordedOperator::tensors(std::size_t argument) const {
  static const std::vector<RecordedTensor> none;
  if (argument >= arguments.size()) return none;
  const auto* const found = std::get_if<std::vector<RecordedTensor>>(&arguments[argument]);
  return found == nullptr ? none : *found;
}

double RecordedOperator::number(std::size_t argument) const {
  if (argument >= arguments.size()) return 0;
  const auto* const found = std::get_if<double>(&arguments[argument]);
  return found == nullptr ? 0 : *found;
}

std::string_view name_of(RecordedMessageKind kind) {
  switch (kind) {
    case RecordedMessageKind::all_reduce:
      return "all_reduce";
    case RecordedMessageKind::all_gather:
      return "all_gather";
    case RecordedMessageKind::reduce_scatter:
      return "reduce_scatter";
    case RecordedMessageKind::broadcast:
      return "broadcast";
    case RecordedMessageKind::reduce:
      return "reduce";
    case RecordedMessageKind::send:
      return "send";
    case RecordedMessageKind::recv:
      return "recv";
  }
  unreachable("every kind of message has a name");
}

std::string_view name_of(CopyPath path) {
  switch (path) {
    case CopyPath::d2d:
      return "d2d";
    case CopyPath::h2d:
      return "h2d";
    case CopyPath::d2h:
      return "d2h";
    case CopyPath::h2d_pageable:
      return "h2d_pageable";
    case CopyPath::d2h_pageable:
      return "d2h_pageable";
    case CopyPath::h2h:
      return "h2h";
    case CopyPath::set:
      return "set";
  }
  unreachable("every path has a name");
}

}  // namespace memest
