package training

import (
	"fmt"
	"io"
	"strings"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/internal/refusal"
	"weft/train/calibrate"
	"weft/train/metric"
	"weft/train/setting"
	"weft/train/task"
)

// warnSkewed says, on the first rank and once for several runs, what skewed, frequent, few, steps,
// dateIsFeature and dated say about a session's graph.
func warnSkewed(warnings io.Writer, s *session.Session, o *setting.Options) error {
	return s.OnFirst(func() error {
		g, err := s.Graph()
		if err != nil {
			return err
		}
		return g.Guard(func() error {
			for _, line := range []string{
				skewed(g, o), frequent(g, o), few(g, o), steps(g, o), dateIsFeature(g, o),
			} {
				if line != "" {
					fmt.Fprintln(warnings, "weft: warning: "+line)
				}
			}
			if line := dated(g, o, !cli.IsStore(s.Source.Name)); line != "" {
				fmt.Fprintln(warnings, "weft: note: "+line)
			}
			return nil
		})
	})
}

// learned are the rows that training learns, and what they are called: vertices, or edges.
func learned(g *graph.Graph, o *setting.Options) (frame *graph.Frame, rows string) {
	if o.Task != task.Edge {
		return &g.Types[0].Frame, graph.VertexNoun.Many
	}
	return g.Frame(o.Target(g)), graph.EdgeNoun.Many
}

// shares are the shares of the classes among the training vertices or edges, and what those rows are; nil:
// there is no such split, or labels are not one class of several.
func shares(g *graph.Graph, o *setting.Options) (l *graph.Labels, fractions []float64, rows string) {
	frame, rows := learned(g, o)
	l = &frame.Labels
	if o.Task == task.Link || l.Class == nil || l.Classes < 2 || o.Split.Number >= len(frame.Splits) {
		return l, nil, rows
	}
	fractions, all := make([]float64, l.Classes), 0.
	for _, v := range frame.Splits[o.Split.Number].Train {
		if class := l.Class[v]; class >= 0 {
			fractions[class]++
			all++
		}
	}
	for class := range fractions {
		fractions[class] /= max(1, all)
	}
	return l, fractions, rows
}

// metricOf is the metric that is asked for, or that the graph names. Auto stands for the one of its labels.
func metricOf(g *graph.Graph, o *setting.Options) string {
	if o.Metric == metric.Auto && g.Metric != "" {
		return g.Metric
	}
	return o.Metric
}

// skewed is the warning if accuracy selects the epoch by default, and at least nine tenths of the training
// vertices or edges are of one class; "": there is no such class, or the metric was asked for.
func skewed(g *graph.Graph, o *setting.Options) string {
	chosen := o.Metric == metric.Auto &&
		(g.Metric == "" || g.Metric == metric.Accuracy) && o.Select != setting.SelectLoss
	if !chosen {
		return ""
	}
	const most = .9
	l, fractions, rows := shares(g, o)
	for class, share := range fractions {
		if share >= most && share < 1 {
			metrics := "macro-f1"
			switch {
			case l.Classes == 2 && class == 0:
				metrics += ", average-precision or roc-auc"
			case l.Classes == 2: // average precision is that of class 1, unless it names another
				other := refusal.ShellWord(metric.AveragePrecision + ":" + l.ClassName(0))
				metrics += ", " + other + " or roc-auc"
			}
			return fmt.Sprintf("%s of the training %s are of class %s, so that accuracy may choose an epoch that "+
				"finds no other: --metric %s measures the others, too, and --class-weights balanced weighs all "+
				"classes alike in the loss",
				ui.Percent(share), rows, ui.Printable(l.ClassName(class)), metrics)
		}
	}
	return ""
}

// frequent is the warning if the metric measures the second of two classes without naming it, and more than
// six tenths of the training vertices or edges have that class; "": it does not, or the class is rarer.
func frequent(g *graph.Graph, o *setting.Options) string {
	const most = .6 // of two classes about as frequent, either may be meant
	name := metricOf(g, o)
	l, fractions, rows := shares(g, o)
	if len(fractions) != 2 || !metric.MeasuresSecond(name) || fractions[1] <= most {
		return ""
	}
	return fmt.Sprintf("--metric %s measures class %s, the second of the two, which %s of the training %s are "+
		"of: --metric %s measures the other", name, ui.Printable(l.ClassName(1)), ui.Percent(fractions[1]), rows,
		refusal.ShellWord(name+":"+l.ClassName(0)))
}

// few is the warning if precision@K is asked of more rows than validate or test; "": it is not asked for, or
// there are enough.
func few(g *graph.Graph, o *setting.Options) string {
	k, asked := metric.Top(o.Metric)
	frame, rows := learned(g, o)
	if !asked || !frame.Labels.There() || o.Split.Number >= len(frame.Splits) {
		return ""
	}
	var fewer []string
	count := func(part string, ids []int64) {
		n := 0
		for _, row := range ids {
			if frame.Labels.Labelled(row) {
				n++
			}
		}
		if 0 < n && n < k {
			fewer = append(fewer, ui.Count(n)+" "+part)
		}
	}
	s := frame.Splits[o.Split.Number]
	if o.Validate == "" { // otherwise the other graph has them
		count("validation", s.Val)
		count("test", s.Test)
	}
	if fewer == nil {
		return ""
	}
	return fmt.Sprintf("--metric %s: there are %s %s, and the precision is that of all of them", o.Metric,
		strings.Join(fewer, " and "), rows)
}

// steps is the warning if an isotonic function, which has as many steps as the labels make of it, is to be
// fitted to few validation rows of a class; "": it is not, or there are enough.
func steps(g *graph.Graph, o *setting.Options) string {
	const least = 100 // rows of a class; scikit-learn advises against it for far fewer than 1,000 rows in all
	frame, rows := learned(g, o)
	l := &frame.Labels
	if o.Calibrate != calibrate.Isotonic || l.Class == nil || o.Split.Number >= len(frame.Splits) {
		return ""
	}
	val := frame.Splits[o.Split.Number].Val
	counts := make([]int, l.Classes)
	for _, row := range val {
		if class := l.Class[row]; class >= 0 {
			counts[class]++
		}
	}
	class := 0
	for k, n := range counts {
		if n < counts[class] {
			class = k
		}
	}
	if len(val) == 0 || counts[class] >= least { // without validation rows the run is refused
		return ""
	}
	return fmt.Sprintf("--calibrate isotonic fits steps, and %s validation %s are of class %s: a step of a few rows "+
		"may make a probability 0 or 1; --calibrate temperature fits one number", ui.Count(counts[class]), rows,
		ui.Printable(l.ClassName(class)))
}
