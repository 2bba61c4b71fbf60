package links

import (
	"math"
	"slices"

	"weft/comm"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/tensor"
)

// Decoder scores an edge u→v of relation r from the embeddings of its ends: Σ_c h_uc · w_rc · h_vc. With
// trained weights that is DistMult (Yang et al. 2015); without them w is 1, and the score is the product
// h_u·h_v.
type Decoder struct {
	Weights *tensor.Matrix // relations × D, nil: 1
	Grad    *tensor.Matrix // relations × D: ∂L/∂Weights is added to it
}

// weights returns a function that gives the weights of a relation, or ones.
func (d *Decoder) weights(ones []float32) func(relation int32) []float32 {
	if d.Weights == nil {
		return func(int32) []float32 { return ones }
	}
	values := d.Weights.ReadFloats()
	return func(relation int32) []float32 { return rowOf(values, d.Weights.Cols, int(relation)) }
}

// edgeBatch is some edges, each followed by its negative edges, with the rows of their ends and their scores.
type edgeBatch struct {
	*window
	decoder Decoder
	drawn   int // negative edges of each edge
	edges   int // largest number of edges, without negative edges
	ones    []float32
	scored  int // edges of the batch, with negative edges
	pairs   []pair
	scores  []float32
}

// pair is the ends of an edge: rows of the window.
type pair struct {
	relation       int32
	source, target int32
}

// batchEdges returns the largest number of edges of an edgeBatch, without negative edges.
func (l *Edges) batchEdges(columns, drawn int) int {
	return max(1, l.bytes/4/max(1, columns)/2/(1+drawn))
}

// batchOf returns an empty edgeBatch for a model's output h.
func (l *Edges) batchOf(h *tensor.Matrix, d Decoder, of pass) *edgeBatch {
	drawn := of.drawn
	p := &edgeBatch{
		decoder: d, drawn: drawn, edges: l.batchEdges(h.Cols, drawn),
		ones: slices.Repeat([]float32{1}, h.Cols),
	}
	p.window = l.window(h, 2*(1+drawn)*p.edges, of)
	return p
}

// score draws the negative edges of an epoch, fetches the ends of all edges, and scores them.
func (p *edgeBatch) score(edges []Edge, epoch int) {
	p.scoreWith(len(edges), func() ([]Edge, []int32) { return p.draw(edges, epoch, p.drawn) })
}

// scoreWith fetches the ends of so many edges and of their negative edges, and scores them. negatives returns
// them as draw does.
func (p *edgeBatch) scoreWith(edges int, negatives func() ([]Edge, []int32)) {
	var all []Edge
	var positions []int32
	p.scored = (1 + p.drawn) * edges
	if f := p.next(); f != nil {
		p.scored = int(f.scored[p.me])
	}
	p.team.Work(kernel.Call{Kernel: "draw", Shape: kernel.Shape{p.scored, 1}}, 1, func(int) {
		all, positions = negatives()
	})
	p.fetch(positions)
	p.pairs = make([]pair, len(all))
	p.scores = make([]float32, len(all))
	columns := p.x.Cols
	p.team.OnHost("scores", p.x)
	x := p.x.ReadFloats()
	weights := p.decoder.weights(p.ones)
	p.inParts("scores", columns, len(all), func(lo, hi int) {
		for i, e := range all[lo:hi] {
			p.pairs[lo+i] = pair{e.Relation, int32(p.at(e.Source)), int32(p.at(e.Target))}
		}
		for i, e := range p.pairs[lo:hi] {
			p.scores[lo+i] = product(rowOf(x, columns, int(e.source)), weights(e.relation),
				rowOf(x, columns, int(e.target)))
		}
	})
}

// draw returns the edges, each followed by its negative edges of an epoch, and the positions of their ends,
// sorted.
func (l *Edges) draw(edges []Edge, epoch, drawn int) (all []Edge, positions []int32) {
	all = make([]Edge, 0, (1+drawn)*len(edges))
	for _, e := range edges {
		all = append(all, e)
		for k := range drawn {
			all = append(all, l.Negative(epoch, k, e, l.learned.Ends[e.Relation]))
		}
	}
	return all, l.endsOf(all)
}

// endsOf returns the positions of the ends of edges, sorted.
func (l *Edges) endsOf(all []Edge) []int32 {
	positions := make([]int32, 0, 2*len(all))
	for _, e := range all {
		positions = append(positions, l.places.Position(e.Source), l.places.Position(e.Target))
	}
	slices.Sort(positions)
	return positions
}

// product returns Σ_c a_c·w_c·b_c.
func product(a, w, b []float32) (sum float32) {
	w, b = w[:len(a)], b[:len(a)]
	for c, x := range a {
		sum += x * w[c] * b[c]
	}
	return sum
}

