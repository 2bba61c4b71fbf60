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

// ofEdges is the task of predicting the labels of the edges of one relation. It is the task of vertices on
// rows of edges, which a gnn.EdgeDecoder or a program computes from the rows of their ends. All edges pass
// messages, or with a split by time the earlier edges.
type ofEdges struct{ ofVertices }

// labelled are the labels that the settings name.
func (k ofEdges) labelled(whole *partition.Whole) (*partition.WholeEdgeLabels, error) {
	var found *partition.WholeEdgeLabels
	var names []string
	for i := range whole.EdgeLabels {
		l := &whole.EdgeLabels[i]
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

// wholeOf describes the graph with the labels of edges in place of those of vertices.
func (k ofEdges) wholeOf(whole *partition.Whole) (*partition.Whole, error) {
	l, err := k.labelled(whole)
	if err != nil {
		return nil, err
	}
	of := whole.LearnsEdges(l)
	return &of, nil
}

func (k ofEdges) Metric(whole *partition.Whole, l *graph.Labels) (string, error) {
	of, err := k.wholeOf(whole)
	if err != nil {
		return "", err
	}
	return k.ofVertices.Metric(of, l)
}

func (k ofEdges) Outputs(whole *partition.Whole) int {
	of, err := k.wholeOf(whole)
	if err != nil { // Check reports the error
		return 0
	}
	return k.ofVertices.Outputs(of)
}

// RelationOf is the number of the relation whose edges a kind of task learns; −1: it learns no labels of
// edges.
func RelationOf(k Kind, whole *partition.Whole) (int, error) {
	of, learns := k.(ofEdges)
	if !learns {
		return -1, nil
	}
	return of.relation(whole)
}

// WholeOf describes the graph as a kind of task sees it. If the task learns edges, their labels and splits
// replace those of vertices.
func WholeOf(k Kind, whole *partition.Whole) *partition.Whole {
	if of, learns := k.(ofEdges); learns {
		if edges, err := of.wholeOf(whole); err == nil {
			return edges
		}
	}
	return whole
}

// relation is the number of the relation whose edges are learned.
func (k ofEdges) relation(whole *partition.Whole) (int, error) {
	l, err := k.labelled(whole)
	if err != nil {
		return 0, err
	}
	return l.Relation, nil
}

// Types are the vertex types that the relation joins.
func (k ofEdges) Types(s *partition.Share) ([]int, error) {
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

func (k ofEdges) Check(whole *partition.Whole) error {
	of, err := k.wholeOf(whole)
	if err != nil {
		return err
	}
	if _, _, err := k.Passing(whole); err != nil {
		return err
	}
	return k.ofVertices.Check(of)
}

func (k ofEdges) CheckMeasured(whole *partition.Whole) error {
	of, err := k.wholeOf(whole)
	if err != nil {
		return err
	}
	if _, _, err := k.Passing(whole); err != nil {
		return err
	}
	return k.ofVertices.CheckMeasured(of)
}

// Begin takes the labels of this worker's rows from the whole graph. The rest is the task of vertices, on a
// share that has the rows of edges.
func (k ofEdges) Begin(e Env) (Task, error) {
	whole, err := k.wholeOf(&e.Share.Whole)
	if err != nil {
		return nil, &launch.Common{Err: err}
	}
	l, err := k.labelled(&e.Share.Whole)
	if err != nil {
		return nil, &launch.Common{Err: err}
	}
	of := *e.Share
	of.Whole = *whole
	values := partition.Values{}
	err = e.Share.ReadRelations(func(all []graph.Relation) error {
		r := &all[l.Relation]
		if !r.HasLabels() {
			return refusal.Graph.Errorf("the store of the partitions has no labels of edges; partition it again")
		}
		numbers := e.Edges(r)
		values.Rows = len(numbers)
		values.Labels, values.Splits = r.OfRows(numbers), r.SplitsOfRows(numbers)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if e.EdgeUnits {
		if err := k.standardise(e, l.Relation); err != nil {
			return nil, err
		}
	}
	of.Types = append([]partition.Values{values}, of.Types[1:]...)
	e.Share, e.Vertices = &of, nil
	return k.ofVertices.Begin(e)
}

// standardise sets the means and the standard deviations of the features of those edges of the relation that
// pass messages. All workers call it.
func (k ofEdges) standardise(e Env, relation int) error {
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
