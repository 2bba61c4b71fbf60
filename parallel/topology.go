// Package parallel divides the work of a network. Each way of dividing it is one implementation of gnn.Propagator.
package parallel

import (
	"math"

	"weft/graph"
	"weft/kernel"
	"weft/tensor"
)

// topology is one relation's structure on a worker that holds all of it. Self loops are taken out of the matrix and counted per
// vertex, so that adding, replacing or keeping them is a choice of each aggregation.
type topology struct {
	vertices int
	in, out  *kernel.CSR    // row v: in-neighbours of v; and the transpose. Values are the edge weights, nil without
	loops    *tensor.Matrix // Int32, V × 1: stored self loops of each vertex; nil: none
	loopW    []loopWeight   // their weights; nil: none
	one      *tensor.Matrix // Int32, V × 1 of ones, made when first asked for
}

// loopWeight is the weight of a vertex's self loops: of all together, and of the last, which stands for them where each vertex has
// exactly one (PyG's add_remaining_self_loops).
type loopWeight struct{ sum, last float32 }

func newTopology(team *kernel.Team, r *graph.Relation, copied func()) *topology {
	n := len(r.Indptr) - 1
	mem := team.Memory
	loops, loopW := make([]int32, n), make([]loopWeight, n)
	inner := 0
	for v := range n {
		for k := r.Indptr[v]; k < r.Indptr[v+1]; k++ {
			if int(r.Sources[k]) != v {
				inner++
				continue
			}
			loops[v]++
			w := float32(1)
			if r.Weights != nil {
				w = r.Weights[k]
			}
			loopW[v].sum, loopW[v].last = loopW[v].sum+w, w
		}
	}
	t := &topology{vertices: n, in: &kernel.CSR{
		Rows: n, Cols: n, Indptr: mem.NewElement(tensor.Graph, tensor.Int64, 1, n+1),
		Indices: mem.NewElement(tensor.Graph, tensor.Int32, 1, inner),
	}}
	if r.Weights != nil {
		t.in.Values = mem.New(tensor.Graph, 1, inner)
	}
	if inner < len(r.Sources) {
		t.loops = mem.NewElement(tensor.Graph, tensor.Int32, n, 1)
		t.loopW = loopW
	}
	if !team.Planning() {
		t.fill(r, loops)
	}
	if copied != nil {
		copied()
	}
	t.out = team.Transpose(t.in, tensor.Graph)
	return t
}

// fill copies the edges, without the self loops, and the loops' counts.
func (t *topology) fill(r *graph.Relation, loops []int32) {
	indptr, indices := t.in.Indptr.Int64s(), t.in.Indices.Int32s()
	at := 0
	for v := range t.vertices {
		indptr[v] = int64(at)
		for k := r.Indptr[v]; k < r.Indptr[v+1]; k++ {
			if int(r.Sources[k]) == v {
				continue
			}
			indices[at] = r.Sources[k]
			if r.Weights != nil {
				t.in.Values.Floats()[at] = r.Weights[k]
			}
			at++
		}
	}
	indptr[t.vertices] = int64(at)
	if t.loops != nil {
		copy(t.loops.Int32s(), loops)
	}
	t.in.FindHubs()
}

// reversed is the same relation with every edge turned around.
func (t *topology) reversed() *topology {
	r := *t
	r.in, r.out = t.out, t.in
	return &r
}

// oneLoop is a self loop for each vertex.
func (t *topology) oneLoop(team *kernel.Team) *tensor.Matrix {
	if t.one == nil {
		t.one = team.Memory.NewElement(tensor.Graph, tensor.Int32, t.vertices, 1)
		team.Fill(t.one, 1)
	}
	return t.one
}

func (t *topology) loopsOf(v int) int {
	if t.loops == nil {
		return 0
	}
	return int(t.loops.Int32s()[v])
}

// inDegree counts stored edges into v, self loops included.
func (t *topology) inDegree(v int) int {
	indptr := t.in.Indptr.Int64s()
	return int(indptr[v+1]-indptr[v]) + t.loopsOf(v)
}

// weightedInDegree is the sum of the weights of the edges into v without loops.
func (t *topology) weightedInDegree(v int) float64 {
	indptr := t.in.Indptr.Int64s()
	if t.in.Values == nil {
		return float64(indptr[v+1] - indptr[v])
	}
	sum := 0.0
	for _, w := range t.in.Values.Floats()[indptr[v]:indptr[v+1]] {
		sum += float64(w)
	}
	return sum
}

// column fills a V × 1 matrix that belongs to the graph's structure.
func (t *topology) column(team *kernel.Team, value func(v int) float64) *tensor.Matrix {
	m := team.Memory.New(tensor.Graph, t.vertices, 1)
	if team.Planning() {
		return m
	}
	for v := range m.Floats() {
		m.Floats()[v] = float32(value(v))
	}
	return m
}

// inverse is 1/x, 0 for 0.
func inverse(x float64) float64 {
	if x <= 0 {
		return 0
	}
	return 1 / x
}

func inverseRoot(x float64) float64 { return math.Sqrt(inverse(x)) }
