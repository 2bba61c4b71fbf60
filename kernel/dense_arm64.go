package kernel

// ProductRows is the number of rows of each call of oneDNN in a MatMul; the last call is filled up with
// zeros. On ARM, Debian's oneDNN has the loops of its reference (ref_gemm_f32.cpp), for tiles of 6 rows in
// blocks of 48. A sum in a tile begins at zero, and is then added to the old value that the product extends.
// A sum in left-over rows begins at the old value, and is rounded otherwise. A call of whole blocks has no
// left-over rows.
const ProductRows = 5 * 48
