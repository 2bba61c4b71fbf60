package inference

import (
	"context"
	"slices"
	"strconv"

	"weft/graph"
	"weft/internal/refusal"
	"weft/train"
	"weft/train/worker"
)

// labelledEdge is the edge whose score is explained.
type labelledEdge struct {
	Number int64  `json:"number"` // in the store, as tables of predictions have it
	Source string `json:"source"`
	Target string `json:"target"`

	of       worker.ExplainedEdge
	relation *graph.Relation
}

// takeEdge takes the edge with this number of those whose labels the run has learned.
func (x *explanation) takeEdge(number string) error {
	_, r, rows, err := edgeTable(x.opened.Job.Graph, x.asked.Options.EdgeLabel)
	if err != nil {
		return err
	}
	k, err := strconv.ParseInt(number, 10, 64)
	if err != nil || k < 0 || k >= int64(len(r.Sources)) {
		return refusal.Errorf("--edge %s: the edges have the numbers 0 to %d, as in the column edge of predict",
			number, len(r.Sources)-1)
	}
	ends, n := rows.Ends(int(k)), int64(r.EdgeColumns)
	x.Edge = &labelledEdge{
		Number: k, Source: nameOf(rows.Names[0], ends[0]), Target: nameOf(rows.Names[1], ends[1]),
		relation: r,
		of: worker.ExplainedEdge{
			Source: ends[0], Target: ends[1], Features: slices.Clone(r.EdgeFeatures[k*n : (k+1)*n]),
		},
	}
	if r.Weights != nil {
		x.Edge.of.Weight = r.Weights[k]
	}
	return nil
}

// predict predicts the edge by the rows of its ends alone, on a job that says what is left of the graph.
func (e *labelledEdge) predict(ctx context.Context, x *explanation, job *train.Job) ([]float32, error) {
	p, err := job.PredictEdges(ctx, x.weights, &graph.Edges{
		Source: []int32{e.of.Source}, Target: []int32{e.of.Target}, Features: e.of.Features,
		FeatureColumns: len(e.of.Features), Weights: []float32{e.of.Weight},
	})
	if err != nil {
		return nil, err
	}
	return p.Logits, nil
}

// takeOwn takes what the edge's own features contribute.
func (x *explanation) takeOwn(of *worker.FeatureGradients) {
	names := x.Edge.relation.NumberColumns.Features()
	names = names[max(0, len(names)-of.Columns):] // behind the column of weights
	for k := range of.Columns {
		name := strconv.Itoa(k)
		if len(names) == of.Columns {
			name = names[k]
		}
		c := float64(of.Inputs[k]) * float64(of.Gradients[k])
		x.Columns = append(x.Columns, explainedColumn{Column: name, OfEdge: true, Contribution: c})
	}
}
