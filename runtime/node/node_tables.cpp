#include "runtime/node/node_tables.hpp"

#include "runtime/node/formats/formats.hpp"
#include "runtime/node/images/images.hpp"

namespace troupe {

tables node_tables() {
  auto t = stock_tables();
  t.sources.add(hdf5_source_type());
  t.sources.add(images_source_type());
  t.sources.add(lmdb_source_type());
  t.sources.add(numpy_source_type());
  return t;
}

}  // namespace troupe
