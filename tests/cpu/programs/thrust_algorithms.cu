// Thrust's algorithms on the device, each with its result. Their headers include Thrust's <thrust/functional.h>.
#include <thrust/adjacent_difference.h>
#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/equal.h>
#include <thrust/execution_policy.h>
#include <thrust/extrema.h>
#include <thrust/fill.h>
#include <thrust/find.h>
#include <thrust/for_each.h>
#include <thrust/gather.h>
#include <thrust/generate.h>
#include <thrust/inner_product.h>
#include <thrust/logical.h>
#include <thrust/merge.h>
#include <thrust/mismatch.h>
#include <thrust/partition.h>
#include <thrust/reduce.h>
#include <thrust/remove.h>
#include <thrust/replace.h>
#include <thrust/reverse.h>
#include <thrust/scan.h>
#include <thrust/scatter.h>
#include <thrust/sequence.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/swap.h>
#include <thrust/tabulate.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/transform_scan.h>
#include <thrust/unique.h>

#include "thrust_check.h"

using Ints = thrust::device_vector<int>;

struct Square {
  __host__ __device__ int operator()(int x) const { return x * x; }
};
struct IsEven {
  __host__ __device__ bool operator()(int x) { return x % 2 == 0; }  // not const, as in many programs
};
struct Constant {
  __host__ __device__ int operator()() const { return 7; }
};

void maps() {
  Ints x(5), y(5);
  thrust::sequence(x.begin(), x.end());
  EXPECT(x, {0, 1, 2, 3, 4});
  thrust::sequence(thrust::device, y.begin(), y.end(), 10, -2);
  EXPECT(y, {10, 8, 6, 4, 2});
  EXPECT(thrust::transform(x.begin(), x.end(), y.begin(), Square()) == y.end());
  EXPECT(y, {0, 1, 4, 9, 16});
  thrust::transform(x.begin(), x.end(), y.begin(), y.begin(), thrust::plus<int>());
  EXPECT(y, {0, 2, 6, 12, 20});
  thrust::transform(x.begin(), x.end(), y.begin(), y.begin(), [] __device__(int a, int b) { return b - a; });
  EXPECT(y, {0, 1, 4, 9, 16});
  thrust::transform_if(x.begin(), x.end(), y.begin(), thrust::negate<int>(), IsEven());
  EXPECT(y, {0, 1, -2, 9, -4});
  thrust::transform_if(x.begin(), x.end(), y.begin(), y.begin(), Square(), IsEven());
  EXPECT(y, {0, 1, 4, 9, 16});
  thrust::transform_if(x.begin(), x.end(), y.begin(), x.begin(), y.begin(), thrust::minus<int>(), IsEven());
  EXPECT(y, {0, 1, -2, 9, -12});
  thrust::fill(y.begin(), y.end(), 3);
  EXPECT(thrust::fill_n(y.begin(), 2, 1) == y.begin() + 2);
  EXPECT(y, {1, 1, 3, 3, 3});
  thrust::generate(y.begin(), y.end(), Constant());
  thrust::generate_n(y.begin(), 1, [] __host__ __device__() { return 8; });
  EXPECT(y, {8, 7, 7, 7, 7});
  thrust::tabulate(y.begin(), y.end(), Square());
  EXPECT(y, {0, 1, 4, 9, 16});
  int* raw = thrust::raw_pointer_cast(y.data());
  EXPECT(thrust::for_each(x.begin(), x.end(), [raw] __device__(int i) { raw[i] = -i; }) == x.end());
  thrust::for_each_n(y.begin(), 2, [] __device__(int& one) { one += 5; });
  EXPECT(y, {5, 4, -2, -3, -4});
  thrust::swap_ranges(x.begin(), x.begin() + 2, y.begin());
  EXPECT(x, {5, 4, 2, 3, 4});
  thrust::reverse(x.begin(), x.end());
  EXPECT(x, {4, 3, 2, 4, 5});
  thrust::reverse_copy(x.begin(), x.end(), y.begin());
  EXPECT(y, {5, 4, 2, 3, 4});
  thrust::replace(y.begin(), y.end(), 4, 0);
  thrust::replace_if(y.begin(), y.end(), [] __device__(int a) { return a > 3; }, 9);
  EXPECT(y, {9, 0, 2, 3, 0});
  thrust::replace_if(y.begin(), y.end(), x.begin(), IsEven(), 1);
  EXPECT(y, {1, 0, 1, 1, 0});
  thrust::replace_copy(y.begin(), y.end(), x.begin(), 0, 6);
  EXPECT(x, {1, 6, 1, 1, 6});
  thrust::replace_copy_if(x.begin(), x.end(), y.begin(), IsEven(), 0);
  EXPECT(y, {1, 0, 1, 1, 0});
}

