package pyg

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/internal/assert"
	"weft/internal/require"
)

// The lines of docs/data.md that save a file's tensors alone leave the graph as it is, of files that are read
// and of those that are not.
func TestPlainTensors(t *testing.T) {
	if exec.Command("python3", "-c", "import torch, torch_geometric").Run() != nil {
		t.Skip("there is no python3 with PyTorch Geometric (pip install torch torch_geometric)")
	}
	want := golden(t)
	for _, name := range []string{"refused-class", "refused-legacy", "refused-type"} {
		want[name] = want["dataset"]
	}
	folder := t.TempDir()
	command := exec.Command("python3", "-W", "ignore", "testdata/plain.py",
		filepath.Join("..", "..", "docs", "data.md"), folder)
	for name := range want {
		// PyTorch Geometric 2 cannot use an object of version 1.
		if name != "version-1" {
			command.Args = append(command.Args, filepath.Join("testdata", name+".pt"))
		}
	}
	command.Stderr = os.Stderr
	said, err := command.Output()
	require.NoError(t, err)
	t.Logf("not saved: %s", said)
	saved, err := filepath.Glob(filepath.Join(folder, "*.pt"))
	require.NoError(t, err)
	saved = slices.DeleteFunc(saved, func(path string) bool { return filepath.Base(path) == "theirs.pt" })
	if len(saved) < len(want)-6 { // four files need torch_sparse
		t.Errorf("%d of %d files were saved", len(saved), len(want))
	}
	for _, path := range saved {
		name := filepath.Base(path[:len(path)-len(".pt")])
		o := Options{}
		if name == "two-labels" {
			o.Target = "author"
		}
		g, err := Read(path, o)
		require.NoError(t, err, name)
		content, err := json.Marshal(written(g))
		require.NoError(t, err)
		var got expected
		require.NoError(t, json.Unmarshal(content, &got))
		assert.EqualBy(t, want[name], got, cmpopts.IgnoreFields(expected{}, "Left"))
	}
}
