package reports

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"weft/cmd/weft/internal/ui"
	"weft/train/calibrate"
	"weft/train/metric"
)

// measured reports whether all runs have evaluations.
func (c *modelCard) measured() bool {
	return !slices.ContainsFunc(c.runs, func(r *cardRun) bool { return r.facts == nil })
}

func (c *modelCard) metrics() {
	c.heading(2, "Metrics")
	if n := len(c.runs); n > 1 {
		c.say(fmt.Sprintf("Means over %d runs, which differ in seed and split alone, with the sample deviation "+
			"(n − 1) and the 95 %% interval of the mean by Student's t.", n))
	}
	r := c.first()
	head := slices.Concat([]string{"metric", "training", "validation"}, c.headOfMean("test"))
	rows := [][]string{}
	add := func(name string, value func(r *cardRun, part int) float64) {
		row := []string{name}
		for part := range 2 {
			row = append(row, c.mean(name, perRun(c, func(r *cardRun) float64 { return value(r, part) }))[0])
		}
		rows = append(rows, append(row, c.mean(name, perRun(c,
			func(r *cardRun) float64 { return value(r, 2) }))...))
	}
	switch {
	case r.Summary.Links != nil:
		for _, l := range ui.LinkRows(r.Summary.Links.Val, r.Summary.Links.Test) {
			add(l.Name, func(r *cardRun, part int) float64 {
				links := r.Summary.Links
				return float64(
					[]metric.Number{metric.Number(math.NaN()), links.Val[l.Name], links.Test[l.Name]}[part],
				)
			})
		}
	case c.measured():
		for _, name := range slices.Sorted(maps.Keys(r.evaluated[2].Scores)) {
			add(name, func(r *cardRun, part int) float64 { return r.evaluated[part].Scores[name] })
		}
	default:
		add(r.Summary.Metric, func(r *cardRun, part int) float64 {
			s := &r.Summary
			return float64([]metric.Number{s.Train, s.Val, s.Test}[part])
		})
	}
	c.table(1, head, rows)
	if ranking := r.Ranked(); c.measured() && ranking != "" {
		c.say(ranking)
	}
}

func (c *modelCard) classes() {
	if !c.measured() || c.first().Classes == nil {
		return
	}
	c.heading(2, "Classes")
	var rows [][]string
	for k, class := range c.first().Classes {
		at := func(value func(*metric.ClassScores) float64) []string {
			return c.mean(metric.Accuracy,
				perRun(c, func(r *cardRun) float64 { return value(&r.Classes[k]) }))
		}
		rows = append(rows, slices.Concat([]string{
			class.Name, spanOf(perRun(c, func(r *cardRun) int { return r.Classes[k].Support })),
			at(func(s *metric.ClassScores) float64 { return s.Precision })[0],
			at(func(s *metric.ClassScores) float64 { return s.Recall })[0],
		}, at(func(s *metric.ClassScores) float64 { return s.F1 })))
	}
	c.table(1,
		slices.Concat([]string{"class", "test " + c.rowsName(), "precision", "recall"}, c.headOfMean("F1")),
		rows)
}

