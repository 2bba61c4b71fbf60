package reports

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"weft/cmd/weft/internal/ui"
	"weft/train"
	"weft/train/metric"
)

// chart is a chart of the page, with the keys that its script reads.
type chart struct {
	Title  string   `json:"title"`
	Unit   string   `json:"unit"`
	Series []series `json:"series"`
	Best   []mark   `json:"best"` // the best epochs of the runs, if the chart has curves of validation
	// Log makes an axis logarithmic, as all values are above 0. X names the x axis, if it is not epochs.
	Log bool   `json:"log"`
	X   string `json:"x,omitempty"`
}

// mark is a best epoch, with the value of the curve of validation there.
type mark struct {
	X     int           `json:"x"`
	Y     metric.Number `json:"y"`
	Color int           `json:"color"`
}

// series is a curve: a part of the chart for the run of that name.
type series struct {
	Name  string          `json:"name"`
	Part  string          `json:"part"`
	Color int             `json:"color"`
	Dash  []int           `json:"dash"`
	X     []metric.Number `json:"x"`
	Y     []metric.Number `json:"y"`
	// Counts are for how many predictions each point stands; nil: for all.
	Counts []int `json:"counts,omitempty"`
}

// stroke says how a curve is drawn. color is for a run that is alone.
type stroke struct {
	dash  []int
	color int
}

var solid, dashed, dotted = stroke{}, stroke{[]int{6, 4}, 1}, stroke{[]int{2, 3}, 2}

// drawn are the runs whose curves are drawn.
func (p *reportContents) drawn() []*reportRun { return p.Runs[:min(mostDrawn, len(p.Runs))] }

// draw makes the charts.
func (p *reportContents) draw() {
	if len(p.Runs) > mostDrawn {
		p.Drawn = fmt.Sprintf("Curves are those of the best %d runs.", mostDrawn)
	}
	add := func(title, unit string, parts ...func(*reportRun) series) {
		c := chart{Title: title, Unit: unit}
		for _, r := range p.drawn() {
			for _, part := range parts {
				s := part(r)
				if len(s.X) == 0 {
					continue
				}
				c.Series = append(c.Series, s)
				at := slices.Index(s.X, metric.Number(r.Summary.BestEpoch))
				if s.Part == validationPart && at >= 0 {
					c.Best = append(c.Best, mark{r.Summary.BestEpoch, s.Y[at], s.Color})
				}
			}
		}
		c.Log = title == "loss" &&
			!slices.ContainsFunc(c.Series, func(s series) bool { return slices.Min(s.Y) <= 0 })
		if constants := c.constants(); constants != "" {
			p.Constants = append(p.Constants, constants)
		} else if len(c.Series) > 0 {
			p.Curves = append(p.Curves, c)
		}
	}
	line := func(part string, drawn stroke, scale float64,
		value func(*train.Epoch) float64,
	) func(*reportRun) series {
		return func(r *reportRun) series {
			s := r.series(part, drawn, scale, value)
			if len(p.Runs) == 1 {
				s.Color = drawn.color
			}
			return s
		}
	}
	// evaluated makes a value one of only the epochs that have an evaluation.
	evaluated := func(value func(*train.Epoch) float64) func(*train.Epoch) float64 {
		return func(e *train.Epoch) float64 {
			if !e.Evaluated {
				return math.NaN()
			}
			return value(e)
		}
	}
	add("loss", "", line("training", solid, 1, func(e *train.Epoch) float64 { return e.Loss }),
		line(validationPart, dashed, 1, evaluated(func(e *train.Epoch) float64 { return e.ValLoss })))
	for _, name := range p.metrics() {
		scale, unit := 1., ""
		if metric.IsFraction(name) {
			scale, unit = 100, " %"
		}
		measured := func(part string, drawn stroke,
			value func(*train.Epoch) float64,
		) func(*reportRun) series {
			return func(r *reportRun) (s series) {
				if r.Summary.Metric == name {
					s = line(part, drawn, scale, evaluated(value))(r)
				}
				return s
			}
		}
		add(name, unit, measured("training", solid, func(e *train.Epoch) float64 { return e.Train }),
			measured(validationPart, dashed, func(e *train.Epoch) float64 { return e.Val }),
			measured("test", dotted, func(e *train.Epoch) float64 { return e.Test }))
	}
	p.thresholds()
	add("learning rate", "", line("", solid, 1, func(e *train.Epoch) float64 { return e.LR }))
	add("seconds of an epoch", " s", line("", solid, 1, func(e *train.Epoch) float64 { return e.Seconds }))
	add("tensors of worker 0", " MB",
		line("at the peak", solid, 1e-6, func(e *train.Epoch) float64 { return float64(e.PeakBytes) }),
		line("after the epoch", dashed, 1e-6,
			func(e *train.Epoch) float64 { return float64(e.LiveBytes) }))
}

