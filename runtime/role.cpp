#include "runtime/role.hpp"

namespace troupe {

template class one_of<effect_kinds>;

}  // namespace troupe
