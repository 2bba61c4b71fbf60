package task

import (
	"math"
	"strings"

	"weft/comm"
	"weft/comm/launch"
	"weft/graph"
	"weft/internal/refusal"
	"weft/nn"
	"weft/partition"
)

// What the task of edges needs beside that of vertices.

// Target returns the rows of a graph that the goal learns: the edges whose labels it names, or vertices.
func (g *Goal) Target(in *graph.Graph) graph.Target { return in.Target(g.EdgeLabel) }

// labelled are the labels that the settings name.
func (k labelPrediction) labelled(whole *partition.Whole) (*partition.RelationFrame, error) {
	var found *partition.RelationFrame
	var names []string
	for i := range whole.Frames {
		l := &whole.Frames[i]
		names = append(names, l.Column)
		if !l.Named(k.EdgeLabel) {
			continue
		}
		if found != nil {
			return nil, refusal.Errorf("--edge-label %s: several relations have labels of this name; name one, as "+
				"in --edge-label RELATION:%[1]s", k.EdgeLabel)
		}
		found = l
	}
	switch {
	case found != nil:
		return found, nil
	case k.EdgeLabel == "":
		return nil, refusal.Errorf("--task %s learns labels of edges; name their column with --edge-label", Edge)
	case names == nil:
		return nil, refusal.Graph.Errorf("its edges have no labels, and --edge-label %s asks for some; import it "+
			"from a list of edges with --edge-label %[1]s", k.EdgeLabel)
	}
	return nil, refusal.Errorf("--edge-label %s: the edges have labels of other names: %s", k.EdgeLabel,
		strings.Join(names, ", "))
}

// RelationOf is the number of the relation whose edges a kind of task learns; −1: it learns no labels of
// edges.
func RelationOf(k Kind, whole *partition.Whole) (int, error) {
	rows, ok := k.(labelPrediction)
	if !ok || rows.kind != graph.EdgeRows {
		return -1, nil
	}
	return rows.relation(whole)
}

// relation is the number of the relation whose edges are learned.
func (k labelPrediction) relation(whole *partition.Whole) (int, error) {
	l, err := k.labelled(whole)
	if err != nil {
		return 0, err
	}
	return l.Relation, nil
}

// endTypes are the vertex types that the relation joins.
func (k labelPrediction) endTypes(s *partition.Share) ([]int, error) {
	relation, err := k.relation(&s.Whole)
	if err != nil {
		return nil, err
	}
	r := &s.Edges.Relations[relation]
	kinds := []int{min(r.Source, r.Target), max(r.Source, r.Target)}
	switch {
	case kinds[1] == 0:
		return nil, nil
	case kinds[0] == kinds[1]:
		kinds = kinds[1:]
	}
	return kinds, nil
}

// ownEdges are the labels and splits of this worker's rows of edges, which it takes from the whole graph.
func (k labelPrediction) ownEdges(e Env) (*partition.Values, error) {
	l, err := k.labelled(&e.Share.Whole)
	if err != nil {
		return nil, &launch.Common{Err: err}
	}
	values := &partition.Values{}
	err = e.Share.ReadRelations(func(all []graph.Relation) error {
		r := &all[l.Relation]
		if !r.HasLabels() {
			return refusal.Graph.Errorf("its edges have no labels, and they had some when it was partitioned; import "+
				"it again with --edge-label %s", k.EdgeLabel)
		}
		numbers := e.Edges(r)
		values.Frame = graph.Frame{
			Count: len(numbers), Labels: r.OfRows(numbers), Splits: r.SplitsOfRows(numbers),
		}
		return nil
	})
	if err == nil && e.EdgeUnits {
		err = k.standardise(e, l.Relation)
	}
	return values, err
}

// standardise sets the means and the standard deviations of the features of those edges of the relation that
// pass messages. All workers call it.
func (k labelPrediction) standardise(e Env, relation int) error {
	r := &e.Passing.Edges.Relations[relation].In
	n := r.Features.Columns
	if n == 0 {
		return nil
	}
	units := nn.NewEdgeUnits(e.Params, n)
	// Workers with slices of a partition have the same edges. Each edge counts as often as there are slices,
	// which changes neither mean nor deviation.
	sums := make([]float64, n+1)
	each := func(f func(k int, x float64)) {
		for i, x := range r.Features.Dense {
			f(i%n, float64(x))
		}
	}
	var err error
	e.Team.Serial(func() {
		each(func(k int, x float64) { sums[k] += x })
		sums[n] = float64(len(r.Features.Dense) / n)
	})
	if err = e.World.SumDoubles(comm.Statistics, sums); err != nil {
		return err
	}
	count := max(1, sums[n])
	squares := make([]float64, n)
	e.Team.Serial(func() {
		each(func(k int, x float64) {
			d := x - sums[k]/count
			squares[k] += d * d
		})
	})
	if err = e.World.SumDoubles(comm.Statistics, squares); err != nil {
		return err
	}
	e.Team.Serial(func() {
		for k := range n {
			sums[k] /= count
			squares[k] = math.Sqrt(squares[k] / count)
		}
		units.Set(sums[:n], squares)
	})
	return nil
}
