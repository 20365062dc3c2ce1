"""Lines of the row code, by what they do, at which the CPU finds faults that lie elsewhere: see :class:`Fault`, ``at``.

Each is a file and a part of one of its lines. Of a function that many call, the lines that call it stand here too: a
finding names both.
"""

from __future__ import annotations

from tests.wrong.entry import File

Lines = tuple[tuple[File, str], ...]

_CLUSTER, _COPIES, _ROWS = "trifold/cluster.cuh", "trifold/async_copies.cuh", "rows/row_stream.cuh"
_STREAM, _WARP_ROWS, _TEAMS = "rows/team_stream.cuh", "rows/warp_rows.cuh", "rows/row_teams.cuh"

#: Where barriers in shared memory are made; where the teams of a kernel of rows in registers wait for one.
INIT: Lines = ((_CLUSTER, "mbarrier.init.shared::cta.b64"),)
TEAM_WAITS: Lines = ((_TEAMS, "    mailbox.wait(0);"),)

#: What a team's warps have told each other is read: maxima and sums of exponentials, other values, a stream's sums.
EXPS_READ: Lines = (
    ("rows/exp_sums.cuh", "row.max = Max{}(row.max, posts.of_warp[i].max)"),
    ("rows/exp_sums.cuh", "const WarpExps other = posts.of_warp[i];"),
)
POSTS_READ: Lines = ((_TEAMS, "value = combine(value, posts.of_warp[i]);"),)
LEADER_READ: Lines = (("rows/team_mail.cuh", "int of_leader(int n) const { return memory_"),)
MAIL_WAITS: Lines = (("rows/team_mail.cuh", "memory_.given[n % 4].wait(n / 4 % 2);"),)
SUMS_READ: Lines = ((_ROWS, '"ld.shared.f32 %0, [%1];"'),)
SUMS_GIVEN: Lines = ((_ROWS, '"st.shared.f32 [%0], %1;"'),)
PAIR_SUMS_READ: Lines = ((_ROWS, "const uint4 four = shared_piece(taken_"),)

#: Rows in shared memory: copied to there by each lane, by a warp's; and read.
LANE_COPIES: Lines = (
    (_ROWS, "copy_async(fill_ + j * Shape::pitch"),
    (_ROWS, "copy_async(fill_ + of_b"),
)
WARP_COPIES: Lines = ((_WARP_ROWS, "copy_bulk(to_a_"), (_WARP_ROWS, "copy_bulk(to_b_"))
STREAM_COPIES: Lines = ((_STREAM, "copy_bulk(shared_address(slot(number))"),)
LANE_READS: Lines = ((_ROWS, "uint4 head_a(int j) const"), (_ROWS, "uint4 head_b(int j) const"))
WARP_READS: Lines = (
    (_WARP_ROWS, "uint4 head_a(int piece) const"),
    (_WARP_ROWS, "return shared_piece(own_b_ + head_"),
)
STREAM_READS: Lines = (
    (_STREAM, "part.piece[k] = slot(head_)"),
    (_STREAM, "ShiftedSums sums{slot(head_)"),
    (_STREAM, "const Packed<T> piece = slot(head_)"),
)
STREAM_WRITES: Lines = ((_STREAM, "slot(head_)[k * warp_threads] = pack<T>"),)
TAIL_READS: Lines = (("rows/norm_rows.cuh", "return pack<T>([&](int i) { return make(x[i], numbers[i]...); });"),)
#: Where rows were, the sums of columns are stored; and the edges of rows in registers are read.
SUMS_STORED: Lines = (("rows/norms_backward.cuh", "*reinterpret_cast<float4*>(to + e) = {floats[e]"),)
EDGE_READ: Lines = (("rows/row_parts.cuh", "edge = at.edge >= 0 ? own[at.edge] : otherwise;"),)
COLUMN_EDGE_READ: Lines = (("rows/tensor_rows.cuh", "of_columns == nullptr ? otherwise : of_columns[edge_column_];"),)

#: Numbers of columns, for the teams of a cluster: multicast, and read.
MULTICAST: Lines = ((_CLUSTER, "mbarrier::complete_tx::bytes.multicast::cluster"),)
COLUMNS_READ: Lines = (
    ("rows/column_copies.cuh", "const T* const from = own_ + k * warp_threads * size;"),
    ("rows/column_copies.cuh", "return *reinterpret_cast<const Packed<T>*>(from);"),
)
COLUMNS_WAIT: Lines = (("rows/column_copies.cuh", "copy_mailbox(which).wait(0);"),)

#: Candidates of the largest numbers, read and written by a sort.
CANDIDATES: Lines = (("header", "return {value[i], column[i]};"), ("header", "value[i] = candidate.value;"))
