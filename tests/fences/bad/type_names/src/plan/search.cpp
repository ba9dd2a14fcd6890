namespace memest {
namespace {

struct Place {
  int gpus = 0;
};

}  // namespace
}  // namespace memest
