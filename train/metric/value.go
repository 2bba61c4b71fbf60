package metric

import (
	"math"
	"slices"
	"strings"

	"weft/comm"
	"weft/graph"
	"weft/internal/refusal"
)

// The metrics of values. Each is a mean over the columns that have a value, as in scikit-learn with
// multioutput="uniform_average".
const (
	RMSE = "rmse" // √mean (ŷ − y)²
	MAE  = "mae"  // mean |ŷ − y|
	R2   = "r2"   // 1 − Σ(ŷ − y)² / Σ(y − mean y)²
)

// ValueNames are the names of the metrics of values, the default first.
var ValueNames = []string{RMSE, MAE, R2}

// ChooseOfValues returns the metric of values asked for, RMSE for Auto.
func ChooseOfValues(asked string) (string, error) {
	switch {
	case asked == Auto:
		return RMSE, nil
	case !slices.Contains(ValueNames, asked):
		return "", refusal.Errorf("--metric %s: of classes, and the graph's labels are values; take one of "+
			"%s", asked, strings.Join(ValueNames, ", "))
	}
	return asked, nil
}

// SmallerIsBetter reports whether the metric is an error.
func SmallerIsBetter(name string) bool { return name == RMSE || name == MAE }

// IsFraction reports whether the metric is a fraction of 1, which tables show as a percentage.
func IsFraction(name string) bool { return !slices.Contains(ValueNames, name) }

// column has the sums of the values of a column, over all workers.
type column struct {
	n, mean, squares, absolutes, spread float64 // squares of errors, and of differences from the mean
}

// OfValues measures predictions (rows × columns) of values on some of a worker's rows. It returns all metrics
// by name, NaN if there is no value. If all values of a column are equal, R2 is 1 without an error and else
// 0, as in scikit-learn.
func OfValues(predictions []float32, l *graph.Labels, rows []int64,
	c *comm.Comm,
) (map[string]float64, error) {
	columns, err := sumsOf(predictions, l, rows, c)
	if err != nil {
		return nil, err
	}
	measured, there := map[string]float64{}, 0.
	for _, k := range columns {
		if k.n == 0 {
			continue
		}
		there++
		measured[RMSE] += math.Sqrt(k.squares / k.n)
		measured[MAE] += k.absolutes / k.n
		switch {
		case k.spread > 0:
			measured[R2] += 1 - k.squares/k.spread
		case k.squares == 0:
			measured[R2]++
		}
	}
	for _, name := range ValueNames {
		measured[name] /= there
	}
	return measured, nil
}

// sumsOf adds up the columns over all workers: first for the means, then around them.
func sumsOf(predictions []float32, l *graph.Labels, rows []int64, c *comm.Comm) ([]column, error) {
	columns := make([]column, l.Columns)
	each := func(f func(i int, predicted, value float64)) {
		for _, v := range rows {
			for i := range columns {
				at := int(v)*l.Columns + i
				if value := float64(l.Values[at]); value == value { // not missing
					f(i, float64(predictions[at]), value)
				}
			}
		}
	}
	const n, mean, squares, absolutes, words = 0, 1, 2, 3, 4
	totals := make([]total, words*len(columns))
	each(func(i int, predicted, value float64) {
		k := totals[words*i:]
		k[n].add(1)
		k[mean].add(value)
		k[squares].add((predicted - value) * (predicted - value))
		k[absolutes].add(math.Abs(predicted - value))
	})
	sums, err := valuesOf(c, totals)
	if err != nil {
		return nil, err
	}
	for i := range columns {
		k := sums[words*i:]
		columns[i] = column{n: k[n], mean: k[mean] / k[n], squares: k[squares], absolutes: k[absolutes]}
	}
	spreads := make([]total, len(columns))
	each(func(i int, _, value float64) {
		spreads[i].add((value - columns[i].mean) * (value - columns[i].mean))
	})
	sums, err = valuesOf(c, spreads)
	for i, spread := range sums {
		columns[i].spread = spread
	}
	return columns, err
}
