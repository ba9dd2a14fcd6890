#include "memest/graph/op.hpp"

namespace memest {

OpClass class_of(OpKind kind) {
  switch (kind) {
    case OpKind::linear:
    case OpKind::convolution:
    case OpKind::batched_matmul:
    case OpKind::attention:
      return OpClass::contraction;
    case OpKind::softmax:
    case OpKind::layernorm:
    case OpKind::rmsnorm:
    case OpKind::batchnorm:
    case OpKind::cross_entropy:
    case OpKind::mean_square:
      return OpClass::normalization;
    case OpKind::activation:
    case OpKind::dropout:
    case OpKind::add:
    case OpKind::multiply:
    case OpKind::scale:
    case OpKind::cast:
    case OpKind::mask:
    case OpKind::rotary:
    case OpKind::power:
    case OpKind::pooling:
      return OpClass::elementwise;
    case OpKind::reduce:
      return OpClass::normalization;
    case OpKind::embedding:
    case OpKind::copy:
    case OpKind::concatenate:
    case OpKind::view:
      return OpClass::movement;
    case OpKind::exchange:
      return OpClass::collective;
  }
  return OpClass::elementwise;
}

std::string_view name_of(OpKind kind) {
  switch (kind) {
    case OpKind::linear:
      return "linear";
    case OpKind::convolution:
      return "convolution";
    case OpKind::batched_matmul:
      return "batched-matmul";
    case OpKind::attention:
      return "attention";
    case OpKind::softmax:
      return "softmax";
    case OpKind::layernorm:
      return "layernorm";
    case OpKind::rmsnorm:
      return "rmsnorm";
    case OpKind::batchnorm:
      return "batchnorm";
    case OpKind::cross_entropy:
      return "cross-entropy";
    case OpKind::mean_square:
      return "mean-square";
    case OpKind::activation:
      return "activation";
    case OpKind::dropout:
      return "dropout";
    case OpKind::add:
      return "add";
    case OpKind::multiply:
      return "multiply";
    case OpKind::scale:
      return "scale";
    case OpKind::cast:
      return "cast";
    case OpKind::mask:
      return "mask";
    case OpKind::rotary:
      return "rotary";
    case OpKind::embedding:
      return "embedding";
    case OpKind::copy:
      return "copy";
    case OpKind::power:
      return "power";
    case OpKind::reduce:
      return "reduce";
    case OpKind::pooling:
      return "pooling";
    case OpKind::concatenate:
      return "concatenate";
    case OpKind::view:
      return "view";
    case OpKind::exchange:
      return "exchange";
  }
  return {};
}

std::string_view name_of(OpClass op_class) {
  switch (op_class) {
    case OpClass::contraction:
      return "contraction";
    case OpClass::normalization:
      return "normalization";
    case OpClass::elementwise:
      return "elementwise";
    case OpClass::movement:
      return "movement";
    case OpClass::collective:
      return "collective";
    case OpClass::waiting:
      return "waiting";
  }
  return {};
}

}  // namespace memest