void moves() {
  const Ints map{4, 0, 2}, x{10, 11, 12, 13, 14}, flags{1, 0, 1};
  Ints y(3, -1), z(5, 0);
  thrust::gather(map.begin(), map.end(), x.begin(), y.begin());
  EXPECT(y, {14, 10, 12});
  thrust::gather_if(map.begin(), map.end(), flags.begin(), z.begin(), y.begin());
  EXPECT(y, {0, 10, 0});
  thrust::scatter(x.begin(), x.begin() + 3, map.begin(), z.begin());
  EXPECT(z, {11, 0, 12, 0, 10});
  thrust::scatter_if(y.begin(), y.end(), map.begin(), flags.begin(), z.begin());
  EXPECT(z, {11, 0, 0, 0, 0});
  EXPECT(thrust::copy_n(x.begin(), 3, z.begin() + 1) == z.begin() + 4);
  EXPECT(z, {11, 10, 11, 12, 0});
  EXPECT(thrust::copy_if(x.begin(), x.end(), z.begin(), IsEven()) == z.begin() + 3);
  EXPECT(z, {10, 12, 14, 12, 0});
  EXPECT(thrust::copy_if(x.begin(), x.begin() + 3, flags.begin(), z.begin(), thrust::logical_not<int>()) ==
         z.begin() + 1);
  EXPECT(z, {11, 12, 14, 12, 0});
}

void selections() {
  Ints x{3, 3, 1, 4, 4, 4, 3}, y(7);
  EXPECT(thrust::unique_copy(x.begin(), x.end(), y.begin()) - y.begin() == 4);
  y.resize(4);
  EXPECT(y, {3, 1, 4, 3});
  EXPECT(thrust::unique_count(x.begin(), x.end(), thrust::equal_to<int>()) == 4);
  Ints values{0, 1, 2, 3, 4, 5, 6}, keys = x;
  auto ends = thrust::unique_by_key(keys.begin(), keys.end(), values.begin());
  keys.erase(ends.first, keys.end());
  values.erase(ends.second, values.end());
  EXPECT(keys, {3, 1, 4, 3});
  EXPECT(values, {0, 2, 3, 6});
  x.erase(thrust::unique(x.begin(), x.end()), x.end());
  EXPECT(x, {3, 1, 4, 3});
  x.resize(thrust::remove(x.begin(), x.end(), 3) - x.begin());
  EXPECT(x, {1, 4});
  x = {1, 2, 3, 4, 5, 6};
  y.resize(6);
  EXPECT(thrust::remove_copy_if(x.begin(), x.end(), y.begin(), IsEven()) - y.begin() == 3);
  EXPECT(thrust::remove_copy(x.begin(), x.end(), y.begin(), 2) - y.begin() == 5);
  EXPECT(thrust::remove_if(y.begin(), y.begin() + 5, IsEven()) - y.begin() == 3);
  EXPECT(Ints(y.begin(), y.begin() + 3), {1, 3, 5});
  EXPECT(thrust::stable_partition(x.begin(), x.end(), IsEven()) - x.begin() == 3);
  EXPECT(x, {2, 4, 6, 1, 3, 5});
  EXPECT(thrust::is_partitioned(x.begin(), x.end(), IsEven()));
  EXPECT(thrust::partition_point(x.begin(), x.end(), IsEven()) - x.begin() == 3);
  auto parts = thrust::partition_copy(x.begin(), x.end(), y.begin(), y.begin() + 4,
                                      [] __host__ __device__(int a) { return a > 2; });
  EXPECT(parts.first - y.begin() == 4 && parts.second == y.end());
}

