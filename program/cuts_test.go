package program

import (
	"testing"

	"weft/gnn"
	"weft/internal/require"
)

// TestWorkOfBlocks: dividing a program into a block for each convolution looks at each value equally often,
// however many convolutions there are.
func TestWorkOfBlocks(t *testing.T) {
	looks := func(convolutions int) int {
		p := &Program{Operations: []Operation{{Op: "features", Shape: []int{4}}}}
		for range convolutions {
			at := len(p.Operations) - 1
			p.Operations = append(p.Operations,
				Operation{Op: "gather", In: []int{at}, End: "source"},
				Operation{Op: "scatter", In: []int{at + 1}, Reduce: "max"},
				Operation{Op: "relu", In: []int{at + 2}})
		}
		p.Output = len(p.Operations) - 1
		require.NoError(t, p.check())
		looked := 0
		blocks := p.blocks(gnn.Schema{}, cutting{stages: 1}, p.built, func(m mode) func(*value) *value {
			return func(v *value) *value {
				looked++
				return storage(false, m)(v)
			}
		})
		require.Equal(t, convolutions, len(blocks))
		return looked
	}
	few, many := looks(10), looks(200)
	if most := 20 * few; many > most {
		t.Errorf("values of 200 convolutions were looked at %d times, of 10 %d times: at most %d are to be", many,
			few, most)
	}
}
