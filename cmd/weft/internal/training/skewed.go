package training

import (
	"fmt"

	"weft/cmd/weft/internal/ui"
	"weft/graph"
	"weft/train/metric"
	"weft/train/setting"
	"weft/train/task"
)

// skewed is the warning where accuracy chooses the epoch by itself, and nine tenths of the training vertices
// or more are of one class; "": there is no such class, or the metric was asked for.
func skewed(g *graph.Graph, o *setting.Options) string {
	l := &g.Labels
	chosen := o.Metric == metric.Auto &&
		(g.Metric == "" || g.Metric == metric.Accuracy) && o.Select != setting.SelectLoss
	if o.Task != task.Vertex || !chosen || l.Class == nil || l.Classes < 2 ||
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
			return fmt.Sprintf("%s of the training vertices are of class %s, so that accuracy may choose an epoch "+
				"that finds no other: --metric macro-f1%s weighs all classes alike there, and --class-weights "+
				"balanced in the loss", ui.Percent(share), name, ui.When(l.Classes == 2, " or roc-auc"))
		}
	}
	return ""
}
