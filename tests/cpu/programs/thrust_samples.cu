// Programs in the style of public samples of Thrust: π by Monte Carlo, histograms, sums of rows, a bounding box, moving
// averages, steps of k-means.
#include <thrust/adjacent_difference.h>
#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/extrema.h>
#include <thrust/functional.h>
#include <thrust/generate.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/iterator/constant_iterator.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/discard_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/zip_iterator.h>
#include <thrust/random.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/scatter.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/tuple.h>

#include <cmath>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <string>

// ---------------------------------------------------------------------------------------------------- π

__host__ __device__ unsigned int hash(unsigned int a) {
  a = (a + 0x7ed55d16) + (a << 12);
  a = (a ^ 0xc761c23c) ^ (a >> 19);
  a = (a + 0x165667b1) + (a << 5);
  a = (a + 0xd3a2646c) ^ (a << 9);
  a = (a + 0xfd7046c5) + (a << 3);
  return (a ^ 0xb55a4f09) ^ (a >> 16);
}

struct estimate_pi {
  __host__ __device__ float operator()(unsigned int thread_id) {
    const int N = 50;
    float sum = 0;
    thrust::default_random_engine rng(hash(thread_id));
    thrust::uniform_real_distribution<float> u01(0, 1);
    for (int i = 0; i < N; ++i) {
      float x = u01(rng), y = u01(rng);
      if (sqrtf(x * x + y * y) < 1.0f) sum += 1.0f;
    }
    return sum * 4.0f / N;
  }
};

float monte_carlo() {
  const int M = 400;
  float estimate = thrust::transform_reduce(thrust::counting_iterator<int>(0), thrust::counting_iterator<int>(M),
                                            estimate_pi(), 0.0f, thrust::plus<float>());
  return estimate / M;
}

// ---------------------------------------------------------------------------------------------------- histograms

template <typename Vector>
void print_vector(const std::string& name, const Vector& v) {
  typedef typename Vector::value_type T;
  std::cout << name << ": ";
  thrust::copy(v.begin(), v.end(), std::ostream_iterator<T>(std::cout, " "));
  std::cout << std::endl;
}

void histograms() {
  thrust::default_random_engine rng;
  thrust::uniform_int_distribution<int> dist(0, 9);
  thrust::host_vector<int> input(40);
  for (size_t i = 0; i < input.size(); i++) input[i] = dist(rng);
  thrust::device_vector<int> data(input);
  thrust::sort(data.begin(), data.end());

  // dense
  int num_bins = data.back() + 1;
  thrust::device_vector<int> histogram;
  histogram.resize(num_bins);
  thrust::counting_iterator<int> search_begin(0);
  thrust::upper_bound(data.begin(), data.end(), search_begin, search_begin + num_bins, histogram.begin());
  thrust::adjacent_difference(histogram.begin(), histogram.end(), histogram.begin());
  print_vector("dense", histogram);

  // sparse
  int present = thrust::inner_product(data.begin(), data.end() - 1, data.begin() + 1, 1, thrust::plus<int>(),
                                      thrust::not_equal_to<int>());
  thrust::device_vector<int> values(present), counts(present);
  thrust::reduce_by_key(data.begin(), data.end(), thrust::constant_iterator<int>(1), values.begin(), counts.begin());
  print_vector("values", values);
  print_vector("counts", counts);
}

// ---------------------------------------------------------------------------------------------------- sums of rows

template <typename T>
struct linear_index_to_row_index {
  T C;
  __host__ __device__ linear_index_to_row_index(T C) : C(C) {}
  __host__ __device__ T operator()(T i) { return i / C; }
};

void sum_rows() {
  int R = 3, C = 4;
  thrust::device_vector<int> array(R * C);
  thrust::sequence(array.begin(), array.end(), 10);
  thrust::device_vector<int> row_sums(R), row_indices(R);
  thrust::reduce_by_key(
      thrust::make_transform_iterator(thrust::counting_iterator<int>(0), linear_index_to_row_index<int>(C)),
      thrust::make_transform_iterator(thrust::counting_iterator<int>(0), linear_index_to_row_index<int>(C)) + (R * C),
      array.begin(), row_indices.begin(), row_sums.begin(), thrust::equal_to<int>(), thrust::plus<int>());
  for (int i = 0; i < R; i++) std::cout << "row " << row_indices[i] << " sums to " << row_sums[i] << "\n";
}

// ---------------------------------------------------------------------------------------------------- bounding box

