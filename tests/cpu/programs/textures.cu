// Textures and surfaces: filters, address modes, formats, linear and pitched memory, volumes, layers; and one mistake
// for each word that the program is given.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "check.h"

constexpr int width = 8, height = 4;

__global__ void sample(cudaTextureObject_t image, const float2* at, float* y) {
  y[threadIdx.x] = tex2D<float>(image, at[threadIdx.x].x, at[threadIdx.x].y);
}
__global__ void fetch(cudaTextureObject_t line, int first, float* y) {
  y[threadIdx.x] = tex1Dfetch<float>(line, first + static_cast<int>(threadIdx.x));
}
__global__ void colours(cudaTextureObject_t image, float4* y) {
  float4 all;
  tex2D(&all, image, 1.5f, 0.5f);
  y[0] = all;
}
__global__ void volume(cudaTextureObject_t image, float* y) {
  y[threadIdx.x] = tex3D<float>(image, threadIdx.x + 0.5f, 1.0f, 0.5f);
}
__global__ void layer(cudaTextureObject_t image, float* y) {
  y[threadIdx.x] = tex2DLayered<float>(image, threadIdx.x + 0.5f, 0.5f, 1);
}
__global__ void add_one(cudaSurfaceObject_t image) {
  const int x = threadIdx.x * sizeof(float);
  const float old = surf2Dread<float>(image, x, threadIdx.y);
  surf2Dwrite(old + 1, image, x, threadIdx.y);
  surf2Dwrite(-1.0f, image, width * 4, threadIdx.y, cudaBoundaryModeZero);
}
__global__ void outside(cudaSurfaceObject_t image) {
  surf2Dwrite(1.0f, image, threadIdx.x, 0);
}
__global__ void neighbour(cudaSurfaceObject_t image) {
  surf2Dwrite(surf2Dread<float>(image, (threadIdx.x + 1) % width * 4, 0), image, threadIdx.x * 4, 0);
}

struct Image {
  cudaArray_t array = nullptr;
  cudaResourceDesc resource{};
  Image(const cudaChannelFormatDesc& format, unsigned flags = 0) {
    CHECK(cudaMallocArray(&array, &format, width, height, flags));
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
  }
  ~Image() { cudaFreeArray(array); }
};

cudaTextureObject_t texture_of(const cudaResourceDesc& resource, cudaTextureAddressMode mode,
                               cudaTextureFilterMode filter, bool normalized,
                               cudaTextureReadMode read = cudaReadModeElementType) {
  cudaTextureDesc as{};
  for (auto& each : as.addressMode) each = mode;
  as.filterMode = filter;
  as.normalizedCoords = normalized;
  as.readMode = read;
  as.borderColor[0] = -5;
  cudaTextureObject_t made = 0;
  CHECK(cudaCreateTextureObject(&made, &resource, &as, nullptr));
  return made;
}

void print(const char* what, const float* device, int n) {
  std::vector<float> values(n);
  CHECK(cudaMemcpy(values.data(), device, n * sizeof(float), cudaMemcpyDeviceToHost));
  std::printf("%s:", what);
  for (const float value : values) std::printf(" %g", value);
  std::printf("\n");
}

