package training

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"weft/internal/assert"
	"weft/internal/require"
	"weft/train/metric"
	"weft/train/rundir"
)

// Several runs come to the mean and the sample deviation of their metrics, on the terminal and in a file.
func TestFinishSeveral(t *testing.T) {
	run := func(seed uint64, split int, val, test metric.Number, dir string) *rundir.Run {
		return &rundir.Run{Summary: rundir.Summary{
			Metric: "accuracy", Seed: seed, Split: split,
			Numbers: metric.Numbers{Val: val, Test: test}, RunDir: dir,
		}}
	}
	folder := t.TempDir()
	all := several{[]*rundir.Run{run(7, 0, .5, .25, "a"), run(8, 0, .75, .5, "b"), run(7, 1, 1, .75, "c")}}
	var out bytes.Buffer
	require.NoError(t, all.finish(&out, folder, false))
	want := "runs                 3, in " + folder +
		"\nvalidation accuracy  75.00 ± 25.00 %\ntest accuracy        50.00 ± 25.00 %\n"
	assert.Equal(t, want, out.String())
	text, err := os.ReadFile(filepath.Join(folder, "seeds.json"))
	require.NoError(t, err)
	want = `{"seeds":[7,8,7],"splits":[0,0,1],"metric":"accuracy","val_mean":0.75,"val_deviation":0.25,"test_mean":0.5,"test_deviation":0.25,` +
		`"tests":[0.25,0.5,0.75],"runs":["a","b","c"],"run_dir":"` + folder + "\"}\n"
	assert.Equal(t, want, string(text), "seeds.json holds %s", text)
}
