// The kernels of the catalogue, for start.cuh.
#pragma once

#include "catalogue.cuh"

namespace catalogue {

inline void add_all(Entries& made) {
  {
    using namespace atomics;
    add<histogram, histogram_without_atomic, histogram_in_shared_memory, histogram_merged_too_early,
        histogram_cleared_too_late, histogram_stored_by_each_block, count_multiples, count_multiples_without_barrier,
        count_multiples_by_barrier, collect_four, collect_four_with_plain_test, contains_by_plain_stores,
        place_of_any_by_plain_stores, contains_unless_another_has_found_it, contains_by_atomic, contains_by_vote,
        product_by_compare_and_swap, product_by_compare_and_swap_of_a_plain_read,
        product_by_compare_and_swap_of_the_first_element, largest_by_compare_and_swap_after_a_plain_look,
        product_by_compare_and_swap_with_a_plain_read_again>(made);
  }
  {
    using namespace barriers;
    add<difference_without_barrier, difference, rotate_without_barrier_after_read, rotate_without_barrier_after_write,
        rotate, barrier_in_each_branch, barrier_after_the_branches, early_return_before_barrier,
        early_return_after_barrier, barrier_in_loop_of_unequal_length, barrier_in_loop_of_equal_length,
        flag_without_barrier, flag_by_barrier_reduction, rendezvous_here_and_barrier_there, rendezvous_for_all,
        cooperative_shift_with_block_barrier>(made);
  }
  {
    using namespace bounds;
    add<twice, double_with_guard_off_by_one, double_without_guard, double_with_early_return, fill, fill_without_guard,
        column_sums, column_sums_with_row_stride_too_long, ring_difference_from_far_below,
        reverse_in_dynamic_shared_memory, reverse_past_dynamic_shared_memory, reverse_of_doubles_in_room_for_floats,
        histogram_of_unit_interval, histogram_without_the_last_edge, polynomial, polynomial_past_its_local_array,
        border, border_with_swapped_index, border_past_the_row, number_a_window, number_past_a_window>(made);
  }
  {
    using namespace collectives;
    add<rows_of_other_lanes, rows_of_other_lanes_without_barrier, rows_at_a_pitch_of_24, rows_at_a_pitch_of_12,
        products_of_a_warp, products_of_lanes_with_work>(made);
  }
  {
    using namespace functions;
    add<barrier_in_a_device_function, device_function_for_all_but_one, device_function_without_barrier,
        recursive_tree_sum, recursive_tree_sum_without_barrier, reduce_with, fibonacci_numbers,
        fibonacci_numbers_for_all_threads, grid_stride, block_stride_from_grid_index, grid_stride_by_while,
        row_maximum_grid_stride, row_maximum_without_barrier_between_rows, row_maximum_with_tile_used_again_too_early,
        constant_table, constant_table_without_modulus>(made);
  }
  {
    using namespace layouts;
    add<shift_through_registers, shift_between_views, even_and_odd_places, windows_kept_apart, windows_that_overlap,
        two_dtypes_in_dynamic_shared_memory, two_dtypes_on_one_place, doubles_behind_flags, doubles_behind_an_odd_byte,
        scale_and_shift_tensors, add_to_an_expanded_tensor, add_to_an_expanded_tensor_without_atomic, move_bodies,
        move_bodies_without_barrier, share_out_momentum, records_in_shared_memory, records_with_a_field_left_out>(made);
  }
  {
    using namespace native;
    add<copy_by_quads, quad_at_an_odd_element, rows_of_five_by_quads, pair_stored_at_an_odd_element, quads_rounded_up,
        quads_and_a_tail, floats_taken_for_doubles, bytes_taken_for_elements, box_of_four_sides,
        box_written_past_its_sides, box_of_three_sides, box_of_four_sides_by_pointer, row_of_a_tile_left,
        stack_array_left, template_past_its_shared_array, template_past_its_local_array, stack_array_left_by_pointer,
        local_array_half_filled, second_array_past_dynamic_shared_memory, read_only_load_of_written_data,
        read_only_load, element_before_the_first, element_before_the_first_by_unsigned_index, null_pointer,
        bit_fields_of_one_byte, bytes_beside_each_other, variable_without_atomic, variable_by_atomic,
        volatile_in_place_of_syncwarp, volatile_with_a_rendezvous_left_out, volatile_with_syncwarp,
        volatile_flags_that_lanes_poll, volatile_flags_polled_by_vote, search_ended_by_a_volatile_flag,
        one_total_by_atomics_of_a_block, total_of_each_block, largest_of_all_by_one_wide_atomic,
        lock_of_a_block_for_all, sums_by_compare_and_swap_of_other_widths, box_of_the_block_by_all_threads,
        box_of_the_block_but_one_side, pair_over_an_element_and_another, constant_written_through_a_pointer,
        fixed_constant_added_to, constants_read_through_a_pointer, memcpy_past_the_end, memcpy_of_whole_rows,
        sum_of_eight_lanes_from_all, sum_of_eight_lanes, squares_but_the_last, squares, add_one>(made);
  }
  {
    using namespace reductions;
    add<tree_sum, tree_sum_without_barrier_in_loop, tree_sum_with_barrier_under_condition, warp_tail_without_syncwarp,
        warp_tail_with_syncwarp, warp_tail_with_one_syncwarp, sum_by_warps, sum_by_warps_without_barrier,
        last_block_sum, last_block_sum_where_all_threads_write_and_fence, last_block_sum_without_fence,
        last_block_sum_with_block_fence, last_block_sum_with_late_fence, last_block_sum_without_atomic,
        blocks_add_to_one_total, blocks_add_atomically, segmented_sum, segmented_sum_without_atomic,
        largest_by_compare_and_store>(made);
  }
  {
    using namespace scans;
    add<hillis_steele, hillis_steele_in_one_buffer, hillis_steele_with_buffers_not_swapped_back, blelloch,
        blelloch_without_last_barrier, bitonic_sort, bitonic_sort_with_barrier_outside, odd_even_sort,
        odd_even_sort_of_all_pairs, double_buffer, double_buffer_with_a_barrier_every_other_step,
        double_buffer_that_loads_what_it_reads, ping_pong, ping_without_pong>(made);
  }
  {
    using namespace tiles;
    add<transpose, transpose_without_barrier, transpose_with_swapped_index, matmul, matmul_without_second_barrier,
        matmul_without_first_barrier, ragged_matmul, ragged_matmul_without_inner_guard, ragged_matmul_without_zeros,
        stencil, stencil_without_right_halo, stencil_in_a_tile_without_halo, heat_by_ping_pong, heat_in_one_buffer,
        heat_in_place_over_blocks, laplacian>(made);
  }
  {
    using namespace uninitialised;
    add<running_sums_in_local_memory, counts_of_each_block, counts_in_memory_taken_for_zero,
        counts_in_half_cleared_memory, table_in_each_block, table_of_the_first_block, tail_sum,
        tail_sum_of_a_half_filled_tile, accumulate, accumulate_in_a_fresh_device_array>(made);
  }
  {
    using namespace waiting;
    add<spin_lock, spin_lock_never_released, spin_lock_without_fence, spin_lock_opened_by_a_plain_store,
        lock_held_across_a_barrier, ticket_lock, ticket_lock_that_serves_from_one, transfer_with_ordered_locks,
        transfer_with_crossed_locks, producer_and_consumer, producer_without_fence, producer_with_block_fence,
        producer_that_announces_too_early, consumer_that_polls_by_plain_reads, blocks_tell_then_wait,
        blocks_wait_then_tell, grid_barrier_by_hand, grid_barrier_for_a_block_too_many, warp_hands_over,
        warp_hands_over_without_meeting, warp_is_taken_over_without_meeting, decoupled_look_back,
        look_back_without_fence, look_back_by_plain_reads, scan_from_the_last_tile,
        scan_from_the_last_tile_without_fence, scan_from_the_last_tile_with_a_plain_flag, steps_of_the_whole_grid,
        steps_of_the_whole_grid_without_fence, steps_of_the_whole_grid_counted_without_atomic>(made);
  }
  {
    using namespace warps;
    add<butterfly_sum, shuffle_with_half_a_mask, broadcast_in_each_half, tail_sum_with_zeros, tail_sum_with_ballot_mask,
        exchange_in_each_half, exchange_without_syncwarp, exchange_with_a_vote_between, exchange_beyond_its_half,
        syncwarp_mask_misses_its_own_lane, compact_by_ballot, compact_with_plain_counter, compact_to_one_place_a_warp,
        histogram_by_match, histogram_by_match_without_atomic, sum_in_a_partial_warp,
        sum_in_a_partial_warp_through_shared_memory, warps_take_different_ways, vote_under_a_lane_condition>(made);
  }
}

}  // namespace catalogue
