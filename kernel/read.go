package kernel

import "weft/tensor"

// Sum is a number that Read computes: a sum over the rows of a matrix, in double precision.
type Sum struct {
	tiles int                        // number of tiles of the rows
	over  func(tiles *tensor.Matrix) // runs a kernel that sets tiles × 1 sums, one for each tile
}

// Read computes sums, and returns them. The host waits once for all.
func (t *Team) Read(sums ...Sum) []float64 { return t.Ask(sums...)() }

// Ask begins to compute sums. It returns a function that returns them, to be called once; in a plan they are
// zeros. On a device the sums take memory until that call, and only that call waits.
func (t *Team) Ask(sums ...Sum) (values func() []float64) {
	all := 0
	for _, s := range sums {
		all += s.tiles
	}
	partial := t.scratch(tensor.Float64, all, 1)
	at, places := 0, make([]int, len(sums))
	for k, s := range sums {
		places[k] = at
		rows := partial.RowRange(at, at+s.tiles)
		if s.over(rows); s.tiles > 1 {
			t.mergeTiles(nil, rows, 0, 1)
		}
		at += s.tiles
	}
	values = func() []float64 {
		defer partial.Release()
		results := make([]float64, len(sums))
		read := partial.ReadDoubles()
		for k, s := range sums {
			if s.tiles > 0 && read != nil {
				results[k] = read[places[k]]
			}
		}
		return results
	}
	if !t.Memory.OnDevice() {
		known := values()
		return func() []float64 { return known }
	}
	return values
}
