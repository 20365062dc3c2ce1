"""Lines of the row code, by what they do, at which the CPU finds faults that are elsewhere: see ``at`` of
:class:`Fault`.

Each is a file and a part of one of its lines. If a function has many callers, their lines are listed as well: a finding
names both.
"""

from __future__ import annotations

from tests.wrong.entry import File

Lines = tuple[tuple[File, str], ...]

_CLUSTER, _ROWS, _TEAMS = "trifold/cluster.cuh", "rows/row_stream.cuh", "rows/row_teams.cuh"

#: Initialisation of barriers in shared memory; where the teams of a kernel with rows in registers wait for one.
INIT: Lines = ((_CLUSTER, "mbarrier.init.shared::cta.b64"),)
TEAM_WAITS: Lines = ((_TEAMS, "    mailbox.wait(0);"),)

#: Reads of values that a team's warps exchange: maxima and sums of exponentials, other values, a stream's sums.
EXPS_READ: Lines = (
    ("rows/exp_sums.cuh", "row.max = Max{}(row.max, posts.of_warp[i].max)"),
    ("rows/exp_sums.cuh", "const WarpExps other = posts.of_warp[i];"),
)
POSTS_READ: Lines = ((_TEAMS, "value = combine(value, posts.of_warp[i]);"),)
MOMENTS_READ: Lines = (
    ("rows/moments.cuh", "sums.value[j] += own.mean * own.count;"),
    ("rows/moments.cuh", "const WarpMoments own = posts.of_warp[i].value[j];"),
)
MAIL_WAITS: Lines = ((_ROWS, "memory_.arrived[slot].wait("),)
SUMS_READ: Lines = ((_ROWS, "sums = Sums{}(sums, posts.of_warp[i]);"),)
SUMS_GIVEN: Lines = ((_ROWS, "*place = own;"),)

#: Rows in shared memory: copies to it by each lane; and reads.
LANE_COPIES: Lines = ((_ROWS, "copy_async(fill_ + m * of_matrix"),)
LANE_READS: Lines = ((_ROWS, "return shared_piece<T>(head_ + m"),)
LANE_EDGES: Lines = (
    (_ROWS, 'asm volatile("ld.shared.f32 %0, [%1];"'),
    (_ROWS, "numbers.value[m] = shared_element("),
)
#: Sums of columns, stored in the memory of rows; and reads of the edges of rows in registers.
SUMS_STORED: Lines = (("rows/norms_backward.cuh", "*reinterpret_cast<float4*>(to + e) = {floats.value[e]"),)
EDGE_READ: Lines = (("rows/row_parts.cuh", "edge = at.edge >= 0 ? own[at.edge] : otherwise;"),)
COLUMN_EDGE_READ: Lines = (("rows/tensor_rows.cuh", "of_columns == nullptr ? otherwise : of_columns[edge_column_];"),)

#: Parameters of columns, for the teams of a cluster: multicast, and reads.
MULTICAST: Lines = ((_CLUSTER, "mbarrier::complete_tx::bytes.multicast::cluster"),)
COLUMNS_READ: Lines = (
    ("rows/column_copies.cuh", "const T* const from = own_ + k * warp_threads * size;"),
    ("rows/column_copies.cuh", "return *reinterpret_cast<const Packed<T>*>(from);"),
)
COLUMNS_WAIT: Lines = (("rows/column_copies.cuh", "copy_mailbox(which).wait(0);"),)

#: Candidates for the largest numbers, read and written by a sort.
CANDIDATES: Lines = (("header", "return {value[i], column[i]};"), ("header", "value[i] = candidate.value;"))
