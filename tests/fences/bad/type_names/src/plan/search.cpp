namespace memest {
namespace {

struct Place {
  int gpus = 0;
};

using Cells = int;

}  // namespace
}  // namespace memest
