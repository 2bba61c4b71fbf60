package inference

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/internal/refusal"
	"weft/parallel/mfg"
	"weft/partition"
	"weft/train"
	"weft/train/metric"
	"weft/train/predictions"
	"weft/train/task"
)

// predicted is what the first rank knows of predictions in addition to their numbers: what rows and columns
// stand for, and the labels to compare with.
type predicted struct {
	pass
	labels graph.Labels // without labels there is nothing to compare with
	metric string
	scorer *predictions.Scorer
	by     predictions.Key
	hidden int  // columns of the embeddings, once there are any
	rows   int  // how many have been written
	bare   bool // edges with a label are left out
	sorted bool // by likeliestFirst
	// With --changed: how many of the vertices are not new, and how many of these are in another class than
	// before.
	old, turned int
}

// describe finds what the predictions of a job on a store stand for.
func (p *predictCommand) describe(
	warnings io.Writer, s *session.Session, asked *predictRequest,
) (d *predicted, err error) {
	d = &predicted{}
	if d.pass, err = newPass(&asked.Request, s, asked.state, p.files.embeddings != ""); err != nil {
		return nil, err
	}
	if asked.Run != "" {
		warnOfWeights(warnings, asked.Options, asked.Run, asked.Weighted, s.Store, d.graph)
	}
	d.Vertices, d.Answers, d.Order, d.Plain = s.Job.Vertices, asked.answers, asked.order, p.files.plain
	if d.Edges != nil {
		err = d.ofEdges(p)
	} else if p.added.there() {
		d.Names = p.added.names(d.graph, 0)
	}
	if err != nil {
		return nil, err
	}
	if p.changed {
		if d.Before, err = predictions.Keep(p.files.out); err != nil {
			return nil, err
		}
	}
	switch {
	case asked.Options.Task == task.Link && p.changed:
		return nil, refusal.Errorf("--changed: compares classes or values, and the model computes " +
			"embeddings; leave it out")
	case p.threshold != "" && (asked.Options.Task == task.Link || p.files.out == ""):
		return nil, refusal.Errorf("--threshold %s: is for tables of classes; leave it out, or give --out FILE.csv of a "+
			"run that predicts some", p.threshold)
	case asked.Options.Task == task.Link:
		_, err = d.Check(0)
		return d, err
	case p.files.out == "":
		return d, nil
	case !d.standFor() && !predictions.IsMatrix(p.files.out):
		return nil, refusal.Errorf("--out %s: the graph of the run is not there, and no labels say what "+
			"the columns mean; give --out %s for a NumPy array of them",
			p.files.out, strings.TrimSuffix(p.files.out, filepath.Ext(p.files.out))+".npy")
	case p.threshold != "" && predictions.IsMatrix(p.files.out):
		return nil, refusal.Errorf("--threshold %s: is for tables, and %s is a NumPy array; give --out FILE.csv or "+
			"FILE.parquet", p.threshold, p.files.out)
	}
	d.scores()
	if !predictions.IsMatrix(p.files.out) {
		if err := d.likeliestFirst(); err != nil {
			return nil, err
		}
	}
	if err := d.decide(p.threshold); err != nil {
		return nil, err
	}
	if d.Thresholds != nil && !slices.Contains(d.Answers, predictions.Class) {
		return nil, refusal.Errorf("--threshold %s: of several labels it decides on those in the column class; ask for "+
			"it with --columns class", p.threshold)
	}
	if d.by, err = d.Check(d.numbers); err != nil {
		return nil, err
	}
	if d.by.Other != "" {
		fmt.Fprintf(warnings, "weft: note: --sort %s: sorts by the column %s; for the class of that name "+
			"give --sort %s\n", ui.Printable(d.Order.By), ui.Printable(d.by.Column), ui.Printable(d.by.Other))
	}
	frame := d.graph.Frame(d.target)
	switch labels := &frame.Labels; {
	case !labels.There() || p.added.there() || p.bare:
	case asked.Changed:
		fmt.Fprintf(warnings, "weft: note: %s has other %s than the graph that %s was trained on, "+
			"and the split of the run does not fit them: the predictions are not compared with labels\n",
			ui.Printable(asked.Graph), asked.Rows(), ui.Printable(asked.Run))
	case len(frame.Splits) > asked.Options.Split.Number:
		if err := d.compare(labels); err != nil {
			fmt.Fprintf(warnings, "weft: warning: the predictions are not compared with labels: %v\n", err)
		}
	}
	return d, nil
}

// compare makes d compare the predictions with labels, if both are of the same kind.
func (d *predicted) compare(labels *graph.Labels) (err error) {
	whole := partition.WholeOf(d.graph)
	if d.metric, err = d.asked.Options.Kind.Metric(&whole, labels); err == nil {
		d.labels = *labels
	}
	return err
}

