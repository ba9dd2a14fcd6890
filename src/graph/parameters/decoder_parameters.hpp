// The parameters of a decoder, tensor by tensor.
#pragma once

#include <string_view>

#include "memest/spec/model.hpp"

namespace memest {

/// Every parameter and buffer of `decoder`, named as `model_type` names them. Throws OverflowError.
Inventory parameters_of_decoder(const DecoderSpec& decoder, std::string_view model_type);

}  // namespace memest
