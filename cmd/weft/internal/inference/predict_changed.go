package inference

import (
	"context"
	"fmt"
	"io"
	"slices"

	"weft/cmd/weft/internal/data"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/internal/refusal"
	"weft/nn"
	"weft/train"
	"weft/train/predictions"
)

// checkChanged refuses --changed without an addition, and if its table cannot be written.
func (p *predictCommand) checkChanged() error {
	switch {
	case !p.changed:
		return nil
	case !p.added.there():
		return refusal.Errorf("--changed: compares predictions without and with an addition; give " +
			"--add-vertices, --add-edges or --since, too")
	case p.vertices != "":
		return refusal.Errorf("--vertices %s: --changed finds the vertices; leave one of them out",
			p.vertices)
	case p.bare:
		return refusal.Errorf("--unlabelled: --changed finds the vertices; leave one of them out")
	case p.files.out == "" || predictions.IsMatrix(p.files.out):
		return refusal.Errorf("--changed: old and new predictions are columns of a table; give --out " +
			"FILE.csv or FILE.parquet")
	}
	return nil
}

// findChanged finds the vertices whose predictions can change by what a query appends.
func findChanged(ctx context.Context, s *session.Session, query train.Query, weights nn.State) (
	vertices []int32, err error,
) {
	job := *s.Job
	job.Query = query
	if vertices, err = job.Affected(ctx, weights); err != nil {
		return nil, data.About(s.Source, err)
	}
	if len(vertices) == 0 {
		return nil, refusal.Errorf("--changed: no prediction can differ, as the model reads nothing of " +
			"what is added")
	}
	return vertices, nil
}

// predictBefore keeps, for the table, what was predicted of the vertices before the additions.
func (d *predicted) predictBefore(ctx context.Context, s *session.Session, weights nn.State) error {
	old, _ := slices.BinarySearch(s.Job.Vertices, int32(d.graph.Types[0].Count))
	if d.old = old; old == 0 {
		return nil
	}
	job := *s.Job
	job.Query = train.Query{Vertices: job.Vertices[:old]}
	job.OnLogits = func(rows train.Rows) error {
		for range d.Before.Watch(rows).Each {
		}
		return d.Before.Err()
	}
	_, err := job.Predict(ctx, weights, train.Logits)
	return err
}

// showChanged says how far an addition reaches, and how much of the graph its prediction has read.
func (d *predicted) showChanged(to io.Writer, s *session.Session, r *train.Prediction) {
	with := s.Job.Appended
	reach := ui.Count(r.Vertices) + " of"
	if r.Vertices == with.Counts[0] {
		reach = "all"
	}
	fmt.Fprintf(to, "%s %s can differ, %s of them new", reach,
		ui.Counted(with.Counts[0], "vertex", "vertices"), ui.Count(r.Vertices-d.old))
	if d.Columns == predictions.Logits {
		fmt.Fprintf(to, "; %s of the others in another class", ui.Count(d.turned))
	}
	vertices, edges := 0, with.Edges()
	for _, n := range with.Counts {
		vertices += n
	}
	if d.asked.Options.Direction == "both" {
		edges *= 2 // each edge is read once in each direction
	}
	most := r.Needs[0]
	for _, need := range r.Needs {
		most.Edges = max(most.Edges, need.Edges)
	}
	fmt.Fprintf(to, "\nread %s of the vertices, %s of the edges\n",
		ui.Percent(float64(most.Vertices)/float64(vertices)), ui.Percent(float64(most.Edges)/float64(edges)))
}