struct point2d {
  float x, y;
  __host__ __device__ point2d() : x(0), y(0) {}
  __host__ __device__ point2d(float x, float y) : x(x), y(y) {}
};
struct bbox {
  point2d lower_left, upper_right;
  __host__ __device__ bbox() {}
  __host__ __device__ bbox(const point2d& p) : lower_left(p), upper_right(p) {}
  __host__ __device__ bbox(const point2d& ll, const point2d& ur) : lower_left(ll), upper_right(ur) {}
};
struct bbox_reduction {
  __host__ __device__ bbox operator()(bbox a, bbox b) {
    point2d ll(thrust::min(a.lower_left.x, b.lower_left.x), thrust::min(a.lower_left.y, b.lower_left.y));
    point2d ur(thrust::max(a.upper_right.x, b.upper_right.x), thrust::max(a.upper_right.y, b.upper_right.y));
    return bbox(ll, ur);
  }
};

void bounding_box() {
  thrust::device_vector<point2d> points(5);
  for (int i = 0; i < 5; i++) points[i] = point2d(i * i % 5 + .5f, 3.f - i);
  bbox init = bbox(points[0], points[0]);
  bbox result = thrust::reduce(points.begin(), points.end(), init, bbox_reduction());
  printf("box (%g, %g) (%g, %g)\n", result.lower_left.x, result.lower_left.y, result.upper_right.x,
         result.upper_right.y);
}

// ---------------------------------------------------------------------------------------------------- moving averages

struct minus_and_divide {
  double w;
  minus_and_divide(double w) : w(w) {}
  __host__ __device__ double operator()(const double& a, const double& b) const { return (a - b) / w; }
};

void moving_average() {
  const size_t n = 8, w = 3;
  thrust::device_vector<double> data(n), temp(n + 1), averages(n - w + 1);
  for (size_t i = 0; i < n; i++) data[i] = (i * 7) % 5;
  thrust::exclusive_scan(data.begin(), data.end(), temp.begin());
  temp[n] = data.back() + temp[n - 1];
  thrust::transform(temp.begin() + w, temp.end(), temp.begin(), averages.begin(), minus_and_divide(double(w)));
  std::cout << "averages:";
  for (size_t i = 0; i < averages.size(); i++) std::cout << " " << averages[i];
  std::cout << std::endl;
}

// ---------------------------------------------------------------------------------------------------- k-means

struct nearest {
  const float* centres;
  int k;
  __device__ int operator()(float x) const {
    int best = 0;
    for (int j = 1; j < k; j++)
      if (fabsf(x - centres[j]) < fabsf(x - centres[best])) best = j;
    return best;
  }
};

void kmeans() {
  float points[] = {1, 9, 2, 8, 3, 7.5f, 20, 21};
  thrust::device_vector<float> x(points, points + 8), centres(points, points + 3), sums(3);
  thrust::device_vector<int> labels(8), keys(3), sizes(3);
  for (int step = 0; step < 3; step++) {
    nearest assign = {thrust::raw_pointer_cast(&centres[0]), 3};
    thrust::transform(x.begin(), x.end(), labels.begin(), assign);
    thrust::sort_by_key(labels.begin(), labels.end(), x.begin());
    auto ends = thrust::reduce_by_key(
        labels.begin(), labels.end(),
        thrust::make_zip_iterator(thrust::make_tuple(x.begin(), thrust::make_constant_iterator(1))), keys.begin(),
        thrust::make_zip_iterator(thrust::make_tuple(sums.begin(), sizes.begin())), thrust::equal_to<int>(),
        [] __host__ __device__(const thrust::tuple<float, int>& a, const thrust::tuple<float, int>& b) {
          return thrust::make_tuple(thrust::get<0>(a) + thrust::get<0>(b), thrust::get<1>(a) + thrust::get<1>(b));
        });
    int used = ends.first - keys.begin();
    thrust::device_vector<float> means(used);
    thrust::transform(sums.begin(), sums.begin() + used, sizes.begin(), means.begin(), thrust::divides<float>());
    thrust::scatter(means.begin(), means.end(), keys.begin(), centres.begin());
  }
  print_vector("centres", centres);
}

int main() {
  printf("pi is near 3.14: %d\n", std::fabs(monte_carlo() - 3.14f) < .05f);
  histograms();
  sum_rows();
  bounding_box();
  moving_average();
  kmeans();
  return 0;
}
