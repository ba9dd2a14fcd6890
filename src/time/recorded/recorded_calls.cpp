#include "time/recorded/recorded_calls.hpp"

#include <algorithm>
#include <utility>

#include "time/recorded/contractions.hpp"
#include "time/recorded/operator_traffic.hpp"

namespace memest {
namespace {

/// The call that an operator's kernels are together, its products apart.
RecordedCall call_of(const RecordedOperator& op, std::int64_t kernels, bool has_products) {
  RecordedCall call;
  call.kernels = kernels;
  const auto become = [&](WorkClass kind, std::optional<Contraction> contraction) {
    if (!contraction) return false;
    call.kind = kind;
    call.shape = std::move(contraction->shape);
    call.flops = contraction->flops;
    call.bytes = traffic_of(op);
    return true;
  };
  if (become(WorkClass::attention, attention_of(op))) return call;
  if (become(WorkClass::convolution, convolution_of(op))) return call;
  if (become(WorkClass::product, grouped_product_of(op))) return call;
  // Beside a product the kernels of its operator are those that add up its parts.
  if (has_products) return call;
  const StreamShape stream = stream_of(op);
  if (stream.bytes == 0) return call;
  call.kind = WorkClass::memory;
  call.shape = stream;
  call.bytes = Bytes(stream.bytes);
  return call;
}

RecordedCall call_of(const RecordedProduct& product) {
  const MatmulShape shape = product_shape(product);
  const auto side = [](DType type, std::int64_t rows, std::int64_t columns) {
    const std::int64_t bytes = type == DType::fp4 ? 1 : size_of(type);
    return Bytes(checked_multiply(checked_multiply(rows, columns), bytes));
  };
  const Bytes each = side(product.operand, shape.m, shape.k) +
                     side(product.operand, shape.k, shape.n) +
                     (product.accumulates ? 2 : 1) * side(product.result, shape.m, shape.n);
  return {.kind = WorkClass::product,
          .shape = shape,
          .flops = exact_flops(shape),
          .bytes = shape.batch * each};
}

RecordedCall call_of(const RecordedCopy& copy) {
  RecordedCall call{.kind = WorkClass::copy, .bytes = copy.bytes};
  const auto stream = [&](StreamOp op, std::int64_t passes) {
    call.kind = WorkClass::memory;
    call.bytes = passes * copy.bytes;
    call.shape = StreamShape{.op = op, .bytes = call.bytes.value()};
  };
  const auto transfer = [&](TransferPath path) {
    call.shape = TransferShape{path, copy.bytes.value()};
  };
  if (copy.bytes == Bytes()) return call;
  switch (copy.path) {
    case CopyPath::d2d:
      stream(StreamOp::copy, 2);
      break;
    case CopyPath::set:
      stream(StreamOp::copy, 1);
      break;
    // No rate is measured of pageable memory: what a program copies of it takes no less.
    case CopyPath::h2d:
    case CopyPath::h2d_pageable:
      transfer(TransferPath::host_to_device_pinned);
      break;
    case CopyPath::d2h:
    case CopyPath::d2h_pageable:
      transfer(TransferPath::device_to_host_pinned);
      break;
    case CopyPath::h2h:
      break;
  }
  return call;
}

/// By operator: how many kernels it has asked for itself, and whether products too.
struct Asked {
  std::int64_t kernels = 0;
  bool products = false;
};

std::vector<Asked> asked_by(const RecordedWork& work) {
  std::vector<Asked> asked(work.operators.size());
  for (const WorkItem& item : work.items) {
    if (std::holds_alternative<RecordedKernel>(item.what)) ++asked[item.op].kernels;
    if (std::holds_alternative<RecordedProduct>(item.what)) asked[item.op].products = true;
  }
  return asked;
}

}  // namespace

std::vector<RecordedCall> calls_of(const RecordedWork& work) {
  const std::vector<Asked> asked = asked_by(work);
  std::vector<std::optional<RecordedCall>> of_operators(work.operators.size());
  std::vector<RecordedCall> calls;
  calls.reserve(work.items.size());
  for (const WorkItem& item : work.items) {
    RecordedCall call;
    if (const auto* product = std::get_if<RecordedProduct>(&item.what)) {
      call = call_of(*product);
    } else if (const auto* copy = std::get_if<RecordedCopy>(&item.what)) {
      call = call_of(*copy);
    } else if (const auto* message = std::get_if<RecordedMessage>(&item.what)) {
      call.kind = WorkClass::message;
      call.bytes = message->bytes;
    } else if (std::holds_alternative<RecordedKernel>(item.what) && item.op != 0) {
      auto& known = of_operators[item.op];
      const Asked& own = asked[item.op];
      if (!known) known = call_of(work.operators[item.op], own.kernels, own.products);
      call = *known;
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace memest