void reductions() {
  const Ints x{5, 1, 4, 1, 5}, keys{1, 1, 2, 2, 1};
  EXPECT(thrust::reduce(x.begin(), x.end()) == 16);
  EXPECT(thrust::reduce(x.begin(), x.end(), 0.5) == 16.5);
  EXPECT(thrust::reduce(x.begin(), x.end(), -1, thrust::maximum<int>()) == 5);
  EXPECT(thrust::transform_reduce(x.begin(), x.end(), Square(), 0, thrust::plus<int>()) == 68);
  EXPECT(thrust::inner_product(x.begin(), x.end(), keys.begin(), 0) == 5 + 1 + 8 + 2 + 5);
  EXPECT(thrust::inner_product(x.begin(), x.end(), keys.begin(), 0, thrust::plus<int>(), thrust::not_equal_to<int>()) ==
         4);
  Ints found(3), sums(3);
  auto ends = thrust::reduce_by_key(keys.begin(), keys.end(), x.begin(), found.begin(), sums.begin());
  EXPECT(ends.first == found.end() && ends.second == sums.end());
  EXPECT(found, {1, 2, 1});
  EXPECT(sums, {6, 5, 5});
  thrust::reduce_by_key(keys.begin(), keys.end(), x.begin(), found.begin(), sums.begin(), thrust::equal_to<int>(),
                        thrust::minimum<int>());
  EXPECT(sums, {1, 1, 5});
  EXPECT(thrust::count(x.begin(), x.end(), 5) == 2);
  EXPECT(thrust::count_if(x.begin(), x.end(), IsEven()) == 1);
  EXPECT(thrust::find(x.begin(), x.end(), 4) - x.begin() == 2);
  EXPECT(thrust::find(x.begin(), x.end(), 8) == x.end());
  EXPECT(thrust::find_if(x.begin(), x.end(), IsEven()) - x.begin() == 2);
  EXPECT(thrust::find_if_not(x.begin(), x.end(), IsEven()) == x.begin());
  EXPECT(!thrust::all_of(x.begin(), x.end(), IsEven()));
  EXPECT(thrust::any_of(x.begin(), x.end(), IsEven()));
  EXPECT(!thrust::none_of(x.begin(), x.end(), IsEven()));
  EXPECT(thrust::min_element(x.begin(), x.end()) - x.begin() == 1);
  EXPECT(thrust::max_element(x.begin(), x.end()) - x.begin() == 0);
  EXPECT(thrust::max_element(x.begin(), x.end(), thrust::greater<int>()) - x.begin() == 1);
  EXPECT(*thrust::minmax_element(x.begin(), x.end()).second == 5);
  EXPECT(thrust::equal(x.begin(), x.end(), x.begin()));
  EXPECT(!thrust::equal(x.begin(), x.end(), keys.begin(), thrust::less<int>()));
  EXPECT(thrust::mismatch(x.begin() + 1, x.end(), keys.begin() + 1).first - x.begin() == 2);
  EXPECT(!thrust::is_sorted(x.begin(), x.end()));
  EXPECT(thrust::is_sorted_until(x.begin() + 1, x.end()) - x.begin() == 3);
}

void scans() {
  const Ints x{3, 1, 4, 1}, keys{0, 0, 1, 1};
  Ints y(4);
  thrust::inclusive_scan(x.begin(), x.end(), y.begin());
  EXPECT(y, {3, 4, 8, 9});
  thrust::inclusive_scan(x.begin(), x.end(), y.begin(), thrust::maximum<int>());
  EXPECT(y, {3, 3, 4, 4});
  thrust::exclusive_scan(x.begin(), x.end(), y.begin());
  EXPECT(y, {0, 3, 4, 8});
  thrust::exclusive_scan(x.begin(), x.end(), y.begin(), 10);
  EXPECT(y, {10, 13, 14, 18});
  thrust::exclusive_scan(x.begin(), x.end(), y.begin(), 1, thrust::multiplies<int>());
  EXPECT(y, {1, 3, 3, 12});
  thrust::exclusive_scan(y.begin(), y.end(), y.begin());
  EXPECT(y, {0, 1, 4, 7});
  thrust::transform_inclusive_scan(x.begin(), x.end(), y.begin(), Square(), thrust::plus<int>());
  EXPECT(y, {9, 10, 26, 27});
  thrust::transform_exclusive_scan(x.begin(), x.end(), y.begin(), Square(), 1, thrust::plus<int>());
  EXPECT(y, {1, 10, 11, 27});
  thrust::inclusive_scan_by_key(keys.begin(), keys.end(), x.begin(), y.begin());
  EXPECT(y, {3, 4, 4, 5});
  thrust::exclusive_scan_by_key(keys.begin(), keys.end(), x.begin(), y.begin(), 5);
  EXPECT(y, {5, 8, 5, 9});
  thrust::adjacent_difference(x.begin(), x.end(), y.begin());
  EXPECT(y, {3, -2, 3, -3});
  thrust::adjacent_difference(y.begin(), y.end(), y.begin(), thrust::plus<int>());
  EXPECT(y, {3, 1, 1, 0});
}

