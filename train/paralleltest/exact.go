package paralleltest

import (
	"math"
	"slices"

	"weft/gnn"
	"weft/graph"
	"weft/kernel/reference"
)

// exact is a layer in double precision. It takes the input x, the weights w and the output's gradient dz.
type exact func(e *inEdges, x, dz *reference.Matrix, w []*reference.Matrix) *Outcome

// inEdges are the edges into each vertex, along a direction of a graph.
type inEdges struct {
	indptr   []int64
	sources  []int32
	weights  []float64   // nil: all one
	features [][]float64 // of each edge; nil: none
}

// inEdgesOf lists the edges into each vertex in the relation's order.
func inEdgesOf(r *graph.Relation, along gnn.Along) *inEdges {
	n := len(r.Indptr) - 1
	edges := r.Edges()
	if along.Reversed {
		edges.Source, edges.Target = edges.Target, edges.Source
	}
	into := make([][]int, n)
	for k, target := range edges.Target {
		into[target] = append(into[target], k)
	}
	e := &inEdges{indptr: []int64{0}}
	for _, list := range into {
		for _, k := range list {
			e.sources = append(e.sources, edges.Source[k])
			if edges.Weights != nil {
				e.weights = append(e.weights, float64(edges.Weights[k]))
			}
			if c := edges.FeatureColumns; c > 0 && !along.Reversed {
				e.features = append(e.features, doubles(edges.Features[k*c:(k+1)*c]))
			}
		}
		e.indptr = append(e.indptr, int64(len(e.sources)))
	}
	return e
}

// kinds are the linear aggregations.
var kinds = map[gnn.ReduceKind]reference.Kind{
	gnn.KindSum: reference.Sum, gnn.KindMean: reference.Mean, gnn.KindSymmetric: reference.Symmetric,
	gnn.KindSymmetricNoLoops: reference.SymmetricNoLoops,
}

// exactLinear is Â·(x·w).
func exactLinear(r gnn.Reduce) exact {
	return func(e *inEdges, x, dz *reference.Matrix, w []*reference.Matrix) *Outcome {
		o := exactRounds(r, gnn.Once)(e, reference.MatMul(x, w[0]), dz, nil)
		dx, dw := reference.MatMulBackward(x, w[0],
			matrix(dz.Rows, dz.Cols, o.DX))
		return &Outcome{Out: o.Out, DX: dx.Data, DW: [][]float64{dw.Data}}
	}
}

// exactRounds is Â·x in rounds.
func exactRounds(r gnn.Reduce, k gnn.Rounds) exact {
	return exact(func(e *inEdges, x, dz *reference.Matrix, _ []*reference.Matrix) *Outcome {
		weights := e.weights
		if r.Unweighted {
			weights = nil
		}
		a := reference.Linear(kinds[r.Kind], float64(r.Self), e.indptr, e.sources, weights)
		if r.Weighted && e.weights != nil {
			a.Weights = e.weights
		}
		step := func(h *reference.Matrix) *reference.Matrix {
			z := reference.New(h.Rows, h.Cols)
			reference.SpMM(z, a, h)
			return z
		}
		dx := reference.Rounds(k).Backward(x, dz, step, func(_, dz *reference.Matrix) *reference.Matrix {
			dh := reference.New(dz.Rows, dz.Cols)
			reference.SpMMTranspose(dh, a, dz)
			return dh
		})
		return &Outcome{Out: reference.Rounds(k).Forward(x, step).Data, DX: dx.Data}
	}).looped(r.Loops)
}

// exactKept is Sum(xw) + Mean(xw) + Sum(−3xw) + Sum(xw) of a constant x.
func exactKept(e *inEdges, x, dz *reference.Matrix, w []*reference.Matrix) *Outcome {
	sum, mean := exactLinear(gnn.Sum)(e, x, dz, w), exactLinear(gnn.Mean)(e, x, dz, w)
	o := &Outcome{Out: mean.Out, DX: make([]float64, len(x.Data)), DW: mean.DW}
	for i, v := range sum.Out {
		o.Out[i] -= v
	}
	for i, v := range sum.DW[0] {
		o.DW[0][i] -= v
	}
	return o
}

// ofConstant is f of an input without a gradient.
func (f exact) ofConstant() exact {
	return func(e *inEdges, x, dz *reference.Matrix, w []*reference.Matrix) *Outcome {
		o := f(e, x, dz, w)
		clear(o.DX)
		return o
	}
}

// ofPositive is f of the positive part of its input.
func (f exact) ofPositive() exact {
	return func(e *inEdges, x, dz *reference.Matrix, w []*reference.Matrix) *Outcome {
		return f(e, x.Map(func(v float64) float64 { return max(v, 0) }), dz, w)
	}
}

