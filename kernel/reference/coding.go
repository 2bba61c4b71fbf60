package reference

import "math"

// Philox returns 128 random bits of a counter and a key, by Philox 4×32-10 (Salmon, Moraes, Dror and Shaw, SC
// 2011).
func Philox(counter [4]uint32, key uint64) [4]uint32 {
	k0, k1 := uint32(key), uint32(key>>32)
	for range 10 {
		p, q := uint64(0xD2511F53)*uint64(counter[0]), uint64(0xCD9E8D57)*uint64(counter[2])
		counter = [4]uint32{
			uint32(q>>32) ^ counter[1] ^ k0, uint32(q),
			uint32(p>>32) ^ counter[3] ^ k1, uint32(p),
		}
		k0, k1 = k0+0x9E3779B9, k1+0xBB67AE85
	}
	return counter
}

// Uniform returns the number in (0, 1) by which a column of a vertex's row is rounded.
func Uniform(key uint64, stream, vertex uint32, column int) float64 {
	bits := Philox([4]uint32{vertex, uint32(column / 128), uint32(column % 16), stream}, key)
	word := column % 128 / 16
	return (float64(uint16(bits[word/2]>>(word%2*16))) + .5) / 65536
}

// Drawn returns the number in [0, 1) that kernel.Uniform draws for a column of a vertex's row.
func Drawn(key uint64, vertex uint32, column int) float64 {
	bits := 0
	for stream := range uint32(2) {
		words := Philox([4]uint32{vertex, uint32(column / 128), uint32(column % 16), stream + 1}, key)
		word := column % 128 / 16
		bits = bits<<16 | int(uint16(words[word/2]>>(word%2*16)))
	}
	return float64(bits>>8) / (1 << 24)
}

// Quantize returns the code of each number of a row in 2^bits − 1 steps from the smallest number z over the
// range r, rounded stochastically by u (AdaQP; Wan, Zhao and Wu, MLSys 2023).
func Quantize(row []float64, bits int, u func(column int) float64) (z, r float64, codes []int) {
	z, most := math.Inf(1), math.Inf(-1)
	for _, x := range row {
		z, most = min(z, x), max(most, x)
	}
	r = most - z
	for c, x := range row {
		code := 0
		if r > 0 {
			code = min(int(math.Floor((x-z)/r*levels(bits)+u(c))), 1<<bits-1)
		}
		codes = append(codes, code)
	}
	return z, r, codes
}

// Dequantize returns the numbers of the codes.
func Dequantize(z, r float64, codes []int, bits int) (row []float64) {
	for _, q := range codes {
		row = append(row, z+float64(q)*r/levels(bits))
	}
	return row
}

func levels(bits int) float64 { return float64(int(1)<<bits - 1) }
