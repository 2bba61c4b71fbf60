package bench

import (
	"fmt"

	"weft/kernel"
	"weft/tensor"
)

// heads is a shape of attention: the aggregation's width is that of all heads together.
type heads struct {
	aggregation
	heads int
}

func (s heads) String() string {
	return fmt.Sprintf("%s heads=%d", s.aggregation, s.heads)
}

func (b *bench) attentions() (cases []testCase) {
	forward := []heads{
		{aggregation{uniform, 15, 128, true}, 4},
		{aggregation{rmat, 15, 128, true}, 4},
		{aggregation{uniform, 5, 128, true}, 4},
		{aggregation{rmat, 50, 128, true}, 4},
		{aggregation{uniform, 200, 128, true}, 4},
		{aggregation{uniform, 15, 16, true}, 1},
		{aggregation{rmat, 15, 41, true}, 1},
		{aggregation{rmat, 15, 64, true}, 8},
		{aggregation{uniform, 15, 100, true}, 4},
		{aggregation{uniform, 15, 128, false}, 4},
		{aggregation{rmat, 15, 128, false}, 4},
		{aggregation{rmat, 15, 16, false}, 1},
		{aggregation{uniform, 15, 64, false}, 8},
		{aggregation{uniform, 15, 256, false}, 4},
		{aggregation{rmat, 200, 512, false}, 8},
	}
	some := []heads{
		{aggregation{uniform, 15, 128, true}, 4},
		{aggregation{rmat, 50, 128, true}, 4},
		{aggregation{rmat, 15, 41, true}, 1},
		{aggregation{uniform, 15, 64, true}, 4},
		{aggregation{uniform, 15, 64, true}, 8},
		{aggregation{rmat, 15, 128, false}, 4},
		{aggregation{uniform, 15, 256, false}, 4},
	}
	add := func(name string, shapes []heads, build func(s heads, a *arrays) *job) {
		if b.Quick {
			shapes = shapes[:1]
		}
		for _, s := range shapes {
			cases = append(cases, testCase{name, s.String(), func() (*job, func()) {
				a := &arrays{team: b.team}
				return build(s, a), a.release
			}})
		}
	}
	add("attention", forward, func(s heads, a *arrays) *job { return b.attend(s, s.graph(b, false), false, a) })
	add("attention backward", forward, func(s heads, a *arrays) *job {
		e, t := s.square(b)
		return b.attendBackward(s, e, t, false, a)
	})
	add("attention v2", some, func(s heads, a *arrays) *job { return b.attend(s, s.graph(b, false), true, a) })
	add("attention v2 backward", some, func(s heads, a *arrays) *job {
		e, t := s.square(b)
		return b.attendBackward(s, e, t, true, a)
	})
	return cases
}

// attention is the kernel's description of a graph attention layer between as many rows as e has.
func (s heads) attention(e *kernel.CSR, v2 bool, a *arrays) kernel.Attention {
	k := kernel.Attention{Heads: s.heads, Width: s.width / s.heads, Slope: 0.2, Whole: true, Source: a.matrix(e.Cols, s.width)}
	if v2 {
		k.Target, k.A = a.matrix(e.Rows, s.width), a.matrix(1, s.width)
	} else {
		k.SourceScore, k.TargetScore = a.matrix(e.Cols, s.heads), a.matrix(e.Rows, s.heads)
	}
	return k
}

// attend gathers source rows, and for GATv1 their scores; it streams the structure and what stands for the
// destination (GATv1 its scores, GATv2 its row) and writes the output and the log-sum-exp. There is one
// exponential for each edge and head, and GATv2 has one term of a score for each edge and column: unlike
// GATv1's, its scores are sums over columns that belong to the edge.
//
// Operations per edge and column: 2 for the weighted sum; GATv2 5 more for a·LeakyReLU(x+y).
func (b *bench) attend(s heads, e *kernel.CSR, v2 bool, a *arrays) *job {
	k := s.attention(e, v2, a)
	state := a.state(e.Rows, s.heads, k.Width)
	j := &job{
		run: func() { b.team.Attend(state, k, e, nil, kernel.Last) }, flops: float64(2 * e.Entries() * s.width),
		written: 4 * (state.Out.Len() + state.Maximum.Len()), exps: e.Entries() * s.heads,
	}
	if v2 {
		j.flops += float64(5 * e.Entries() * s.width)
		j.scores = e.Entries() * s.width
		j.gathers, j.read = []gather{along(e, k.Source)}, structure(e, k.Target)
	} else {
		j.gathers, j.read = []gather{along(e, k.Source, k.SourceScore)}, structure(e, k.TargetScore)
	}
	return j
}