// exactExtreme is the largest or the smallest of the in-neighbours' values.
func exactExtreme(r gnn.Reduce) exact {
	sign := map[gnn.ReduceKind]float64{gnn.KindMax: 1, gnn.KindMin: -1}[r.Kind]
	return exact(func(e *inEdges, x, dz *reference.Matrix, _ []*reference.Matrix) *Outcome {
		signed := func(v float64) float64 { return sign * v }
		z, arg := reference.Max(e.indptr, e.sources, x.Map(signed))
		return &Outcome{Out: z.Map(signed).Data, DX: reference.MaxBackward(x.Rows, arg, dz).Data}
	}).looped(r.Loops)
}

// exactOfTargets is tanh of the vertex's own row, times the weights of its in-edges and of one loop.
func exactOfTargets(e *inEdges, x, dz *reference.Matrix, _ []*reference.Matrix) *Outcome {
	e = e.looped(gnn.OneLoop)
	o := &Outcome{Out: make([]float64, len(x.Data)), DX: make([]float64, len(x.Data))}
	for i, v := range x.Data {
		for k := e.indptr[i/x.Cols]; k < e.indptr[i/x.Cols+1]; k++ {
			w := 1.
			if e.weights != nil {
				w = e.weights[k]
			}
			o.Out[i] += w * math.Tanh(v)
			o.DX[i] += w * (1 - math.Tanh(v)*math.Tanh(v)) * dz.Data[i]
		}
	}
	return o
}

// exactGINE is the sum or mean of relu(x_j + e_ji·w0 + w1).
func exactGINE(reduce gnn.ReduceKind) exact {
	return func(e *inEdges, x, dz *reference.Matrix, w []*reference.Matrix) *Outcome {
		n := x.Cols
		o := &Outcome{
			Out: make([]float64, len(x.Data)), DX: make([]float64, len(x.Data)),
			DW: [][]float64{make([]float64, len(w[0].Data)), make([]float64, n)},
		}
		for v := range x.Rows {
			sources, features := e.sources[e.indptr[v]:e.indptr[v+1]], e.features[e.indptr[v]:e.indptr[v+1]]
			share := 1.
			if reduce == gnn.KindMean {
				share = 1 / float64(len(sources))
			}
			for k, u := range sources {
				for c := range n {
					z := x.Data[int(u)*n+c] + w[1].Data[c]
					for f, value := range features[k] {
						z += value * w[0].Data[f*n+c]
					}
					if z <= 0 {
						continue
					}
					o.Out[v*n+c] += share * z
					d := share * dz.Data[v*n+c]
					o.DX[int(u)*n+c] += d
					o.DW[1][c] += d
					for f, value := range features[k] {
						o.DW[0][f*n+c] += d * value
					}
				}
			}
		}
		return o
	}
}

// looped are the edges with these self loops. Added ones come last, weigh 1, and have the means of the
// features of the edges between two vertices.
func (e *inEdges) looped(l gnn.Loops) *inEdges {
	o := &inEdges{indptr: []int64{0}}
	add := func(source int32, weight float64, features []float64) {
		o.sources = append(o.sources, source)
		if e.weights != nil {
			o.weights = append(o.weights, weight)
		}
		if e.features != nil {
			o.features = append(o.features, features)
		}
	}
	for v := range len(e.indptr) - 1 {
		mean, others := make([]float64, edgeColumns), 0.
		for k := e.indptr[v]; k < e.indptr[v+1]; k++ {
			loop := int(e.sources[k]) == v
			if !loop && e.features != nil {
				others++
				for c, x := range e.features[k] {
					mean[c] += (x - mean[c]) / others
				}
			}
			if !loop || l.Keep() {
				add(e.sources[k], optional(e.weights, int(k)), optional(e.features, int(k)))
			}
		}
		if l.Add() {
			add(int32(v), 1, mean)
		}
		o.indptr = append(o.indptr, int64(len(o.sources)))
	}
	return o
}

// looped is f of the edges with these self loops.
func (f exact) looped(l gnn.Loops) exact {
	return func(e *inEdges, x, dz *reference.Matrix, w []*reference.Matrix) *Outcome {
		return f(e.looped(l), x, dz, w)
	}
}

// attention is softmax attention over these edges.
func (e *inEdges) attention(heads int) *reference.Attention {
	a := &reference.Attention{Indptr: e.indptr, Indices: e.sources, Heads: heads, Slope: slope}
	if e.features != nil {
		a.Features = matrix(len(e.features), len(e.features[0]), slices.Concat(e.features...))
	}
	return a
}

// optional is number i of a list, or the zero value if there are fewer.
func optional[T any](w []T, i int) (v T) {
	if i < len(w) {
		v = w[i]
	}
	return v
}

// and adds the gradient of an optional weight, unless it is nil.
func (o *Outcome) and(dw *reference.Matrix) *Outcome {
	if dw != nil {
		o.DW = append(o.DW, dw.Data)
	}
	return o
}

