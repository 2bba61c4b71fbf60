package edges

import (
	"math"
	"slices"

	"weft/gnn"
	"weft/kernel"
	"weft/tensor"
)

// merged are GCN's self loops: one for each vertex, as PyG's add_remaining_self_loops makes them. Its weight
// is that of the last stored loop, or 1 if the vertex has none.
const merged gnn.Loops = 255

// needsOneType panics if the relation joins two vertex types, as it then has no self loops and no common
// degrees.
func (e *Edges) needsOneType(what string) {
	if e.ends == TwoTypes {
		panic("edges: " + what + " of a relation between two vertex types")
	}
}

// LoopCounts returns how many self loops each vertex has: Int32, Rows × 1; nil: none.
func (e *Edges) LoopCounts(loops gnn.Loops) *tensor.Matrix {
	switch loops {
	case gnn.StoredLoops:
		return e.Loops
	case gnn.RemovedLoops:
		return nil
	}
	e.needsOneType("self loops")
	if e.counts[loops] == nil {
		stored := e.loopCounts()
		m := e.team.Memory.NewElement(tensor.Graph, tensor.Int32, e.Rows, 1)
		for v, counts := 0, m.WriteInt32s(); v < len(counts); v++ {
			counts[v] = int32(loops.Count(stored(v)))
		}
		e.counts[loops] = m
		e.made = append(e.made, m)
	}
	return e.counts[loops]
}

// LoopBlocks returns the self loops as blocks of edges: first the stored ones, then the added ones.
func (e *Edges) LoopBlocks(loops gnn.Loops) (blocks []*Block) {
	switch {
	case loops.Only() && e.Loops != nil:
		blocks = append(blocks, e.loopBlock(loops))
	case loops.Keep() && e.Loops != nil:
		blocks = append(blocks, e.loopBlock(gnn.OnlyLoops))
	}
	if loops.Add() {
		blocks = append(blocks, e.loopBlock(gnn.OneLoop))
	}
	return blocks
}

// loopBlock returns self loops as a block: the stored loops, the last of each vertex, or one for each vertex.
func (e *Edges) loopBlock(loops gnn.Loops) *Block {
	e.needsOneType("self loops")
	if e.loopBlocks[loops] == nil {
		b := &Block{
			In: e.loopMatrix(loops), IDs: e.IDs, Features: e.featuresOfLoops(loops), Added: loops.Add(),
			Owned: e.ownLoops,
		}
		if b.Added {
			b.Owned = len(e.own)
		}
		e.wantGradients(b)
		e.loopBlocks[loops] = b
	}
	return e.loopBlocks[loops]
}

// loopMatrix returns the self loops of loopBlock as entries of a matrix. If they are the last ones, the
// matrix has room for more.
func (e *Edges) loopMatrix(loops gnn.Loops) *kernel.CSR {
	team := e.team
	entries := e.loopCount
	if loops.Add() {
		entries = e.Rows
	}
	a := newCSR(team.Memory, team.Memory.NewElement, e.Rows, e.Rows, entries, e.Local().In.Values != nil)
	e.made = append(e.made, a.Arrays()...)
	counts := e.loopCounts()
	fill := newFiller(a)
	if fill == nil {
		return a
	}
	for v := range e.Rows {
		if loops.Add() {
			fill.add(v, int32(v), 1)
			continue
		}
		n := counts(v)
		for k := firstOf(loops, n); k < n; k++ {
			w := float32(1)
			if e.loopW != nil {
				w = e.loopWeights(v)[k]
			}
			fill.add(v, int32(v), w)
		}
	}
	fill.finish()
	return a
}

// firstOf is the first of a vertex's n stored loops that counts.
func firstOf(loops gnn.Loops, n int) int {
	if loops == gnn.LastLoops {
		return max(0, n-1)
	}
	return 0
}

// loopCounts returns a function that gives the number of a vertex's stored self loops.
func (e *Edges) loopCounts() func(v int) int {
	if e.Loops == nil {
		return func(int) int { return 0 }
	}
	return entriesOf(e.Loops)
}

// entriesOf returns a function that gives the entries of a list; nil: their numbers.
func entriesOf(list *tensor.Matrix) func(i int) int {
	if list == nil {
		return func(i int) int { return i }
	}
	entries := list.ReadInt32s()
	return func(i int) int { return int(entries[i]) }
}

// loopWeights returns the weights of a vertex's self loops, for a relation with edge weights.
func (e *Edges) loopWeights(v int) []float32 { return e.loopW[e.loopStart[v]:e.loopStart[v+1]] }

// loopWeight returns the sum of the weights of the self loops of a vertex with n stored ones.
func (e *Edges) loopWeight(v, n int, loops gnn.Loops) (sum float64) {
	switch {
	case loops == merged && (n == 0 || e.loopW == nil):
		return 1
	case loops == merged:
		return float64(e.loopWeights(v)[n-1])
	case e.loopW == nil:
		return float64(loops.Count(n))
	}
	if loops.Keep() {
		for _, w := range e.loopWeights(v) {
			sum += float64(w)
		}
	}
	return sum + float64(loops.Count(0))
}

