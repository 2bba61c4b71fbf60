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
// trained weights this is DistMult (Yang et al. 2015). Without them w is 1, and the score is the product
// h_u·h_v.
type Decoder struct {
	Weights *tensor.Matrix // relations × D, nil: 1
	Grad    *tensor.Matrix // relations × D: ∂L/∂Weights is added to it
}

// edgeBatch is some edges, each followed by its negative edges, with the rows of their ends and their scores.
type edgeBatch struct {
	*window
	decoder Decoder
	drawn   int // negative edges of each edge
	edges   int // largest number of edges, without negative edges
	scored  int // edges of the batch, with negative edges
	scores  []float32

	// Int32, most × 3: the scored edges, as relation and rows of the window. Float32, most × 1: their scores
	// and, in training, the gradients of these.
	pairs, pairScores, pairGrads *tensor.Matrix
	// In training, Int32: the pairs of each row of the window (kernel.Team.PairRows).
	begin, ends *tensor.Matrix
}

// batchEdges returns the largest number of edges of an edgeBatch, without negative edges.
func (l *Edges) batchEdges(columns, drawn int) int {
	return max(1, l.bytes/4/max(1, columns)/2/(1+drawn))
}

// batchOf returns an empty edgeBatch for a pass over a model's output h.
func (l *Edges) batchOf(h *tensor.Matrix, d Decoder, task pass) *edgeBatch {
	drawn := task.drawn
	p := &edgeBatch{decoder: d, drawn: drawn, edges: l.batchEdges(h.Cols, drawn)}
	p.window = l.window(h, 2*(1+drawn)*p.edges, task)
	most := (1 + drawn) * min(p.edges, l.counts[l.me][task.part])
	memory := l.team.Memory
	p.pairs = memory.NewElement(tensor.Activations, tensor.Int32, most, 3)
	p.pairScores = memory.New(tensor.Activations, most, 1)
	if task.to == toTrain {
		p.pairGrads = memory.New(tensor.Gradients, most, 1)
		p.begin = memory.NewElement(tensor.Activations, tensor.Int32, 1, p.x.Rows+1)
		p.ends = memory.NewElement(tensor.Activations, tensor.Int32, 1, 2*most)
	}
	return p
}

func (p *edgeBatch) release() {
	p.window.release()
	exchange.Release(p.pairs, p.pairScores, p.pairGrads, p.begin, p.ends)
}

// kernelPairs returns the batch's pairs for kernels.
func (p *edgeBatch) kernelPairs() kernel.Pairs {
	return kernel.Pairs{X: p.x, Weights: p.decoder.Weights, Triples: p.pairs.Prefix(p.scored, 3)}
}

// score draws the negative edges of an epoch, fetches the ends of all edges, and scores them.
func (p *edgeBatch) score(edges []Edge, epoch int) {
	p.scoreWith(len(edges), func() ([]Edge, []int32) { return p.draw(edges, epoch, p.drawn) })
}

// scoreWith fetches the ends of so many edges and of their negative edges, and scores all of them. negatives
// returns them as draw does.
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
	pairs := p.pairs.Prefix(p.scored, 3).WriteInt32s()
	p.inParts("pairs", 3, len(all), func(lo, hi int) {
		for i, e := range all[lo:hi] {
			copy(pairs[3*(lo+i):], []int32{e.Relation, int32(p.at(e.Source)), int32(p.at(e.Target))})
		}
	})
	score := p.pairScores.Prefix(p.scored, 1)
	p.team.PairScores(score, p.kernelPairs())
	p.scores = score.ReadFloats()
}

// draw returns the edges, each followed by its negative edges of an epoch, and the sorted positions of their
// ends.
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

// inParts calls work for consecutive parts of 0 … n−1 on the team's threads. Traces have name, for so many
// columns of each scored edge.
func (p *edgeBatch) inParts(name string, columns, n int, work func(lo, hi int)) {
	parts := min(n, p.team.Threads())
	c := kernel.Call{Kernel: name, Shape: kernel.Shape{p.scored, columns}}
	p.team.Work(c, parts, func(k int) { work(n*k/parts, n*(k+1)/parts) })
}

