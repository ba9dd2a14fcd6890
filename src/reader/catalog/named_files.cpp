#include "memest/reader/named_files.hpp"

#include "reader/job/read_model.hpp"
#include "reader/request/read_spec.hpp"

namespace memest {

std::vector<std::string> files_named_in(const ReadRequest& request) {
  const Checked<Value> root = read_tree(request);
  if (!root.ok()) return {};
  std::vector<std::string> files;
  const auto add_config = [&files](const Value* holder) {
    const Value* model = holder == nullptr ? nullptr : holder->find("model");
    const Value* hf = model == nullptr ? nullptr : model->find("hf");
    if (hf != nullptr && hf->kind == ValueKind::scalar) files.push_back(config_path(*hf));
  };
  add_config(&root.value());
  const Value* training = root.value().find("training");
  add_config(training == nullptr ? nullptr : training->find("teacher"));
  return files;
}

}  // namespace memest
