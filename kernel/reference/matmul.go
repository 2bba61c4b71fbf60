package reference

// MatMul returns z = x·w: z_ij = Σ_k x_ik w_kj, with x n×k, w k×m, z n×m.
func MatMul(x, w *Matrix) *Matrix {
	if x.Cols != w.Rows {
		panic("reference: MatMul: the columns of x are not the rows of w")
	}
	z := New(x.Rows, w.Cols)
	for i := range x.Rows {
		row := z.row(i)
		for k, v := range x.row(i) {
			for j, weight := range w.row(k) { // along rows, which are contiguous in memory
				row[j] += v * weight
			}
		}
	}
	return z
}

// MatMulTransA returns z = xᵀ·w, with x k×n, w k×m, z n×m.
func MatMulTransA(x, w *Matrix) *Matrix { return MatMul(x.Transpose(), w) }

// MatMulTransB returns z = x·wᵀ, with x n×k, w m×k, z n×m: a linear layer with PyTorch's [out, in] weight.
func MatMulTransB(x, w *Matrix) *Matrix { return MatMul(x, w.Transpose()) }

// MatMulBackward returns the gradients of MatMul: dx = dz·wᵀ and dw = xᵀ·dz.
func MatMulBackward(x, w, dz *Matrix) (dx, dw *Matrix) {
	return MatMulTransB(dz, w), MatMulTransA(x, dz)
}

// AddBias returns y_ij = x_ij + b_j.
func AddBias(x *Matrix, b []float64) *Matrix {
	y := New(x.Rows, x.Cols)
	for i := range x.Rows {
		for j := range x.Cols {
			y.Set(i, j, x.At(i, j)+b[j])
		}
	}
	return y
}

// AddBiasBackward returns the gradient of AddBias with respect to b: db_j = Σ_i dy_ij. The gradient of x is
// dy itself.
func AddBiasBackward(dy *Matrix) (db []float64) {
	db = make([]float64, dy.Cols)
	for i := range dy.Rows {
		for j := range dy.Cols {
			db[j] += dy.At(i, j)
		}
	}
	return db
}
