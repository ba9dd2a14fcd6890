// A Hugging Face config.json becomes a model. Which class of transformers it stands for follows
// from `model_type` and `architectures`; what the file leaves out has the defaults of that class in
// transformers 5.17. Keys that change neither parameters nor computation are passed over: such
// files are full of them.
#pragma once

#include <string>
#include <vector>

namespace memest {

/// Every `model_type` that is known, sorted.
std::vector<std::string> known_hf_model_types();

}  // namespace memest
