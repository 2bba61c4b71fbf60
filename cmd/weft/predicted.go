package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/nn"
	"weft/partition"
	"weft/train"
	"weft/train/metric"
	"weft/train/predictions"
	"weft/train/task"
)

// predicted is what the first rank knows of predictions besides their numbers: what rows and columns stand
// for, and the labels to compare them with.
type predicted struct {
	predictions.Table
	asked  *request
	graph  *graph.Graph
	labels graph.Labels // none: there is nothing to compare with
	metric string
	scorer *predictions.Scorer
}

// describe finds what the predictions of a job on a store stand for.
func (p *predictCommand) describe(
	warnings io.Writer, s *session, asked *request, weights nn.State,
) (d *predicted, err error) {
	d = &predicted{asked: asked}
	if d.graph, err = s.graph(); err != nil {
		return nil, err
	}
	if asked.run != "" {
		warnOfWeights(warnings, asked.options.Model, asked.run, asked.weighted, s.store, d.graph)
	}
	d.Vertices, d.Names = s.job.Vertices, d.graph.Names
	switch {
	case asked.options.Task == task.Link:
		d.Columns = predictions.Embedding
		return d, d.ofTypes(p)
	case nn.UnitsIn(weights) > 0:
		d.Columns = predictions.Values
	default:
		learned := d.learned()
		if !learned.There() && asked.classes == nil && !predictions.IsMatrix(p.out) {
			return nil, refusal.Errorf("--out %s: no graph is there whose labels say what the columns "+
				"stand for; give --out %s, a NumPy array of them",
				p.out, strings.TrimSuffix(p.out, filepath.Ext(p.out))+".npy")
		}
		if learned.MultiLabel() {
			d.Columns = predictions.LabelLogits
		}
		if d.Classes = asked.classes; d.Classes == nil {
			d.Classes = learned.Names
		}
	}
	if labels := &d.graph.Labels; labels.There() && len(d.graph.Splits) > asked.options.Split.Number {
		if err := d.compare(warnings, asked.trained, s.store, labels); err != nil {
			fmt.Fprintf(warnings, "weft: warning: the predictions are not compared with labels: %v\n", err)
		}
	}
	return d, nil
}

// warnOfWeights warns where a model that reads the edges' weights meets a graph without, and its run had one
// with them, or the other way round.
func warnOfWeights(to io.Writer, model, run string, trained bool, store string, g *graph.Graph) {
	kind, _ := gnn.KindOf(model)
	there := slices.ContainsFunc(g.Relations, func(r graph.Relation) bool { return r.Weights != nil })
	if !kind.EdgeWeights || there == trained {
		return
	}
	said := "has edge weights, and %s was trained without any; give a graph without, or train on one " +
		"with weights"
	if trained {
		said = "has no edge weights, and %s was trained with some: here each edge weighs 1; give a graph " +
			"with weights"
	}
	fmt.Fprintf(to, "weft: warning: %s "+said+"\n", printable(store), printable(run))
}

// ofTypes finds the vertex types of embeddings, if they are not of the first alone.
func (d *predicted) ofTypes(p *predictCommand) error {
	kinds, err := d.asked.options.Kind.Types(partition.All(d.graph))
	if kinds == nil || err != nil {
		return err
	}
	if p.embeddings != "" && d.asked.options.Layers == 1 {
		return refusal.Errorf("--embeddings %s: with one layer these are the features, which vertex types "+
			"have different ones of; leave it out", p.embeddings)
	}
	d.Names = nil
	for _, kind := range kinds {
		t := d.graph.Types()[kind]
		d.Types = append(d.Types, predictions.Type{Name: t.Type, Count: t.Count, Names: t.Names})
	}
	return nil
}

// learned are the labels of the graph that was trained on; if it is not there, those of the graph at hand.
func (d *predicted) learned() graph.Labels {
	if d.asked.trained == "" {
		return d.graph.Labels
	}
	g, err := graph.Open(d.asked.trained)
	if err != nil {
		return d.graph.Labels
	}
	defer g.Close()
	return g.Labels
}

// compare has the predictions compared with labels, if they are of the same kind and classes.
func (d *predicted) compare(warnings io.Writer, trained, store string, labels *graph.Labels) (err error) {
	if trained != "" && trained != store {
		if err := matchClasses(warnings, trained, d.asked.classes, store, d.graph); err != nil {
			return err
		}
	}
	if d.metric, err = d.asked.options.Kind.Metric(&partition.All(d.graph).Whole, labels); err == nil {
		d.labels = *labels
	}
	return err
}

// write writes the rows, and compares them with the labels while they pass by.
func (d *predicted) write(path string, rows train.Rows) error {
	l, values := &d.labels, d.Columns == predictions.Values
	if l.Class != nil && l.Names == nil && !values {
		l.Classes = max(l.Classes, rows.Columns) // no vertex here has the last ones
	}
	if l.There() && outputs(rows.Columns, values) == outputs(max(l.Classes, l.Columns), l.Continuous()) {
		err := d.graph.Guard(func() error {
			d.scorer = predictions.NewScorer(*l, &d.graph.Splits[d.asked.options.Split.Number],
				d.graph.Own(), d.Vertices)
			return nil
		})
		if err != nil {
			return err
		}
		rows = d.scorer.Watch(rows)
	}
	return predictions.Write(path, rows, d.Table)
}

// showScores says how good the predictions are, where labels tell.
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
		d.metric, measured(d.metric, scores.Train), measured(d.metric, scores.Val),
		measured(d.metric, scores.Test))
	return nil
}
