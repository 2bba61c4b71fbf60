package reports

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"weft/cmd/weft/internal/ui"
	"weft/train/metric"
)

// scores are a metric of the three parts of the split; NaN: it is not measured.
func (r *cardRun) scores(name string) [3]float64 {
	switch s := &r.Summary; {
	case s.Links != nil:
		return [3]float64{math.NaN(), float64(s.Links.Val[name]), float64(s.Links.Test[name])}
	case r.Facts == nil:
		return [3]float64{float64(s.Train), float64(s.Val), float64(s.Test)}
	}
	e := &r.evaluated
	return [3]float64{e[0].Scores[name], e[1].Scores[name], e[2].Scores[name]}
}

// Metrics are the rows of the metrics.
func (c *modelCard) Metrics() (rows [][]string) {
	r := c.Runs[0]
	names := []string{r.Summary.Metric}
	if links := r.Summary.Links; links != nil {
		names = nil
		for _, l := range ui.LinkRows(links.Val, links.Test) {
			names = append(names, l.Name)
		}
	} else if r.Facts != nil {
		names = slices.Sorted(maps.Keys(r.evaluated[2].Scores))
	}
	for _, name := range names {
		part := func(k int) []string {
			return c.estimate(name, func(r *cardRun) float64 { return r.scores(name)[k] })
		}
		rows = append(rows, slices.Concat([]string{name}, part(0)[:1], part(1)[:1], part(2)))
	}
	return rows
}

// ClassNames are the names of the classes in their order.
func (c *modelCard) ClassNames() (names []string) {
	for _, class := range c.Runs[0].evaluated[2].Classes {
		names = append(names, class.Name)
	}
	return names
}

// Classes are the rows of the classes.
func (c *modelCard) Classes() (rows []cardRow) {
	for k, name := range c.ClassNames() {
		score := func(value func(*metric.ClassScores) float64) []string {
			return c.estimate(metric.Accuracy, func(r *cardRun) float64 { return value(&r.Classes[k]) })
		}
		support, most := c.counts(func(r *cardRun) int { return r.Classes[k].Support })
		rows = append(rows, cardRow{most: most, Cells: slices.Concat(
			[]string{name, support},
			score(func(s *metric.ClassScores) float64 { return s.Precision })[:1],
			score(func(s *metric.ClassScores) float64 { return s.Recall })[:1],
			score(func(s *metric.ClassScores) float64 { return s.F1 }),
		)})
	}
	return rows
}

// Confusion counts the test rows of all runs, by class and by predicted class.
func (c *modelCard) Confusion() (sum [][]int) {
	for _, r := range c.Runs {
		for k, counts := range r.evaluated[2].Confusion {
			if k == len(sum) {
				sum = append(sum, make([]int, len(counts)))
			}
			for i, n := range counts {
				sum[k][i] += n
			}
		}
	}
	return sum
}

// Mistakes are the most frequent mistakes: a class, another one that was predicted, and how often.
func (c *modelCard) Mistakes() (rows [][]string) {
	type mistake struct{ class, predicted, count int }
	var all []mistake
	for k, counts := range c.Confusion() {
		for i, n := range counts {
			if i != k && n > 0 {
				all = append(all, mistake{k, i, n})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b mistake) int { return b.count - a.count })
	names := c.ClassNames()
	for _, m := range all[:min(mostClasses, len(all))] {
		rows = append(rows, []string{names[m.class], names[m.predicted], ui.Count(m.count)})
	}
	return rows
}

// Reliability are the rows of how often predictions come true, by their probability.
func (c *modelCard) Reliability() (rows [][]string) {
	index := 1
	if c.Runs[0].Calibration != nil {
		index = 0
	}
	var bins metric.Reliability
	for _, r := range c.Runs {
		if r.reliable[index] == nil {
			return nil
		}
		for k, b := range r.reliable[index] {
			sum := &bins[k]
			sum.Sure, sum.Right, sum.Count = sum.Sure+b.Sure, sum.Right+b.Right, sum.Count+b.Count
		}
	}
	for k, b := range bins {
		if b.Count > 0 {
			n, parts := float64(b.Count), float64(len(bins))
			rows = append(rows, []string{
				fmt.Sprintf("%.3f to %.3f", float64(k)/parts, float64(k+1)/parts),
				ui.Count(b.Count), ui.Percent(b.Sure / n), ui.Percent(b.Right / n),
			})
		}
	}
	return rows
}

// Thresholds are the rows of class 1, of two, by the probability from which it is predicted.
func (c *modelCard) Thresholds() (rows [][]string) {
	for k, t := range c.Runs[0].thresholds {
		share := func(value func(*atThreshold) float64) string {
			return c.estimate(metric.Accuracy, func(r *cardRun) float64 { return value(&r.thresholds[k]) })[0]
		}
		at := fmt.Sprintf("%.4g", t.at)
		if t.best && len(c.Runs) == 1 {
			at += ", with the best F1 of validation"
		} else if t.best {
			at = "that with the best F1 of validation"
		}
		if slices.ContainsFunc(c.Runs, func(r *cardRun) bool { return len(r.thresholds) <= k }) {
			continue // a run has no threshold
		}
		rows = append(rows, []string{
			at, span(c, ui.Count[int], func(r *cardRun) int { return r.thresholds[k].predicted }),
			share(func(t *atThreshold) float64 { return t.precision }),
			share(func(t *atThreshold) float64 { return t.recall }),
		})
	}
	return rows
}