// exactGAT is GATv1, with a vector for the edges' features if there is a third weight.
func exactGAT(heads int) exact {
	return func(e *inEdges, x, dz *reference.Matrix, w []*reference.Matrix) *Outcome {
		a := e.attention(heads)
		vector := optional(w, 2)
		z, _ := reference.GAT(a, x, w[0].Data, w[1].Data, vector)
		dx, dSource, dTarget, dVector := reference.GATBackward(a, x, w[0].Data, w[1].Data, vector, dz)
		return (&Outcome{Out: z.Data, DX: dx.Data, DW: [][]float64{dSource, dTarget}}).and(dVector)
	}
}

// exactScored is the definition of Scored.
func exactScored(a gnn.Attention, k gnn.Rounds, have scores) exact {
	return func(e *inEdges, x, dz *reference.Matrix, _ []*reference.Matrix) *Outcome {
		n := dz.Cols
		columns := func(from, count int) *reference.Matrix {
			return reference.PickColumns(x, nil, from, count)
		}
		edges := e.attention(a.Heads)
		source, target := columns(n, a.Heads), columns(n+a.Heads, a.Heads)
		dSource, dTarget := reference.New(x.Rows, a.Heads), reference.New(x.Rows, a.Heads)
		rows := columns(0, n)
		step := func(h *reference.Matrix) *reference.Matrix {
			return reference.Scored(edges, h, source, target)
		}
		dRows := reference.Rounds(k).Backward(rows, dz, step,
			func(h, dz *reference.Matrix) *reference.Matrix {
				dh, ds, dt := reference.ScoredBackward(edges, h, source, target, dz)
				dSource, dTarget = dSource.Plus(ds), dTarget.Plus(dt)
				return dh
			})
		dx := reference.New(x.Rows, x.Cols)
		reference.PutColumns(dx, dRows, nil, 0, false)
		if have == withGradient {
			reference.PutColumns(dx, dSource, nil, n, false)
			reference.PutColumns(dx, dTarget, nil, n+a.Heads, false)
		}
		return &Outcome{Out: reference.Rounds(k).Forward(rows, step).Data, DX: dx.Data}
	}
}

// exactGATv2 is GATv2 of the sources x and the targets x·w0, with a weight of the edges' features if there is
// a third one.
func exactGATv2(heads int) exact {
	return func(e *inEdges, x, dz *reference.Matrix, w []*reference.Matrix) *Outcome {
		a := e.attention(heads)
		target := reference.MatMul(x, w[0])
		weight := optional(w, 2)
		z, _ := reference.GATv2(a, x, target, w[1].Data, weight)
		dSource, dTarget, da, dWeight := reference.GATv2Backward(a, x, target, w[1].Data, weight, dz)
		dx, dw := reference.MatMulBackward(x, w[0], dTarget)
		return (&Outcome{Out: z.Data, DX: dx.Plus(dSource).Data, DW: [][]float64{dw.Data, da}}).and(dWeight)
	}
}

// exactSoftmaxSum is softmax aggregation, whose inverse temperatures are w0.
func exactSoftmaxSum(has learned) exact {
	return func(e *inEdges, x, dz *reference.Matrix, w []*reference.Matrix) *Outcome {
		a := e.attention(x.Cols)
		z, _ := reference.SoftmaxSum(a, x, w[0].Data)
		dx, dt := reference.SoftmaxSumBackward(a, x, w[0].Data, dz)
		if !has {
			clear(dt)
		}
		return &Outcome{Out: z.Data, DX: dx.Data, DW: [][]float64{dt}}
	}
}

// exactDotProducts is attention by dot products. The first half of the columns of x are the sources, and the
// other half the keys. The targets are a product of the sources with w0. There is a weight of the edges'
// features if there is a second one.
func exactDotProducts(heads int) exact {
	return func(e *inEdges, x, dz *reference.Matrix, w []*reference.Matrix) *Outcome {
		a := e.attention(heads)
		weight := optional(w, 1)
		n := dz.Cols
		source, key := reference.PickColumns(x, nil, 0, n), reference.PickColumns(x, nil, n, n)
		query := reference.MatMul(source, w[0])
		z, _ := reference.DotProduct(a, query, key, source, weight)
		dQuery, dKey, dSource, dWeight := reference.DotProductBackward(a, query, key, source, weight, dz)
		ofQuery, dw := reference.MatMulBackward(source, w[0], dQuery)
		dx := reference.New(x.Rows, x.Cols)
		reference.PutColumns(dx, dSource.Plus(ofQuery), nil, 0, false)
		reference.PutColumns(dx, dKey, nil, n, false)
		return (&Outcome{Out: z.Data, DX: dx.Data, DW: [][]float64{dw.Data}}).and(dWeight)
	}
}
