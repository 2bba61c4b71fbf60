package kernel_test

import (
	"math"
	"slices"

	"weft/internal/assert"
	"weft/kernel/reference"
	"weft/tensor"
)

// half lists every second row, in a random order.
func (s *suite) half(rows int) ([]int64, *tensor.Matrix) {
	var list64 []int64
	var list32 []int32
	for _, v := range s.r.Perm(rows) {
		if v%2 == 0 {
			list64, list32 = append(list64, int64(v)), append(list32, int32(v))
		}
	}
	return list64, s.ints(list32)
}

// loss compares a loss and its gradient with the reference's, which are means over n terms. Some rows have
// huge logits.
func (s *suite) loss(what string, logits *tensor.Matrix, rows []int64, n float64, want float64,
	dWant *reference.Matrix,
	run func(grad *tensor.Matrix, scale float64) float64,
) {
	s.t.Helper()
	alone, grad := run(nil, 1), s.blank(logits.Rows, logits.Cols)
	s.team.Fill(grad, 7)
	if sum := run(grad, 1/n); sum != alone {
		s.t.Fatalf("%s: the loss is %v with a gradient and %v without", what, sum, alone)
	}
	if len(rows) == 0 {
		if alone != 0 {
			s.t.Fatalf("%s: no rows have a loss of %v", what, alone)
		}
	} else if !(math.Abs(alone-n*want) <= 1e-6*(n*want+1)) {
		s.t.Fatalf("%s: loss %v, want %v", what, alone, n*want)
	}
	for i, v := range grad.Floats() {
		if row := int64(i / logits.Cols); !slices.Contains(rows, row) {
			if v != 7 {
				s.t.Fatalf("%s: row %d is not listed and was written", what, row)
			}
		} else if d := math.Abs(float64(v) - dWant.Data[i]); !(d <= 2e-6/n) {
			s.t.Fatalf("%s: gradient %d is %v, want %v", what, i, v, dWant.Data[i])
		}
	}
}

// logits returns normal numbers. Every fifth row has numbers of up to ±10⁴.
func (s *suite) logits(rows, cols int) *tensor.Matrix {
	z := s.normal(rows, cols)
	for i := range z.Floats() {
		if i/cols%5 == 4 {
			z.Floats()[i] = float32(s.r.IntN(3)-1) * 1e4
		}
	}
	return z
}

func conformCrossEntropy(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		z := s.logits(rows, cols)
		list64, list32 := s.half(min(rows, 40))
		labels64, labels32 := make([]int64, rows), make([]int32, rows)
		for i := range rows {
			c := s.r.IntN(cols)
			labels64[i], labels32[i] = int64(c), int32(c)
		}
		labels := s.ints(labels32)
		s.loss(case_("rows", rows, "classes", cols), z, list64, math.Max(1, float64(len(list64))),
			reference.CrossEntropy(exact(z), labels64, list64),
			reference.CrossEntropyBackward(exact(z), labels64, list64),
			func(grad *tensor.Matrix, scale float64) float64 {
				return s.team.Read(s.team.CrossEntropy(grad, z, list32, labels, scale))[0]
			})
	})
}

func conformBinaryCrossEntropy(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		z, targets := s.logits(rows, cols), s.team.Memory.New(tensor.Activations, rows, cols)
		for i := range targets.Floats() {
			targets.Floats()[i] = float32(s.r.IntN(2))
		}
		list64, list32 := s.half(min(rows, 40))
		holds := func(name string, there int) {
			s.loss(case_(name, there, "rows", rows, "classes", cols), z, list64, math.Max(1, float64(there)),
				reference.BCEWithLogits(exact(z), exact(targets), list64),
				reference.BCEWithLogitsBackward(exact(z), exact(targets), list64),
				func(grad *tensor.Matrix, scale float64) float64 {
					return s.team.Read(s.team.BinaryCrossEntropy(grad, z, list32, targets, scale))[0]
				})
		}
		holds("all", len(list64)*cols)
		there := 0
		for _, row := range list64 {
			for c := range cols {
				if (int(row)+c)%3 == 1 {
					targets.Floats()[int(row)*cols+c] = float32(math.NaN())
				} else {
					there++
				}
			}
		}
		if there > 0 {
			holds("some", there)
		}
	})
	with(s.t, func(s *suite) { // logits of 0 in one tile, whose factors of 2 have an infinite product
		const rows, cols = 1024, 300
		list := make([]int32, rows)
		for i := range list {
			list[i] = int32(i)
		}
		z, targets := s.blank(rows, cols), s.blank(rows, cols)
		clear(z.Floats())
		clear(targets.Floats())
		got, want := s.team.Read(s.team.BinaryCrossEntropy(nil, z, s.ints(list), targets, 1))[0], rows*cols*math.Ln2
		if !(math.Abs(got-want) <= 1e-6*want) {
			s.t.Errorf("%d rows of %d logits of 0: %v, want %v", rows, cols, got, want)
		}
	})
}

// conformHits: half of the rows have their largest logit at the label. Many logits are equal. Some are NaN.
func conformHits(s *suite) {
	s.shapes(func(s *suite, rows, cols int) {
		z, labels64, labels32 := s.blank(rows, cols), make([]int64, rows), make([]int32, rows)
		for i := range rows {
			row := z.Floats()[i*cols : (i+1)*cols]
			for c := range row {
				row[c] = float32(s.r.IntN(3))
			}
			label := s.r.IntN(cols)
			if i%4 < 2 {
				label = slices.Index(row, slices.Max(row))
			}
			labels64[i], labels32[i] = int64(label), int32(label)
			if i%3 == 2 {
				row[[]int{0, label, s.r.IntN(cols)}[s.r.IntN(3)]] = float32(math.NaN())
			}
		}
		list64, list32 := s.half(rows)
		few64, few32 := s.half(rows / 2)
		labels := s.ints(labels32)
		read := s.team.Read(s.team.Hits(z, list32, labels), s.team.Hits(z, s.ints(nil), labels),
			s.team.Hits(z, few32, labels)) // the kernel must decide each row by itself
		assert.Equal(s.t, []float64{
			float64(reference.Hits(exact(z), labels64, list64)), 0,
			float64(reference.Hits(exact(z), labels64, few64)),
		}, read, case_("rows", rows, "classes", cols))
	})
}
