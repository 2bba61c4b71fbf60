package kernel

import (
	"math"
	"testing"

	"weft/internal/assert"
	"weft/tensor"
)

// TestPackTiles: a word of a tile has two rows' numbers of a column, the first row's in its lower half. A
// tile of g has a line for each pair of rows, and a tile of x one for each column. Zeros fill up the last
// tiles.
func TestPackTiles(t *testing.T) {
	if SIMD() != "avx512" {
		t.Skip("tiles are packed by AVX-512")
	}
	const side = 16 // columns of a tile, and its pairs of rows
	team := NewTeam(1, tensor.NewMeter())
	defer team.Memory.Close()
	for _, size := range [][2]int{{1, 1}, {2, 16}, {31, 17}, {32, 32}, {33, 15}, {64, 40}, {95, 48}} {
		depth, columns := size[0], size[1]
		x := team.Memory.NewElement(tensor.Buffers, tensor.BFloat16, depth, columns)
		for i := range x.BFloat16s() {
			x.BFloat16s()[i] = uint16(1 + i)
		}
		blocks, broad := (depth+2*side-1)/(2*side), (columns+side-1)/side
		for _, transposed := range []bool{false, true} {
			tiles := team.Memory.New(tensor.Buffers, 1, broad*blocks*side*side)
			want, got := make([]uint32, tiles.Cols), make([]uint32, tiles.Cols)
			for i := range want { // by tile, pair of rows and column
				tile, pair, column := i/(side*side), i/side%side, i%side
				row, c := tile%blocks*2*side+2*pair, tile/blocks*side+column
				at := i
				if transposed {
					at = tile*side*side + column*side + pair
				}
				for half := range 2 {
					if row+half < depth && c < columns {
						want[at] |= uint32(x.BFloat16s()[(row+half)*columns+c]) << (16 * half)
					}
				}
			}
			packTiles(tiles, x, transposed)
			for i, word := range tiles.Floats() {
				got[i] = math.Float32bits(word)
			}
			assert.Equal(t, want, got, "%d×%d, transposed: %v", depth, columns, transposed)
		}
	}
}