// thresholds draws the curves over all thresholds, for runs with two classes.
func (p *reportContents) thresholds() {
	draw := func(title, x, unit string, curve func(*reportRun) (points []metric.Point, counts []int)) {
		c := chart{Title: title, X: x, Unit: unit}
		for _, r := range p.drawn() {
			points, counts := curve(r)
			s := series{Name: r.Name, Color: r.Color, Dash: []int{}, Counts: counts}
			for _, at := range thinned(points) { // fewer have counts
				s.X, s.Y = append(s.X, written(100*at.X)), append(s.Y, written(100*at.Y))
			}
			if len(s.X) > 0 {
				c.Series = append(c.Series, s)
			}
		}
		if len(c.Series) > 0 {
			p.Curves = append(p.Curves, c)
		}
	}
	draw("ROC of the test set: true positives", "false positives", " %",
		func(r *reportRun) ([]metric.Point, []int) { return r.roc, nil })
	draw("precision of the test set, by recall", "recall", " %",
		func(r *reportRun) ([]metric.Point, []int) { return r.pr, nil })
	draw("share of the test set that is right, by how sure its predictions are", "mean probability", " %",
		func(r *reportRun) ([]metric.Point, []int) {
			if r.reliable[0] != nil {
				return r.reliable[0].Curve()
			}
			if len(r.Classes) == 2 && r.reliable[1] != nil {
				return r.reliable[1].Curve()
			}
			return nil, nil
		})
	draw("the same before calibration", "mean probability", " %", func(r *reportRun) ([]metric.Point, []int) {
		if r.reliable[0] != nil {
			return r.reliable[1].Curve()
		}
		return nil, nil
	})
}

// metrics are the metrics of the runs, each once.
func (p *reportContents) metrics() (names []string) {
	for _, r := range p.Runs {
		if !slices.Contains(names, r.Summary.Metric) {
			names = append(names, r.Summary.Metric)
		}
	}
	return names
}

// constants says what the chart would show if none of its curves changes; "": one does.
func (c *chart) constants() string {
	var parts, ranges []string
	values := map[string][]metric.Number{}
	for _, s := range c.Series {
		if len(s.Y) == 1 || slices.Min(s.Y) != slices.Max(s.Y) {
			return ""
		}
		if values[s.Part] == nil {
			parts = append(parts, s.Part)
		}
		values[s.Part] = append(values[s.Part], s.Y[0])
	}
	for _, part := range parts {
		least, most := float64(slices.Min(values[part])), float64(slices.Max(values[part]))
		ranges = append(ranges, fmt.Sprintf("%s %.4g%s%s", ui.When(part != "", " ")+part, least,
			ui.When(least < most, fmt.Sprintf(" to %.4g", most)), c.Unit))
	}
	return ui.When(ranges != nil, c.Title+":"+strings.Join(ranges, ","))
}

// mostPoints is the most points of a curve: two for each pixel of its width.
const mostPoints = 1000

// validationPart is the part of a chart on which best epochs are marked.
const validationPart = "validation"

// written is a number with as many digits as a page shows.
func written(x float64) metric.Number {
	short, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 6, 64), 64)
	if err != nil { // the number is not finite
		return metric.Number(x)
	}
	return metric.Number(short)
}

// series is a curve of a run, of the epochs that have the value.
func (r *reportRun) series(part string, drawn stroke, scale float64,
	value func(*train.Epoch) float64,
) series {
	s := series{
		Name: r.Name, Part: part, Color: r.Color, Dash: append([]int{}, drawn.dash...),
		X: []metric.Number{}, Y: []metric.Number{},
	}
	for k := range r.curve {
		e := &r.curve[k]
		if y := value(e) * scale; !math.IsNaN(y) && !math.IsInf(y, 0) {
			s.X, s.Y = append(s.X, metric.Number(e.Epoch)), append(s.Y, written(y))
		}
	}
	s.thin(r.Summary.BestEpoch)
	return s
}

// thin keeps of a long curve the smallest and the largest value for each pixel's width, its ends, and its
// best epoch.
func (s *series) thin(best int) {
	n := len(s.X)
	if n <= mostPoints {
		return
	}
	keep := make([]bool, n)
	keep[0], keep[n-1] = true, true
	if at := slices.Index(s.X, metric.Number(best)); at >= 0 {
		keep[at] = true
	}
	const pixels = mostPoints / 2
	for pixel := range pixels {
		least := pixel * n / pixels
		most := least
		for k := least; k < (pixel+1)*n/pixels; k++ {
			if s.Y[k] < s.Y[least] {
				least = k
			}
			if s.Y[k] > s.Y[most] {
				most = k
			}
		}
		keep[least], keep[most] = true, true
	}
	x, y := s.X[:0], s.Y[:0]
	for k, kept := range keep {
		if kept {
			x, y = append(x, s.X[k]), append(y, s.Y[k])
		}
	}
	s.X, s.Y = x, y
}

// thinned are evenly chosen elements of a list, with the first and the last: about half of mostPoints at
// most.
func thinned[T any](all []T) (some []T) {
	step := max(1, (2*len(all)+mostPoints-1)/mostPoints)
	some = all[:0:0]
	for k := range all {
		if k%step == 0 || k == len(all)-1 {
			some = append(some, all[k])
		}
	}
	return some
}
