// Kernels of ours, compiled by the vendor's compiler; tests/golden/dpas/README.md says how.
__kernel void scale_add(__global const int* a, __global int* out, int factor, float unused) {
  int i = (int)get_global_id(0);
  out[i] = a[i] * factor + (int)get_local_size(0);
}
__kernel void fill(__global int* out, int value) {
  out[get_global_id(0)] = value;
}
