namespace memest {
namespace {

constexpr double kUnknown = 0;

}  // namespace
}  // namespace memest
