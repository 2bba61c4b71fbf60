package kernel

import "weft/tensor"

// Sum is a number that Read computes: a sum over the rows of a matrix, in double precision.
type Sum struct {
	tiles int                        // of the rows
	over  func(tiles *tensor.Matrix) // has a kernel compute that of each tile: tiles × 1
}

// Read computes sums, and returns them. The host waits once for all.
func (t *Team) Read(sums ...Sum) []float64 {
	all := 0
	for _, s := range sums {
		all += s.tiles
	}
	partial := t.scratch(tensor.Float64, all, 1)
	defer partial.Release()
	at, places := 0, make([]int, len(sums))
	for k, s := range sums {
		places[k] = at
		of := partial.RowRange(at, at+s.tiles)
		if s.over(of); s.tiles > 1 {
			t.mergeTiles(nil, of, 0, 1)
		}
		at += s.tiles
	}
	values := make([]float64, len(sums))
	read := partial.ReadDoubles()
	for k, s := range sums {
		if s.tiles > 0 && read != nil {
			values[k] = read[places[k]]
		}
	}
	return values
}