int main(int argc, char** argv) {
  const std::string word = argc > 1 ? argv[1] : "";
  float values[height][width];
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) values[y][x] = 10 * y + x;
  Image image(cudaCreateChannelDesc<float>(), cudaArraySurfaceLoadStore);
  const auto fill = [&](int rows) {
    CHECK(cudaMemcpy2DToArray(image.array, 0, 0, values, sizeof values[0], sizeof values[0], rows,
                              cudaMemcpyHostToDevice));
  };
  constexpr int n = 4;
  float2* at = nullptr;
  float* y = nullptr;
  CHECK(cudaMalloc(&at, n * sizeof(float2)));
  CHECK(cudaMalloc(&y, width * sizeof(float)));
  const auto sampled = [&](const char* what, cudaTextureObject_t texture, std::vector<float2> places) {
    CHECK(cudaMemcpy(at, places.data(), n * sizeof(float2), cudaMemcpyHostToDevice));
    sample<<<1, n>>>(texture, at, y);
    if (cudaGetLastError() == cudaSuccess) print(what, y, n);
  };
  cudaSurfaceObject_t surface = 0;
  CHECK(cudaCreateSurfaceObject(&surface, &image.resource));
  const auto point = texture_of(image.resource, cudaAddressModeBorder, cudaFilterModePoint, false);
  if (word == "unwritten") {
    fill(2);
    sampled("never", point, {{0, 0}, {1, 1}, {0, 1}, {3, 2}});
  } else if (word == "destroyed") {
    fill(height);
    CHECK(cudaDestroyTextureObject(point));
    sampled("never", point, {{0, 0}, {1, 1}, {0, 1}, {3, 2}});
  } else if (word == "freed") {
    Image other(cudaCreateChannelDesc<float>());
    const auto gone = texture_of(other.resource, cudaAddressModeClamp, cudaFilterModePoint, false);
    CHECK(cudaFreeArray(other.array));
    other.array = nullptr;
    sampled("never", gone, {{0, 0}, {1, 1}, {0, 1}, {3, 2}});
  } else if (word == "outside") {
    outside<<<1, 1 + 4 * width>>>(surface);
  } else if (word == "neighbour") {
    fill(height);
    neighbour<<<1, width>>>(surface);
  } else if (word == "copy") {
    cudaMemcpy2DToArray(image.array, 4, 0, values, sizeof values[0], sizeof values[0], 1, cudaMemcpyHostToDevice);
  } else if (word == "integers") {
    Image bytes(cudaCreateChannelDesc<unsigned char>());
    cudaTextureDesc as{};
    as.filterMode = cudaFilterModeLinear;
    cudaTextureObject_t none = 0;
    std::printf("%d\n", cudaCreateTextureObject(&none, &bytes.resource, &as, nullptr));
    cudaGetLastError();
  } else {
    fill(height);
    sampled("point, border", point, {{0.9f, 0.9f}, {7.5f, 3.5f}, {8.1f, 0}, {-0.1f, 2}});
    const auto linear = texture_of(image.resource, cudaAddressModeClamp, cudaFilterModeLinear, false);
    sampled("linear, clamp", linear, {{0.5f, 0.5f}, {1, 1}, {1.25f, 0.5f}, {-3, 9}});
    const auto wrap = texture_of(image.resource, cudaAddressModeWrap, cudaFilterModeLinear, true);
    sampled("linear, wrap", wrap, {{0.0625f, 0.125f}, {0, 0.125f}, {1.0625f, -0.875f}, {0.5f, 0.5f}});
    const auto mirror = texture_of(image.resource, cudaAddressModeMirror, cudaFilterModePoint, true);
    sampled("point, mirror", mirror, {{-0.1f, 0}, {1.01f, 0}, {1.99f, 0}, {2.01f, 0}});

    float* line = nullptr;
    CHECK(cudaMalloc(&line, width * sizeof(float)));
    CHECK(cudaMemcpy(line, values, width * sizeof(float), cudaMemcpyHostToDevice));
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear = {line, cudaCreateChannelDesc<float>(), width * sizeof(float)};
    const auto fetched = texture_of(resource, cudaAddressModeClamp, cudaFilterModePoint, false);
    fetch<<<1, 4>>>(fetched, 6, y);
    print("fetched", y, 4);

    char* plane = nullptr;
    size_t pitch = 0;
    CHECK(cudaMallocPitch(&plane, &pitch, width * sizeof(uchar4), height));
    CHECK(cudaMemset2D(plane, pitch, 51, width * sizeof(uchar4), height));
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D = {plane, cudaCreateChannelDesc(8, 8, 8, 8, cudaChannelFormatKindUnsigned), width, height,
                            pitch};
    const auto pixels =
        texture_of(resource, cudaAddressModeClamp, cudaFilterModePoint, false, cudaReadModeNormalizedFloat);
    colours<<<1, 1>>>(pixels, reinterpret_cast<float4*>(y));
    print("colours", y, 4);

    add_one<<<1, dim3(width, height)>>>(surface);
    CHECK(cudaMemcpy2DFromArray(values, sizeof values[0], image.array, 0, 0, sizeof values[0], height,
                                cudaMemcpyDeviceToHost));
    std::printf("surface: %g %g\n", values[0][0], values[3][7]);

    for (const unsigned flags : {cudaArrayDefault, cudaArrayLayered}) {
      cudaArray_t cube = nullptr;
      const auto format = cudaCreateChannelDesc<float>();
      const cudaExtent extent = make_cudaExtent(2, 4, 4);
      CHECK(cudaMalloc3DArray(&cube, &format, extent, flags));
      cudaMemcpy3DParms copied{};
      copied.srcPtr = make_cudaPitchedPtr(values, 2 * sizeof(float), 2, 4);
      copied.dstArray = cube;
      copied.extent = extent;
      copied.kind = cudaMemcpyHostToDevice;
      CHECK(cudaMemcpy3D(&copied));
      resource.resType = cudaResourceTypeArray;
      resource.res.array.array = cube;
      const auto filter = flags == cudaArrayLayered ? cudaFilterModePoint : cudaFilterModeLinear;
      const auto texture = texture_of(resource, cudaAddressModeClamp, filter, false);
      if (flags == cudaArrayLayered) {
        layer<<<1, 2>>>(texture, y);
      } else {
        volume<<<1, 2>>>(texture, y);
      }
      print(flags == cudaArrayLayered ? "layer" : "volume", y, 2);
      CHECK(cudaFreeArray(cube));
    }
    CHECK(cudaFree(line));
    CHECK(cudaFree(plane));
  }
  cudaDestroySurfaceObject(surface);
  cudaFree(at);
  cudaFree(y);
  return 0;
}
