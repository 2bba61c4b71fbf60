package reference

// PickColumns returns columns from…from+count−1 of the listed rows of x, or of all rows if rows is nil.
func PickColumns(x *Matrix, rows []int32, from, count int) *Matrix {
	n := x.Rows
	if rows != nil {
		n = len(rows)
	}
	z := New(n, count)
	for i := range n {
		for c := range count {
			z.Set(i, c, x.At(listed(rows, i), from+c))
		}
	}
	return z
}

// PutColumns copies row i of x to columns from…from+x.Cols−1 of row rows_i of z, or of row i if rows is nil.
// With accumulate it adds. Rows of x beyond the list are not used.
func PutColumns(z, x *Matrix, rows []int32, from int, accumulate bool) {
	n := x.Rows
	if rows != nil {
		n = len(rows)
	}
	for i := range n {
		for c := range x.Cols {
			v := x.At(i, c)
			if accumulate {
				v += z.At(listed(rows, i), from+c)
			}
			z.Set(listed(rows, i), from+c, v)
		}
	}
}

// listed returns the i-th of the listed rows, or i if rows is nil.
func listed(rows []int32, i int) int {
	if rows == nil {
		return i
	}
	return int(rows[i])
}
