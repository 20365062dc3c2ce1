// Launching the forward kernels of a norm: of rows in registers (norm_rows.cuh), and of rows that stream
// (team_stream.cuh).
#pragma once

#include <trifold/rows.h>
#include <trifold/team_stream.h>
#include <trifold/norm_rows.cuh>

namespace trifold {

// The first of these choices that holds rows of x and y which are cut so, if they begin equally far behind a boundary.
template <Cut cut, class T, class... Choices, class Use>
bool launch_norm_streams(Streams<Choices...>, Stream stream, const Rows& x, const T* y, Use use) {
  const auto behind = [](const T* first) { return reinterpret_cast<uintptr_t>(first) % vector_bytes; };
  if (behind(x.data<T>()) != behind(y) || (x.stride - x.columns) % Vector<T>::size != 0) return false;
  return (launch_team_stream<cut, Choices, T>(stream, x, use) || ...);
}

// For how many bytes of a row teams are asked, as measured on an H200: a longer one's parameters, which each row reads
// anew, would take as long as the row.
inline constexpr int64_t most_bytes_held = 256 << 10;

// Launches the first kernel that takes rows of x and y which are cut so. `Choices` has teams of Short rows, however
// they are cut, of Long whole ones and of Ragged ones, LongStreams and RaggedStreams. False: there is none.
template <class Choices, class T, class Registers, class Streaming>
bool launch_norm(Stream stream, const Rows& x, const T* y, Cut cut, Registers in_registers, Streaming streaming) {
  const int64_t rows = x.count, columns = x.columns;
  const bool held = columns * static_cast<int64_t>(sizeof(T)) <= most_bytes_held;
  if (launch_row_teams<T>(typename Choices::Short{}, stream, rows, columns, cut, in_registers)) return true;
  if (cut == Cut::whole)
    return (held && launch_cut_teams<T, Cut::whole>(typename Choices::Long{}, stream, rows, columns, in_registers)) ||
           launch_norm_streams<Cut::whole>(typename Choices::LongStreams{}, stream, x, y, streaming);
  return (held && launch_cut_teams<T, Cut::ragged>(typename Choices::Ragged{}, stream, rows, columns, in_registers)) ||
         launch_norm_streams<Cut::ragged>(typename Choices::RaggedStreams{}, stream, x, y, streaming);
}

}  // namespace trifold