// backward computes the gradients of the window's rows from the gradients of the scores. It adds the
// gradients of the decoder's weights to sums (Float64, relations × D; nil: there are none). It sums each
// gradient in the order of the edges.
func (p *edgeBatch) backward(sums *tensor.Matrix) {
	grads := p.pairGrads.Prefix(p.scored, 1)
	ends := p.ends.Prefix(1, 2*p.scored)
	p.team.Serial(func() { p.incident(p.begin.WriteInt32s(), ends.WriteInt32s()) })
	p.team.PairRows(p.dx, grads, p.kernelPairs(), p.begin, ends)
	if sums != nil {
		p.team.PairWeights(sums, grads, p.kernelPairs())
	}
}

// incident lists the pairs of each row, in their order.
func (p *edgeBatch) incident(begin, ends []int32) {
	clear(begin)
	if len(begin) == 0 { // of a plan
		return
	}
	pairs := p.pairs.ReadInt32s()
	at := make([]int32, len(begin)+1) // shifted by one: while rows are listed, it becomes begin
	for k := range p.scored {
		at[pairs[3*k+1]+2]++
		at[pairs[3*k+2]+2]++
	}
	for r := 2; r < len(at); r++ {
		at[r] += at[r-1]
	}
	for k := range p.scored {
		for end, row := range pairs[3*k+1 : 3*k+3] {
			ends[at[row+1]] = int32(2*k + end)
			at[row+1]++
		}
	}
	copy(begin, at)
}

// crossEntropy returns the binary cross-entropy of σ(score), and its derivative by the score. The target is 1
// for an edge and 0 for a negative edge.
func crossEntropy(score float32, drawn bool) (loss float64, grad float64) {
	s := float64(score)
	loss, grad = max(s, 0)+math.Log1p(math.Exp(-math.Abs(s))), 1/(1+math.Exp(-s))
	if !drawn {
		loss, grad = loss-s, grad-1
	}
	return loss, grad
}

// Loss returns this worker's part of the training loss, and its gradient by h. The loss is the mean binary
// cross-entropy of the scores of all training edges, each with drawn negative edges. Loss adds the gradient
// of the decoder's weights, summed over all workers, to d.Grad.
func (l *Edges) Loss(h *tensor.Matrix, d Decoder, epoch, drawn int) (loss float64, grad *tensor.Matrix) {
	grad = l.team.Zeros(tensor.Gradients, h.Rows, h.Cols)
	p := l.batchOf(h, d, pass{Train, drawn, toTrain})
	defer p.release()
	var sums *tensor.Matrix
	if d.Grad != nil {
		sums = l.team.Memory.NewElement(tensor.Gradients, tensor.Float64, d.Grad.Rows, d.Grad.Cols)
		defer sums.Release()
		clear(sums.WriteDoubles())
	}
	scale := 1 / (float64(l.Counts[Train]) * float64(1+drawn))
	edges := walk{Edges: l, part: Train}
	for range p.rounds(Train, p.edges) {
		p.score(edges.next(p.edges), epoch)
		losses := make([]float64, len(p.scores))
		grads := p.pairGrads.Prefix(p.scored, 1).WriteFloats()
		p.inParts("edge_loss", 1, len(p.scores), func(lo, hi int) {
			for i, s := range p.scores[lo:hi] {
				edgeLoss, g := crossEntropy(s, (lo+i)%(1+drawn) > 0)
				losses[lo+i] = edgeLoss
				grads[lo+i] = float32(scale * g)
			}
		})
		for _, edgeLoss := range losses {
			loss += scale * edgeLoss
		}
		p.backward(sums)
		p.sendGradients(grad)
		l.comm.LocalBarrier() // until others have read this window
	}
	if sums != nil {
		all := make([]float64, d.Grad.Len())
		copy(all, sums.ReadDoubles())
		exchange.Must(l.comm.SumDoubles(comm.Gradient, all))
		grad := d.Grad.WriteFloats()
		for i := range grad {
			grad[i] += float32(all[i])
		}
	}
	return loss, grad
}

// Scores returns the scores of this worker's edges of a part, each followed by the score of a negative edge,
// which is the same in every epoch.
func (l *Edges) Scores(h *tensor.Matrix, d Decoder, part Part) (scores []float32) {
	return l.scoresOf(h, d, part, 1)
}

// scoresOf returns the scores of this worker's edges of a part, each followed by the scores of drawn negative
// edges.
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
		edgeLoss, _ := crossEntropy(s, i%2 > 0)
		loss += edgeLoss / float64(2*l.Counts[part])
	}
	return loss
}
