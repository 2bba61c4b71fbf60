//go:build !arm64

package kernel

// ProductRows is how many rows each call has that MatMul is made of; the last is filled up with zeros. oneDNN
// rounds the last rows of a call, and all rows of a low one, in ways that depend on the call's height (AVX2),
// so that a vertex's row would depend on how many others there are. In calls of this height every row has the
// same bits, at every SIMD level (TestRowOfAProduct).
const ProductRows = 256
