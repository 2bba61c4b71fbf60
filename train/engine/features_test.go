package engine

import (
	"fmt"
	"testing"

	"weft/graph"
	"weft/internal/require"
	"weft/kernel"
	"weft/partition"
	"weft/tensor"
)

// TestFill compares features that several threads copy with x, x divided by the sum of its row, and
// (x − mean)/deviation: of all rows, of some, of rows of different lengths, and rounded to bfloat16.
func TestFill(t *testing.T) {
	const rows, columns = 1000, 3
	memory := tensor.NewMeter()
	defer memory.Close()
	team := kernel.NewTeam(3, memory)
	dense, sparse := graph.Features{Columns: columns}, graph.Features{Columns: columns, Indptr: []int64{0}}
	value := func(row, column int) float32 { return float32(1 + row%7 + 8*column) }
	for row := range rows {
		for column := range columns {
			dense.Dense = append(dense.Dense, value(row, column))
			if column < row%4 {
				sparse.Indices, sparse.Data = append(sparse.Indices, int32(column)),
					append(sparse.Data, value(row, column))
			}
		}
		sparse.Indptr = append(sparse.Indptr, int64(len(sparse.Data)))
	}
	var some []int32
	for row := int32(1); row < rows; row += 3 {
		some = append(some, row)
	}
	standard := &Standard{Means: []float32{1, 2, 3}, Deviations: []float32{2, 4, 8}}
	for _, from := range []*graph.Features{&dense, &sparse} {
		for _, places := range [][]int32{nil, some} {
			for _, element := range []tensor.Element{tensor.Float32, tensor.BFloat16} {
				for _, l := range []loader{{}, {normalize: true}, {standard: standard}} {
					if from.Sparse() && (element == tensor.BFloat16 || l.standard != nil) {
						continue
					}
					l.team, l.places, l.columns = team, places, columns
					l.values = &partition.Values{Frame: graph.Frame{Count: rows, Features: *from}}
					var want []float32
					begins := []int{0}
					l.each(func(row int) {
						sum := float32(0)
						for _, x := range from.Row(row) {
							sum += x
						}
						for column, x := range from.Row(row) {
							switch {
							case l.normalize:
								x *= 1 / sum
							case l.standard != nil:
								x = (x - standard.Means[column]) / standard.Deviations[column]
							}
							want = append(want, x)
						}
						begins = append(begins, len(want))
					})
					to := memory.NewElement(tensor.Features, element, 1, len(want))
					l.fill(to, func(i int) int { return begins[i] })
					name := fmt.Sprintf("sparse %v, %d places, %v, normalized %v, standard %v", from.Sparse(),
						len(places), element, l.normalize, l.standard != nil)
					for k, x := range want {
						var got float32
						if element == tensor.BFloat16 {
							got, x = tensor.FromBFloat16(to.BFloat16s()[k]),
								tensor.FromBFloat16(tensor.RoundBFloat16(x))
						} else {
							got = to.Floats()[k]
						}
						require.Equal(t, x, got, "%s: value %d", name, k)
					}
					to.Release()
				}
			}
		}
	}
}
