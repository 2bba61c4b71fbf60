package kernel_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"weft/kernel"
	"weft/kernel/reference"
	"weft/tensor"
)

var integers = map[kernel.Format]int{kernel.InInt8: 8, kernel.InInt4: 4}

// TestPhilox compares the reference with the known answers of the authors' Random123 (kat_vectors).
func TestPhilox(t *testing.T) {
	all := uint32(math.MaxUint32)
	for _, known := range []struct {
		counter [4]uint32
		key     uint64
		want    [4]uint32
	}{
		{want: [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{
			[4]uint32{all, all, all, all},
			math.MaxUint64,
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
		},
		{
			[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			0x299f31d0a4093822,
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	} {
		if got := reference.Philox(known.counter, known.key); got != known.want {
			t.Errorf("%x of %x: %x, want %x", known.counter, known.key, got, known.want)
		}
	}
}

// encoded returns an encoding of rows, of all columns or the listed ones.
func (s *suite) encoded(f kernel.Format, x, rows, columns *tensor.Matrix, d kernel.Draws) *tensor.Matrix {
	n, count := x.Rows, x.Cols
	if rows != nil {
		n = rows.Cols
	}
	if columns != nil {
		count = columns.Cols
	}
	element, width := f.Row(x.Element, count)
	z := s.team.Memory.NewElement(tensor.Buffers, element, n, width)
	s.team.Encode(f, z, x, rows, columns, d)
	return z
}

// conformCoding compares codes, and the rows that they decode to, with the reference. A sum that is within a
// few roundings of a whole number may be rounded to either side.
func conformCoding(s *suite) {
	for _, width := range widths {
		const n = 6
		x := s.stored(n+3, width)
		ids, rows := s.permutation(n+3), s.ints([]int32{5, 0, 8, 2, 7, 4})
		for f, bits := range integers {
			d := kernel.Draws{Key: 77, Stream: uint32(width), IDs: ids}
			z := s.encoded(f, x, rows, nil, d)
			if z.Element != tensor.Byte {
				if 2*width > 8+(width*bits+7)/8 || z.Element != tensor.BFloat16 {
					s.t.Errorf("%d columns are not sent as integers", width)
				}
				continue
			}
			if want := n * (8 + (width*bits+7)/8); z.Len() != want {
				s.t.Fatalf("%d columns: %d bytes, the formula says %d", width, z.Len(), want)
			}
			into := s.as(s.storage, s.zeros(n+3, width))
			s.team.Decode(f, into, z, rows, nil, kernel.Replace)
			sum := s.normal(n+3, width)
			before := values(sum)
			s.team.Decode(f, sum, z, rows, nil, kernel.Accumulate)
			source, decoded, added := values(x), values(into), values(sum)
			for i, row := range rows.Int32s() {
				numbers := source[int(row)*width:][:width]
				least, spread, want := reference.Quantize(numbers, bits, func(c int) float64 {
					return reference.Uniform(d.Key, d.Stream, uint32(ids.Int32s()[row]), c)
				})
				low, wide, got := unpack(z.Bytes()[i*z.Cols:][:z.Cols], width, bits)
				if low != least || math.Abs(wide-spread) > 1e-6*spread {
					s.t.Fatalf("%d columns: range %v from %v, want %v from %v", width, wide,
						low, spread, least)
				}
				exact, largest := reference.Dequantize(least, spread, got, bits), math.Abs(least)+spread
				for c, q := range got {
					near := (numbers[c]-least)/spread*float64(int(1)<<bits-1) +
						reference.Uniform(d.Key, d.Stream, uint32(ids.Int32s()[row]), c)
					if q != want[c] && math.Abs(near-math.Round(near)) > 1e-4 {
						s.t.Fatalf("%d columns, %d bits: code %d is %d, want %d", width, bits, c, q, want[c])
					}
					at := int(row)*width + c
					if d := decoded[at] - exact[c]; math.Abs(d) > s.rounding()*largest {
						s.t.Fatalf("%d columns, %d bits: %v is decoded as %v", width, bits,
							exact[c], decoded[at])
					}
					if d := added[at] - before[at] - exact[c]; math.Abs(d) > 4e-7*(largest+
						math.Abs(before[at])) {
						s.t.Fatalf("%d columns, %d bits: %v is added as %v", width, bits, exact[c],
							added[at]-before[at])
					}
				}
			}
		}
	}
}

// rounding returns a bound of the error of a number that is computed by a few operations and stored.
func (s *suite) rounding() float64 {
	if s.storage == tensor.BFloat16 {
		return 1. / 256
	}
	return 4e-7
}

// unpack reads a row of codes.
func unpack(row []byte, width, bits int) (least, spread float64, codes []int) {
	number := func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) }
	for c := range width {
		b := row[8+c*bits/8]
		if bits == 4 {
			b = b >> (c % 2 * 4) & 15
		}
		codes = append(codes, int(b))
	}
	return number(row), number(row[4:]), codes
}

// TestStochasticRounding: over many keys, the mean of a decoded number is the number, within four standard
// errors of its two values. No error is above a step. The variance, as a mean over evenly spread numbers, is
// a sixth of the square of a step (AdaQP's d·R²/(6·(2^b−1)²) for a row).
func TestStochasticRounding(t *testing.T) {
	with(t, func(s *suite) {
		const width, keys = 150, 1500
		x := s.team.Memory.New(tensor.Buffers, 1, width)
		for c := range x.Floats() {
			x.Floats()[c] = s.r.Float32()*3 - 1
		}
		into := s.zeros(1, width)
		for f, bits := range integers {
			least, spread, _ := reference.Quantize(values(x), bits, func(int) float64 { return 0 })
			step := spread / float64(int(1)<<bits-1)
			sum, variance := make([]float64, width), 0.
			for key := range uint64(keys) {
				z := s.encoded(f, x, nil, nil, kernel.Draws{Key: key * 0x9e3779b97f4a7c15})
				s.team.Decode(f, into, z, nil, nil, kernel.Replace)
				z.Release()
				for c, got := range values(into) {
					d := got - float64(x.Floats()[c])
					if math.Abs(d) > step*1.0001 {
						t.Fatalf("%d bits: %v arrives as %v, and a step is %v", bits,
							x.Floats()[c], got, step)
					}
					sum[c] += d
					variance += d * d / (width * keys)
				}
			}
			expected := 0.
			for c, v := range x.Floats() {
				part := math.Mod((float64(v)-least)/step, 1)
				expected += part * (1 - part) * step * step / width
				if e := math.Sqrt(part*(1-part)/keys) * step; math.Abs(sum[c]/keys) > 4*e+1e-6 {
					t.Errorf("%d bits: the mean of %v is off by %v, %.1f standard errors", bits, v,
						sum[c]/keys, sum[c]/keys/e)
				}
			}
			if math.Abs(variance/expected-1) > .05 {
				t.Errorf("%d bits: variance %v, want %v", bits, variance, expected)
			}
			if sixth := step * step / 6; bits == 8 && math.Abs(variance/sixth-1) > .2 {
				t.Errorf("variance %v, a sixth of a step's square is %v", variance, sixth)
			}
		}
	})
}

// TestOddRowsEncoded: equal numbers arrive as they are, and a row with a number that is not finite as NaN.
func TestOddRowsEncoded(t *testing.T) {
	with(t, func(s *suite) {
		nan, inf := float32(math.NaN()), float32(math.Inf(1))
		for f := range integers {
			for _, width := range []int{9, 16, 37, 129} {
				for _, odd := range []float32{nan, inf, -inf} {
					for _, at := range []int{0, width / 2, width - 1} {
						x := s.normal(1, width)
						x.Floats()[at] = odd
						into := s.zeros(1, width)
						s.team.Decode(f, into, s.encoded(f, x, nil, nil, kernel.Draws{}), nil,
							nil, kernel.Replace)
						if k := slices.IndexFunc(into.Floats(),
							func(v float32) bool { return v == v }); k >= 0 {
							t.Fatalf("a row with %v arrives with %v", odd, into.Floats()[k])
						}
					}
				}
				for _, row := range [][2]float32{{0, 0}, {-2.5, -2.5}, {1e-42, 3e-42}, {-3e38, 3e38}} {
					x := s.zeros(1, width)
					s.team.Fill(x, row[0])
					x.Floats()[width/2] = row[1]
					into := s.zeros(1, width)
					s.team.Decode(f, into, s.encoded(f, x, nil, nil, kernel.Draws{}), nil,
						nil, kernel.Replace)
					for _, got := range into.Floats() {
						if row[0] == -3e38 { // the range is not finite
							if got == got {
								t.Fatalf("a row of range 6e38 arrives with %v", got)
							}
						} else if math.Abs(float64(got-row[0])) > 3e-42 {
							t.Fatalf("%v arrives as %v", row[0], got)
						}
					}
				}
			}
		}
	})
}

// TestDrawsAreApart: another key, stream, vertex or column has another random number.
func TestDrawsAreApart(t *testing.T) {
	with(t, func(s *suite) {
		const width = 1000
		x := s.zeros(2, width)
		for c := range width {
			x.Floats()[c], x.Floats()[width+c] = .5, .5
		}
		for i := range 2 { // a range of 15 steps, with the other numbers in its middle
			x.Floats()[i*width], x.Floats()[i*width+1] = -7, 8
		}
		code := func(d kernel.Draws) []byte {
			return slices.Clone(s.encoded(kernel.InInt4, x, nil, nil, d).Bytes())
		}
		first := code(kernel.Draws{Key: 1})
		half := len(first) / 2
		for name, other := range map[string][]byte{
			"key": code(kernel.Draws{Key: 2})[:half], "stream": code(kernel.Draws{Key: 1, Stream: 1})[:half],
			"vertex": first[half:],
		} {
			_, _, a := unpack(first[:half], width, 4)
			_, _, b := unpack(other, width, 4)
			same := 0
			for c := range a {
				if a[c] == b[c] {
					same++
				}
			}
			if math.Abs(float64(same)/width-.5) > 4*.5/math.Sqrt(width) {
				t.Errorf("another %s: %d of %d codes agree, want a half", name, same, width)
			}
		}
		if !slices.Equal(first, code(kernel.Draws{Key: 1})) {
			t.Error("equal keys give different codes")
		}
		turned := code(kernel.Draws{Key: 1, IDs: s.ints([]int32{1, 0})})
		if !slices.Equal(turned[:half], first[half:]) ||
			!slices.Equal(turned[half:], first[:half]) {
			t.Error("a row is not rounded by the numbers of its vertex")
		}
	})
}

// TestListedColumns: listed columns are encoded like the rows of a matrix that has only these. Decoding and
// adding leave the other columns as they are.
func TestListedColumns(t *testing.T) {
	with(t, func(s *suite) {
		const n = 5
		for _, c := range []struct{ width, count int }{
			{1, 1},
			{9, 0},
			{9, 1},
			{40, 39},
			{150, 131},
			{300, 17},
		} {
			x, rows, ids := s.stored(n+2, c.width), s.ints([]int32{4, 0, 6, 2, 5}), s.permutation(n+2)
			columns := s.permutation(c.width).Int32s()[:c.count]
			slices.Sort(columns)
			list, alone := s.ints(columns), s.as(s.storage, s.zeros(n+2, c.count))
			for k, column := range columns {
				s.team.Columns(alone, k, x, int(column), 1, kernel.Replace)
			}
			for _, f := range []kernel.Format{
				kernel.AsStored, kernel.InBFloat16,
				kernel.InInt8, kernel.InInt4,
			} {
				d := kernel.Draws{Key: 3, IDs: ids}
				z, want := s.encoded(f, x, rows, list, d), s.encoded(f, alone, rows, nil, d)
				if !slices.Equal(z.Bytes(), want.Bytes()) {
					t.Fatalf("format %d, %d of %d columns: other bytes than of these alone",
						f, c.count, c.width)
				}
				for _, to := range []kernel.Output{kernel.Replace, kernel.Accumulate} {
					into, decoded := s.normal(n+2, c.width), s.zeros(n+2, c.count)
					before := values(into)
					s.team.Decode(f, into, z, rows, list, to)
					s.team.Decode(f, decoded, want, rows, nil, kernel.Accumulate)
					for _, row := range rows.Int32s() {
						for k, column := range columns {
							at, v := int(row)*c.width+int(column), values(decoded)[int(row)*c.count+k]
							if to == kernel.Accumulate {
								v = float64(float32(before[at]) + float32(v))
							}
							before[at] = v
						}
					}
					if !slices.Equal(values(into), before) {
						t.Fatalf("format %d, %d of %d columns: other numbers than of these alone, or in "+
							"other columns", f, c.count, c.width)
					}
				}
			}
		}
	})
}

// TestFormats: the bytes of a row of each width. If bfloat16s take as many bytes as integers, the row has
// bfloat16s, which lose less.
func TestFormats(t *testing.T) {
	for _, c := range []struct {
		f       kernel.Format
		stored  tensor.Element
		columns int
		element tensor.Element
		bytes   int
	}{
		{kernel.AsStored, tensor.Float32, 7, tensor.Float32, 28},
		{kernel.AsStored, tensor.BFloat16, 7, tensor.BFloat16, 14},
		{kernel.InBFloat16, tensor.Float32, 7, tensor.BFloat16, 14},
		{kernel.InBFloat16, tensor.BFloat16, 7, tensor.BFloat16, 14},
		{kernel.InInt8, tensor.Float32, 2, tensor.BFloat16, 4},
		{kernel.InInt8, tensor.Float32, 8, tensor.BFloat16, 16},
		{kernel.InInt8, tensor.Float32, 9, tensor.Byte, 17},
		{kernel.InInt8, tensor.Float32, 128, tensor.Byte, 136},
		{kernel.InInt8, tensor.BFloat16, 8, tensor.BFloat16, 16},
		{kernel.InInt8, tensor.BFloat16, 9, tensor.Byte, 17},
		{kernel.InInt4, tensor.Float32, 2, tensor.BFloat16, 4},
		{kernel.InInt4, tensor.Float32, 5, tensor.BFloat16, 10},
		{kernel.InInt4, tensor.Float32, 6, tensor.Byte, 11},
		{kernel.InInt4, tensor.Float32, 129, tensor.Byte, 73},
		{kernel.InInt4, tensor.BFloat16, 5, tensor.BFloat16, 10},
		{kernel.InInt4, tensor.BFloat16, 6, tensor.Byte, 11},
	} {
		element, width := c.f.Row(c.stored, c.columns)
		if got := width * element.Size(); got != c.bytes || element != c.element {
			t.Errorf("%d columns in format %v: %d bytes of elements of type %v, want %d of %v", c.columns,
				c.f, got, element, c.bytes, c.element)
		}
	}
}
