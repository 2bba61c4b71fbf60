package rundir

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/train/metric"
	"weft/train/setting"
)

// numpy.mean and numpy.std(ddof=1) of 1, 2 and 4.
func TestMeanAndDeviation(t *testing.T) {
	m, d := MeanAndDeviation([]float64{1, 2, 4})
	assert.Equal(t, 7./3, m)
	assert.Near(t, 1.5275252316519468, float64(d), 1e-15)
	if m, d := MeanAndDeviation([]float64{.5}); m != .5 || d == d {
		t.Errorf("%v ± %v", m, d)
	}
}

func TestCompareMetric(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name string
		a, b float64
		want int
	}{
		{metric.Accuracy, .8, .7, -1},
		{metric.Accuracy, .7, .7, 0},
		{metric.RMSE, 8, 7, 1},
		{metric.RMSE, nan, 7, 1},
		{metric.Accuracy, 0, nan, -1},
		{metric.Accuracy, nan, nan, 0},
	} {
		assert.Equal(t, c.want, CompareMetric(c.name, c.a, c.b), "%s: %v and %v", c.name, c.a, c.b)
	}
}

// TestRunsOfTheSameSettings: runs share a row if the dataset and each setting but seed and split are the
// same, and each of these that differs is named.
func TestRunsOfTheSameSettings(t *testing.T) {
	texts := (&setting.Options{}).Texts()
	listed := func(name, text string) *Listed {
		l := &Listed{Standing: &Standing{Dataset: "g"}, Settings: maps.Clone(texts)}
		if name == "dataset" {
			l.Dataset = text
		} else {
			l.Settings[name] = text
		}
		return l
	}
	for _, name := range append(slices.Collect(maps.Keys(texts)), "dataset") {
		runs := []*Listed{listed(name, "one"), listed(name, "other"), listed(name, "one")}
		rows := 2
		if name == "seed" || name == "split" {
			rows = 1
		}
		if got := Repeat(runs); len(got) != rows || len(got[0].Runs) != 4-rows {
			t.Errorf("another %s: %d rows, the first of %d runs, want %d", name, len(got),
				len(got[0].Runs), rows)
		}
		assert.Equal(t, []string{name}, Differ(runs), "another %s", name)
		if got := Differ(runs[:1]); got != nil {
			t.Errorf("one run differs in %q", got)
		}
	}
}

// TestSettingOfAModel: runs do not differ in a setting that their model does not use.
func TestSettingOfAModel(t *testing.T) {
	run := func(model, heads string) *Listed {
		return &Listed{Standing: &Standing{}, Settings: map[string]string{"model": model, "heads": heads}}
	}
	assert.Equal(t, "8", run("gat", "8").Setting("heads"))
	assert.Equal(t, "", run("gcn", "8").Setting("heads"))
	assert.Empty(t, Differ([]*Listed{run("gcn", "8"), run("gcn", "4")}))
	assert.Equal(t, []string{"heads"}, Differ([]*Listed{run("gat", "8"), run("gat", "4")}))
	assert.Equal(t, []string{"heads", "model"}, Differ([]*Listed{run("gat", "8"), run("gcn", "1")}))
	assert.Equal(t, []string{"model"}, Differ([]*Listed{run("gat", "1"), run("gcn", "1")}), "defaults")
}

// TestClaimSweep: one sweep at a time has a folder, which is new, or has the runs of that sweep.
func TestClaimSweep(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "sweep")
	claim := func(text, refused string) *os.File {
		t.Helper()
		f, err := ClaimSweep(dir, []byte(text), []byte("former "+text))
		if refused == "" && err != nil ||
			refused != "" && (!refusal.Is(err) || !strings.Contains(err.Error(), refused)) {
			t.Fatalf("%q: %v, want %q", text, err, refused)
		}
		return f
	}
	end := func(f *os.File) {
		t.Helper()
		require.NoError(t, f.Close())
	}
	first := claim("lr: 1", "")
	claim("lr: 1", "another sweep is at work in the folder; wait for its end, or name another folder")
	end(first)
	end(claim("lr: 1", ""))
	for _, other := range []string{"lr: 2", "lr: 1, hidden: 2", "lr:", ""} {
		claim(other, "holds runs of another sweep, or of this one before its file changed")
	}
	path := filepath.Join(dir, sweepFile)
	require.NoError(t, os.WriteFile(path, []byte("# of g\n# init of gcn: 17\n# a: 5\nlr: 1\n"), 0o666))
	end(claim("# of g\n# init of gcn: 17\n# a: 5\nlr: 1\n", ""))
	claim("# of g\n# init of gcn: 18\n# a: 5\nlr: 1\n", "the folder holds runs of this sweep before init of gcn "+
		"changed; take the former, or name another folder")
	claim("# of g\n# init of gcn: 17\n# a: 5\nlr: 2\n", "holds runs of another sweep")
	claim("# of g\n# init of sage: 17\n# a: 5\nlr: 1\n", "holds runs of another sweep")
	require.NoError(t, os.WriteFile(path, []byte("former lr: 3"), 0o666))
	end(claim("lr: 3", ""))
	claim("lr: 1", "holds runs of another sweep, or of this one before its file changed")
	require.NoError(t, os.Truncate(path, 0)) // as one leaves it that is killed at once
	end(claim("lr: 2", ""))
	text, err := os.ReadFile(path)
	assert.Equal(t, "lr: 2", string(text), "%q, %v", text, err)
	require.NoError(t, os.Rename(path, filepath.Join(dir, "notes")))
	claim("lr: 1", "the folder is not empty; name a new one")
	entries, _ := os.ReadDir(dir)
	assert.Len(t, entries, 1, "a folder that is refused")
	dir = filepath.Join(dir, "notes")
	claim("lr: 1", "not a directory; name another folder")
}
