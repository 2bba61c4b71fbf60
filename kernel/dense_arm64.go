package kernel

// ProductRows is how many rows each call has that MatMul is made of; the last is filled up with zeros. Debian's
// oneDNN has for ARM the loops of its reference (ref_gemm_f32.cpp), for tiles of 6 rows in blocks of 48. In a
// tile a sum begins at zero and is added to what the product extends; in the rows that are left over it begins
// at that. In a call of whole blocks no rows are left over.
const ProductRows = 5 * 48
