package rundir

import (
	"cmp"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"weft/train/metric"
	"weft/train/setting"
)

// Listed is a run below a folder.
type Listed struct {
	*Standing
	Settings map[string]string `json:"settings"`
	Results  bool              `json:"-"` // it has a run.json; without one the next three fields are 0
	// EpochSeconds is the median of the epochs' seconds.
	EpochSeconds float64 `json:"epoch_seconds,omitzero"`
	Seconds      float64 `json:"seconds,omitzero"`      // from its start, or last continuation, to its end
	TensorBytes  int64   `json:"tensor_bytes,omitzero"` // at the peak, of the worker that needs most
}

// List finds the runs in a folder and below it, in the order of their paths. It leaves out runs that cannot
// be read, and calls unread with the reason.
func List(folder string, unread func(error)) (all []*Listed, err error) {
	err = filepath.WalkDir(folder, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			if path == folder {
				return err
			}
			unread(err)
			return nil
		case !e.IsDir() || !Is(path):
			return nil
		}
		run, err := look(path)
		if err != nil {
			unread(err)
		} else {
			all = append(all, run)
		}
		return fs.SkipDir
	})
	return all, err
}

// look reads the state of a run, and what a table shows in addition.
func look(path string) (*Listed, error) {
	s, err := Look(path)
	if err != nil {
		return nil, err
	}
	l := &Listed{Standing: s, Settings: s.options.Texts()}
	if run := s.results; run != nil {
		l.Results = true
		l.EpochSeconds = run.Summary.EpochSecondsMedian
		l.Seconds = run.Finished.Sub(run.Started).Seconds()
		l.TensorBytes = slices.Max(append(run.Summary.PeakTensorBytes, 0))
		s.results = nil // a long list would hold the losses of all epochs
	}
	return l, nil
}

// Differ lists, in ascending order, the names of the settings that differ between runs. Settings that no
// run's model uses are left out. If the dataset differs, it comes first.
func Differ(runs []*Listed) (names []string) {
	if len(runs) == 0 {
		return nil
	}
	first := runs[0]
	for _, name := range append([]string{datasetColumn}, slices.Sorted(maps.Keys(first.Settings))...) {
		if slices.ContainsFunc(runs, func(r *Listed) bool {
			return r.Settings[name] != first.Settings[name] && r.Setting(name) != first.Setting(name) ||
				name == datasetColumn && r.Dataset != first.Dataset
		}) {
			names = append(names, name)
		}
	}
	return names
}

// datasetColumn stands for the dataset among the names of settings.
const datasetColumn = "dataset"

// Setting is the value of a setting, or the dataset; "" for a setting that the run's model does not use.
func (l *Listed) Setting(name string) string {
	switch {
	case name == datasetColumn:
		return l.Dataset
	case !setting.UsedBy(l.Settings, name):
		return ""
	}
	return l.Settings[name]
}

// Better compares runs by validation metric, the better run first. Runs of one metric stand together, and
// runs without a metric come last.
func Better(a, b *Listed) int {
	return cmp.Or(-cmp.Compare(a.Metric, b.Metric), CompareMetric(a.Metric, float64(a.Val), float64(b.Val)))
}

// CompareMetric compares two values of a metric. The better one comes first, and NaN last.
func CompareMetric(name string, a, b float64) int {
	switch {
	case a != a && b != b:
		return 0
	case a != a:
		return 1
	case b != b:
		return -1
	case metric.SmallerIsBetter(name):
		return cmp.Compare(a, b)
	}
	return cmp.Compare(b, a)
}

// Repeated are runs that differ only in seed and split, with the means and sample deviations (n − 1) of the
// metrics of the complete runs. Deviations of one run, and means of none, are NaN.
type Repeated struct {
	Runs          []*Listed     `json:"runs"`
	Complete      int           `json:"complete"` // runs with results that did not fail; they come first
	ValMean       metric.Number `json:"val_mean"`
	ValDeviation  metric.Number `json:"val_deviation"`
	TestMean      metric.Number `json:"test_mean"`
	TestDeviation metric.Number `json:"test_deviation"`
}

// Repeat groups the runs that differ only in seed and split, in the order of the first run of each group.
func Repeat(runs []*Listed) (all []*Repeated) {
	find := map[string]*Repeated{}
	for _, r := range runs {
		key := r.Dataset
		for _, name := range slices.Sorted(maps.Keys(r.Settings)) {
			if name != "seed" && name != "split" {
				key += "\x00" + r.Settings[name]
			}
		}
		if find[key] == nil {
			find[key] = &Repeated{}
			all = append(all, find[key])
		}
		find[key].Runs = append(find[key].Runs, r)
	}
	for _, g := range all {
		slices.SortStableFunc(g.Runs, func(a, b *Listed) int {
			return -cmp.Compare(a.complete(), b.complete())
		})
		var vals, tests []float64
		for _, r := range g.Runs {
			if r.complete() == 0 {
				break
			}
			g.Complete++
			vals, tests = append(vals, float64(r.Val)), append(tests, float64(r.Test))
		}
		g.ValMean, g.ValDeviation = MeanAndDeviation(vals)
		g.TestMean, g.TestDeviation = MeanAndDeviation(tests)
	}
	return all
}

// complete is 1 for a run with results that did not fail, else 0.
func (l *Listed) complete() int {
	if l.Results && l.Status != Failed {
		return 1
	}
	return 0
}

// MeanAndDeviation are the mean of numbers and their sample deviation (n − 1). The deviation of one number is
// NaN, and so are both of none.
func MeanAndDeviation(x []float64) (mean, deviation metric.Number) {
	sum, squares := 0., 0.
	for _, v := range x {
		sum += v
	}
	m := sum / float64(len(x))
	for _, v := range x {
		squares += (v - m) * (v - m)
	}
	if len(x) < 2 {
		return metric.Number(m), metric.Number(math.NaN())
	}
	return metric.Number(m), metric.Number(math.Sqrt(squares / float64(len(x)-1)))
}
