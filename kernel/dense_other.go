//go:build !arm64

package kernel

// ProductRows is the number of rows of each call of oneDNN in a MatMul; the last call is filled up with
// zeros. oneDNN rounds the last rows of a call, and all rows of a low one, in ways that depend on the call's
// height (AVX2). A vertex's row would then depend on the number of other rows. In calls of this height every
// row has the same bits, at every SIMD level (TestRowOfAProduct).
const ProductRows = 256