// inParts calls work for consecutive parts of 0 … n−1 on the team's threads: name of so many columns of each
// scored edge.
func (p *edgeBatch) inParts(name string, columns, n int, work func(lo, hi int)) {
	parts := min(n, p.team.Threads())
	c := kernel.Call{Kernel: name, Shape: kernel.Shape{p.scored, columns}}
	p.team.Work(c, parts, func(k int) { work(n*k/parts, n*(k+1)/parts) })
}

// backward computes the gradients of the window's rows from the gradients of the scores. It adds the
// gradients of the decoder's weights to sums (nil: there are none). One thread computes a column, and adds
// in the order of the edges.
func (p *edgeBatch) backward(grads []float32, sums []float64) {
	columns := p.x.Cols
	p.team.Zero(p.dx)
	p.team.OnHost("scores_back", p.x, p.dx)
	x := p.x.ReadFloats()
	dx := p.dx.WriteFloats()
	weights := p.decoder.weights(p.ones)
	p.inParts("scores_back", columns, columns, func(lo, hi int) {
		for i, e := range p.pairs {
			g := grads[i]
			w := weights(e.relation)[lo:hi]
			source := int(e.source)
			target := int(e.target)
			a, b := rowOf(x, columns, source)[lo:hi], rowOf(x, columns, target)[lo:hi]
			da, db := rowOf(dx, columns, source)[lo:hi], rowOf(dx, columns, target)[lo:hi]
			for c := range w {
				da[c] += g * w[c] * b[c]
				db[c] += g * w[c] * a[c]
			}
			if sums != nil {
				dw := sums[int(e.relation)*columns+lo:][:hi-lo]
				for c := range dw {
					dw[c] += float64(g * a[c] * b[c])
				}
			}
		}
	})
}

// crossEntropy returns the binary cross-entropy of σ(score) with 1 for an edge and 0 for a negative edge, and
// its derivative by the score.
func crossEntropy(score float32, drawn bool) (loss float64, grad float64) {
	s := float64(score)
	loss, grad = max(s, 0)+math.Log1p(math.Exp(-math.Abs(s))), 1/(1+math.Exp(-s))
	if !drawn {
		loss, grad = loss-s, grad-1
	}
	return loss, grad
}

// Loss returns this worker's part of the training loss, and its gradient by h. The loss is the mean binary
// cross-entropy of the scores of all training edges, with drawn negative edges for each. The gradient of the
// decoder's weights is added to d.Grad; it is the sum over all workers.
func (l *Edges) Loss(h *tensor.Matrix, d Decoder, epoch, drawn int) (loss float64, grad *tensor.Matrix) {
	grad = l.team.Zeros(tensor.Gradients, h.Rows, h.Cols)
	p := l.batchOf(h, d, pass{Train, drawn, toTrain})
	defer p.release()
	var sums []float64
	if d.Grad != nil {
		sums = make([]float64, d.Grad.Len())
	}
	scale := 1 / (float64(l.Counts[Train]) * float64(1+drawn))
	edges := walk{Edges: l, part: Train}
	for range p.rounds(Train, p.edges) {
		p.score(edges.next(p.edges), epoch)
		losses := make([]float64, len(p.scores))
		grads := make([]float32, len(p.scores))
		p.inParts("edge_loss", 1, len(p.scores), func(lo, hi int) {
			for i, s := range p.scores[lo:hi] {
				one, g := crossEntropy(s, (lo+i)%(1+drawn) > 0)
				losses[lo+i] = one
				grads[lo+i] = float32(scale * g)
			}
		})
		for _, one := range losses {
			loss += scale * one
		}
		p.backward(grads, sums)
		p.sendGradients(grad)
		l.comm.LocalBarrier() // others have read this window then
	}
	if sums != nil {
		exchange.Must(l.comm.SumDoubles(comm.Gradient, sums))
		grad := d.Grad.WriteFloats()
		for i := range grad {
			grad[i] += float32(sums[i])
		}
	}
	return loss, grad
}

// Scores returns the scores of this worker's edges of a part, each followed by the score of a negative edge,
// the same in every epoch.
func (l *Edges) Scores(h *tensor.Matrix, d Decoder, part Part) (scores []float32) {
	return l.scoresOf(h, d, part, 1)
}

// scoresOf returns the scores of this worker's edges of a part, each followed by those of so many drawn
// negative edges.
func (l *Edges) scoresOf(h *tensor.Matrix, d Decoder, part Part, drawn int) (scores []float32) {
	p := l.batchOf(h, d, pass{part, drawn, toScore})
	defer p.release()
	edges := walk{Edges: l, part: part}
	for range p.rounds(part, p.edges) {
		p.score(edges.next(p.edges), 0)
		scores = append(scores, p.scores...)
	}
	return scores
}

// LossOf returns this worker's part of the loss of a part of the edges, from its Scores.
func (l *Edges) LossOf(scores []float32, part Part) (loss float64) {
	if l.Counts[part] == 0 {
		return 0
	}
	for i, s := range scores {
		one, _ := crossEntropy(s, i%2 > 0)
		loss += one / float64(2*l.Counts[part])
	}
	return loss
}