// meanOf says over what a mean is taken: a vertex's in-neighbours, with these self loops, and its own row
// with the weight self.
type meanOf struct {
	loops gnn.Loops
	self  float32
}

// MeanFactors returns 1/(in-degree + self) of the local rows, self loops included: Rows × 1.
func (e *Edges) MeanFactors(loops gnn.Loops, self float32) *tensor.Matrix {
	key := meanOf{loops, self}
	if e.meanFactors[key] == nil {
		e.meanFactors[key] = e.degreeColumn(countEdges, func(_, stored int, degree float64) float64 {
			return inverse(degree + float64(loops.Count(stored)) + float64(self))
		})
	}
	return e.meanFactors[key]
}

// inverseRoots returns 1/√d of the local rows, Rows × 1. d is the in-degree with these self loops: the sum of
// the edges' weights, or the number of edges if unweighted.
func (e *Edges) inverseRoots(loops gnn.Loops, unweighted bool) *tensor.Matrix {
	key := gnn.Reduce{Loops: loops, Unweighted: unweighted}
	if e.roots[key] == nil {
		count := sumWeights
		if unweighted {
			count = countEdges
		}
		e.roots[key] = e.degreeColumn(count, func(v, stored int, degree float64) float64 {
			if unweighted {
				return inverseRoot(degree + float64(loops.Count(stored)))
			}
			return inverseRoot(degree + e.loopWeight(v, stored, loops))
		})
	}
	return e.roots[key]
}

// degreeOf says what an in-degree counts.
type degreeOf bool

// The number of edges, or the sum of their weights.
const (
	countEdges degreeOf = false
	sumWeights degreeOf = true
)

// inDegrees returns the in-degrees of the local rows, without self loops. In a plan they are zeros or nil.
func (e *Edges) inDegrees(measure degreeOf) (sums []float64) {
	if e.degrees != nil {
		e.team.Serial(func() { sums = e.degrees(measure) })
		return sums
	}
	sums = make([]float64, e.Rows)
	for _, b := range e.Blocks {
		indptr := b.In.Indptr.ReadInt64s()
		weights := []float32(nil)
		if measure == sumWeights {
			weights = b.In.Values.ReadFloats()
		}
		target := entriesOf(b.Targets)
		for i := 0; i+1 < len(indptr); i++ {
			sum := &sums[target(i)]
			if weights == nil {
				*sum += float64(indptr[i+1] - indptr[i])
				continue
			}
			for _, w := range weights[indptr[i]:indptr[i+1]] {
				*sum += float64(w)
			}
		}
	}
	return sums
}

// inDegrees returns the in-degrees, in the whole relation, of the rows or of the selected rows, without self
// loops. It adds weights in the order of the blocks that New would make for all rows with HaloRows.
func (s *Source) inDegrees(measure degreeOf) []float64 {
	n := len(s.Relation.Indptr) - 1
	if s.Some != nil {
		n = len(s.Some.Rows)
	}
	sums := make([]float64, n)
	k := len(s.Starts) - 1
	for v := range sums {
		row := int32(v)
		if s.Some != nil {
			row = s.Some.Rows[v]
		}
		lo, hi := s.Relation.Indptr[row], s.Relation.Indptr[row+1]
		sources := s.Relation.Sources[lo:hi]
		for round := range k {
			q := (s.Me - round + k) % k
			from, _ := slices.BinarySearch(sources, int32(s.Starts[q]))
			to, _ := slices.BinarySearch(sources, int32(s.Starts[q+1]))
			for i := from; i < to; i++ {
				switch {
				case s.isLoop(v, sources[i]):
				case measure == countEdges:
					sums[v]++
				default:
					sums[v] += float64(weight(s.Relation, lo+int64(i)))
				}
			}
		}
	}
	return sums
}

// column makes a rows × 1 matrix, charged to the graph's structure. value is called with each row and the
// number of its stored self loops.
func (e *Edges) column(value func(v, stored int) float64) *tensor.Matrix {
	m := e.team.Memory.New(tensor.Graph, e.Rows, 1)
	e.made = append(e.made, m)
	stored := e.loopCounts()
	values := m.WriteFloats()
	for v := range values {
		values[v] = float32(value(v, stored(v)))
	}
	return m
}

// degreeColumn is column for values that depend on each row's in-degree.
func (e *Edges) degreeColumn(measure degreeOf,
	value func(v, stored int, degree float64) float64,
) *tensor.Matrix {
	degrees := e.inDegrees(measure)
	return e.column(func(v, stored int) float64 { return value(v, stored, degrees[v]) })
}

// inverse returns 1/x, and 0 for 0.
func inverse(x float64) float64 {
	if x <= 0 {
		return 0
	}
	return 1 / x
}

func inverseRoot(x float64) float64 { return math.Sqrt(inverse(x)) }
