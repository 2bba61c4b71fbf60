package ogb

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
)

// A split that OGB pickled has the ids of its lists; nothing in the file runs.
func TestPickledSplit(t *testing.T) {
	const vertices = 10
	labels := graph.Labels{Classes: 1, Class: make([]int64, vertices)}
	want := graph.Split{Train: []int64{0, 2, 4}, Val: []int64{5}, Test: []int64{1, 9}}
	for file, of := range map[string]string{"split_dict.pt": "", "typed_split_dict.pt": "paper"} {
		got, err := readPickled(filepath.Join("testdata", file), of, vertices, &labels)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
	for _, c := range []struct{ file, of, want string }{
		{"split_dict.pt", "paper", `has no ids that are called "train of paper"`},
		{"typed_split_dict.pt", "", `has no ids that are called "train"`},
		{"typed_split_dict.pt", "field", `has no ids that are called "train of field"`},
		{"typed_split_dict.pt", "author", "valid: vertex 0 is also in train"},
		{"refused_split_dict.pt", "", `"train": entry 1: vertex 10 is out of the range of 10 vertices`},
		{"golden.py", "", "give a file of torch.save"},
	} {
		path := filepath.Join("testdata", c.file)
		_, err := readPickled(path, c.of, vertices, &labels)
		assert.RefusedFor(t, err, path+": ", c.want, "%s of %q", c.file, c.of)
	}
}

// It stands in place of the lists.
func TestPickledSplitInPlaceOfLists(t *testing.T) {
	folder := t.TempDir()
	content, err := os.ReadFile("testdata/split_dict.pt")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "split", "time"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "split", "time", pickledSplit), content, 0o666))
	o := Options{Folder: folder}
	splits, err := o.readSplits("", 10, &graph.Labels{Classes: 1, Class: make([]int64, 10)})
	if err != nil || len(splits) != 1 || len(splits[0].Train) != 3 {
		t.Errorf("%v, error %v", splits, err)
	}
}