// write writes the rows, and compares them with the labels as they pass by.
func (d *predicted) write(path string, rows train.Rows) (err error) {
	l, values := &d.labels, d.Columns == predictions.Values
	if d.bare {
		if rows, err = d.onlyUnlabelled(rows); err != nil {
			return err
		}
	}
	d.rows = rows.Vertices
	if l.Class != nil && l.Names == nil && !values {
		l.Classes = max(l.Classes, rows.Columns) // no vertex here may have the last classes
	}
	if l.There() && outputs(rows.Columns, values) == outputs(max(l.Classes, l.Columns), l.Continuous()) {
		err := d.graph.Guard(func() error {
			split := &d.graph.Frame(d.target).Splits[d.asked.Options.Split.Number]
			d.scorer = predictions.NewScorer(*l, split, d.graph.Rows(d.target), d.Vertices)
			return nil
		})
		if err != nil {
			return err
		}
		rows = d.scorer.Watch(rows)
	}
	if d.Before != nil {
		rows = d.Turned(rows, &d.turned)
	}
	return predictions.Write(path, rows, d.Table)
}

// embed takes the embeddings: into the file of that path, if there is one, and for the columns of the table.
func (d *predicted) embed(path, out string, rows train.Rows) (err error) {
	d.hidden = rows.Columns
	if slices.Contains(d.Answers, predictions.Hidden) {
		if d.Embeddings, err = predictions.Keep(out); err != nil {
			return err
		}
		rows = d.Embeddings.Watch(rows)
	}
	if path != "" {
		table := d.Table
		table.Columns, table.Answers, table.Order = predictions.Embedding, nil, predictions.Order{}
		err = predictions.Write(path, rows, table)
	} else {
		for range rows.Each {
		}
	}
	if d.Embeddings != nil {
		err = cmp.Or(d.Embeddings.Err(), err)
	}
	return err
}

// close gives back what rows took on disk. nil, which other ranks than the first have, took nothing.
func (d *predicted) close() (err error) {
	if d == nil {
		return nil
	}
	for _, kept := range []*predictions.Kept{d.Embeddings, d.Before} {
		if kept != nil {
			err = errors.Join(err, kept.Close())
		}
	}
	return err
}

// told says what a prediction has written.
func (d *predicted) told(out string, p *train.Prediction) string {
	what, numbers := "logits", ui.Counted(p.Classes, "class", "classes")
	switch {
	case out == "":
		what, numbers = "embeddings", ui.Counted(d.hidden, "column", "columns")
	case d.Columns == predictions.Embedding:
		what, numbers = "embeddings", ui.Counted(p.Classes, "column", "columns")
	case d.Columns == predictions.Values:
		what, numbers = "values", ui.Counted(p.Classes, "column", "columns")
	case !predictions.IsMatrix(out):
		what = "probabilities"
	}
	vertices := ui.Counted(p.Vertices, "vertex", "vertices")
	if d.Edges != nil {
		vertices = ui.Counted(d.rows, "edge", "edges")
	}
	if top := d.Order.Top; top > 0 && top < p.Vertices {
		first := "largest"
		if d.by.Ascends {
			first = "smallest"
		}
		vertices = fmt.Sprintf("the first %s of %s by %s (the %s first)", ui.Count(top), vertices,
			d.by.Column, first)
	}
	if d.sorted && d.Order.Top == 0 {
		numbers += fmt.Sprintf(", the largest %s first (--sort %s: as in the file)", d.by.Column, d.Edges.Number())
	}
	return fmt.Sprintf("%s of %s, %s", what, vertices, numbers)
}

// showScores says how good the predictions are, if there are labels.
func (d *predicted) showScores(to io.Writer) error {
	if d.scorer == nil {
		return nil
	}
	var scores metric.Scores
	err := d.graph.Guard(func() (err error) {
		scores, err = d.scorer.Scores(d.metric)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(to, "%s: training %s, validation %s, test %s\n",
		d.metric, ui.Measured(d.metric, scores.Train), ui.Measured(d.metric, scores.Val),
		ui.Measured(d.metric, scores.Test))
	return nil
}

// showNeeds says what the layers of a prediction of some vertices read. Layers with equal needs share a line.
func showNeeds(to io.Writer, needs []mfg.Need) {
	for from := 0; from < len(needs); {
		end := from + 1
		for end < len(needs) && needs[end] == needs[from] {
			end++
		}
		name := fmt.Sprintf("layer %d", from+1)
		if end > from+1 {
			name = fmt.Sprintf("layers %d to %d", from+1, end)
		}
		fmt.Fprintf(to, "%s: %s, %s\n", name, ui.Counted(needs[from].Vertices, "vertex", "vertices"),
			ui.Counted(needs[from].Edges, "edge", "edges"))
		from = end
	}
}
