package bench

import (
	"fmt"
	"math/bits"

	"weft/graph"
	"weft/graph/generate"
	"weft/kernel"
	"weft/tensor"
)

const (
	uniform = generate.Uniform
	rmat    = generate.RMAT
)

// graphKey describes a directed graph without self loops. The vertices of an rmat graph are a power of two.
type graphKey struct {
	kind             string
	vertices, degree int
}

func (k graphKey) options() generate.Options {
	o := generate.Options{Kind: k.kind, Classes: 1, Seed: 1}
	if k.kind == rmat {
		o.Scale, o.EdgeFactor = bits.Len(uint(k.vertices))-1, k.degree
	} else {
		o.Vertices, o.Degree, o.Directed = k.vertices, float64(k.degree), true
	}
	return o
}

// sparse is a graph as kernels take it: row v of in are the in-neighbours of v, out is the transpose.
type sparse struct {
	in, out *kernel.CSR
	part    *kernel.CSR // the transpose of the first rows alone, for kernels that read both
	team    *kernel.Team
}

// graph makes a graph, once in a run.
func (b *bench) graph(k graphKey) *sparse {
	if s := b.graphs[k]; s != nil {
		return s
	}
	g, err := generate.Graph(k.options())
	if err != nil {
		panic(fmt.Sprintf("bench: %v", err)) // the shapes are this package's own
	}
	s := newSparse(b.team, &g.Relations[0])
	b.graphs[k] = s
	return s
}

func newSparse(team *kernel.Team, r *graph.Relation) *sparse {
	n := len(r.Indptr) - 1
	in := &kernel.CSR{
		Rows: n, Cols: n, Indptr: team.Memory.NewElement(tensor.Graph, tensor.Int64, 1, n+1),
		Indices: team.Memory.NewElement(tensor.Graph, tensor.Int32, 1, len(r.Sources)),
	}
	copy(in.Indptr.Int64s(), r.Indptr)
	copy(in.Indices.Int32s(), r.Sources)
	in.FindHubs()
	return &sparse{in: in, team: team}
}

// transposed is the transpose, made when first asked for.
func (s *sparse) transposed() *kernel.CSR {
	if s.out == nil {
		s.out = s.team.Transpose(s.in, tensor.Graph)
	}
	return s.out
}

// firstRows is a view of the first n rows of a.
func firstRows(a *kernel.CSR, n int) *kernel.CSR {
	entries := int(a.Indptr.Int64s()[n])
	b := &kernel.CSR{
		Rows: n, Cols: a.Cols, Indptr: a.Indptr.Prefix(1, n+1),
		Indices: a.Indices.Prefix(1, entries),
	}
	b.FindHubs()
	return b
}

// beyondCaches is a number of bytes that is taken to be more than the caches hold. There are computers whose
// last level is larger, but it serves many cores.
const beyondCaches = 256 << 20

// powerOfTwo is the power of two that is nearest to n from below, or from above with up set.
func powerOfTwo(n int, up bool) int {
	p := 1 << (bits.Len(uint(max(n, 1))) - 1)
	if up && p < n {
		p *= 2
	}
	return p
}