// attendBackward goes over the edges e and over their transpose t, and has one exponential for each edge
// and head, and GATv2's terms of scores, both times.
//
// By destination, for the gradient of what stands for it: gathers source rows (and GATv1's source scores),
// and streams the structure, the destination's row of the gradient g, its log-sum-exp and ⟨g, output⟩, and
// GATv1's scores or GATv2's row; updates that gradient.
//
// By source, for the gradient of its row: gathers the destinations' g, log-sum-exp and ⟨g, output⟩, with
// GATv1's scores (two or three numbers per head) or GATv2's rows; streams the transposed structure, the
// source's row and scores; updates their gradients.
//
// Of the source rows GATv1 reads those on one side of LeakyReLU's knee, where destinations have some edges
// and a head a cache line of columns. Which these are depends on the scores, so the bound and the operations
// count all: a fraction above 1 is possible.
//
// Operations per edge and column: three weighted sums, 6. GATv2 has two dot products and a weighted sum
// instead, a·LeakyReLU(x+y) both times, and weighted sums of slopes and of LeakyReLU, 18 more.
func (b *bench) attendBackward(s heads, e, t *kernel.CSR, v2 bool, a *arrays) *job {
	k := s.attention(e, v2, a)
	// Log-sum-exps are above all scores
	g, gOut, logSum := a.matrix(e.Rows, s.width), a.matrix(e.Rows, s.heads), a.filled(e.Rows, s.heads, 4)
	d := kernel.AttentionGradients{Source: a.zeros(e.Cols, s.width)}
	numbers := 3
	if v2 {
		numbers = 2
	}
	packed := a.matrix(e.Rows, numbers*s.heads)
	j := &job{
		run: func() {
			b.team.AttendBackward(d, k, e, t, nil, kernel.Attended{Grad: g, GradDotOut: gOut, LogSum: logSum})
		},
		flops: float64(6 * e.Entries() * s.width), exps: 2 * e.Entries() * s.heads,
		read: append(structure(e, g, gOut, logSum), structure(t, k.Source)...), updated: 4 * d.Source.Len(),
	}
	if v2 {
		d.Target, d.A = a.zeros(e.Rows, s.width), a.zeros(1, s.width)
		j.flops += float64(18 * e.Entries() * s.width)
		j.scores = 2 * e.Entries() * s.width
		j.gathers = []gather{along(e, k.Source), along(t, g, k.Target, packed)}
		j.read, j.updated = append(j.read, k.Target), j.updated+4*d.Target.Len()
	} else {
		d.SourceScore, d.TargetScore = a.zeros(e.Cols, s.heads), a.zeros(e.Rows, s.heads)
		j.gathers = []gather{along(e, k.Source, k.SourceScore), along(t, g, packed)}
		j.read, j.updated = append(j.read, k.SourceScore, k.TargetScore), j.updated+4*(d.SourceScore.Len()+d.TargetScore.Len())
	}
	return j
}

// square is the shape's graph and its transpose. Rows that are left out of the graph are left out of both.
func (s aggregation) square(b *bench) (e, t *kernel.CSR) {
	e = s.graph(b, false)
	g := b.graph(graphKey{s.kind, s.vertices(b), s.degree})
	if e.Rows == g.in.Rows {
		return e, g.transposed()
	}
	if g.part == nil || g.part.Cols != e.Rows {
		g.part = b.team.Transpose(e, tensor.Graph)
	}
	return e, g.part
}
