package inference

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"weft/graph"
	"weft/internal/refusal"
	"weft/train"
	"weft/train/metric"
	"weft/train/predictions"
	"weft/train/worker"
)

// labelledEdge is the edge whose score is explained.
type labelledEdge struct {
	Number int64  `json:"number"` // the number in the store, as in tables of predictions
	Source string `json:"source"`
	Target string `json:"target"`

	explained worker.ExplainedEdge
	relation  *graph.Relation
}

// takeEdge takes the edge with this number, among the edges whose labels the run has learned.
func (x *explanation) takeEdge(number string) error {
	r, rows, err := edgeTable(x.opened.Job.Graph, &x.asked.Options.Goal)
	if err != nil {
		return err
	}
	k, err := strconv.ParseInt(number, 10, 64)
	if err != nil || k < 0 || k >= int64(len(r.Sources)) {
		return refusal.Errorf("--edge %s: the edges have the numbers 0 to %d, as in the column edge of predict",
			number, len(r.Sources)-1)
	}
	ends, n := rows.Ends(int(k)), int64(r.Features.Columns)
	x.Edge = &labelledEdge{
		Number: k, Source: nameOf(rows.Names[0], ends[0]), Target: nameOf(rows.Names[1], ends[1]),
		relation: r,
		explained: worker.ExplainedEdge{
			Source: ends[0], Target: ends[1], Features: slices.Clone(r.Features.Dense[k*n : (k+1)*n]),
		},
	}
	if r.Weights != nil {
		x.Edge.explained.Weight = r.Weights[k]
	}
	return nil
}

// edgeOfVertex is an edge of a vertex, with its score.
type edgeOfVertex struct {
	Number int64         `json:"number"`
	Source string        `json:"source"`
	Target string        `json:"target"`
	Score  metric.Number `json:"score"`
}

// takeEdgeOf takes the likeliest edge of a vertex, or the edge with the largest value, and lists the vertex's
// others.
func (x *explanation) takeEdgeOf(ctx context.Context, e *explainCommand) (err error) {
	listed, ofVertex, err := x.edgesOf(e.vertex)
	if err != nil {
		return err
	}
	x.shown.Show("predicting the vertex's edges", 0, 0)
	p, err := x.opened.Job.Predictor(ctx, x.weights)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	var numbers []int64 // nil: it is unknown over which graph the store's own edges are scored
	for _, edge := range ofVertex {
		if p.KnowsEdges() {
			numbers = append(numbers, edge.Number)
		}
	}
	made, err := p.PredictEdges(ctx, listed, numbers, nil)
	if err != nil {
		return err
	}
	x.known.numbers = cmp.Or(x.known.numbers, made.Classes)
	class := e.class
	if class == "" && made.Classes == 2 && x.known.Columns == predictions.Logits {
		class = nameOf(x.known.Classes, 1) // as in tables of new edges
	}
	if class == "" && made.Classes > 1 {
		return refusal.Errorf("--vertex %s: the run predicts edges, and those of a vertex stand in the order of a "+
			"class or label; name it with --class", e.vertex)
	}
	if err := x.choose(class, made.Logits[:made.Classes]); err != nil {
		return err
	}
	e.class = class
	for k := range ofVertex {
		ofVertex[k].Score, _ = x.scoreOf(made.Logits[k*made.Classes : (k+1)*made.Classes])
	}
	slices.SortStableFunc(ofVertex, func(a, b edgeOfVertex) int { return cmp.Compare(b.Score, a.Score) })
	x.Vertex, x.EdgesOfVertex, x.OfVertex = e.vertex, len(ofVertex), first(ofVertex, e.top)
	return x.takeEdge(strconv.FormatInt(ofVertex[0].Number, 10))
}

// edgesOf finds the edges, of the learned relation, that lead from a vertex or to it.
func (x *explanation) edgesOf(vertex string) (listed *graph.Edges, found []edgeOfVertex, err error) {
	g := x.opened.Job.Graph
	r, rows, err := edgeTable(g, &x.asked.Options.Goal)
	if err != nil {
		return nil, nil, err
	}
	source, target, _ := g.Joins(r) // which an open graph has
	at := [2]int32{-1, -1}
	var unknown error
	for k, kind := range []int{source, target} {
		v, err := vertexOf(vertex, rows.Names[k], g.Types[kind].Count)
		if err != nil {
			unknown = cmp.Or(unknown, err)
			continue
		}
		at[k] = v
	}
	if at[0] < 0 && at[1] < 0 {
		return nil, nil, unknown
	}
	n := r.Features.Columns
	listed = &graph.Edges{FeatureColumns: n}
	for k := range r.Sources {
		ends := rows.Ends(k)
		if ends[0] != at[0] && ends[1] != at[1] {
			continue
		}
		found = append(found, edgeOfVertex{
			Number: int64(k), Source: nameOf(rows.Names[0], ends[0]), Target: nameOf(rows.Names[1], ends[1]),
		})
		listed.Source, listed.Target = append(listed.Source, ends[0]), append(listed.Target, ends[1])
		listed.Features = append(listed.Features, r.Features.Dense[k*n:(k+1)*n]...)
		if r.Weights != nil {
			listed.Weights = append(listed.Weights, r.Weights[k])
		}
	}
	if found == nil {
		return nil, nil, refusal.Errorf("--vertex %s: the run predicts edges, and it has none; name another vertex",
			vertex)
	}
	return listed, found, nil
}

// predict predicts the edge from the rows of its ends alone. job says which part of the graph is left.
func (e *labelledEdge) predict(ctx context.Context, x *explanation, job *train.Job) ([]float32, error) {
	p, err := job.PredictEdges(ctx, x.weights, &graph.Edges{
		Source: []int32{e.explained.Source}, Target: []int32{e.explained.Target},
		Features:       e.explained.Features,
		FeatureColumns: len(e.explained.Features), Weights: []float32{e.explained.Weight},
	})
	if err != nil {
		return nil, err
	}
	return p.Logits, nil
}

// takeOwn takes what the edge's own features contribute.
func (x *explanation) takeOwn(features *worker.FeatureGradients) {
	names := x.Edge.relation.NumberColumns.Features()
	names = names[max(0, len(names)-features.Columns):] // they are behind the column of weights
	for k := range features.Columns {
		name := strconv.Itoa(k)
		if len(names) == features.Columns {
			name = names[k]
		}
		c := float64(features.Inputs[k]) * float64(features.Gradients[k])
		x.Columns = append(x.Columns, explainedColumn{Column: name, OfEdge: true, Contribution: c})
	}
}
