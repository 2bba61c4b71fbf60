package training

import (
	"fmt"
	"io"
	"strings"

	"weft/cmd/weft/internal/cli"
	"weft/cmd/weft/internal/session"
	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/train/metric"
	"weft/train/setting"
	"weft/train/task"
)

// warnSkewed says on the first rank what skewed, few and dated say of a session's graph: once for several
// runs.
func warnSkewed(warnings io.Writer, s *session.Session, o *setting.Options) error {
	return s.OnFirst(func() error {
		g, err := s.Graph()
		if err != nil {
			return err
		}
		return g.Guard(func() error {
			for _, line := range []string{skewed(g, o), few(g, o)} {
				if line != "" {
					fmt.Fprintln(warnings, "weft: warning: "+line)
				}
			}
			if line := dated(g, o, !cli.IsStore(s.Of.Name)); line != "" {
				fmt.Fprintln(warnings, "weft: note: "+line)
			}
			return nil
		})
	})
}

// skewed is the warning where accuracy chooses the epoch by itself, and nine tenths of the training vertices
// or edges or more are of one class; "": there is no such class, or the metric was asked for.
func skewed(g *graph.Graph, o *setting.Options) string {
	rows := "vertices"
	if o.Task == task.Edge {
		g, _ = g.LearnsEdges(o.EdgeLabel)
		rows = "edges"
	}
	l := &g.Labels
	chosen := o.Metric == metric.Auto &&
		(g.Metric == "" || g.Metric == metric.Accuracy) && o.Select != setting.SelectLoss
	if o.Task == task.Link || !chosen || l.Class == nil || l.Classes < 2 ||
		o.Split.Number >= len(g.Splits) {
		return ""
	}
	const most = .9
	counts, all := make([]int, l.Classes), 0
	for _, v := range g.Splits[o.Split.Number].Train {
		if class := l.Class[v]; class >= 0 {
			counts[class]++
			all++
		}
	}
	for class, n := range counts {
		if share := float64(n) / float64(max(1, all)); share >= most && n < all {
			name := fmt.Sprint(class)
			if l.Names != nil {
				name = ui.Printable(l.Names[class])
			}
			metrics := "macro-f1"
			switch {
			case l.Classes == 2 && class == 0:
				metrics += ", average-precision or roc-auc"
			case l.Classes == 2: // average precision is that of class 1
				metrics += " or roc-auc"
			}
			return fmt.Sprintf("%s of the training %s are of class %s, so that accuracy may choose an epoch that "+
				"finds no other: --metric %s measures the others, too, and --class-weights balanced weighs all "+
				"classes alike in the loss", ui.Percent(share), rows, name, metrics)
		}
	}
	return ""
}

// few is the warning where precision@K is to be that of more rows than validate or test; "": it is not asked
// for, or they are enough.
func few(g *graph.Graph, o *setting.Options) string {
	k, asked := metric.Top(o.Metric)
	rows := "vertices"
	if o.Task == task.Edge {
		g, _ = g.LearnsEdges(o.EdgeLabel)
		rows = "edges"
	}
	if !asked || !g.Labels.There() || o.Split.Number >= len(g.Splits) {
		return ""
	}
	var fewer []string
	count := func(part string, of []int64) {
		n := 0
		for _, row := range of {
			if g.Labels.Labelled(row) {
				n++
			}
		}
		if 0 < n && n < k {
			fewer = append(fewer, ui.Count(n)+" "+part)
		}
	}
	s := g.Splits[o.Split.Number]
	if o.Validate == "" { // else the other graph has them
		count("validation", s.Val)
		count("test", s.Test)
	}
	if fewer == nil {
		return ""
	}
	return fmt.Sprintf("--metric %s: there are %s %s, and the precision is that of all of them", o.Metric,
		strings.Join(fewer, " and "), rows)
}