func (c *modelCard) confusion() {
	first := c.first().evaluated[2]
	if !c.measured() || first.Confusion == nil {
		return
	}
	c.heading(2, "Confusion")
	sum := make([][]int, len(first.Confusion))
	for k := range sum {
		sum[k] = make([]int, len(sum))
		for _, r := range c.runs {
			for i, n := range r.evaluated[2].Confusion[k] {
				sum[k][i] += n
			}
		}
	}
	ofRuns := ui.When(len(c.runs) > 1, ", of all runs together")
	const wide = 12 // a table has no room for more classes
	if len(sum) <= wide {
		c.say(
			"Test " + c.rowsName() + " by their class (row) and the class with the largest output (column)" +
				ofRuns + ".",
		)
		head, rows := []string{""}, [][]string{}
		for k, counts := range sum {
			head = append(head, first.Classes[k].Name)
			row := []string{first.Classes[k].Name}
			for _, n := range counts {
				row = append(row, ui.Count(n))
			}
			rows = append(rows, row)
		}
		c.table(1, head, rows)
		return
	}
	c.say("The most frequent mistakes among test " + c.rowsName() + ofRuns + ".")
	type mistake struct{ class, predicted, count int }
	var all []mistake
	for k, counts := range sum {
		for i, n := range counts {
			if i != k && n > 0 {
				all = append(all, mistake{k, i, n})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b mistake) int { return b.count - a.count })
	var rows [][]string
	for _, m := range all[:min(wide, len(all))] {
		rows = append(
			rows,
			[]string{first.Classes[m.class].Name, first.Classes[m.predicted].Name, ui.Count(m.count)},
		)
	}
	c.table(2, []string{"class", "predicted", c.rowsName()}, rows)
}

func (c *modelCard) calibration() {
	r := c.first()
	if !c.measured() || r.reliable[1] == nil {
		return
	}
	c.heading(2, "Calibration")
	index := 1
	if r.Calibration != nil {
		index = 0
		c.say(
			"Probabilities are calibrated on validation " + c.rowsName() + ": " + r.Calibration.Method + "." +
				ui.When(r.Calibration.Method == calibrate.Isotonic, " It gives many "+c.rowsName()+
					" one probability: ranking metrics, and the order of predict, are by the model's own."),
		)
	} else {
		c.say("Probabilities are the model's own.")
	}
	var bins metric.Reliability
	for _, r := range c.runs {
		for k, b := range r.reliable[index] {
			sum := &bins[k]
			sum.Sure, sum.Right, sum.Count = sum.Sure+b.Sure, sum.Right+b.Right, sum.Count+b.Count
		}
	}
	var rows [][]string
	for k, b := range bins {
		if b.Count > 0 {
			n, parts := float64(b.Count), float64(len(bins))
			rows = append(rows, []string{
				fmt.Sprintf("%.3f to %.3f", float64(k)/parts, float64(k+1)/parts),
				ui.Count(b.Count), ui.Percent(b.Sure / n), ui.Percent(b.Right / n),
			})
		}
	}
	c.table(1, []string{
		"probability of the predicted class",
		"test " + c.rowsName() + ui.When(len(c.runs) > 1, " of all runs"),
		"mean probability",
		"right",
	}, rows)
}

func (c *modelCard) thresholds() {
	r := c.first()
	if !c.measured() || r.thresholds == nil {
		return
	}
	class := r.Classes[1].Name
	c.heading(2, "Thresholds")
	calibrated, remark := "", ""
	if r.Calibration != nil {
		calibrated = "calibrated "
		remark = ", where the confusion above counts the largest output before calibration"
	}
	c.say("If class " + class + " is predicted from a " + calibrated + "probability on, of test " +
		c.rowsName() + remark + ":")
	var rows [][]string
	for k, t := range r.thresholds {
		share := func(value func(*atThreshold) float64) []string {
			all := perRun(c, func(r *cardRun) float64 { return value(&r.thresholds[k]) })
			return c.mean(metric.Accuracy, all)[:1]
		}
		at := fmt.Sprintf("%.4g", t.at)
		if t.best {
			if slices.ContainsFunc(c.runs, func(r *cardRun) bool { return len(r.thresholds) <= k }) {
				continue // a run has no threshold
			}
			at = "that with the best F1 of validation"
			if len(c.runs) == 1 {
				at = fmt.Sprintf("%.4g, with the best F1 of validation", t.at)
			}
		}
		rows = append(
			rows,
			slices.Concat([]string{
				at, spanOf(perRun(c, func(r *cardRun) int { return r.thresholds[k].predicted })),
			},
				share(func(t *atThreshold) float64 { return t.precision }),
				share(func(t *atThreshold) float64 { return t.recall })),
		)
	}
	c.table(1, []string{"from", "predicted " + class, "precision", "recall"}, rows)
}
