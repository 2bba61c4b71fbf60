package rundir

import (
	"os"
	"path/filepath"
	"testing"

	"weft/internal/refusal"
	"weft/internal/require"
)

// FuzzReadRun opens run directories whose run.json and run.yaml hold anything: what is not a run is refused.
func FuzzReadRun(f *testing.F) {
	f.Add([]byte(`{"format":1,"store":"s","summary":{"model":"gcn","losses":[1,null]}}`),
		[]byte("model: gcn\n"))
	f.Add([]byte(`{"format":2}`), []byte("model: gcn\n"))
	f.Add([]byte(`{"format":1,`), []byte(""))
	f.Add([]byte(`[]`), []byte("layers: -1\n"))
	f.Fuzz(func(t *testing.T, run, config []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{runFile: run, configFile: config} {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o666))
		}
		if _, _, _, err := Read(dir); err != nil && !refusal.Is(err) {
			t.Errorf("%v is no refusal", err)
		}
	})
}