struct ByTens {
  __host__ __device__ bool operator()(int a, int b) const { return a / 10 < b / 10; }
};

void sorts() {
  Ints x{25, 11, 21, 17, 3}, y(8), values{0, 1, 2, 3, 4};
  thrust::stable_sort(x.begin(), x.end(), ByTens());
  EXPECT(x, {3, 11, 17, 25, 21});
  thrust::sort(x.begin(), x.end(), thrust::greater<int>());
  EXPECT(x, {25, 21, 17, 11, 3});
  thrust::sort_by_key(x.begin(), x.end(), values.begin());
  EXPECT(values, {4, 3, 2, 1, 0});
  thrust::stable_sort_by_key(x.begin(), x.end(), values.begin(), thrust::greater<int>());
  EXPECT(x, {25, 21, 17, 11, 3});
  thrust::sort(thrust::device, x.begin(), x.end());
  const Ints a{1, 3, 3, 5}, b{2, 3, 5, 5};
  thrust::merge(a.begin(), a.end(), b.begin(), b.end(), y.begin());
  EXPECT(y, {1, 2, 3, 3, 3, 5, 5, 5});
  EXPECT(Ints(y.begin(), thrust::set_union(a.begin(), a.end(), b.begin(), b.end(), y.begin())), {1, 2, 3, 3, 5, 5});
  EXPECT(Ints(y.begin(), thrust::set_intersection(a.begin(), a.end(), b.begin(), b.end(), y.begin())), {3, 5});
  EXPECT(Ints(y.begin(), thrust::set_difference(a.begin(), a.end(), b.begin(), b.end(), y.begin())), {1, 3});
  EXPECT(Ints(y.begin(), thrust::set_symmetric_difference(a.begin(), a.end(), b.begin(), b.end(), y.begin())),
         {1, 2, 3, 5});
  Ints keys(8), moved(8);
  thrust::merge_by_key(a.begin(), a.end(), b.begin(), b.end(), a.begin(), x.begin(), keys.begin(), moved.begin());
  EXPECT(moved, {1, 3, 3, 3, 11, 5, 17, 21});
  EXPECT(thrust::lower_bound(a.begin(), a.end(), 3) - a.begin() == 1);
  EXPECT(thrust::upper_bound(a.begin(), a.end(), 3) - a.begin() == 3);
  EXPECT(thrust::equal_range(a.begin(), a.end(), 3).second - a.begin() == 3);
  EXPECT(thrust::binary_search(a.begin(), a.end(), 5, thrust::less<int>()));
  y.resize(4);
  thrust::lower_bound(a.begin(), a.end(), b.begin(), b.end(), y.begin());
  EXPECT(y, {1, 1, 3, 3});
  thrust::upper_bound(a.begin(), a.end(), b.begin(), b.end(), y.begin(), thrust::less<int>());
  EXPECT(y, {1, 3, 4, 4});
  thrust::binary_search(a.begin(), a.end(), b.begin(), b.end(), y.begin());
  EXPECT(y, {0, 1, 1, 1});
}

int main() {
  maps();
  moves();
  selections();
  reductions();
  scans();
  sorts();
  std::printf("%d failures\n", failures);
  return failures;
}
